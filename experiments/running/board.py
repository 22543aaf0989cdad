"""What a run shows in TensorBoard, and the pictures that a report needs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

import models
from experiments.running.evaluation import Evaluation, image_dtype
from experiments.running.latents import is_quantized
from experiments.running.pictures import ranges_of, write_pictures
from experiments.settings.config import RunConfig
from experiments.storage.run_directory import RunDirectory
from qlayers.callbacks import (
    CodeStatistics,
    ImageSummaries,
    ProjectorFiles,
    ScoreSummaries,
    StepCallback,
    TrainingScalars,
    write_hyperparameters,
)
from qlayers.datasets import FactorDataset

_POINTS = 1_000
_SHOWN = 16
_SHOWN_SEED = 7


class Board:
    """Writes the event files, the projector and the pictures of a run.

    Args:
        config: Settings of the run.
        directory: Folder of the run.
        model: The model that is evaluated; its weights are set before each call.
        dataset: The dataset.
    """

    def __init__(
        self,
        config: RunConfig,
        directory: RunDirectory,
        model: models.LatentModel,
        dataset: FactorDataset,
    ) -> None:
        self.config = config
        self.directory = directory
        self.model = model
        self.dataset = dataset
        folder = directory.path
        sources, images = shown_sample(config, dataset)
        self.images = images
        self.scalars = TrainingScalars(folder, batch_size=config.batch_size)
        self.results: Mapping[str, Any] = {}
        self.scores = ScoreSummaries(folder, lambda: self.results, dataset.factor_names)
        quantizer = model.quantizer if is_quantized(model) else None
        codes = None if quantizer is None else model.codes
        self.projector = ProjectorFiles(
            directory.projector,
            images,
            sources,
            model.encode,
            dataset.factor_names,
            codes,
        )
        self.watched: list[StepCallback] = [self.scores, self.projector]
        if quantizer is not None:
            num_codes = quantizer.codes_per_latent
            self.watched.append(CodeStatistics(folder, images, model.codes, num_codes))
        if config.has_decoder:
            self.watched.append(
                ImageSummaries(
                    folder, images[:_SHOWN], model.reconstruct, self._traverse
                )
            )

    def _traverse(self, image: np.ndarray) -> np.ndarray:
        """A traversal over the range that the latents have in the images now."""
        ranges = ranges_of(self.model, np.asarray(self.images))
        return models.traverse(self.model, image, num_steps=10, ranges=ranges)

    def log(self, step: int, terms: dict[str, float], trained: Any) -> None:
        """Writes loss terms, annealed quantities and speed."""
        if self.scalars.model is not trained:
            self.scalars.set_model(trained)
        self.scalars.record(step, terms)

    def evaluated(self, step: int, found: Evaluation) -> None:
        """Writes scores and pictures of the model as it is now."""
        self.results = found.results
        for callback in self.watched:
            callback.record(step)
        self.scalars.restart_clock(step)

    def finished(self, step: int, found: Evaluation) -> None:
        """Writes final scores beside the hyperparameters, and the report's pictures."""
        self.results = found.results
        self.scores.record(step)
        self.projector.record(step)
        write_hyperparameters(
            self.directory.path, hyperparameter_row(self.config), found.scores, step
        )
        for callback in (*self.watched, self.scalars):
            callback.close()
        if self.config.has_decoder:
            write_pictures(
                self.directory,
                self.model,
                np.asarray(self.images),
                found,
                self.config,
                self.dataset.factor_names,
            )


def shown_sample(
    config: RunConfig, dataset: FactorDataset
) -> tuple[np.ndarray, np.ndarray]:
    """Factors and images that pictures show, the same for every run of a dataset."""
    return dataset.sample(_POINTS, _SHOWN_SEED, dtype=image_dtype(config))


def hyperparameter_row(config: RunConfig) -> dict[str, Any]:
    """The settings that a reader compares, in one level.

    TensorBoard sorts them by name: capital letters put a run's own settings, and the
    method among the first, before the many hyperparameters.
    """
    names = ["method", "dataset", "seed", "steps", "batch_size", "image_size"]
    names += ["num_latents", "network", "width"]
    row = {name.capitalize(): getattr(config, name) for name in names}
    return {**row, **config.hyperparameters}
