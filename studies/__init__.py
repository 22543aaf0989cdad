"""The papers' claims, measured: one module a study, one command each.

    python -m studies.cliff_synthetic
    python -m studies.balls
    python -m studies.circles
    python -m studies.dsprites
    python -m studies.leaderboard
    python -m studies.self_sizing
    python -m studies.vector_quantizers

Each trains what it needs as trials of a sweep (`experiments.sweeps`), so that an
interrupted study goes on where it stopped, and writes `studies/results/NAME.json` and
pictures in `docs/images/`; `python -m studies.tables` makes `docs/results.md` of the
records. `--quick` runs a tiny version that touches none of them.
"""

from experiments.settings.environment import set_defaults

set_defaults()
