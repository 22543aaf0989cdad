"""From a config to a dataset, a stream of batches and a compiled model."""

import os
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import models
from experiments.running.labels import (
    LabelledImages,
    labelled_images,
    labelled_stream,
)
from experiments.settings.config import RunConfig
from experiments.settings.xla import uses_xla
from qlayers import datasets
from qlayers.datasets import FactorDataset
from qlayers.datasets.samplers import Sampler, SubsetSampler


def use_threads(threads: int) -> None:
    """Gives TensorFlow its threads, unless it has run something already."""
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        # Convolutions are parallel inside; more at once only get in each other's way.
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:
        pass  # already running, as in tests: keep its threads


def configure_tensorflow(config: RunConfig) -> None:
    """Threads, precision and determinism; before TensorFlow has run anything."""
    use_threads(config.threads or os.cpu_count() or 1)
    policies = {"float16": "mixed_float16", "bfloat16": "mixed_bfloat16"}
    policy = policies.get(config.mixed_precision, "float32")
    keras.config.set_dtype_policy(policy)
    if config.deterministic:
        tf.config.experimental.enable_op_determinism()


def load_dataset(config: RunConfig) -> FactorDataset:
    """The dataset of a run."""
    try:
        return datasets.load(
            config.dataset,
            image_size=config.image_size,
            data_dir=config.data_dir,
            **config.dataset_options,
        )
    except TypeError as error:
        if not config.dataset_options:
            raise
        raise ValueError(
            f"Dataset {config.dataset!r} and its options do not agree: {error}."
        ) from error


def build_model(config: RunConfig, dataset: FactorDataset) -> models.LatentModel:
    """The compiled model of a run, its weights drawn from the run's seed."""
    keras.utils.set_random_seed(config.seed)
    hyperparameters = dict(config.hyperparameters)
    if config.num_labels:
        hyperparameters["label_sizes"] = list(dataset.factor_sizes)
    model = models.build(
        config.method,
        dataset.image_shape,
        config.num_latents,
        network=config.network,
        width=config.width,
        encoder_options=dict(config.encoder_options),
        decoder_options=dict(config.decoder_options),
        **hyperparameters,
    )
    model.compile(jit_compile=uses_xla(config))
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    return model


def describe_model(model: models.LatentModel) -> dict[str, Any]:
    """What the method made of the settings, for the record."""
    described: dict[str, Any] = {
        "parameters": int(sum(np.prod(w.shape) for w in model.trainable_variables)),
        "optimizer": _plain_config(model.optimizer.get_config()),
        "build_arguments": model.build_arguments,
    }
    if model.reconstruction is not None:
        described["reconstruction"] = vars(model.reconstruction)
    if model.quantizer is not None:
        described["quantizer"] = {
            "class": type(model.quantizer).__name__,
            **_plain_config(model.quantizer.get_config()),
        }
    return described


def _plain_config(config: dict[str, Any]) -> dict[str, Any]:
    kinds = (str, int, float, bool, list, tuple, dict, type(None))
    return {
        name: value if isinstance(value, kinds) else repr(value)
        for name, value in config.items()
    }


def make_stream(
    config: RunConfig, dataset: FactorDataset, start: int
) -> tf.data.Dataset:
    """Batches from number `start` on; batch `t` depends on the seed and `t` alone."""
    stream = dataset.as_tf_dataset(
        config.batch_size, config.seed, start=start, sampler=training_sampler(config)
    )
    if not config.num_labels:
        return stream
    labelled, _ = labelled_images(config, dataset, training_sampler(config))
    return tf.data.Dataset.zip((stream, labelled_stream(config, labelled, start)))


def validation_labels(
    config: RunConfig, dataset: FactorDataset
) -> LabelledImages | None:
    """Labelled images that a run does not learn from; None if it keeps none."""
    if not config.num_labels or not config.label_validation:
        return None
    return labelled_images(config, dataset, training_sampler(config))[1]


def training_sampler(config: RunConfig) -> Sampler | None:
    """Draws from the part of the images that training sees; None for all of them."""
    whole = config.train_fraction == 1
    return None if whole else SubsetSampler(config.train_fraction)
