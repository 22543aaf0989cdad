"""Published rows against what the authors' public code ran.

`FACTS` was written from the public repositories, without a look at the records. Every
row of a paper is compared with it, as its text and as its code variant, and all
settings that differ are listed here by name: a change on either side fails.
"""

import pytest

from experiments.settings.config import resolve
from experiments.settings.published import profile_of, published_rows

NUM_FACTORS = {"shapes3d": 6, "mpi3d": 7, "falcor3d": 7, "isaac3d": 9}
TWICE = {name: 2 * count for name, count in NUM_FACTORS.items()}


def cosine(first, last, steps):
    """A half cosine, as Keras writes it."""
    config = {"initial_learning_rate": first, "decay_steps": steps}
    return {"CosineDecay": {**config, "alpha": pytest.approx(last / first)}}


def exponential(rate, steps):
    """`exp(-rate)` at the last step."""
    return {
        "ExponentialDecay": {
            "initial_learning_rate": 1.0,
            "decay_steps": steps,
            "decay_rate": pytest.approx(2.718281828**-rate, rel=1e-5),
        }
    }


# --- kylehkhsu/latent_quantization: models/ae.py, configs/train_ae.yaml, configs/params
_QLAE_AE = {
    "network": "style",
    "encoder_option variant": "code",
    "decoder_option variant": "code",
    "steps": 200_000,
    "batch_size": 128,
    "num_latents": TWICE,
    "learning_rate": 1e-3,
    "beta_1": 0.9,
    "beta_2": 0.999,
    "clip_value": 1.0,
    "reconstruction": "bce",
    "reduction": "mean",
    "evaluation_size": 10_000,
    "evaluation_sample": "split",  # the first 10,000 of the training split
    "protocol": "qlae_code",  # k = 3, ranges of 1/8, balanced, 100 steps
}
# scripts/train_gan.py: num_steps counts encoder steps, five of them a generator step.
_QLAE_GAN = {
    "network": "style",
    "encoder_option variant": "code",
    "decoder_option variant": "code",
    "steps": 200_000 // 5,
    "batch_size": 64 * 5,
    "encoder_steps": 5,
    "num_latents": TWICE,
    "learning_rate": 2e-4,
    "beta_1": 0.0,
    "beta_2": 0.9,
    "clip_value": 1.0,
    "latent_weight": 200.0,
    "gradient_penalty_weight": 10.0,
    "value_weight": 1.0,
    "evaluation_size": 10_000,
    "evaluation_sample": "split",
    "protocol": "qlae_code",
}
_QLAE_CODES = {
    "num_values": 10,
    "quantize_weight": 0.01,
    "commit_weight": 0.01,
    "loss_reduction": "mean",
}
_QLAE_DECAY = {"shapes3d": 0.1, "falcor3d": 0.1, "isaac3d": 0.1, "mpi3d": 0.001}
_GAN_DECAY = {"shapes3d": 1e-3, "mpi3d": 1e-3, "falcor3d": 1e-4}
QLAE = {
    "ae": {**_QLAE_AE, "weight_decay": {"shapes3d": 1e-3, "mpi3d": 1e-3}},
    "beta_vae": {
        **_QLAE_AE,
        "scale": "softplus",
        "beta": {"shapes3d": 3.0, "mpi3d": 0.1, "falcor3d": 10.0, "isaac3d": 0.3},
    },
    "beta_tcvae": {
        **_QLAE_AE,
        "scale": "softplus",
        "beta": {"shapes3d": 3.0, "mpi3d": 0.3, "falcor3d": 3.0, "isaac3d": 1.0},
        "dataset_size": {
            "shapes3d": 480_000,
            "mpi3d": 460_800,
            "falcor3d": 233_280,
            "isaac3d": 737_280,
        },
    },
    "bio_ae": {
        **_QLAE_AE,
        "weight_decay": 1e-4,
        "nonnegative_weight": 1.0,
        "activity_weight": {
            "shapes3d": 0.01,
            "mpi3d": 0.01,
            "falcor3d": 0.01,
            "isaac3d": 0.1,
        },
    },
    "qlae": {**_QLAE_AE, **_QLAE_CODES, "weight_decay": _QLAE_DECAY},
    "qlae_global": {**_QLAE_AE, **_QLAE_CODES},
    "qlae_no_decay": {**_QLAE_AE, **_QLAE_CODES, "weight_decay": 0.0},
    "vq_vae": {
        **_QLAE_AE,
        "num_codes": 512,
        "code_dim": 64,
        "quantize_weight": 1.0,
        "commit_weight": 0.25,
        "loss_reduction": "mean",
        "weight_decay": 0.01,
    },
    "vq_vae_no_decay": {**_QLAE_AE, "num_codes": 512, "weight_decay": 0.0},
    "infowgan_gp": _QLAE_GAN,
    "ql_infowgan_gp": {**_QLAE_GAN, **_QLAE_CODES, "weight_decay": _GAN_DECAY},
    "ql_infowgan_gp_no_decay": {**_QLAE_GAN, **_QLAE_CODES, "weight_decay": 0.0},
}
# Appendix B.4; the code has none of it but a weight of 0 for the l1 norm.
_VQ_WEIGHTS = {"quantize_weight": 1.0, "commit_weight": 0.25}
for _name in ("qlae", "ql_infowgan_gp"):
    _kept = {k: v for k, v in QLAE[_name].items() if k != "weight_decay"}
    QLAE[f"{_name}_vq_weights"] = {**QLAE[_name], **_VQ_WEIGHTS}
    QLAE[f"{_name}_late_decay"] = _kept
    QLAE[f"{_name}_annealed_codebook"] = {
        k: v for k, v in QLAE[_name].items() if k not in _VQ_WEIGHTS
    }
    QLAE[f"{_name}_l1"] = QLAE[_name]
    QLAE[f"{_name}_l1_no_decay"] = {**_kept, "weight_decay": 0.0}
QLAE["ql_infowgan_gp_encoder_codebook"] = QLAE["ql_infowgan_gp"]

# --- kylehkhsu/tripod: configs/train_autoencoder.yaml, models/autoencoder.py
_TRIPOD = {
    "network": "residual",
    "steps": 250_000,
    "batch_size": 64,
    "num_latents": TWICE,
    "learning_rate": 2e-4,
    "beta_1": 0.9,
    "beta_2": 0.999,
    "clip_value": 1.0,
    "clip_all": True,  # one group for all parameters
    "reconstruction": "bce",
    "reduction": "mean",
    "evaluate_every": 10_000,
    "evaluation_size": 10_000,
    "evaluation_sample": "split",
    "protocol": "tripod",
    "select": "infom",
    "psnr_variant": "uint8_overflow",
    "psnr_threshold": {
        "shapes3d": 38.0,
        "mpi3d": 42.0,
        "falcor3d": 34.0,
        "isaac3d": 40.0,
    },
}
_KLM = {"shapes3d": 1e-4, "mpi3d": 1e-8, "falcor3d": 1e-10, "isaac3d": 1e-4}
_NHP = {"shapes3d": 1e-2, "mpi3d": 1e-4, "falcor3d": 1e-2, "isaac3d": 1e-8}
_LEGS = {
    **_TRIPOD,
    "weight_decay": 0.0,
    "num_values": 12,
    "klm_weight": _KLM,
    "nhp_weight": _NHP,
    "num_perturbations": 2,
    "aggregate": "per_output",
}
TRIPOD = {
    "tripod": _LEGS,
    "tripod_no_nhp": {**_LEGS, "nhp_weight": 0.0},
    "tripod_no_klm": {**_LEGS, "klm_weight": 0.0},
    "tripod_finer": {**_LEGS, "num_values": 144},
    "beta_tcvae": {**_TRIPOD, "scale": "softplus"},
    # Not in the repository; what all its models share.
    "qlae": _TRIPOD,
    "tripod_naive": {**_TRIPOD, "decoder_option normalize_outputs": True},
}

# --- ituvisionlab/FactorQVAE: train.py, models/factor_qvae.py, configs
_BAYKAL = {
    "network": "dalle",
    "encoder_option variant": "code",
    "decoder_option variant": "code",
    "steps": 100_000,
    "batch_size": 256,
    "num_latents": TWICE,
    "beta_1": 0.9,
    "beta_2": 0.999,
    "weight_decay": 0.0,
    "reconstruction": "mse",
    "reduction": "mean",
    "evaluation_size": 10_000,
    "test_size": 5_000,
    "protocol": "factor_qvae",  # the published function with k = 3 and 500 steps
    "train_fraction": 0.8,
}
# For one optimizer PyTorch's cosine climbs back after 50,000 batches.
_ONE_RATE = {
    "learning_rate": {
        "PeriodicCosine": {"first": 1e-3, "last": 1.25e-6, "num_steps": 50_000}
    }
}
_TWO = {
    **_BAYKAL,
    "steps": 50_000,
    "batch_size": 512,
    "learning_rate": cosine(1e-3, 1.25e-6, 50_000),
    "hidden_units": [1000] * 5,
}
_BAYKAL_CODES = {"num_values": 64, "kl_reduction": "mean"}
_SQUARED = {"distance": "squared_l2"}
_QVAE_BETA = {"shapes3d": 1e-3, "isaac3d": 5e-5, "mpi3d": 5e-5}
_DVAE_BETA = {"shapes3d": 5e-3, "isaac3d": 1e-5, "mpi3d": 5e-5}
_PIXELS = 64 * 64 * 3
BAYKAL = {
    "ae": {**_BAYKAL, **_ONE_RATE},
    "beta_vae": {
        **_BAYKAL,
        **_ONE_RATE,
        # Beside a mean over pixels.
        "beta": {
            "shapes3d": pytest.approx(1e-4 * _PIXELS),
            "isaac3d": pytest.approx(5e-5 * _PIXELS),
            "mpi3d": pytest.approx(1e-5 * _PIXELS),
        },
        "scored_as": "samples",
    },
    "factor_vae": {
        **_TWO,
        "scored_as": "samples",
        "discriminator_beta_1": 0.9,
        "discriminator_beta_2": 0.999,
        "kl_weight": {"shapes3d": 1e-4, "isaac3d": 5e-5, "mpi3d": 1e-5},
        "tc_weight": {"shapes3d": 1e-4, "isaac3d": 5e-5, "mpi3d": 1e-5},
    },
    "bio_ae": {
        **_BAYKAL,
        **_ONE_RATE,
        "nonnegative_weight": 1.0,
        "activity_weight": {"shapes3d": 1e-2, "isaac3d": 0.1, "mpi3d": 1e-2},
    },
    "qlae": {
        **_BAYKAL,
        **_ONE_RATE,
        "num_values": 16,
        "quantize_weight": 0.01,
        "commit_weight": 0.01,
        "loss_reduction": "mean",
        "codebook_init": "normal",
        "scored_as": "codes",
    },
    "dvae": {
        **_BAYKAL,
        **_ONE_RATE,
        **_BAYKAL_CODES,
        "kl_weight": _DVAE_BETA,
        "temperature": exponential(1.0, 100_000),
    },
    "qvae": {
        **_BAYKAL,
        **_ONE_RATE,
        **_BAYKAL_CODES,
        **_SQUARED,
        "kl_weight": _QVAE_BETA,
        "temperature": exponential(1.0, 100_000),
    },
    "factor_dvae_learned": {
        **_TWO,
        **_BAYKAL_CODES,
        "kl_weight": _DVAE_BETA,
        "tc_weight": {"shapes3d": 5e-4, "isaac3d": 1e-5, "mpi3d": 5e-6},
        "temperature": exponential(1.0, 50_000),
    },
    "factor_qvae": {
        **_TWO,
        **_BAYKAL_CODES,
        **_SQUARED,
        "kl_weight": _QVAE_BETA,
        "tc_weight": {"shapes3d": 1e-4, "isaac3d": 5e-5, "mpi3d": 1e-6},
        "temperature": exponential(1.0, 50_000),
    },
}
for _size in ("32x1", "64x1", "128x1", "64x8", "64x16"):
    _values, _dim = map(int, _size.split("x"))
    for _name in ("qvae", "factor_qvae"):
        _codebook = {"num_values": _values, "code_dim": _dim}
        BAYKAL[f"{_name}-{_size}"] = {**BAYKAL[_name], **_codebook}

# --- david-friede/lddr: run.py; disentanglement_lib for what it lacks
_FRIEDE = {
    "network": "locatello",
    "encoder_option variant": "code",  # kernels 4, 4, 2, 2
    "steps": 300_000,
    "batch_size": 64,
    "num_latents": 10,
    "learning_rate": 1e-4,
    "beta_1": 0.9,
    "beta_2": 0.999,
    "weight_decay": 0.0,
    "reconstruction": "bce",
    "reduction": "sum",
    "evaluation_size": 10_000,
    "test_size": 5_000,
    "select": "last",
}
_FRIEDE_CODES = {
    "gap_loss": "total",  # eval.py
    "num_values": 64,
    "interval": [-1.0, 1.0],
    "kl_weight": 1.0,
    "noise_scale": {
        "CosineDecay": {
            "initial_learning_rate": 0.5,
            "decay_steps": 300_000,
            "alpha": 4.0,
        }
    },
}
_FRIEDE_TC = {
    "hidden_units": [1000] * 6,
    "negative_slope": 0.01,
    "discriminator_learning_rate": 1e-4,
    "two_batches": False,
    "tc_weight": 30.0,
}
FRIEDE = {
    "d_vae": {**_FRIEDE, **_FRIEDE_CODES},
    "d_vae_masked": {**_FRIEDE, **_FRIEDE_CODES},
    "factor_d_vae": {**_FRIEDE, **_FRIEDE_CODES, **_FRIEDE_TC},
    "factor_d_vae_masked": {**_FRIEDE, **_FRIEDE_CODES, **_FRIEDE_TC},
    "factor_vae": {**_FRIEDE, **_FRIEDE_TC, "kl_weight": 1.0},
    "beta_vae": _FRIEDE,
    "beta_tcvae": _FRIEDE,
    # disentanglement_lib: config/unsupervised_study_v1/sweep.py
    "dip_vae_i": {**_FRIEDE, "diagonal_factor": 10.0},
    "dip_vae_ii": {**_FRIEDE, "diagonal_factor": 1.0},
    "annealed_vae": {
        **_FRIEDE,
        "capacity_weight": 1000.0,
        "capacity_steps": 100_000,
    },
}

# --- Cliff has no public code: its appendix F, and the codes it says it reuses.
_CLIFF = {
    "beta_1": 0.9,
    "beta_2": 0.999,
    "weight_decay": 0.0,
}
_CLIFF_SHAPES3D = {
    **_CLIFF,
    "network": "locatello",
    "encoder_option variant": "paper",  # 4x4 kernels, as in the HFS code
    "steps": 480_000 * 100 // 64,
    "batch_size": 64,
    "num_latents": 10,
    "learning_rate": 1e-4,
    "reconstruction": "bce",
    "reduction": "sum",
    "evaluation_size": 10_000,
    "test_size": 5_000,
}
_CLIFF_BALLS = {
    **_CLIFF,
    "steps": 20_000 * 1_000 // 64,
    "batch_size": 64,
    "num_latents": 4,
    "learning_rate": 1e-3,
    "reconstruction": "mse",
}
_CLIFF_GRID2D = {
    **_CLIFF,
    "network": "mlp",
    "steps": 1_000,
    "batch_size": 5_000,
    "num_latents": 2,
    "learning_rate": 2e-3,
}
CLIFF = {
    "cliff": {
        "shapes3d": {
            **_CLIFF_SHAPES3D,
            "beta": 10.0,
            "cliff_weight": 1.0,
            "univariate_weight": 0.5,
            "bivariate_weight": 1.0,
            "uniform_weight": 0.7,
            "bandwidth": 0.1,
        },
        "balls": {
            **_CLIFF_BALLS,
            "network": "resnet",
            "cliff_weight": 0.1,
            "univariate_weight": 0.5,
            "uniform_weight": 0.7,
        },
        "grid2d": {
            **_CLIFF_GRID2D,
            "univariate_weight": 0.0,
            "bivariate_weight": 1.0,
            "uniform_weight": 1.0,
        },
    },
    "hfs": {"shapes3d": {**_CLIFF_SHAPES3D, "beta": 1.0, "hfs_weight": 100.0}},
    "beta_vae": {"shapes3d": {**_CLIFF_SHAPES3D, "beta": 16.0}},
    "ioss": {
        "balls": {**_CLIFF_BALLS, "network": "resnet", "ioss_weight": 1.0},
        "grid2d": {**_CLIFF_GRID2D, "num_samples": 10_000, "trim": 0.01},
    },
    "additive": {
        "balls": {
            **_CLIFF_BALLS,
            "network": "resnet_additive",
            "decoder_option block_sizes": [2, 2],
        }
    },
}
CLIFF["cliff_pairs"] = CLIFF["cliff"]  # appendix F.5

FACTS = {
    "qlae": QLAE,
    "tripod": TRIPOD,
    "factor_qvae": BAYKAL,
    "friede": FRIEDE,
    "cliff": CLIFF,
}

# Settings in which the text variant differs from the code, by paper and row.
_STYLE = {"encoder_option variant", "decoder_option variant", "clip_value"}
_GAN_TEXT = _STYLE | {"protocol", "evaluation_sample"}
_QLAE_TEXT = _GAN_TEXT | {"beta_2"}
_TRIPOD_TEXT = {"steps", "learning_rate", "beta_2", "psnr_variant"}
_TRIPOD_TEXT |= {"clip_value", "clip_all", "evaluation_sample"}
_BAYKAL_TEXT = {"encoder_option variant", "decoder_option variant", "train_fraction"}
_FACTOR_TEXT = _BAYKAL_TEXT | {"steps", "temperature"}
TEXT_DIFFERS = {
    "qlae": {
        "ae": _QLAE_TEXT,
        "beta_vae": _QLAE_TEXT | {"scale"},
        "beta_tcvae": _QLAE_TEXT | {"scale"},
        "bio_ae": _QLAE_TEXT,
        "qlae": _QLAE_TEXT | {"loss_reduction"},
        "qlae_global": _QLAE_TEXT | {"loss_reduction"},
        "qlae_no_decay": _QLAE_TEXT | {"loss_reduction"},
        "vq_vae": _QLAE_TEXT,
        "vq_vae_no_decay": _QLAE_TEXT,
        "infowgan_gp": _GAN_TEXT,
        "ql_infowgan_gp": _GAN_TEXT | {"loss_reduction"},
        "ql_infowgan_gp_no_decay": _GAN_TEXT | {"loss_reduction"},
    },
    "tripod": {
        "tripod": _TRIPOD_TEXT | {"aggregate"},
        "tripod_no_nhp": _TRIPOD_TEXT | {"aggregate"},
        "tripod_no_klm": _TRIPOD_TEXT | {"aggregate"},
        "tripod_finer": _TRIPOD_TEXT | {"aggregate"},
        "beta_tcvae": _TRIPOD_TEXT | {"scale"},
        "qlae": _TRIPOD_TEXT,
        "tripod_naive": _TRIPOD_TEXT,
    },
    "factor_qvae": {
        "ae": _BAYKAL_TEXT | {"learning_rate"},
        "beta_vae": _BAYKAL_TEXT | {"learning_rate", "scored_as"},
        "bio_ae": _BAYKAL_TEXT | {"learning_rate"},
        "factor_vae": _BAYKAL_TEXT | {"steps", "scored_as"},
        "qlae": _BAYKAL_TEXT | {"learning_rate", "loss_reduction", "codebook_init"},
        "dvae": _BAYKAL_TEXT | {"learning_rate"},
        "qvae": _BAYKAL_TEXT | {"learning_rate", "distance"},
        "factor_dvae_learned": _FACTOR_TEXT,
        "factor_qvae": _FACTOR_TEXT | {"distance"},
    },
    "friede": {
        "d_vae": {"gap_loss"},
        "d_vae_masked": {"gap_loss"},
        "factor_d_vae": {"negative_slope", "gap_loss"},
        "factor_d_vae_masked": {"negative_slope", "gap_loss"},
        "factor_vae": {"negative_slope"},
    },
    "cliff": {},
}
for _name in QLAE:
    _method = "ql_infowgan_gp" if _name.startswith("ql_") else "qlae"
    TEXT_DIFFERS["qlae"].setdefault(_name, TEXT_DIFFERS["qlae"][_method])
# What `--variant=code` cannot repeat.
CODE_DIFFERS = {
    "qlae": {},
    "tripod": {},
    "factor_qvae": {},
    "friede": {},
    "cliff": {},
}

RUNNABLE = [row for row in published_rows() if row.runs]


def _facts_of(row):
    found = FACTS[row.paper][row.row.partition("/")[0]]
    found = found.get(row.dataset, found) if row.paper == "cliff" else found
    chosen = {}
    for name, value in found.items():
        if isinstance(value, dict) and set(value) <= set(NUM_FACTORS):
            if row.dataset not in value:
                continue  # not published for this dataset
            value = value[row.dataset]
        chosen[name] = value
    return chosen


def _settings_of(row, variant):
    values = resolve(
        row.method, row.dataset, profile_of(row.address, variant)
    ).to_dict()
    found = {**values, **values["hyperparameters"]}
    for part in ("encoder", "decoder"):
        for name, value in values[f"{part}_options"].items():
            found[f"{part}_option {name}"] = value
    return {name: _plain(value) for name, value in found.items()}


def _plain(value):
    if not isinstance(value, dict) or "class_name" not in value:
        return value
    kept = ("initial_learning_rate", "decay_steps", "alpha", "decay_rate")
    kept += ("first", "last", "num_steps")
    config = {k: v for k, v in value["config"].items() if k in kept}
    return {value["class_name"]: config}


def _differing(row, variant):
    facts, settings = _facts_of(row), _settings_of(row, variant)
    return {name for name, value in facts.items() if settings.get(name) != value}


@pytest.mark.parametrize("variant", ["text", "code"])
@pytest.mark.parametrize("paper", FACTS)
def test_differences_from_the_public_code(paper, variant):
    expected = {"text": TEXT_DIFFERS, "code": CODE_DIFFERS}[variant][paper]
    for row in RUNNABLE:
        if row.paper == paper:
            name = row.row.partition("/")[0]
            listed = expected.get(name, expected.get(name.partition("-")[0], set()))
            assert _differing(row, variant) == listed, row.address


def test_every_row_has_facts():
    for row in RUNNABLE:
        assert len(_facts_of(row)) >= 8, row.address


def test_dataset_variants():
    """MPI3D is the real robot with complex shapes, but the toy in Locatello's line."""
    for row in published_rows():
        if row.dataset == "mpi3d" and row.runs:
            wanted = "toy" if row.paper == "friede" else "complex"
            assert row.dataset_options == {"variant": wanted}


def test_vectors_have_the_euclidean_distance():
    """Equation 2; with scalars it is equation 3's."""
    for row in RUNNABLE:
        if row.table == "table2" and row.paper == "factor_qvae":
            scalars = row.recipe()["code_dim"] == 1
            assert row.recipe()["distance"] == ("l1" if scalars else "l2")


# disentanglement_lib: config/unsupervised_study_v1/sweep.py, get_default_models.
SWEEPS = {
    "beta_vae": {"beta": (1, 2, 4, 6, 8, 16)},
    "beta_tcvae": {"beta": (1, 2, 4, 6, 8, 10)},
    "dip_vae_i": {"off_diagonal_weight": (1, 2, 5, 10, 20, 50)},
    "dip_vae_ii": {"off_diagonal_weight": (1, 2, 5, 10, 20, 50)},
    "annealed_vae": {"capacity": (5, 10, 25, 50, 75, 100)},
    "factor_vae": {"tc_weight": (10, 20, 30, 40, 50, 100)},
    "factor_d_vae": {"tc_weight": (10, 20, 30, 40, 50, 100)},
    "d_vae": {},
}


def test_sweeps_of_the_unsupervised_study():
    for row in RUNNABLE:
        if row.paper == "friede" and row.table != "table7":
            assert row.grid == SWEEPS[row.method], row.address


def test_seeds():
    by_paper = {"qlae": 7, "tripod": 3, "cliff": 10}
    for row in RUNNABLE:
        if row.paper in by_paper and row.cells:
            assert row.seeds == by_paper[row.paper]
