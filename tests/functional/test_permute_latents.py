"""Permuted latents keep their marginals and lose their dependence."""

import keras
import numpy as np
import pytest

from qlayers.functional import permute_latents
from tests.gradients import as_float64

pytestmark = pytest.mark.backends
rng = np.random.default_rng(0)


def test_every_latent_keeps_its_values():
    z = rng.normal(size=(50, 4)).astype("float32")
    permuted = as_float64(permute_latents(z, seed=1))
    np.testing.assert_array_equal(np.sort(permuted, 0), np.sort(z, 0))
    assert not np.array_equal(permuted, z)


def test_latents_move_independently():
    rows = np.repeat(np.arange(500, dtype="float32")[:, None], 3, axis=1)
    permuted = as_float64(permute_latents(rows, seed=1))
    correlation = np.corrcoef(permuted.T) - np.eye(3)
    assert np.abs(correlation).max() < 0.2
    # Nor is any latent left in its old order.
    for column in permuted.T:
        assert abs(np.corrcoef(column, rows[:, 0])[0, 1]) < 0.2


def test_all_permutations_are_equally_likely():
    generator = keras.random.SeedGenerator(0)
    z = np.array([[0], [1], [2]], "float32")
    draws = [tuple(as_float64(permute_latents(z, generator))[:, 0]) for _ in range(300)]
    counts = np.unique(draws, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert counts.min() > 25  # 50 expected, standard deviation 6.5


def test_vectors_move_as_a_whole():
    codes = rng.integers(0, 5, size=(40, 3))
    one_hot = np.eye(5, dtype="float32")[codes]
    permuted = as_float64(permute_latents(one_hot, seed=2))
    np.testing.assert_array_equal(permuted.sum(-1), 1)
    assert set(np.unique(permuted)) == {0.0, 1.0}
    for latent in range(3):
        np.testing.assert_array_equal(
            np.sort(permuted[:, latent].argmax(-1)), np.sort(codes[:, latent])
        )


def test_seed():
    z = rng.normal(size=(20, 2)).astype("float32")
    first, again = permute_latents(z, seed=5), permute_latents(z, seed=5)
    np.testing.assert_array_equal(as_float64(first), as_float64(again))
    other = permute_latents(z, seed=6)
    assert not np.array_equal(as_float64(first), as_float64(other))


def test_one_sample_stays():
    np.testing.assert_array_equal(as_float64(permute_latents([[1.0, 2.0]])), [[1, 2]])


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4, 5)])
def test_other_ranks_are_refused(shape):
    with pytest.raises(ValueError, match="shape"):
        permute_latents(np.zeros(shape, "float32"))
