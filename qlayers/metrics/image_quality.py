"""Reconstruction quality: mean squared error and peak signal-to-noise ratio."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qlayers.metrics._checks import FloatArray, IntArray, check_choice
from qlayers.metrics.bootstrap import Bootstrap, add_intervals
from qlayers.metrics.metric_result import MainScore, MetricResult

# Images are converted this many values at a time, so that a stack of uint8 images
# does not need eight times its memory.
_CHUNK_VALUES = 2**24
_VARIANTS = ("exact", "uint8_overflow")


@dataclass(frozen=True, eq=False, kw_only=True)
class PSNRResult(MainScore, MetricResult):
    """Peak signal-to-noise ratio of reconstructions.

    Attributes:
        psnr: Mean over images, in dB; infinite if any image is exact.
        mse: Mean squared error, in squared units of the peak.
        psnr_per_image: (images,).
        mse_per_image: (images,).
    """

    title = "PSNR"
    score_names = ("psnr", "mse")

    psnr: float
    mse: float
    psnr_per_image: FloatArray
    mse_per_image: FloatArray


def psnr(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    peak: float | None = None,
    variant: str = "exact",
    bootstrap: Bootstrap | int | None = None,
) -> PSNRResult:
    """Compares images with their reconstructions, in double precision.

    Each image has its own ratio, -10 log10(mse / peak²), and the ratios are averaged.
    Integers are converted before they are subtracted: taken in uint8, differences
    wrap around and an error of 16 levels counts as none.

    Args:
        x: (images, ...) originals.
        y: (images, ...) reconstructions of the same shape and scale.
        peak: The largest possible value; by default 255 for uint8 and 1 for floats.
        variant: `"uint8_overflow"` repeats the PSNR behind Tripod's thresholds: both
            images are cut to bytes, and differences and squares wrap around at 256.
            It is too high as soon as a pixel is off by 16 levels. The images must be
            uint8, or floats in [0, 1].
        bootstrap: Number of resamples, or a `Bootstrap`, for confidence intervals.

    Returns:
        A `PSNRResult`; `float(result)` is the ratio.

    Example:
        >>> float(psnr(images, decoder(encoder(images))))

    Reference:
        Hsu et al. 2023, section 5; Hsu et al. 2024, Tripod, section 4.1 and its
        public code (`"uint8_overflow"`).
    """
    check_choice(variant, _VARIANTS, "variant")
    first, second = np.asarray(x), np.asarray(y)
    _check(first, second)
    wraps = variant == "uint8_overflow"
    if wraps:
        first, second = _as_bytes(first), _as_bytes(second)
    top = _peak(first, second) if peak is None else float(peak)
    if not top > 0:
        raise ValueError(f"`peak` must be positive; received {peak!r}.")
    errors = _mean_squared_errors(first, second, wraps) / top**2
    if not np.isfinite(errors).all():
        raise ValueError("`x` or `y` holds NaN or infinite values.")

    def score(rows: IntArray | slice) -> PSNRResult:
        part = errors[rows]
        with np.errstate(divide="ignore"):
            ratios = -10 * np.log10(part)
        return PSNRResult(
            psnr=float(ratios.mean()),
            mse=float(part.mean()),
            psnr_per_image=ratios,
            mse_per_image=part,
            settings={"peak": top, "images": len(part), "variant": variant},
        )

    return add_intervals(
        score(slice(None)), score, len(errors), bootstrap, bounds=(-np.inf, np.inf)
    )


def _check(first: npt.NDArray[np.generic], second: npt.NDArray[np.generic]) -> None:
    if first.shape != second.shape or first.ndim < 2 or first.size == 0:
        raise ValueError(
            "`x` and `y` must have the same shape (images, ...); received "
            f"{first.shape} and {second.shape}."
        )
    if first.dtype.kind != second.dtype.kind and "u" in (
        first.dtype.kind + second.dtype.kind
    ):
        raise ValueError(
            "`x` and `y` must have the same scale, but one is unsigned integers: "
            f"received {first.dtype} and {second.dtype}. Divide the integers by 255."
        )


def _peak(first: npt.NDArray[np.generic], second: npt.NDArray[np.generic]) -> float:
    if first.dtype == np.uint8:
        return 255.0
    if first.dtype.kind in "iu" or second.dtype.kind in "iu":
        raise ValueError(
            f"`peak` must be given for images of dtype {first.dtype}: only uint8 (255) "
            "and floats (1) have a default."
        )
    return 1.0


def _as_bytes(images: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    """Images as Tripod's code stores them: 255 times the pixel, cut off."""
    if images.dtype == np.uint8:
        return images.astype(np.uint8, copy=False)
    if images.dtype.kind != "f" or not (images.min() >= 0 and images.max() <= 1):
        raise ValueError(
            '`variant="uint8_overflow"` needs uint8 images or floats in [0, 1]; '
            f"received {images.dtype}."
        )
    return (255 * images.astype(np.float32)).astype(np.uint8)


def _mean_squared_errors(
    first: npt.NDArray[np.generic], second: npt.NDArray[np.generic], wraps: bool
) -> FloatArray:
    images = len(first)
    errors = np.empty(images)
    chunk = max(1, _CHUNK_VALUES * images // first.size)
    for start in range(0, images, chunk):
        rows = slice(start, start + chunk)
        size = len(first[rows])
        kind = np.uint8 if wraps else np.float64
        difference = first[rows].astype(kind) - second[rows].astype(kind)
        errors[rows] = (difference.reshape(size, -1) ** 2).mean(axis=1)
    return errors
