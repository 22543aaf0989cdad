"""The leaderboard's budgets, and the runs of a row with one of them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.settings.config import resolve
from experiments.settings.recipes_cpu import CPU_PSNR_THRESHOLDS
from experiments.sweeps.plan import Trial, plan_sweep
from studies.claims import Claim, frozen_seeds, load_claims
from studies.leaderboard_entries import ENTRIES, SHORT_ENTRIES, Entry
from studies.trials import renamed

DATASET = "mini_shapes3d"
SEEDS_WITHOUT_CLAIM = 3
THRESHOLD = CPU_PSNR_THRESHOLDS[DATASET]
_LOG_EVERY = 50
QUICK = {"image_size": 16, "width": 0.125, "evaluation_size": 200, "metrics": "fast"}
QUICK_STEPS = 2


@dataclasses.dataclass(frozen=True)
class Regime:
    """A budget, and the rows that are trained with it.

    Attributes:
        name: Name of the record.
        steps: Training steps.
        batch_share: Share of the recipe's batch.
        seeds: Seeds of the final runs.
        entries: The rows.
        claims: What the rows may confirm.
        steps_per_call: Steps in a compiled call. More than one is bit-equal to one; at
            10 the host's part of a step falls from 3 ms to 1.
        gan_share: Share of the steps that a GAN makes.
    """

    name: str
    steps: int
    batch_share: float
    seeds: tuple[int, ...]
    entries: tuple[Entry, ...]
    claims: tuple[Claim, ...]
    steps_per_call: int = 1
    gan_share: float = 0.5


_SHORT_CLAIMS = (
    ("qlae", "QLAE", "AE", "infomec/modularity", 0.25),
    ("tripod", "Tripod", "QLAE", "infomec/modularity", 0.0),
    ("tripod", "Tripod", "QLAE", "infomec/compactness", 0.0),
    ("tripod", "Tripod", "naive Tripod", "infomec/modularity", 0.0),
    ("tripod", "Tripod", "Tripod, no NHP", "infomec/modularity", 0.0),
    ("tripod", "Tripod", "Tripod, no KLM", "infomec/modularity", 0.0),
    ("qlae", "QLAE", "QLAE, no weight decay", "infomec/modularity", 0.0),
    ("qlae", "QLAE", "VQ-VAE", "infomec/modularity", 0.0),
    ("qlae", "QLInfoWGAN-GP", "InfoWGAN-GP", "infomec/modularity", 0.0),
    ("factor_qvae", "FactorQVAE", "QVAE", "dci/disentanglement", 0.0),
    ("friede", "FactorDVAE", "D-VAE", "mig/mig", 0.0),
)
SHORT = Regime(
    "leaderboard_short",
    steps=2_500,
    batch_share=0.5,
    seeds=(0, 1, 2),
    entries=SHORT_ENTRIES,
    claims=tuple(
        Claim(
            f"{first} > {second}", paper, "", "", first, second, score, "above", least
        )
        for paper, first, second, score, least in _SHORT_CLAIMS
    ),
)
LONG = Regime(
    "leaderboard",
    steps=12_000,
    batch_share=1.0,
    seeds=frozen_seeds("leaderboard"),
    entries=ENTRIES,
    claims=tuple(load_claims("leaderboard")),
    steps_per_call=10,
    gan_share=64 / 80,  # its batch is 80 where the others' is 64
)
REGIMES = {"short": SHORT, "long": LONG}


def settings_of(
    entry: Entry,
    steps: int,
    batch_share: float,
    select: str,
    quick: bool,
    gan_share: float = 0.5,
) -> dict[str, Any]:
    """Settings of a run, beside the recipe's."""
    if entry.is_adversarial:
        steps = max(1, round(steps * gan_share))
    log_every = min(_LOG_EVERY, steps)
    evaluations = 1 if select == "last" else 8
    settings: dict[str, Any] = {
        "steps": steps,
        "log_every": log_every,
        "evaluate_every": max(1, steps // evaluations // log_every) * log_every,
        "batch_size": round(batch_share * _recipe_batch(entry)),
        "threads": 1,
    }
    if select == "last" or (select == "infom" and entry.is_adversarial):
        settings |= {"select": "last", "psnr_threshold": None}
    elif select == "infom":
        settings |= {"select": "infom", "psnr_threshold": THRESHOLD}
    return settings | (QUICK if quick else {})


def final_settings(
    entry: Entry, regime: Regime, select: str = "last", quick: bool = False
) -> dict[str, Any]:
    """Settings of a row's final runs, beside the recipe's.

    Args:
        entry: The row.
        regime: The budget.
        select: The checkpoint that is scored.
        quick: Whether to make the run tiny.
    """
    steps = QUICK_STEPS if quick else regime.steps
    share = regime.gan_share
    settings = settings_of(entry, steps, regime.batch_share, select, quick, share)
    return settings | {"steps_per_call": regime.steps_per_call}


def seeds_of(entry: Entry, claims: Sequence[Claim], seeds: Sequence[int]) -> list[int]:
    """All seeds for a row that a claim names, the first three for another.

    Args:
        entry: The row.
        claims: The claims.
        seeds: All seeds.
    """
    is_claimed = any(entry.label in (claim.first, claim.second) for claim in claims)
    return list(seeds)[: None if is_claimed else SEEDS_WITHOUT_CLAIM]


def plan_entry(
    entry: Entry,
    seeds: Sequence[int],
    settings: Mapping[str, Any],
    value: float | None,
    prefix: str,
    shared: Mapping[str, Any] | None = None,
    dataset: str = DATASET,
) -> list[Trial]:
    """Trials of a row with one value of its key weight; None leaves the recipe's."""
    chosen = dict(shared or {})
    if value is not None and entry.key is not None:
        chosen[entry.key] = value
    trials = plan_sweep(
        [entry.method],
        [dataset],
        seeds,
        profile="cpu",
        settings=settings,
        hyperparameters={**chosen, **entry.fixed},
    )
    details = [f"{k}={v}" for k, v in {**chosen, **entry.fixed}.items()]
    return renamed(trials, "-".join([prefix, *details]))


def _recipe_batch(entry: Entry) -> int:
    return resolve(entry.method, DATASET, "cpu").batch_size
