"""Hsu et al. 2023, Disentanglement via Latent Quantization (QLAE)."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from experiments.settings.published.record import Cell, Difference, Gap, PublishedRow
from experiments.settings.published.tables import INFOMEC, chosen_settings, parse_blocks
from experiments.settings.published.training import Optimizer, Scoring, Training

NAME = "Hsu et al. 2023"
TITLE = "Disentanglement via Latent Quantization"
DATASETS = ("shapes3d", "mpi3d", "falcor3d", "isaac3d")
# Tables without results, and where their numbers are.
OTHER_TABLES = {
    "tables 3 to 7": "datasets and their sources: `qlayers.datasets` (table 4 swaps "
    "the numbers of orientations and wall hues)",
    "tables 8 to 11": "hyperparameters: the settings of the rows below",
}

# Tables 9 and 10. Text and code agree on what is not listed in `_CODE`.
_AE = Training(
    network="style",
    steps=200_000,
    batch_size=128,
    optimizer=Optimizer(learning_rate=1e-3, beta_1=0.9, beta_2=0.99),
)
# A generator step takes five batches of 64 for the encoder: 200,000 encoder updates.
_GAN = Training(
    network="style",
    steps=40_000,
    batch_size=5 * 64,
    optimizer=Optimizer(learning_rate=2e-4, beta_1=0.0, beta_2=0.9),
    reconstruction=None,
    hyperparameters={
        "encoder_steps": 5,
        "latent_weight": 200.0,
        "gradient_penalty_weight": 10.0,
        "value_weight": 1.0,
    },
)
# Table 8.
_QUANTIZED = {
    "num_values": 10,
    "quantize_weight": 1e-2,
    "commit_weight": 1e-2,
    "loss_reduction": "sum",
}
_VQ = {
    "num_codes": 512,
    "code_dim": 64,
    "quantize_weight": 1.0,
    "commit_weight": 0.25,
    "loss_reduction": "mean",
}

# How each method is trained where nothing else is said. Where a sweep of table 11 has
# no published choice, the value is the most frequent one of the public configurations.
METHODS: dict[str, Training] = {
    "ae": _AE,
    "beta_vae": _AE.with_settings({"beta": 3.0}),
    "beta_tcvae": _AE.with_settings({"beta": 3.0, "dataset_size": 480_000}),
    "bio_ae": _AE.with_settings(
        {"activity_weight": 1e-2, "nonnegative_weight": 1.0, "weight_decay": 1e-4}
    ),
    "qlae": _AE.with_settings({**_QUANTIZED, "weight_decay": 0.1}),
    "qlae_global": _AE.with_settings({**_QUANTIZED, "weight_decay": 0.1}),
    "vq_vae": _AE.with_settings({**_VQ, "weight_decay": 1e-2}),
    "infowgan_gp": _GAN.with_settings({"weight_decay": 1e-3}),
    "ql_infowgan_gp": _GAN.with_settings({**_QUANTIZED, "weight_decay": 1e-3}),
}

# Row -> (name as printed, method, settings of the row).
_MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ae": ("AE", "ae", {}),
    "beta_vae": ("β-VAE", "beta_vae", {}),
    "beta_tcvae": ("β-TCVAE", "beta_tcvae", {}),
    "bio_ae": ("BioAE", "bio_ae", {}),
    "qlae": ("QLAE (ours)", "qlae", {}),
    "infowgan_gp": ("InfoWGAN-GP", "infowgan_gp", {}),
    "ql_infowgan_gp": ("QLInfoWGAN-GP (ours)", "ql_infowgan_gp", {}),
    "qlae_global": ("QLAE w/ global codebook", "qlae_global", {}),
    "qlae_no_decay": ("QLAE w/o weight decay", "qlae", {"weight_decay": 0.0}),
    "vq_vae": ("VQ-VAE w/ weight decay", "vq_vae", {}),
    "vq_vae_no_decay": ("VQ-VAE w/o weight decay", "vq_vae", {"weight_decay": 0.0}),
    "ql_infowgan_gp_no_decay": (
        "QLInfoWGAN-GP w/o weight decay",
        "ql_infowgan_gp",
        {"weight_decay": 0.0},
    ),
}

# Appendix B.4: modifications that "only marginally helped, didn't help, or made things
# worse". No number is printed. Suffix of the row -> (what it says, settings).
_NEGATIVE: dict[str, tuple[str, dict[str, Any]]] = {
    "vq_weights": (
        "VQ-VAE's codebook weights",
        {"quantize_weight": 1.0, "commit_weight": 0.25},
    ),
    "late_decay": ("weight decay in the second half", {}),
    "annealed_codebook": (
        "annealed codebook weights",
        {"quantize_weight": "linear(0, 0.01)", "commit_weight": "linear(0, 0.01)"},
    ),
    "l1": ("l1 norm of the weights", {"l1_weight": 1e-6}),
    "l1_no_decay": (
        "l1 norm instead of weight decay",
        {"l1_weight": 1e-6, "weight_decay": 0.0},
    ),
    "encoder_codebook": ("codebook updated with the encoder", {}),
}

# Choices of the authors' public configurations, by row and setting, for each dataset.
_CHOSEN: dict[str, dict[str, tuple[float | None, ...]]] = {
    "ae": {"weight_decay": (1e-3, 1e-3, None, None)},
    "beta_vae": {"beta": (3.0, 0.1, 10.0, 0.3)},
    "beta_tcvae": {"beta": (3.0, 0.3, 3.0, 1.0)},
    "bio_ae": {"activity_weight": (1e-2, 1e-2, 1e-2, 0.1)},
    "qlae": {"weight_decay": (0.1, 1e-3, 0.1, 0.1)},
    "vq_vae": {"weight_decay": (1e-2, 1e-2, 1e-2, 1e-2)},
    "ql_infowgan_gp": {"weight_decay": (1e-3, 1e-3, 1e-4, None)},
}
# Rows without a published choice start from these: the values of the nearest row.
_ASSUMED = {("qlae_global", "mpi3d"): {"weight_decay": 1e-3}}

# Table 11: what the authors chose from.
_DECAYS = (1e-3, 1e-2, 0.1, 1.0)
_GAN_DECAYS = (1e-4, 1e-3, 1e-2, 0.1)
_BETAS = (0.1, 0.3, 1.0, 3.0, 10.0)
_SEARCHED: dict[str, dict[str, tuple[float, ...]]] = {
    "ae": {"weight_decay": (0.0, 1e-3, 1e-2, 0.1)},
    "bio_ae": {"activity_weight": (0.01, 0.1, 1.0, 10.0, 100.0)},
    "beta_vae": {"beta": _BETAS},
    "beta_tcvae": {"beta": _BETAS},
    "vq_vae": {"weight_decay": _DECAYS},
    "qlae": {"weight_decay": _DECAYS},
    "qlae_global": {"weight_decay": _DECAYS},
    "infowgan_gp": {"weight_decay": _GAN_DECAYS},
    "ql_infowgan_gp": {"weight_decay": _GAN_DECAYS},
}

# Images of each dataset, which beta-TCVAE's estimate needs.
SIZES = {
    "shapes3d": 480_000,
    "mpi3d": 460_800,
    "falcor3d": 233_280,
    "isaac3d": 737_280,
}

_NETWORKS = Difference(
    "networks",
    "leaky ReLU with slope 0.3 before the normalization, affine style, last "
    "convolution 1x1",
    "slope 0.2, normalization before the activation, ReLU on the style, last "
    "convolution 3x3",
    {"encoder_options": {"variant": "code"}, "decoder_options": {"variant": "code"}},
)
BETA_2 = Difference("beta_2", "0.99", "0.999, optax's default", {"beta_2": 0.999})
_CLIPPING = Difference(
    "clip_value",
    "no clipping",
    "gradients of decayed weights clipped to [-1, 1] element by element",
    {"clip_value": 1.0},
)
LOSSES = Difference(
    "loss_reduction",
    "squared norms over latents",
    "means over latents",
    {"loss_reduction": "mean"},
)
SCALE = Difference(
    "scale", "not said", "softplus of the encoder's output", {"scale": "softplus"}
)
_SAMPLE = Difference(
    "evaluation sample",
    "10,000 i.i.d. samples",
    "the first 10,000 images of the shuffled training split",
    {"evaluation_sample": "split"},
)
_BALANCED = Difference(
    "explicitness",
    "equations 11 to 13: unweighted, to the infimum",
    "balanced class weights, at most 100 steps of L-BFGS",
    {"protocol": "qlae_code"},
)

_CHECKPOINT = Gap(
    "checkpoint",
    "autoencoders are 'filtered for near-perfect data reconstruction' after at most "
    "2e5 updates; neither threshold nor rule is printed. The last checkpoint is taken.",
)
_LAST = Gap(
    "checkpoint",
    "'at most 2e5 updates' without a rule that chooses. The last checkpoint is taken.",
)
_CHOICE = Gap(
    "weight_decay",
    "chosen from the values of table 11; which one is not published for this row.",
)
_UNPRINTED = Gap(
    "values",
    "appendix B.4 names neither numbers, nor datasets, nor the values tried: Shapes3D "
    "here, the weights of table 8 as ends of the annealing (of both at once), the "
    "row's weight decay after half of the steps, 1e-6 as weight of the l1 norm.",
)

# Tables 1 and 2, which share two rows; aggregated, then each dataset: InfoM, InfoE,
# InfoC.
_SHORT = """
    ae 0.37 0.82 0.18 0.36 1.00 0.12 0.33 0.70 0.17 0.37 0.76 0.26 0.41 0.81 0.15
    beta_vae 0.58 0.83 0.57 0.53 1.00 0.48 0.45 0.71 0.50 0.70 0.76 0.70 0.65 0.84 0.61
    beta_tcvae 0.59 0.66 0.59 0.61 0.82 0.62 0.53 0.54 0.59 0.59 0.71 0.54 0.64 0.56 0.60
    bio_ae 0.56 0.76 0.34 0.56 1.00 0.46 0.45 0.68 0.30 0.56 0.72 0.26 0.67 0.65 0.36
    qlae 0.77 0.84 0.50 0.91 1.00 0.53 0.62 0.66 0.54 0.72 0.77 0.43 0.81 0.93 0.51
    qlae_global 0.72 0.84 0.42 0.93 1.00 0.48 0.60 0.76 0.38 0.65 0.72 0.33 0.72 0.89 0.50
    qlae_no_decay 0.66 0.83 0.51 0.68 0.99 0.55 0.54 0.64 0.57 0.65 0.77 0.34 0.76 0.92 0.58
    vq_vae 0.66 0.22 0.41 0.82 0.29 0.54 0.44 0.25 0.39 0.71 0.18 0.47 0.67 0.15 0.25
    vq_vae_no_decay 0.55 0.15 0.40 0.70 0.19 0.50 0.41 0.21 0.28 0.57 0.07 0.38 0.52 0.15 0.44
    infowgan_gp 0.52 0.52 0.26 0.63 0.76 0.40 0.45 0.35 0.19 0.50 0.44 0.26 0.52 0.52 0.20
    ql_infowgan_gp 0.71 0.62 0.50 0.79 0.76 0.51 0.65 0.52 0.38 0.72 0.56 0.59 0.68 0.62 0.53
    ql_infowgan_gp_no_decay 0.62 0.53 0.51 0.63 0.50 0.35 0.66 0.56 0.57 0.62 0.55 0.59 0.56 0.51 0.56
"""  # noqa: E501
_BOTH = ("qlae", "ql_infowgan_gp")
_ABLATIONS = (
    "qlae_global",
    "qlae_no_decay",
    "vq_vae",
    "vq_vae_no_decay",
    "ql_infowgan_gp_no_decay",
)
# Tables 12 (all datasets) to 16, a block a table: InfoM, InfoE, InfoC, PSNR; 95 %
# t-intervals.
_FULL = """
    ae 0.37±0.03 0.82±0.03 0.2±0.1 35.9±0.5 0.36±0.03 1±0 0.1±0.1 36.8±0.3 0.33±0.05 0.70±0.04 0.17±0.09 39.0±0.7 0.37±0.03 0.76±0.03 0.3±0.1 29.9±0.5 0.41±0.02 0.81±0.03 0.15±0.05 38.1±0.5
    beta_vae 0.58±0.03 0.83±0.04 0.57±0.04 35.1±0.8 0.53±0.03 1±0 0.48±0.03 35.0±0.7 0.45±0.04 0.71±0.03 0.50±0.05 38.7±0.7 0.70±0.01 0.76±0.06 0.70±0.03 28.8±0.7 0.65±0.02 0.84±0.07 0.61±0.03 37.9±0.9
    beta_tcvae 0.59±0.03 0.66±0.06 0.59±0.06 34.5±0.6 0.61±0.02 0.8±0.1 0.62±0.05 35.0±0.8 0.53±0.05 0.54±0.07 0.59±0.07 35.8±0.5 0.59±0.04 0.71±0.03 0.54±0.04 29.3±0.7 0.64±0.02 0.56±0.02 0.60±0.07 38.0±0.5
    bio_ae 0.56±0.04 0.76±0.02 0.3±0.1 35.1±0.4 0.56±0.02 1±0 0.46±0.09 35.1±0.3 0.45±0.02 0.68±0.03 0.3±0.1 38.3±0.6 0.56±0.06 0.72±0.03 0.3±0.1 29.3±0.4 0.67±0.05 0.65±0.04 0.4±0.1 37.7±0.5
    qlae 0.77±0.03 0.84±0.04 0.5±0.1 35.8±0.6 0.91±0.02 1±0 0.53±0.08 35.9±0.7 0.62±0.06 0.66±0.05 0.5±0.1 37.9±0.9 0.72±0.01 0.77±0.03 0.4±0.1 29.6±0.5 0.81±0.02 0.93±0.06 0.51±0.08 39.9±0.2
    qlae_global 0.72±0.03 0.8±0.1 0.4±0.1 36.2±0.4 0.93±0.03 1±0 0.48±0.07 35.9±0.3 0.60±0.04 0.8±0.2 0.4±0.1 38.1±0.4 0.65±0.02 0.7±0.2 0.3±0.1 30.1±0.5 0.72±0.03 0.9±0.1 0.5±0.1 40.5±0.1
    qlae_no_decay 0.66±0.05 0.83±0.06 0.5±0.2 36.0±0.5 0.68±0.04 0.985±0.009 0.5±0.1 37.0±0.3 0.54±0.06 0.6±0.1 0.6±0.2 36.4±0.8 0.65±0.05 0.77±0.05 0.3±0.2 29.5±0.5 0.76±0.05 0.92±0.07 0.6±0.2 41.2±0.3
    vq_vae 0.66±0.03 0.22±0.08 0.41±0.07 34.8±0.6 0.82±0.03 0.29±0.01 0.54±0.07 36.9±0.5 0.44±0.03 0.3±0.1 0.39±0.04 37±1 0.71±0.02 0.18±0.08 0.47±0.08 29.1±0.3 0.67±0.03 0.2±0.1 0.25±0.08 36.4±0.4
    vq_vae_no_decay 0.55±0.08 0.15±0.09 0.4±0.1 35.3±0.5 0.70±0.07 0.19±0.01 0.50±0.08 36.5±0.4 0.41±0.09 0.2±0.1 0.3±0.1 35.5±0.5 0.57±0.07 0.07±0.09 0.38±0.08 29.4±0.5 0.52±0.07 0.15±0.09 0.4±0.1 39.9±0.5
    infowgan_gp 0.52±0.07 0.52±0.03 0.3±0.1 19±3 0.63±0.09 0.76±0.06 0.4±0.1 13±2 0.45±0.04 0.35±0.02 0.2±0.1 25±2 0.50±0.05 0.44±0.03 0.3±0.1 17±2 0.52±0.09 0.52±0.03 0.20±0.04 22±4
    ql_infowgan_gp 0.71±0.04 0.62±0.07 0.50±0.08 22±2 0.79±0.04 0.76±0.05 0.51±0.09 20±1 0.65±0.04 0.52±0.09 0.38±0.06 25±2 0.72±0.03 0.56±0.08 0.59±0.06 17±3 0.68±0.04 0.62±0.07 0.5±0.1 25±1
    ql_infowgan_gp_no_decay 0.62±0.05 0.53±0.04 0.5±0.1 22±2 0.63±0.06 0.50±0.05 0.3±0.1 21±2 0.66±0.04 0.56±0.04 0.6±0.1 25±1 0.62±0.07 0.55±0.02 0.59±0.08 19±2 0.56±0.02 0.51±0.04 0.6±0.1 25±1
"""  # noqa: E501
COLUMNS = ("aggregated", *DATASETS)
_FULL_TABLES = dict(zip(COLUMNS, range(12, 17), strict=True))

_SCORES = (*INFOMEC, "psnr/psnr")
_GANS = ("infowgan_gp", "ql_infowgan_gp")
_REPRESENTATIONS = {
    **dict.fromkeys(("ae", "bio_ae", "infowgan_gp"), "latents"),
    **dict.fromkeys(("beta_vae", "beta_tcvae"), "means"),
    "vq_vae": "codes",
}


def scoring(method: str) -> Scoring:
    """How the paper scores a method; no number of its own passes Tripod's filter."""
    return Scoring(
        estimators={
            "infomec": "protocol 'paper': histogram or 3 nearest neighbours",
            "psnr": "per image on [0, 1], then averaged",
        },
        representation=_REPRESENTATIONS.get(method, "values"),  # type: ignore[arg-type]
        protocol="paper",
    )


def rows() -> Iterator[PublishedRow]:
    """All rows of tables 1, 2 and 12 to 16, and the list of appendix B.4."""
    short = list(parse_blocks(_SHORT, COLUMNS, INFOMEC))
    for name, dataset, cells in short:
        if name not in _ABLATIONS:
            yield _row("table1", name, dataset, cells)
    for name, dataset, cells in short:
        if name in (*_BOTH, *_ABLATIONS):
            yield _row("table2", name, dataset, cells)
    full = parse_blocks(_FULL, COLUMNS, _SCORES, "95 %")
    for name, dataset, cells in sorted(full, key=lambda block: COLUMNS.index(block[1])):
        yield _row(f"table{_FULL_TABLES[dataset]}", name, dataset, cells)
    for name in ("qlae", "ql_infowgan_gp"):
        for suffix in _NEGATIVE:
            if suffix != "encoder_codebook" or name == "ql_infowgan_gp":
                yield _negative_row(name, suffix)


def _negative_row(name: str, suffix: str) -> PublishedRow:
    made = _row("appendixB.4", name, "shapes3d", {})
    text, settings = _NEGATIVE[suffix]
    assert made.training is not None
    if suffix == "late_decay":
        decay = made.training.optimizer.weight_decay
        settings = {"weight_decay": f"step(0, {decay:g})"}
    elif suffix == "encoder_codebook":
        settings = {"codebook_side": "encoder"}
    return dataclasses.replace(
        made,
        row=f"{name}_{suffix}/shapes3d",
        title=f"{made.title.removesuffix(' (ours)')}, {text}",
        training=made.training.with_settings(settings),
        seeds=None,
        searched={},
        left_open=(*made.left_open, _UNPRINTED),
    )


def _row(
    table: str, name: str, dataset: str, cells: Mapping[str, Cell]
) -> PublishedRow:
    title, method, own = _MODELS[name]
    made = PublishedRow.at(
        f"qlae:{table}:{name}/{dataset}",
        title=title,
        method=method,
        scoring=scoring(method),
        cells=cells,
        seeds=28 if dataset == "aggregated" else 7,
    )
    if not made.runs:
        return made
    chosen = chosen_settings(_CHOSEN, name, DATASETS, dataset)
    assumed = _ASSUMED.get((name, dataset), {})
    settings = {**(chosen or assumed), **own}
    if method == "beta_tcvae":
        settings["dataset_size"] = SIZES[dataset]
    searched = _SEARCHED.get(name, {})
    is_open = bool(searched) and not chosen
    left_open = [_LAST if method in _GANS else _CHECKPOINT]
    return dataclasses.replace(
        made,
        training=METHODS[method].with_settings(settings),
        # The variant of complex shapes, recorded on a real robot.
        dataset_options={"variant": "complex"} if dataset == "mpi3d" else {},
        grid=searched if is_open else {},
        searched={} if is_open else searched,
        code=_code(method),
        left_open=(*left_open, *((_CHOICE,) if is_open else ())),
    )


def _code(method: str) -> tuple[Difference, ...]:
    found = [_NETWORKS, _CLIPPING]
    if method not in _GANS:
        found.append(BETA_2)
    if method in ("qlae", "qlae_global", "ql_infowgan_gp"):
        found.append(LOSSES)
    if method in ("beta_vae", "beta_tcvae"):
        found.append(SCALE)
    return (*found, _SAMPLE, _BALANCED)
