"""The grid of factor values behind a dataset."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class FactorSpace:
    """A complete grid of factor values, numbered with the last factor fastest.

    Args:
        names: Factor names, in the order of the published file.
        sizes: Number of values of each factor.
        values: Optional readable names of the values, one tuple per factor; an
            empty tuple where a factor's values have no names.

    Example:
        >>> space = FactorSpace(("hue", "shape"), (10, 4))
        >>> space.index_of([[1, 2]])
        array([6])
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    values: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if not self.names or len(self.names) != len(self.sizes):
            raise ValueError(
                f"Expected one size per factor, received names={self.names} and "
                f"sizes={self.sizes}."
            )
        if len(set(self.names)) != len(self.names) or min(self.sizes) < 1:
            raise ValueError(
                "Factor names must differ and sizes must be positive, received "
                f"names={self.names} and sizes={self.sizes}."
            )
        for name, size, values in zip(
            self.names, self.sizes, self.values, strict=False
        ):
            if values and len(values) != size:
                raise ValueError(
                    f"Factor {name!r} has {size} values but {len(values)} names: "
                    f"{values}."
                )

    @property
    def num_factors(self) -> int:
        return len(self.sizes)

    @property
    def num_combinations(self) -> int:
        return math.prod(self.sizes)

    def factor_index(self, factor: int | str) -> int:
        """Position of a factor given by name or number."""
        if isinstance(factor, str):
            if factor not in self.names:
                raise ValueError(
                    f"Unknown factor {factor!r}; the factors are {self.names}."
                )
            return self.names.index(factor)
        if not 0 <= factor < self.num_factors:
            raise ValueError(
                f"Factor {factor} is out of range; there are {self.num_factors}: "
                f"{self.names}."
            )
        return int(factor)

    def check_sources(self, sources: npt.ArrayLike) -> IntArray:
        """Returns the sources as (n, factors) int64 or says what is wrong with them."""
        array = np.asarray(sources)
        if array.ndim != 2 or array.shape[1] != self.num_factors:
            raise ValueError(
                f"Sources must have shape (n, {self.num_factors}), one column for each "
                f"of {self.names}; received shape {array.shape}."
            )
        if not np.issubdtype(array.dtype, np.integer):
            raise ValueError(
                f"Sources are integer value indices, received dtype {array.dtype}."
            )
        wrong = np.any((array < 0) | (array >= np.array(self.sizes)), axis=0)
        if wrong.any():
            column = int(np.argmax(wrong))
            raise ValueError(
                f"Factor {self.names[column]!r} has values 0 to "
                f"{self.sizes[column] - 1}, received {array[:, column].min()} to "
                f"{array[:, column].max()}."
            )
        return array.astype(np.int64)

    def index_of(self, sources: npt.ArrayLike) -> IntArray:
        """Image numbers of sources (n, factors)."""
        columns = tuple(self.check_sources(sources).T)
        return np.ravel_multi_index(columns, self.sizes).astype(np.int64)

    def sources_of(self, index: npt.ArrayLike) -> IntArray:
        """Sources (n, factors) of image numbers (n,)."""
        array = np.asarray(index)
        if array.size and (array.min() < 0 or array.max() >= self.num_combinations):
            raise ValueError(
                f"Image numbers run from 0 to {self.num_combinations - 1}, received "
                f"{array.min()} to {array.max()}."
            )
        return np.stack(np.unravel_index(array, self.sizes), axis=-1).astype(np.int64)

    def value_name(self, factor: int | str, value: int) -> str:
        """Readable name of one value of a factor."""
        position = self.factor_index(factor)
        names: Sequence[str] = self.values[position] if self.values else ()
        return names[value] if names else str(value)
