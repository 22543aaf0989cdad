"""Defects found in other libraries, each as a test of ours."""

import tracemalloc

import keras
import numpy as np
import pytest
from keras import ops

import qlayers
from tests.gradients import as_float64, gradients

pytestmark = pytest.mark.backends

rng = np.random.default_rng(0)
X = rng.normal(size=(32, 3)).astype("float32")


class TestLatentQuantization:
    """A port that takes its losses after the straight-through rewrite."""

    def test_learned_values_do_receive_a_gradient(self):
        layer = qlayers.LatentQuantizer(4)
        layer.build((None, 3))
        found = gradients(layer, X, add_losses=True, training=True)
        used = as_float64(layer.codes(X)).astype(int)
        for j in range(3):
            for k in np.unique(used[:, j]):
                assert found.variables["codebook"][j, k, 0] != 0.0

    def test_the_two_losses_bear_the_papers_names(self):
        """quantize pulls the codebook, commit the encoder; not the other way round."""
        quantize = qlayers.LatentQuantizer(4, commit_weight=0.0)
        commit = qlayers.LatentQuantizer(4, quantize_weight=0.0)
        for layer in (quantize, commit):
            layer.build((None, 3))
        from_quantize = gradients(quantize, X, add_losses=True)
        from_commit = gradients(commit, X, add_losses=True)
        assert np.any(from_quantize.variables["codebook"])
        assert not np.any(from_quantize.inputs)
        assert np.any(from_commit.inputs)
        assert not np.any(from_commit.variables["codebook"])

    def test_codes_follow_the_learned_values_not_the_initial_grid(self):
        layer = qlayers.LatentQuantizer(4)
        layer.build((None, 3))
        moved = rng.normal(size=(3, 4, 1)).astype("float32")
        layer.codebook.assign(moved)
        codes = as_float64(layer.codes(moved[:, :, 0].T)).astype(int)
        np.testing.assert_array_equal(codes, np.tile(np.arange(4)[:, None], (1, 3)))
        np.testing.assert_array_equal(as_float64(layer.lookup(codes)), moved[..., 0].T)

    def test_indices_are_not_truncated(self):
        """Every value maps to its own index, also where value * scale is 2.9999."""
        for count in (3, 7, 10, 12, 144):
            layer = qlayers.LatentQuantizer(count)
            layer.build((None, 1))
            values = as_float64(layer.value_table())[0].astype("float32")
            codes = as_float64(layer.codes(values[:, None]))[:, 0]
            np.testing.assert_array_equal(codes, np.arange(count))

    @pytest.mark.parametrize("count", [2, 4, 10])
    def test_even_counts_are_symmetric(self, count):
        layer = qlayers.LatentQuantizer(count)
        layer.build((None, 1))
        values = as_float64(layer.value_table())[0]
        np.testing.assert_allclose(values, -values[::-1], atol=1e-7)
        np.testing.assert_allclose(values[[0, -1]], [-0.5, 0.5])


class TestFiniteScalarQuantization:
    @pytest.mark.parametrize("count", [2, 3, 4, 5, 12, 13])
    def test_symmetric_for_even_and_odd_counts(self, count):
        """An odd offset would send x and -x to different magnitudes."""
        layer = qlayers.FiniteScalarQuantizer(count)
        x = np.linspace(0.013, 3, 101, dtype="float32")[:, None]
        np.testing.assert_array_equal(as_float64(layer(-x)), -as_float64(layer(x)))

    def test_no_table_of_all_combinations(self):
        """4^16 codes of 16 floats would need 256 GB."""
        tracemalloc.start()
        layer = qlayers.FiniteScalarQuantizer(4)
        layer(np.zeros((2, 16), "float32"))
        layer.value_table()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 5e7
        assert tuple(layer.value_table().shape) == (16, 4)


class TestVectorQuantization:
    def test_beta_weighs_the_commitment(self):
        """The encoder's pull grows with commit_weight, the codebook's does not."""
        found = {}
        for weight in (0.25, 1.0):
            plain = {**qlayers.VectorQuantizer.PLAIN, "commit_weight": weight}
            layer = qlayers.VectorQuantizer(8, 3, **plain, seed=0)
            layer.build((None, 3))
            found[weight] = gradients(layer, X, add_losses=True)
        np.testing.assert_allclose(
            found[1.0].inputs, 4 * found[0.25].inputs, rtol=1e-5, atol=1e-9
        )
        np.testing.assert_array_equal(
            found[1.0].variables["codebook"], found[0.25].variables["codebook"]
        )

    def test_a_sum_does_not_shrink_with_the_number_of_dimensions(self):
        """It is the norm of the papers."""
        losses = {}
        for copies in (1, 4):
            plain = {**qlayers.VectorQuantizer.PLAIN, "commit_weight": 0.0}
            layer = qlayers.VectorQuantizer(8, 3, **plain, loss_reduction="sum", seed=0)
            layer(np.tile(X, (1, copies)))
            losses[copies] = float(as_float64(layer.losses[0]))
        assert losses[4] == pytest.approx(4 * losses[1], rel=1e-5)


class TestRevival:
    def test_revived_code_is_not_overwritten_at_the_next_step(self):
        """No moving average or optimizer state remembers the code's old place."""
        layer = qlayers.VectorQuantizer(4, 2, revive_after=2, seed=0)
        inputs = keras.Input((2,))
        model = keras.Model(inputs, layer(inputs))
        model.compile(keras.optimizers.Adam(1e-3), "mse")
        table = np.array([[[0, 0], [9, 9], [9, -9], [-9, 9]]], "float32")
        layer.codebook.assign(table)
        x = (0.1 * rng.normal(size=(16, 2))).astype("float32")
        model.train_on_batch(x, x)
        model.train_on_batch(x, x)
        after = as_float64(layer.value_table())[0]
        assert np.abs(after).max() < 1.0
        model.train_on_batch(x, x)
        assert np.abs(as_float64(layer.value_table())[0] - after).max() < 0.01

    def test_usage_counts_are_never_smoothed(self):
        """Counts stay whole numbers of what was seen, however often they are read."""
        layer = qlayers.LatentQuantizer(4)
        for _ in range(3):
            layer(X, training=True)
            layer.usage.result()
        counts = as_float64(layer.usage.counts)
        np.testing.assert_array_equal(counts.sum(-1), 3 * len(X))
        np.testing.assert_array_equal(counts, np.round(counts))

    def test_first_output_comes_from_the_first_codebook(self):
        """There is one table only: lookup, output and value_table agree."""
        layer = qlayers.VectorQuantizer(8, 3, init="uniform", revive_after=1, seed=0)
        layer.build((None, 3))
        for _ in range(2):
            codes = layer.codes(X)
            table = as_float64(layer.value_table())[0]
            expected = table[as_float64(codes).astype(int)[:, 0]]
            output = layer(X, training=True)
            np.testing.assert_array_equal(as_float64(output), expected)


def test_straight_through_output_has_as_many_values_as_codes():
    """x + (q - x) in float32 splits 10 codes into more labels."""
    layer = qlayers.LatentQuantizer(10)
    x = rng.uniform(-0.6, 0.6, size=(20_000, 1)).astype("float32")
    outputs = ops.convert_to_numpy(layer(x, training=True))
    assert len(np.unique(outputs)) == 10
