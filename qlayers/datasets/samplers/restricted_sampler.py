"""Draws from a part of the factor grid."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from qlayers.datasets.factor_space import FactorSpace, IntArray
from qlayers.datasets.samplers.sampler import Sampler, random_generator

_MAX_ROUNDS = 1000


class RestrictedSampler(Sampler):
    """Draws uniformly from the combinations that are allowed.

    Args:
        allowed: For some factors (name or number) the values that may occur; other
            factors take all of theirs.
        keep: Optional function from sources (n, factors) to a boolean (n,), to leave
            out combinations rather than single values.

    Example:
        >>> no_red_cubes = RestrictedSampler(
        ...     {"object_hue": [0, 1, 2]},
        ...     keep=lambda s: ~((s[:, 2] == 0) & (s[:, 4] == 0)),
        ... )
    """

    def __init__(
        self,
        allowed: Mapping[int | str, Sequence[int]] | None = None,
        keep: Callable[[IntArray], npt.NDArray[np.bool_]] | None = None,
    ) -> None:
        self.allowed = dict(allowed or {})
        self.keep = keep

    def batch(
        self, space: FactorSpace, num_images: int, seed: int, step: int, size: int
    ) -> IntArray:
        self._require_whole_grid(space, num_images)
        generator = random_generator(seed, step)
        choices = self._choices(space)
        found: list[IntArray] = []
        missing = size
        for _ in range(_MAX_ROUNDS):
            drawn = np.stack(
                [
                    values[generator.integers(0, len(values), size)]
                    for values in choices
                ],
                axis=1,
            )
            if self.keep is not None:
                drawn = drawn[np.asarray(self.keep(drawn), bool)]
            found.append(drawn[:missing])
            missing -= len(found[-1])
            if missing == 0:
                return np.concatenate(found)
        raise ValueError(
            f"`keep` left {size - missing} of the {size} combinations asked for after "
            f"{_MAX_ROUNDS} rounds; it allows too few. Restrict `allowed` instead."
        )

    def _choices(self, space: FactorSpace) -> list[IntArray]:
        choices = [np.arange(size, dtype=np.int64) for size in space.sizes]
        for factor, values in self.allowed.items():
            column = space.factor_index(factor)
            picked = np.unique(np.asarray(values, np.int64))
            if not picked.size or picked[0] < 0 or picked[-1] >= space.sizes[column]:
                raise ValueError(
                    f"Factor {space.names[column]!r} takes values 0 to "
                    f"{space.sizes[column] - 1}; received allowed values {values!r}."
                )
            choices[column] = picked
        return choices
