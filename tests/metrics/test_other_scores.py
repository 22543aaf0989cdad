"""PSNR and the straight-through gap."""

import numpy as np
import pytest

from qlayers.metrics import psnr, straight_through_gap


class TestPSNR:
    def test_by_hand(self):
        # An error of 0.1 everywhere: mse 0.01, 20 dB.
        images = np.full((3, 4, 4, 1), 0.5)
        result = psnr(images, images + 0.1)
        assert result.psnr == pytest.approx(20.0)
        assert result.mse == pytest.approx(0.01)
        assert float(result) == result.psnr

    def test_ratios_are_averaged_per_image(self):
        images = np.zeros((2, 4))
        result = psnr(images, np.array([[0.1] * 4, [0.01] * 4]))
        np.testing.assert_allclose(result.psnr_per_image, [20, 40])
        assert result.psnr == pytest.approx(30.0)

    def test_uint8_does_not_wrap_around(self):
        # In uint8 arithmetic 16^2 is 0 and 10 - 20 is 246.
        first = np.full((2, 3, 3), 10, np.uint8)
        second = np.array([[[26] * 3] * 3, [[20] * 3] * 3], np.uint8)
        result = psnr(first, second)
        expected = 10 * np.log10(255**2 / np.array([16**2, 10**2]))
        np.testing.assert_allclose(result.psnr_per_image, expected)
        np.testing.assert_allclose(psnr(second, first).psnr, result.psnr)

    def test_exact_images(self):
        images = np.ones((2, 5))
        result = psnr(images, images)
        assert result.psnr == np.inf
        assert '"inf"' in result.to_json()

    def test_peak(self):
        images = np.zeros((2, 5))
        # Data in [-1, 1]: the peak-to-peak value is 2, 6.02 dB more.
        assert psnr(images, images + 0.1, peak=2.0).psnr == pytest.approx(
            20 + 20 * np.log10(2)
        )

    def test_many_images_in_chunks(self, monkeypatch):
        from qlayers.metrics import image_quality

        generator = np.random.default_rng(0)
        first, second = generator.random((2, 50, 6, 6))
        whole = psnr(first, second)
        monkeypatch.setattr(image_quality, "_CHUNK_VALUES", 100)
        np.testing.assert_array_equal(
            psnr(first, second).psnr_per_image, whole.psnr_per_image
        )

    def test_bad_input(self):
        images = np.zeros((2, 5))
        with pytest.raises(ValueError, match="same shape"):
            psnr(images, np.zeros((2, 6)))
        with pytest.raises(ValueError, match="scale"):
            psnr(images.astype(np.uint8), images)
        with pytest.raises(ValueError, match="peak"):
            psnr(images.astype(np.int32), images.astype(np.int32))
        with pytest.raises(ValueError, match="peak"):
            psnr(images, images, peak=0.0)
        with pytest.raises(ValueError, match="NaN"):
            psnr(images, images * np.nan)


class TestStraightThroughGap:
    def test_absolute_value_after_the_mean(self):
        # Differences +2 and -1: |mean| = 0.5, not the mean of absolutes 1.5.
        result = straight_through_gap([1.0, 4.0], [3.0, 3.0])
        assert result.gap == pytest.approx(0.5)
        assert result.soft_loss == pytest.approx(2.5)
        assert result.hard_loss == pytest.approx(3.0)
        assert straight_through_gap([3.0, 3.0], [1.0, 4.0]).gap == result.gap

    def test_functions(self):
        # A soft code 0.8 of a bit against its rounding to 1, squared error to x.
        batches = [np.full(4, 1.0), np.full(4, 0.0)]
        result = straight_through_gap(
            lambda x: np.mean((x - 0.8) ** 2),
            lambda x: np.mean((x - 1.0) ** 2),
            iter(batches),
        )
        # soft: (0.04 + 0.64) / 2, hard: (0 + 1) / 2.
        assert result.gap == pytest.approx(0.5 - 0.34)
        assert result.settings["batches"] == 2

    def test_discrete_model_has_no_gap(self):
        losses = np.random.default_rng(0).random(10)
        assert straight_through_gap(losses, losses).gap == 0.0

    def test_keras_tensors(self):
        import keras

        result = straight_through_gap(
            lambda x: keras.ops.sum(x), lambda x: keras.ops.sum(x) + 1, [np.ones(3)]
        )
        assert result.gap == pytest.approx(1.0)

    def test_bad_input(self):
        with pytest.raises(ValueError, match="both be functions"):
            straight_through_gap([1.0], lambda x: x)
        with pytest.raises(ValueError, match="batches"):
            straight_through_gap(lambda x: x, lambda x: x)
        with pytest.raises(ValueError, match="`batches` is empty"):
            straight_through_gap(lambda x: x, lambda x: x, [])
        with pytest.raises(ValueError, match="same batches"):
            straight_through_gap([1.0], [1.0, 2.0])
        with pytest.raises(ValueError, match="`soft` holds"):
            straight_through_gap([np.nan], [1.0])
        with pytest.raises(ValueError, match="`hard` must hold"):
            straight_through_gap([1.0], [[1.0]])


def test_psnr_that_wraps_around_at_256():
    """Tripod's: 16 levels off count as none, 17 as a squared error of 289 - 256 = 33.

    A difference of -1 is 255, whose square 65025 = 254 * 256 + 1 is 1 again.
    """
    images = np.full((4, 2, 2, 1), 100, np.uint8)
    off = np.array([16, 17, -1, 1]).reshape(4, 1, 1, 1)
    result = psnr(images, (images + off).astype(np.uint8), variant="uint8_overflow")
    np.testing.assert_allclose(result.mse_per_image * 255**2, [0, 33, 1, 1])
    assert result.psnr_per_image[0] == np.inf
    # Floats are cut to bytes, not rounded.
    ones = np.full((1, 2, 2, 1), 100.9 / 255)
    cut = psnr(ones, np.full((1, 2, 2, 1), 101.1 / 255), variant="uint8_overflow")
    assert cut.mse * 255**2 == pytest.approx(1.0)
    with pytest.raises(ValueError, match="in \\[0, 1\\]"):
        psnr(ones, 2 * ones + 1, variant="uint8_overflow")
