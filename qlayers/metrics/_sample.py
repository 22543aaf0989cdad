"""Checked sources and latents with the matrices that several scores share."""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers.metrics import information
from qlayers.metrics._checks import (
    BoolArray,
    FloatArray,
    IntArray,
    check_latents,
    check_same_length,
    check_sources,
)


class Sample:
    """One evaluation sample; each matrix is computed once, when first asked for.

    Args:
        sources: (samples, n_s) integer class labels.
        latents: (samples, n_z) numbers or integer codes.
    """

    def __init__(self, sources: Any, latents: Any) -> None:
        self.sources: IntArray = check_sources(sources)
        self.latents: npt.NDArray[Any] = check_latents(latents)
        check_same_length(self.sources, self.latents)
        self._information: dict[int | None, FloatArray] = {}
        self._bins: dict[int, IntArray] = {}

    @property
    def size(self) -> int:
        return len(self.sources)

    @property
    def num_sources(self) -> int:
        return self.sources.shape[1]

    @property
    def num_latents(self) -> int:
        return self.latents.shape[1]

    @property
    def shape_settings(self) -> dict[str, int]:
        return {
            "samples": self.size,
            "sources": self.num_sources,
            "latents": self.num_latents,
        }

    def rows(self, rows: IntArray) -> "Sample":
        """The same columns for some of the samples."""
        return Sample(self.sources[rows], self.latents[rows])

    @functools.cached_property
    def source_symbols(self) -> IntArray:
        return information.symbol_table(self.sources)

    @functools.cached_property
    def latent_symbols(self) -> IntArray:
        return information.symbol_table(self.latents)

    @functools.cached_property
    def source_entropy(self) -> FloatArray:
        return information.entropy(self.source_symbols)

    @functools.cached_property
    def varying(self) -> BoolArray:
        """Sources with more than one value; the others cannot be scored."""
        return self.source_entropy > 0

    @functools.cached_property
    def real_latents(self) -> FloatArray:
        return self.latents.astype(np.float64)

    @functools.cached_property
    def standardized(self) -> FloatArray:
        return standardize(self.real_latents)

    def mutual_information(self, num_bins: int | None) -> FloatArray:
        """(n_s, n_z) in nats; latents in equal-width bins, or as symbols if None."""
        if num_bins not in self._information:
            self._information[num_bins] = information.mutual_information(
                self.source_symbols, self.latent_bins(num_bins)
            )
        return self._information[num_bins]

    def latent_bins(self, num_bins: int | None) -> IntArray:
        """(samples, n_z) latents in equal-width bins, or as symbols if None."""
        if num_bins is None:
            return self.latent_symbols
        if num_bins not in self._bins:
            bins = information.equal_width_bins(self.latents, num_bins)
            self._bins[num_bins] = bins
        return self._bins[num_bins]

    @functools.cached_property
    def shared_information(self) -> FloatArray:
        """(n_s, n_s) in nats, between the sources."""
        return information.shared_information(self.source_symbols)

    def constant_notes(self) -> tuple[str, ...]:
        """What to tell the reader about sources that do not vary."""
        return constant_notes(self.varying)


def constant_notes(varying: BoolArray) -> tuple[str, ...]:
    """What to tell the reader about columns of sources that do not vary."""
    if varying.all():
        return ()
    columns = ", ".join(map(str, np.flatnonzero(~varying)))
    return (f"constant sources left out: {columns}",)


def varying_columns(columns: FloatArray) -> BoolArray:
    """Columns of more than one number, up to rounding."""
    # A mean of equal numbers can miss them by a last digit; that is not spread.
    return columns.std(axis=0) > 1e-12 * np.abs(columns).max(axis=0)


def standardize(columns: FloatArray) -> FloatArray:
    """Zero mean and unit (population) variance; constant columns become 0."""
    centred = columns - columns.mean(axis=0)
    varying = varying_columns(columns)
    return np.where(varying, centred / np.where(varying, columns.std(axis=0), 1.0), 0.0)


def split(
    samples: int, test_size: float | int, seed: int, train_size: int | None = None
) -> tuple[IntArray, IntArray]:
    """Train and test rows, the same as scikit-learn's `train_test_split`.

    Args:
        samples: Number of rows.
        test_size: Fraction of test rows below 1, or their number.
        seed: Seed of the order.
        train_size: Number of training rows; all others by default.
    """
    whole = isinstance(test_size, (int, np.integer)) and test_size >= 1
    if not whole and not 0 < test_size < 1:
        raise ValueError(
            "`test_size` is the fraction of test samples, between 0 and 1, or their "
            f"number; received {test_size!r}."
        )
    tests = int(test_size) if whole else int(np.ceil(test_size * samples))
    if tests >= samples:
        raise ValueError(
            f"`test_size`={test_size} leaves no training samples out of {samples}. "
            "Trees need samples to train on and others to test: pass more."
        )
    trained = samples - tests
    if train_size is not None:
        if not 1 <= train_size <= trained:
            raise ValueError(
                f"`train_size`={train_size} and {tests} test samples do not fit into "
                f"{samples} samples."
            )
        trained = int(train_size)
    order = np.random.RandomState(seed).permutation(samples)
    return order[tests : tests + trained], order[:tests]
