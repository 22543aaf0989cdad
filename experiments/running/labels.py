"""The labelled few: which of them are learned from, and what the others say."""

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from keras import ops

from experiments.settings.config import RunConfig
from models import LatentModel
from qlayers.datasets import FactorDataset
from qlayers.datasets.samplers import Sampler
from qlayers.metrics.metric_result import MainScore, MetricResult
from qlayers.pixels import to_unit_range

# Purpose of the random numbers that choose labelled images.
_LABELLED = 17
_BATCH = 64


@dataclass(frozen=True)
class LabelledImages:
    """Images with their labels, both of the same length.

    Attributes:
        images: float32 images in [0, 1].
        labels: Integers (images, factors).
    """

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelValidationResult(MainScore, MetricResult):
    """The supervised loss on labels that were not learned from.

    Attributes:
        loss: Mean over images, unweighted.
    """

    title = "Label validation"
    score_names = ("loss",)

    loss: float


def labelled_images(
    config: RunConfig, dataset: FactorDataset, sampler: Sampler | None = None
) -> tuple[LabelledImages, LabelledImages]:
    """The labelled images of a run: those to learn from, and those to validate on.

    The last ones are kept for validation, as in disentanglement_lib.

    Args:
        config: Settings of the run.
        dataset: The dataset.
        sampler: How they are drawn; by default like any images.
    """
    labels, images = dataset.sample(config.num_labels, config.seed, sampler=sampler)
    # Rounded first: 0.9 x 10 is a little above 9 in binary.
    trained = math.ceil(round(config.num_labels * (1 - config.label_validation), 6))
    first, rest = slice(trained), slice(trained, None)
    return (
        LabelledImages(images[first], labels[first]),
        LabelledImages(images[rest], labels[rest]),
    )


def labelled_stream(
    config: RunConfig, labelled: LabelledImages, start: int
) -> tf.data.Dataset:
    """Batches `(images, labels)` drawn from labelled images.

    Args:
        config: Settings of the run.
        labelled: The images to learn from.
        start: Number of the first batch.
    """

    def choose(step: np.int64) -> np.ndarray:
        generator = np.random.default_rng([config.seed, _LABELLED, int(step)])
        return generator.integers(0, len(labelled), config.batch_size)

    def batch(step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rows = tf.numpy_function(choose, [step], tf.int64, stateful=False)
        rows = tf.ensure_shape(rows, (config.batch_size,))
        return tf.gather(labelled.images, rows), tf.gather(labelled.labels, rows)

    return tf.data.Dataset.range(start, tf.int64.max).map(batch)


def validate_labels(
    model: LatentModel, labelled: LabelledImages
) -> LabelValidationResult:
    """The supervised loss of a model on labelled images.

    Args:
        model: A supervised model.
        labelled: The images to validate on.

    Reference:
        Locatello et al. 2020, Disentangling Factors of Variation Using Few Labels: a
        tenth of the labels chooses among models.
    """
    supervision = model.supervision
    if supervision is None:
        raise ValueError(f"{model.name} is not supervised.")
    total = 0.0
    for start in range(0, len(labelled), _BATCH):
        part = slice(start, start + _BATCH)
        pixels = ops.convert_to_tensor(to_unit_range(labelled.images[part]))
        features = model.quantizer_inputs(pixels, training=False)
        labels = ops.convert_to_tensor(labelled.labels[part])
        losses = supervision.per_image(
            model.quantizer, features, labels, model.supervision_scale
        )
        total += float(ops.sum(losses))
    settings = {"images": len(labelled), "kind": supervision.kind}
    return LabelValidationResult(loss=total / len(labelled), settings=settings)
