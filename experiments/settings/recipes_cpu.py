"""The profile `cpu`: small images and networks, minutes instead of days.

Rows override those of the papers (`published/`) and are meant for `mini_shapes3d`.
"""

from typing import Any

# One protocol for all methods, so that they can be compared with each other.
CPU_EVERY_RUN: dict[str, Any] = {
    "evaluation_size": 5_000,
    "reconstruction_size": 1_000,  # the slow part of an evaluation
    "log_every": 50,
    "metrics": "standard",
    "protocol": "paper",
    "test_size": 0,
    "scores": [],
    "dci_resamples": 0,
}

# In dB, at 32x32: what QLAE reaches after some 2,500 steps, when colours, shape and
# size are plain to see. Before, latents that say little look modular.
CPU_PSNR_THRESHOLDS = {"mini_shapes3d": 22.0, "shapes3d": 22.0}

# QLAE's networks without the layers that keep the resolution: 16, 32 and 64 channels.
_SMALL_STYLE = {
    "image_size": 32,
    "network": "style",
    "width": 0.5,
    "encoder_options": {"preserving_layers": 0},
    "decoder_options": {"preserving_layers": 0},
    "num_latents": None,
    "batch_size": 64,
    "steps": 8_000,
    "evaluate_every": 1_000,
}
# Fewer values than the paper's 10 put sources apart sooner: InfoM 0.74 with 4, 0.69
# with 6 and 0.58 with 10 after 2,000 steps (batch 32, one seed).
_QUANTIZED = {
    **_SMALL_STYLE,
    "learning_rate": 1e-3,
    "weight_decay": 0.1,
    "num_values": 4,
}
# With the paper's 2 perturbations the Hessian penalty's gradient is almost all noise
# and 350 times as long as that of the reconstruction, with 6 still 59 times (`python -m
# studies.penalty_noise`). At the paper's weight, 1e-2, a short training with either
# hardly learns to reconstruct.
_TRIPOD = {
    **_SMALL_STYLE,
    "learning_rate": 1e-3,
    "num_values": 4,
    "klm_weight": 1e-3,
    "num_perturbations": 6,
    "batch_fraction": 0.25,
    "step_interval": 4,
}
_TWO_HALVES = {**_SMALL_STYLE, "batch_size": 128, "hidden_units": [256, 256, 256]}
_PIECES = {**_SMALL_STYLE, "batch_size": 80, "encoder_steps": 5, "steps": 4_000}
# With distances |x - M| the logits of two codes differ by no more than the codes
# themselves, so that noise hides them until the codebook has grown, at the pace of the
# learning rate: 15 dB after 2,500 steps. The squares of the public code: 19 dB.
_FAST_CODES = {"distance": "squared_l2"}
_SHORT_SCHEDULES = {
    "learning_rate": "cosine(1e-3, 1e-5)",
    "temperature": "exponential(1.0, 0.37)",
    "kl_reduction": "sum",
}
_FACTOR_SCHEDULES = {**_SHORT_SCHEDULES, "discriminator_learning_rate": 1e-3}

CPU_METHODS: dict[str, dict[str, Any]] = {
    "ae": _SMALL_STYLE,
    "beta_vae": _SMALL_STYLE,
    "beta_tcvae": _SMALL_STYLE,
    "bio_ae": _SMALL_STYLE,
    "vq_vae": _SMALL_STYLE,
    "qlae": _QUANTIZED,
    "qlae_global": _QUANTIZED,
    "infowgan_gp": _PIECES,
    "ql_infowgan_gp": _PIECES,
    "dvae": {**_SMALL_STYLE, **_SHORT_SCHEDULES},
    "qvae": {**_SMALL_STYLE, **_SHORT_SCHEDULES, **_FAST_CODES},
    "factor_dvae_learned": {**_TWO_HALVES, **_FACTOR_SCHEDULES},
    "factor_qvae": {**_TWO_HALVES, **_FACTOR_SCHEDULES, **_FAST_CODES},
    "factor_vae": {**_TWO_HALVES, "learning_rate": 1e-3, "two_batches": True},
    "d_vae": {**_SMALL_STYLE, "learning_rate": 1e-3},
    "factor_d_vae": {
        **_SMALL_STYLE,
        "learning_rate": 1e-3,
        "hidden_units": [256, 256, 256],
    },
    "supervised_vae": {**_SMALL_STYLE, "learning_rate": 1e-3},
    "dip_vae_i": {**_SMALL_STYLE, "learning_rate": 1e-3},
    "dip_vae_ii": {**_SMALL_STYLE, "learning_rate": 1e-3},
    "annealed_vae": {**_SMALL_STYLE, "learning_rate": 1e-3, "capacity_steps": 3_000},
    "tripod": {**_TRIPOD, "nhp_weight": 1e-3},
    "tripod_naive": {**_TRIPOD, "hessian_weight": 1e-4},
    "cliff": {**_SMALL_STYLE, "learning_rate": 1e-3},
    "hfs": {**_SMALL_STYLE, "learning_rate": 1e-3},
    "ioss": {**_SMALL_STYLE, "learning_rate": 1e-3, "num_samples": 1_000},
    "self_sizing": {
        **_SMALL_STYLE,
        "learning_rate": 1e-3,
        "weight_decay": 0.1,
        "warmup_steps": 2_000,
    },
    "additive": {
        **_SMALL_STYLE,
        "network": None,
        "width": 0.125,
        "encoder_options": {},
        "decoder_options": {},
        "reduction": "mean",
    },
}

# Method and dataset -> row, as in `recipes.py`.
CPU_DATASETS: dict[tuple[str, str], dict[str, Any]] = {
    ("cliff", "grid2d"): {
        "network": "mlp",
        "width": 1.0,
        "encoder_options": {},
        "decoder_options": {},
        "num_latents": 2,
        "batch_size": 5_000,
        "steps": 1_000,
        "learning_rate": 2e-3,
        "univariate_weight": 0.0,
        "uniform_weight": 1.0,
        "evaluate_every": 100,
        "log_every": 10,
    },
}
