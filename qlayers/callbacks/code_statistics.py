"""How codes are used, latent by latent, in TensorBoard."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from qlayers.callbacks.step_callback import StepCallback


class CodeStatistics(StepCallback):
    """Writes usage, perplexity and histograms of the codes of fixed inputs.

    - `codes/usage` and `codes/perplexity`: means over latents; the same with
      `_latent_<j>` for each latent;
    - `codes/latent_<j>`: a histogram with one bucket for each code.

    Args:
        log_dir: Folder for TensorBoard.
        inputs: (samples, ...) fixed inputs.
        codes: Function from inputs to integer codes (samples, latents).
        num_codes: Number of codes of each latent.
        every_n_steps: Training steps between two writings.

    Example:
        >>> counts = model.quantizer.codes_per_latent
        >>> CodeStatistics("runs/0", images, model.codes, counts)
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        inputs: npt.ArrayLike,
        codes: Callable[[Any], Any],
        num_codes: Any,
        every_n_steps: int = 1_000,
    ) -> None:
        super().__init__(log_dir, every_n_steps)
        self.inputs = np.asarray(inputs)
        self.codes = codes
        self.num_codes = tuple(int(count) for count in num_codes)

    def write(self, step: int, logs: Mapping[str, Any]) -> None:
        import tensorflow as tf

        codes = keras.ops.convert_to_numpy(self.codes(self.inputs))
        frequencies = code_frequencies(codes, self.num_codes)
        usage = [float((row > 0).mean()) for row in frequencies]
        perplexity = [perplexity_of(row) for row in frequencies]
        for name, values in (("usage", usage), ("perplexity", perplexity)):
            tf.summary.scalar(f"codes/{name}", float(np.mean(values)))
            for j, value in enumerate(values):
                tf.summary.scalar(f"codes/{name}_latent_{j}", value)
        for j, shares in enumerate(frequencies):
            _write_histogram(f"codes/latent_{j}", shares * len(codes))


def _write_histogram(tag: str, counts: npt.NDArray[np.float64]) -> None:
    """One bar for each code, unused ones too.

    `tf.summary.histogram` spreads its bars between the smallest and the largest code
    that it sees.
    """
    import tensorflow as tf
    from tensorboard.plugins.histogram import metadata

    middle = np.arange(len(counts))
    bars = np.stack([middle - 0.5, middle + 0.5, counts], axis=1)
    described = metadata.create_summary_metadata(display_name=None, description=None)
    tf.summary.write(tag, tf.constant(bars, tf.float64), metadata=described)


def code_frequencies(
    codes: npt.ArrayLike, num_codes: Any
) -> list[npt.NDArray[np.float64]]:
    """Share of the samples that have each code, latent by latent.

    Args:
        codes: (samples, latents) integers.
        num_codes: Number of codes of each latent.
    """
    array = np.asarray(codes)
    if array.ndim != 2 or array.shape[1] != len(num_codes):
        raise ValueError(
            f"`codes` must have shape (samples, {len(num_codes)}); received "
            f"{array.shape}."
        )
    return [
        np.bincount(column, minlength=count) / len(column)
        for column, count in zip(array.T, num_codes, strict=True)
    ]


def perplexity_of(frequencies: npt.NDArray[np.float64]) -> float:
    """`exp(entropy)` of a distribution: how many codes are in use, in effect."""
    used = frequencies[frequencies > 0]
    return float(np.exp(-(used * np.log(used)).sum()))
