"""What the settings of a run may be, where they are one of a few words."""

from typing import Literal, get_args

from experiments.settings.names import NETWORKS

Selection = Literal["infom", "straight_through_gap", "label_validation", "last"]
Strategy = Literal["none", "mirrored", "multiworker"]
Precision = Literal["none", "float16", "bfloat16"]
Jit = Literal["auto", "on", "off"]
Metrics = Literal["fast", "standard", "all"]
Protocol = Literal["paper", "standalone", "tripod", "qlae_code", "factor_qvae"]
PsnrVariant = Literal["exact", "uint8_overflow"]
ScoredAs = Literal["auto", "codes", "samples"]
EvaluationSample = Literal["random", "split"]
GapLoss = Literal["elbo", "total"]

PROFILES = ("paper", "cpu")
ENGINES = ("local", "ray")
# Field of `RunConfig` -> what it may be.
CHOICES: dict[str, tuple[str, ...]] = {
    "network": NETWORKS,
    "select": get_args(Selection),
    "strategy": get_args(Strategy),
    "mixed_precision": get_args(Precision),
    "jit": get_args(Jit),
    "metrics": get_args(Metrics),
    "protocol": get_args(Protocol),
    "psnr_variant": get_args(PsnrVariant),
    "scored_as": get_args(ScoredAs),
    "evaluation_sample": get_args(EvaluationSample),
    "gap_loss": get_args(GapLoss),
}
# What `scores` may name, beside the set `metrics`. The first two draw their own images.
SAMPLED_SCORES = ("beta_vae_score", "factor_vae_score")
SCORES = (
    *SAMPLED_SCORES,
    "infomec",
    "mig",
    "modularity",
    "sap",
    "mcc",
    "sample_efficiency",
    "dci",
    "dci_gradient_boosting",
    "sample_efficiency_gradient_boosting",
    "dci_lightgbm",
)
