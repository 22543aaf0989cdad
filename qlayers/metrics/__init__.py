"""Scores of disentanglement: plain arrays in, frozen results out.

`sources` are (samples, n_s) integers, `latents` (samples, n_z) floats or codes. Every
result names its settings, prints itself and has `to_json`. `docs/metrics.md` says which
paper used which metric with which settings.
"""

from qlayers.extras import require

require("qlayers.metrics", "scipy", "sklearn")


from qlayers.metrics.beta_vae_score import BetaVAEScoreResult, beta_vae_score
from qlayers.metrics.bootstrap import Bootstrap
from qlayers.metrics.dci import DCIResult, dci
from qlayers.metrics.dci_es import DCIESResult, dci_es
from qlayers.metrics.evaluate import EvaluationResult, evaluate
from qlayers.metrics.factor_vae_score import FactorVAEScoreResult, factor_vae_score
from qlayers.metrics.image_quality import PSNRResult, psnr
from qlayers.metrics.infomec import InfoMECResult, infomec
from qlayers.metrics.irs import IRSResult, irs
from qlayers.metrics.mcc import MCCResult, mcc
from qlayers.metrics.metric_result import MetricResult
from qlayers.metrics.mig import MIGResult, mig
from qlayers.metrics.model_agreement import ModelAgreementResult, model_agreement
from qlayers.metrics.modularity import ModularityResult, modularity
from qlayers.metrics.plots import plot_importance, plot_nmi
from qlayers.metrics.sample_efficiency import (
    SampleEfficiencyResult,
    sample_efficiency,
)
from qlayers.metrics.sap import SAPResult, sap
from qlayers.metrics.straight_through_gap import (
    StraightThroughGapResult,
    straight_through_gap,
)

__all__ = [
    "BetaVAEScoreResult",
    "Bootstrap",
    "DCIESResult",
    "DCIResult",
    "EvaluationResult",
    "FactorVAEScoreResult",
    "IRSResult",
    "InfoMECResult",
    "MCCResult",
    "MIGResult",
    "MetricResult",
    "ModelAgreementResult",
    "ModularityResult",
    "PSNRResult",
    "SAPResult",
    "SampleEfficiencyResult",
    "StraightThroughGapResult",
    "beta_vae_score",
    "dci",
    "dci_es",
    "evaluate",
    "factor_vae_score",
    "infomec",
    "irs",
    "mcc",
    "mig",
    "model_agreement",
    "modularity",
    "plot_importance",
    "plot_nmi",
    "psnr",
    "sample_efficiency",
    "sap",
    "straight_through_gap",
]
