"""Names that flags accept, known without loading Keras.

They repeat the registries of `models` and `qlayers.datasets`, so that `--help` and a
typo are answered at once; `tests/experiments/settings/test_names.py` compares the two.
"""

from experiments.settings.extensions import has_extensions, load_extensions

WITHOUT_PAPER = "Without a paper"
METHODS_BY_PAPER: dict[str, tuple[str, ...]] = {
    "Hsu et al. 2023, Disentanglement via Latent Quantization": (
        "ae",
        "beta_vae",
        "beta_tcvae",
        "bio_ae",
        "vq_vae",
        "qlae",
        "qlae_global",
        "infowgan_gp",
        "ql_infowgan_gp",
    ),
    "Baykal et al., Disentanglement with Factor Quantized VAEs": (
        "qvae",
        "dvae",
        "factor_qvae",
        "factor_dvae_learned",
    ),
    "Friede et al. 2023, Learning Disentangled Discrete Representations": (
        "d_vae",
        "factor_d_vae",
        "factor_vae",
        "supervised_vae",
        "dip_vae_i",
        "dip_vae_ii",
        "annealed_vae",
    ),
    "Hsu et al. 2024, Tripod": ("tripod", "tripod_naive"),
    "Barin-Pacela et al. 2025, Quantized Disentanglement: A Practical Approach": (
        "cliff",
        "hfs",
        "ioss",
        "additive",
    ),
    WITHOUT_PAPER: ("self_sizing",),
}
GENERATED_DATASETS = ("mini_shapes3d", "circles", "balls", "grid2d")
PUBLISHED_DATASETS = (
    "shapes3d",
    "mpi3d",
    "falcor3d",
    "isaac3d",
    "dsprites",
    "color_dsprites",
    "smallnorb",
    "cars3d",
)
NETWORKS = (
    "style",
    "residual",
    "dalle",
    "locatello",
    "resnet",
    "resnet_additive",
    "locatello_additive",
    "spatial_broadcast",
    "mlp",
)


def methods_by_paper() -> dict[str, tuple[str, ...]]:
    """Names of the methods by the title of their paper, your own ones included."""
    if not has_extensions():
        return METHODS_BY_PAPER
    load_extensions()
    from models import METHODS

    found: dict[str, tuple[str, ...]] = {}
    for method in METHODS.values():
        title = method.paper.title if method.paper else WITHOUT_PAPER
        found[title] = (*found.get(title, ()), method.name)
    return found


def method_names() -> list[str]:
    """Names of all methods, sorted."""
    return sorted(name for names in methods_by_paper().values() for name in names)


def dataset_names() -> list[str]:
    """Names of all datasets, sorted."""
    if not has_extensions():
        return sorted((*GENERATED_DATASETS, *PUBLISHED_DATASETS, "folder"))
    load_extensions()
    from qlayers import datasets

    return sorted(datasets.names())
