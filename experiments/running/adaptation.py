"""Methods that change their model in training, within the laboratory's loop."""

from collections.abc import Callable
from typing import Any

from experiments.running.evaluation import image_dtype
from experiments.settings.config import RunConfig
from models import LatentModel
from qlayers.datasets import FactorDataset
from qlayers.pixels import to_unit_range

# Another sample than those that checkpoints and scores are taken on.
_SEED = 20240419


def adaptation(
    config: RunConfig, model: LatentModel, dataset: FactorDataset
) -> Callable[[int], Any]:
    """What the loop calls every `adapt_every` steps; nothing, for most methods.

    A model that adapts has `adaptation_size`, the number of images it wants to look
    at, and `make_adaptation(images)`, which returns a function of the step.

    Args:
        config: Settings of the run.
        model: The model in training.
        dataset: Its dataset.
    """
    make = getattr(model, "make_adaptation", None)
    if make is None:
        return lambda step: None
    _, images = dataset.sample(model.adaptation_size, _SEED, dtype=image_dtype(config))
    return make(to_unit_range(images))


def adapt_every(model: LatentModel) -> int:
    """Steps between two calls of the model's adaptation; 0 if it has none."""
    return getattr(model, "adapt_every", 0)
