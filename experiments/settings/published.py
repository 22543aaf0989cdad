"""The papers' own numbers, to be set beside ours.

Scores are named as in `metrics.json`; a pair is a mean and the half width of its
interval, as printed. Percentages are given as fractions, MSE (x 1e4) as is.
"""

from typing import Any

_QLAE = ("infomec/modularity", "infomec/explicitness", "infomec/compactness")
_QLAE = (*_QLAE, "psnr/psnr")
_TRIPOD = ("infomec/modularity", "infomec/compactness", "infomec/explicitness")
_DCI = ("dci/disentanglement", "dci/completeness", "dci/informativeness")
_FQVAE = ("dci/disentanglement", "dci/informativeness", "dci/completeness", *_QLAE[:3])

# Hsu et al. 2023, tables 13 to 16: InfoM, InfoE, InfoC, PSNR; 95 % t-intervals.
_QLAE_TABLES = {
    "shapes3d": """
        ae 0.36±0.03 1±0 0.1±0.1 36.8±0.3
        beta_vae 0.53±0.03 1±0 0.48±0.03 35.0±0.7
        beta_tcvae 0.61±0.02 0.8±0.1 0.62±0.05 35.0±0.8
        bio_ae 0.56±0.02 1±0 0.46±0.09 35.1±0.3
        qlae 0.91±0.02 1±0 0.53±0.08 35.9±0.7
        qlae_global 0.93±0.03 1±0 0.48±0.07 35.9±0.3
        vq_vae 0.82±0.03 0.29±0.01 0.54±0.07 36.9±0.5
        infowgan_gp 0.63±0.09 0.76±0.06 0.4±0.1 13±2
        ql_infowgan_gp 0.79±0.04 0.76±0.05 0.51±0.09 20±1""",
    "mpi3d": """
        ae 0.33±0.05 0.70±0.04 0.17±0.09 39.0±0.7
        beta_vae 0.45±0.04 0.71±0.03 0.50±0.05 38.7±0.7
        beta_tcvae 0.53±0.05 0.54±0.07 0.59±0.07 35.8±0.5
        bio_ae 0.45±0.02 0.68±0.03 0.3±0.1 38.3±0.6
        qlae 0.62±0.06 0.66±0.05 0.5±0.1 37.9±0.9
        qlae_global 0.60±0.04 0.8±0.2 0.4±0.1 38.1±0.4
        vq_vae 0.44±0.03 0.3±0.1 0.39±0.04 37±1
        infowgan_gp 0.45±0.04 0.35±0.02 0.2±0.1 25±2
        ql_infowgan_gp 0.65±0.04 0.52±0.09 0.38±0.06 25±2""",
    "falcor3d": """
        ae 0.37±0.03 0.76±0.03 0.3±0.1 29.9±0.5
        beta_vae 0.70±0.01 0.76±0.06 0.70±0.03 28.8±0.7
        beta_tcvae 0.59±0.04 0.71±0.03 0.54±0.04 29.3±0.7
        bio_ae 0.56±0.06 0.72±0.03 0.3±0.1 29.3±0.4
        qlae 0.72±0.01 0.77±0.03 0.4±0.1 29.6±0.5
        qlae_global 0.65±0.02 0.7±0.2 0.3±0.1 30.1±0.5
        vq_vae 0.71±0.02 0.18±0.08 0.47±0.08 29.1±0.3
        infowgan_gp 0.50±0.05 0.44±0.03 0.3±0.1 17±2
        ql_infowgan_gp 0.72±0.03 0.56±0.08 0.59±0.06 17±3""",
    "isaac3d": """
        ae 0.41±0.02 0.81±0.03 0.15±0.05 38.1±0.5
        beta_vae 0.65±0.02 0.84±0.07 0.61±0.03 37.9±0.9
        beta_tcvae 0.64±0.02 0.56±0.02 0.60±0.07 38.0±0.5
        bio_ae 0.67±0.05 0.65±0.04 0.4±0.1 37.7±0.5
        qlae 0.81±0.02 0.93±0.06 0.51±0.08 39.9±0.2
        qlae_global 0.72±0.03 0.9±0.1 0.5±0.1 40.5±0.1
        vq_vae 0.67±0.03 0.2±0.1 0.25±0.08 36.4±0.4
        infowgan_gp 0.52±0.09 0.52±0.03 0.20±0.04 22±4
        ql_infowgan_gp 0.68±0.04 0.62±0.07 0.5±0.1 25±1""",
}

# Hsu et al. 2024, table 1: InfoM, InfoC, InfoE; D, C, I.
_TRIPOD_TABLES = {
    "shapes3d": """
        tripod 0.94 0.59 1.00 0.80 0.65 1.00
        tripod_naive 0.83 0.45 1.00 0.74 0.55 1.00""",
    "mpi3d": """
        tripod 0.64 0.53 0.84 0.54 0.48 0.86
        tripod_naive 0.61 0.47 0.84 0.46 0.40 0.85""",
    "falcor3d": """
        tripod 0.72 0.56 0.82 0.49 0.47 0.88
        tripod_naive 0.64 0.38 0.81 0.45 0.34 0.87""",
    "isaac3d": """
        tripod 0.84 0.68 0.95 0.72 0.67 0.99
        tripod_naive 0.65 0.46 0.93 0.62 0.50 0.99""",
}

# Baykal et al., table 1: D, I, C; InfoM, InfoE, InfoC. (Its QVAE is printed OVAE.)
_FQVAE_TABLES = {
    "shapes3d": """
        factor_vae 0.72 0.94 0.79 0.61 0.81 0.86
        dvae 0.89 0.95 0.71 0.70 0.99 0.45
        qvae 0.73 0.94 0.54 0.69 0.93 0.38
        factor_dvae_learned 0.91 0.95 0.70 0.49 0.99 0.32
        factor_qvae 0.86 0.97 0.65 0.84 0.89 0.52""",
    "isaac3d": """
        factor_vae 0.51 0.80 0.64 0.56 0.47 0.62
        dvae 0.53 0.80 0.45 0.60 0.62 0.33
        qvae 0.56 0.81 0.49 0.51 0.72 0.34
        factor_dvae_learned 0.62 0.78 0.56 0.86 0.66 0.56
        factor_qvae 0.59 0.75 0.56 0.68 0.64 0.45""",
    "mpi3d": """
        factor_vae 0.20 0.61 0.31 0.40 0.23 0.32
        dvae 0.33 0.67 0.31 0.39 0.66 0.23
        qvae 0.34 0.61 0.31 0.31 0.77 0.27
        factor_dvae_learned 0.29 0.56 0.23 0.37 0.60 0.25
        factor_qvae 0.46 0.67 0.44 0.33 0.94 0.36""",
}

# Friede et al. 2023, table 6 (medians of D-VAE): MIG, DCI's D, modularity, SAP.
_FRIEDE = ("mig/mig", "dci/disentanglement", "modularity/modularity", "sap/sap")
_FRIEDE_TABLES = {
    "dsprites": "d_vae 0.174 0.256 0.867 0.066",
    "color_dsprites": "d_vae 0.094 0.167 0.894 0.025",
    "smallnorb": "d_vae 0.190 0.315 0.790 0.086",
    "cars3d": "d_vae 0.085 0.251 0.877 0.014",
    "shapes3d": "d_vae 0.288 0.728 0.961 0.074",
    "mpi3d": "d_vae 0.128 0.299 0.887 0.055",
}

# Barin-Pacela et al. 2025, tables 2 and 3: means and standard errors.
_CLIFF_TABLES = {
    "shapes3d": """
        cliff 0.8033±0.0260 0.6852±0.0152 0.9926±0.0030 0.2854±0.0245
        hfs 0.7064±0.0477 0.7829±0.0455 0.9409±0.0207 0.5882±0.0720"""
}
_CLIFF_BALLS = {
    "balls": """
        cliff 0.5206±0.0400
        ioss 0.6051±0.0558
        additive 0.3780±0.0349"""
}

_SOURCES = (
    ("Hsu et al. 2023", _QLAE, _QLAE_TABLES),
    ("Hsu et al. 2024", (*_TRIPOD, *_DCI), _TRIPOD_TABLES),
    ("Baykal et al.", _FQVAE, _FQVAE_TABLES),
    ("Friede et al. 2023", _FRIEDE, _FRIEDE_TABLES),
    ("Barin-Pacela et al. 2025", (*_DCI, "mig/mig"), _CLIFF_TABLES),
    ("Barin-Pacela et al. 2025", ("mcc/mcc",), _CLIFF_BALLS),
)


def published(method: str, dataset: str) -> dict[str, Any] | None:
    """What the method's paper reports on a dataset.

    Args:
        method: Name of the method.
        dataset: Name of the dataset. For `mini_shapes3d` it is what the papers report
            on Shapes3D, whose factors it has; the images differ.

    Returns:
        `{"source": ..., "dataset": ..., "scores": {name: (mean, half width | None)}}`,
        or None.
    """
    original = "shapes3d" if dataset == "mini_shapes3d" else dataset
    for source, names, tables in _SOURCES:
        for line in tables.get(original, "").strip().splitlines():
            row, *cells = line.split()
            if row == method:
                values = map(_parse, cells)
                scores = dict(zip(names, values, strict=True))
                return {"source": source, "dataset": original, "scores": scores}
    return None


def _parse(cell: str) -> tuple[float, float | None]:
    mean, _, width = cell.partition("±")
    return float(mean), float(width) if width else None
