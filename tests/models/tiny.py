"""Every method at the smallest size that is still the same code."""

import keras
import numpy as np
import tensorflow as tf

import models

IMAGE_SHAPE = (8, 8, 3)
NUM_LATENTS = 4
BATCH = 20
LABEL_SIZES = (3, 4)

STYLE = {
    "network": "style",
    "width": 0.125,
    "encoder_options": {"preserving_layers": 0},
    "decoder_options": {"preserving_layers": 0},
}
SMALL_DISCRIMINATOR = {"hidden_units": [16, 16], "seed": 0}

# What differs from the methods' defaults: small networks, quick learning rates.
OPTIONS = {
    "ae": {},
    "beta_vae": {"beta": 0.1},
    "beta_tcvae": {"beta": 0.1, "dataset_size": 64},
    "factor_vae": {"tc_weight": 1.0, "learning_rate": 1e-3, **SMALL_DISCRIMINATOR},
    "bio_ae": {},
    "vq_vae": {"num_codes": 16, "code_dim": 4},
    "qlae": {},
    "qlae_global": {},
    "infowgan_gp": {"learning_rate": 1e-3, "seed": 0},
    "ql_infowgan_gp": {"learning_rate": 1e-3, "seed": 0},
    "qvae": {"num_values": 8, "learning_rate": 1e-3},
    "dvae": {"num_values": 8, "learning_rate": 1e-3},
    "factor_qvae": {"num_values": 8, "learning_rate": 1e-3, **SMALL_DISCRIMINATOR},
    "factor_dvae_learned": {
        "num_values": 8,
        "learning_rate": 1e-3,
        **SMALL_DISCRIMINATOR,
    },
    "d_vae": {"num_values": 8, "learning_rate": 1e-3},
    "factor_d_vae": {
        "num_values": 8,
        "tc_weight": 1.0,
        "learning_rate": 1e-3,
        **SMALL_DISCRIMINATOR,
    },
    "dip_vae_i": {"off_diagonal_weight": 1.0, "learning_rate": 1e-3},
    "dip_vae_ii": {"off_diagonal_weight": 1.0, "learning_rate": 1e-3},
    "annealed_vae": {"capacity_weight": 10.0, "learning_rate": 1e-3},
    "supervised_vae": {"label_sizes": LABEL_SIZES, "learning_rate": 1e-3},
    # The one inner layer that 8x8 images leave is piecewise linear: no curvature.
    "tripod": {"seed": 0, "regularized_layers": ["logits"]},
    "tripod_naive": {"seed": 0},
    "cliff": {"learning_rate": 1e-3, "beta": 0.1, "seed": 0},
    "hfs": {"learning_rate": 1e-3, "beta": 0.1, "seed": 0},
    "ioss": {"learning_rate": 1e-3, "num_samples": 100, "ioss_weight": 1.0, "seed": 0},
    "self_sizing": {"warmup_steps": 2, "adapt_every": 2, "adaptation_size": 16},
    "additive": {
        "network": "resnet_additive",
        "width": 0.05,
        "encoder_options": {},
        "decoder_options": {},
    },
}


def tiny_model(method: str, *, start: int = 3, **more) -> models.LatentModel:
    """The method on 8x8 images, the same weights at every call with one `start`."""
    keras.utils.set_random_seed(start)
    options = {**STYLE, **OPTIONS[method], **more}
    shape = (32, 32, 3) if options["network"] == "resnet_additive" else IMAGE_SHAPE
    return models.build(method, shape, NUM_LATENTS, **options)


def tiny_images(size: int = IMAGE_SHAPE[0], count: int = BATCH) -> np.ndarray:
    """Smooth images with two factors: a colour and the place of an edge."""
    generator = np.random.default_rng(0)
    colour = generator.uniform(size=(count, 1, 1, 3))
    edge = generator.uniform(size=(count, 1, 1, 1)) * size
    column = np.arange(size).reshape(1, 1, size, 1)
    inside = 1 / (1 + np.exp(column - edge))
    images = np.broadcast_to(inside * colour, (count, size, size, 3))
    return images.astype("float32")


def tiny_stream(model: models.LatentModel) -> tf.data.Dataset:
    """An endless stream of the same batch, with labels where the model wants them."""
    images = tiny_images(model.encoder.input_shape[1])
    data = images
    if model.supervision is not None:
        rows = np.arange(BATCH)
        labels = np.stack([rows % size for size in LABEL_SIZES], axis=1)
        data = (images, (images, labels))
    return tf.data.Dataset.from_tensors(data).repeat()


def fit(model: models.LatentModel, steps: int, epochs: int = 1) -> dict:
    stream = tiny_stream(model)
    history = model.fit(stream, steps_per_epoch=steps, epochs=epochs, verbose=0)
    return history.history
