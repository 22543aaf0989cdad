"""Constant sources are left out of every score, constant latents know nothing."""

import numpy as np
import pytest

from qlayers.metrics import dci, infomec, irs, mcc, mig, modularity, sap
from qlayers.metrics.information import entropy


def test_a_constant_column_has_no_entropy_at_any_size():
    for size in range(10, 3000):
        column = np.zeros((size, 1), np.int64)
        assert entropy(column) == 0
        assert entropy(column + 3) == 0
        column[0] = 1
        assert entropy(column) > 0


@pytest.mark.parametrize(
    "score",
    [
        lambda s, z: infomec(s, z, discrete_latents=True),
        dci,
        mig,
        sap,
        modularity,
        mcc,
        irs,
    ],
    ids=["infomec", "dci", "mig", "sap", "modularity", "mcc", "irs"],
)
@pytest.mark.parametrize("size", [2946, 2947])
def test_a_constant_source_changes_nothing(score, size):
    generator = np.random.default_rng(0)
    sources = generator.integers(0, 4, (size, 2))
    latents = np.stack([sources[:, 0], 4 * sources[:, 0] + sources[:, 1]], axis=1)
    more = np.column_stack([sources, np.full(size, 7)])
    expected, found = score(sources, latents), score(more, latents)
    assert found.scores() == pytest.approx(expected.scores(), abs=1e-12)
    assert "constant sources left out: 2" in found.notes


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7])
def test_latents_that_do_not_move_are_not_robust(value):
    sources = np.random.default_rng(0).integers(0, 4, (1000, 2))
    result = irs(sources, np.full((1000, 3), value))
    assert float(result) == 0
    assert not result.active.any()
    assert (result.source_of_latent == -1).all()
