"""FactorVAE score: does the steadiest latent name the factor that was held fixed?"""

from dataclasses import dataclass

import numpy as np

from qlayers.metrics._checks import BoolArray, FloatArray, check_at_least
from qlayers.metrics._factor_sampling import Encode, FactorDataset, FactorSampler
from qlayers.metrics._progress import Progress
from qlayers.metrics.metric_result import MainScore, MetricResult


@dataclass(frozen=True, eq=False, kw_only=True)
class FactorVAEScoreResult(MainScore, MetricResult):
    """The score of Kim and Mnih.

    Attributes:
        score: Accuracy of the majority vote on fresh points.
        train_accuracy: Accuracy on the points that were counted.
        votes: (n_z, n_s) how often each latent was steadiest for each fixed factor;
            latents that are equally steady share a vote.
        active: (n_z,) latents that took part.
    """

    title = "FactorVAE score"
    score_names = ("score", "train_accuracy")

    score: float
    train_accuracy: float
    votes: FloatArray
    active: BoolArray


def factor_vae_score(
    dataset: FactorDataset,
    encode: Encode,
    *,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    num_variance: int = 10_000,
    batch_size: int = 64,
    prune_threshold: float = 0.05,
    seed: int = 0,
    verbose: bool = True,
) -> FactorVAEScoreResult:
    """Scores whether fixing a factor stills one latent, always the same one.

    A point is a batch of images that share one randomly chosen factor; it votes with
    the latent whose variance within the batch, relative to its variance over the
    data, is smallest. Each latent then stands for the factor it was chosen for most.
    If no latent is active the score is 0.

    Quantized latents are often equally steady: all those with one value in the batch.
    They share the vote, so the score is that of a draw among them on average. (Public
    codes take the first, and their score depends on the order of the latents.)

    Args:
        dataset: Anything with `factor_sizes`, `sample(n, seed)` and
            `images_of(sources)`.
        encode: Maps images to latents.
        num_train: Points that are counted.
        num_eval: Points that are tested.
        num_variance: Images that measure the variance over the data.
        batch_size: Images per point.
        prune_threshold: Latents with a smaller standard deviation take no part.
        seed: Seed of all draws.
        verbose: Show progress if it takes longer than a second.

    Returns:
        A `FactorVAEScoreResult`.

    Example:
        >>> data = qlayers.datasets.load("mini_shapes3d")
        >>> factor_vae_score(data, lambda images: encoder.predict(images, verbose=0))

    Reference:
        Kim and Mnih 2018, Disentangling by Factorising; settings of Locatello et al.
        2019 and Friede et al. 2023.
    """
    check_at_least(num_train, 1, "num_train")
    check_at_least(num_eval, 1, "num_eval")
    check_at_least(num_variance, 2, "num_variance")
    check_at_least(batch_size, 2, "batch_size")
    sampler = FactorSampler(dataset, encode, batch_size, seed)
    variance = sampler.random_latents(num_variance).var(axis=0, ddof=1)
    active = np.sqrt(variance) >= prune_threshold
    settings = {
        "num_train": num_train,
        "num_eval": num_eval,
        "num_variance": num_variance,
        "batch_size": batch_size,
        "prune_threshold": prune_threshold,
        "seed": seed,
    }
    shape = (len(variance), len(sampler.sizes))
    if not active.any():
        return FactorVAEScoreResult(
            score=0.0,
            train_accuracy=0.0,
            votes=np.zeros(shape),
            active=active,
            settings=settings,
            notes=("no latent is active: the score is 0 by convention",),
        )
    with Progress(num_train + num_eval, "FactorVAE score", verbose) as progress:
        train = _votes(sampler, num_train, variance, active, shape, progress)
        test = _votes(sampler, num_eval, variance, active, shape, progress)
    meaning = train.argmax(axis=1)
    latents = np.arange(len(meaning))
    return FactorVAEScoreResult(
        score=float(test[latents, meaning].sum() / num_eval),
        train_accuracy=float(train[latents, meaning].sum() / num_train),
        votes=train,
        active=active,
        settings=settings,
    )


def _votes(
    sampler: FactorSampler,
    count: int,
    variance: FloatArray,
    active: BoolArray,
    shape: tuple[int, int],
    progress: Progress,
) -> FloatArray:
    votes = np.zeros(shape)
    names = np.flatnonzero(active)
    for factors, (latents,) in sampler.points(count, copies=1):
        points = latents[:, :, active]
        within = points.var(axis=1, ddof=1) / variance[active]
        # Rounding would rank values that are all the same.
        within[np.ptp(points, axis=1) == 0] = 0.0
        steadiest = within == within.min(axis=1, keepdims=True)
        shares = steadiest / steadiest.sum(axis=1, keepdims=True)
        np.add.at(votes, (names[:, None], factors), shares.T)
        progress.advance(len(factors))
    return votes
