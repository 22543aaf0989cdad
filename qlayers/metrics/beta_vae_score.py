"""BetaVAE score: can a linear classifier tell which factor was held fixed?"""

from dataclasses import dataclass

import numpy as np

from qlayers.metrics import information
from qlayers.metrics._checks import FloatArray, IntArray, check_at_least
from qlayers.metrics._factor_sampling import Encode, FactorDataset, FactorSampler
from qlayers.metrics._progress import Progress
from qlayers.metrics.logistic import fit_logistic
from qlayers.metrics.metric_result import MainScore, MetricResult


@dataclass(frozen=True, eq=False, kw_only=True)
class BetaVAEScoreResult(MainScore, MetricResult):
    """The score of Higgins et al.

    Attributes:
        score: Accuracy on fresh points.
        train_accuracy: Accuracy on the points the classifier was fitted to.
    """

    title = "BetaVAE score"
    score_names = ("score", "train_accuracy")

    score: float
    train_accuracy: float


def beta_vae_score(
    dataset: FactorDataset,
    encode: Encode,
    *,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    batch_size: int = 64,
    seed: int = 0,
    verbose: bool = True,
) -> BetaVAEScoreResult:
    """Scores how well pairs of images betray the factor they share.

    A point is the mean absolute difference of the latents of `batch_size` pairs of
    images that agree in one randomly chosen factor; a logistic regression (C = 1)
    predicts the factor. This needs 2 (num_train + num_eval) batch_size images.

    Args:
        dataset: Anything with `factor_sizes` and `images_of(sources)`.
        encode: Maps images to latents.
        num_train: Points to fit.
        num_eval: Points to test.
        batch_size: Pairs of images per point.
        seed: Seed of all draws.
        verbose: Show progress if it takes longer than a second.

    Returns:
        A `BetaVAEScoreResult`.

    Example:
        >>> data = qlayers.datasets.load("mini_shapes3d")
        >>> beta_vae_score(data, lambda images: encoder.predict(images, verbose=0))

    Reference:
        Higgins et al. 2017, beta-VAE; settings of Locatello et al. 2019 and Friede
        et al. 2023.
    """
    check_at_least(num_train, 2, "num_train")
    check_at_least(num_eval, 1, "num_eval")
    check_at_least(batch_size, 1, "batch_size")
    sampler = FactorSampler(dataset, encode, batch_size, seed)
    total = num_train + num_eval
    with Progress(total, "BetaVAE score", verbose) as progress:
        points, factors = _points(sampler, total, progress)
    train, test = slice(0, num_train), slice(num_train, None)
    fitted = information.symbols(factors[train])
    names = np.unique(factors[train])
    model = fit_logistic(points[train], fitted, l2=1 / num_train, tolerance=1e-10)

    def accuracy(rows: slice) -> float:
        return float(np.mean(names[model.predict(points[rows])] == factors[rows]))

    settings = {
        "num_train": num_train,
        "num_eval": num_eval,
        "batch_size": batch_size,
        "seed": seed,
    }
    return BetaVAEScoreResult(
        score=accuracy(test), train_accuracy=accuracy(train), settings=settings
    )


def _points(
    sampler: FactorSampler, count: int, progress: Progress
) -> tuple[FloatArray, IntArray]:
    differences, factors = [], []
    for chosen, (first, second) in sampler.points(count, copies=2):
        differences.append(np.abs(first - second).mean(axis=1))
        factors.append(chosen)
        progress.advance(len(chosen))
    return np.concatenate(differences), np.concatenate(factors)
