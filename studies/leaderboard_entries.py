"""The methods of the leaderboard, and the weight that is tuned for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One row of the leaderboard.

    Attributes:
        label: Name in the table.
        method: Name in `models.METHODS`.
        key: The hyperparameter that is tuned, or None.
        candidates: Values of `key` to try.
        fixed: Hyperparameters of this row, beside the recipe's.
        parent: Label of the row whose tuned value this one takes over, for ablations.
        shares: Label of a row whose tuned weight this one has too, beside its own.

    Example:

    ```python
    Entry("QLAE", "qlae", "weight_decay", (0.01, 0.1))
    Entry("QLAE, no weight decay", "qlae", fixed={"weight_decay": 0.0})
    ```
    """

    label: str
    method: str
    key: str | None = None
    candidates: tuple[float, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    parent: str | None = None
    shares: str | None = None

    @property
    def is_adversarial(self) -> bool:
        """Whether it is a GAN: a step has several updates, images are not copied."""
        return self.method in ("infowgan_gp", "ql_infowgan_gp")


_DECAYS = (1e-3, 1e-2, 1e-1)
_TEN = {"num_values": 10}  # as in QLAE's paper; the cpu recipe has four

# Rows of both regimes: those in which four values a latent learn fast enough.
SHORT_ENTRIES = (
    Entry("AE", "ae", "weight_decay", (0.0, 1e-3, 1e-2)),
    Entry("beta-VAE", "beta_vae", "beta", (1.0, 3.0, 10.0)),
    Entry("beta-TCVAE", "beta_tcvae", "beta", (1.0, 3.0, 10.0)),
    Entry("BioAE", "bio_ae", "activity_weight", (1e-3, 1e-2, 1e-1)),
    Entry("VQ-VAE", "vq_vae", "weight_decay", _DECAYS),
    Entry("QLAE", "qlae", "weight_decay", (0.03, 0.1, 0.3)),
    Entry("QLAE, global codebook", "qlae_global", "weight_decay", parent="QLAE"),
    Entry("QLAE, no weight decay", "qlae", fixed={"weight_decay": 0.0}),
    Entry("QVAE", "qvae", "kl_weight", (1e-4, 1e-3, 1e-2)),
    Entry("FactorQVAE", "factor_qvae", "tc_weight", (1e-5, 1e-4, 1e-3)),
    Entry("D-VAE", "d_vae", "kl_weight", (0.3, 1.0, 3.0)),
    Entry("FactorDVAE", "factor_d_vae", "tc_weight", (3.0, 10.0, 30.0)),
    Entry("Tripod", "tripod", "nhp_weight", (1e-4, 1e-3, 1e-2)),
    Entry("naive Tripod", "tripod_naive", "hessian_weight", (1e-5, 1e-4, 1e-3)),
    Entry("Tripod, no NHP", "tripod", fixed={"nhp_weight": 0.0}),
    Entry(
        "Tripod, no KLM",
        "tripod",
        "nhp_weight",
        fixed={"klm_weight": 0.0},
        parent="Tripod",
    ),
    Entry("Cliff", "cliff", "cliff_weight", (0.1, 1.0, 10.0)),
    Entry("HFS", "hfs", "hfs_weight", (1.0, 10.0, 100.0)),
    Entry("InfoWGAN-GP", "infowgan_gp", "weight_decay", (1e-4, 1e-3, 1e-2)),
    Entry("QLInfoWGAN-GP", "ql_infowgan_gp", "weight_decay", (1e-4, 1e-3, 1e-2)),
)

_OF_BOTH = {
    entry.label: entry
    for entry in SHORT_ENTRIES
    if not entry.label.startswith(("QLAE", "Tripod", "naive Tripod", "FactorQVAE"))
}

# Rows of the long regime. Ablations differ from their method in one thing.
ENTRIES = (
    *_OF_BOTH.values(),
    Entry("FactorVAE", "factor_vae", "tc_weight", (3.0, 10.0, 30.0)),
    Entry("dVAE", "dvae", "kl_weight", (1e-4, 1e-3, 1e-2)),
    # The divergence weight is that of QVAE, so that the total correlation is all that
    # is added.
    Entry("FactorQVAE", "factor_qvae", "tc_weight", (1e-5, 1e-4, 1e-3), shares="QVAE"),
    Entry("QLAE, four values", "qlae", "weight_decay", (0.03, 0.1, 0.3)),
    Entry("QLAE, ten values", "qlae", "weight_decay", (0.03, 0.1, 0.3), _TEN),
    Entry(
        "QLAE, global codebook",
        "qlae_global",
        "weight_decay",
        fixed=_TEN,
        parent="QLAE, ten values",
    ),
    Entry("QLAE, no weight decay", "qlae", fixed={**_TEN, "weight_decay": 0.0}),
    Entry("Tripod", "tripod", "nhp_weight", (1e-4, 1e-3, 1e-2), _TEN),
    Entry(
        "Tripod, steps along latents",
        "tripod",
        "nhp_weight",
        (1e-4, 1e-3, 1e-2),
        {**_TEN, "directions": "coordinates"},
    ),
    Entry("naive Tripod", "tripod_naive", "hessian_weight", (1e-5, 1e-4, 1e-3), _TEN),
    Entry("Tripod, no NHP", "tripod", fixed={**_TEN, "nhp_weight": 0.0}),
    Entry(
        "Tripod, no KLM",
        "tripod",
        "nhp_weight",
        fixed={**_TEN, "klm_weight": 0.0},
        parent="Tripod",
    ),
    Entry(
        "Tripod, finer quantization",
        "tripod",
        "nhp_weight",
        fixed={"num_values": 144},
        parent="Tripod",
    ),
)
