"""What is no factor is drawn anew at every draw of the sampled scores."""

import numpy as np
import pytest

from qlayers.datasets.color_dsprites import ColorDsprites
from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.grid_dataset import GridDataset
from qlayers.datasets.smallnorb import Smallnorb
from qlayers.metrics import beta_vae_score, factor_vae_score


class _Numbered(GridDataset):
    """Every image is filled with its number in the grid."""

    def __init__(self, names, sizes):
        super().__init__("numbered", FactorSpace(names, sizes), (4, 4, 1))

    def _images_at(self, index):
        return np.broadcast_to(
            index.astype(np.uint8)[:, None, None, None], (len(index), 4, 4, 1)
        )


class _White(_Numbered):
    def _images_at(self, index):
        return np.full((len(index), 4, 4, 1), 255, np.uint8)


def _colours_seen(score, **settings):
    """Distinct colours among all images that the score encodes."""
    dataset = ColorDsprites(_White(("shape", "scale"), (3, 4)))
    seen = []

    def encode(images):
        seen.append(images[:, 0, 0])
        return np.random.default_rng(len(seen)).normal(size=(len(images), 2))

    score(dataset, encode, batch_size=64, verbose=False, **settings)
    colours = np.concatenate(seen)
    return len(np.unique(colours, axis=0)), len(colours)


@pytest.mark.parametrize(
    ("score", "settings"),
    [
        (beta_vae_score, {"num_train": 40, "num_eval": 20}),
        (factor_vae_score, {"num_train": 60, "num_eval": 30, "num_variance": 1000}),
    ],
)
def test_every_image_has_a_colour_of_its_own(score, settings):
    distinct, drawn = _colours_seen(score, **settings)
    assert drawn > 6000
    # 128^3 colours: among 7,000 draws about 12 pairs agree by chance.
    assert distinct > drawn - 60


def test_every_draw_has_its_own_toys():
    """In the chunks of one score, toys differ at the same place of the chunk."""
    toys = _Numbered(("category", "toy", "elevation"), (2, 10, 2))
    dataset = Smallnorb(toys)
    chunks = []

    def encode(images):
        numbers = np.rint(images[:, 0, 0, 0] * 255).astype(int)
        chunks.append(numbers // 2 % 10)
        return images.reshape(len(images), -1)[:, :2]

    beta_vae_score(dataset, encode, num_train=32, num_eval=32, verbose=False)
    assert len(chunks) == 8
    agreement = np.mean(np.stack(chunks)[1:] == chunks[0])
    # Independent draws of ten toys agree once in ten times.
    assert 0.05 < agreement < 0.15


def test_the_same_seed_draws_the_same_nuisances():
    def score(seed):
        dataset = ColorDsprites(_White(("shape", "scale"), (3, 4)))
        return factor_vae_score(
            dataset,
            lambda images: images.mean(axis=(1, 2)),
            num_train=64,
            num_eval=32,
            num_variance=500,
            seed=seed,
            verbose=False,
        ).votes.tolist()

    assert score(1) == score(1)
    assert score(1) != score(2)


@pytest.mark.parametrize("count", [30, 100])
def test_the_evaluation_set_has_all_toys(count):
    """Every combination of factors has ten images, and none is drawn twice."""
    toys = _Numbered(("category", "toy", "elevation"), (2, 10, 2))
    sources, images = Smallnorb(toys).evaluation_set(count, dtype="uint8")
    numbers = images[:, 0, 0, 0]
    assert len(np.unique(numbers)) == len(numbers) == min(count, 40)
    expected = toys.space.sources_of(numbers.astype(np.int64))[:, [0, 2]]
    np.testing.assert_array_equal(sources, expected)
