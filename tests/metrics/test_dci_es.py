"""DCI-ES against its definition, restated one probe at a time."""

import numpy as np
import pytest
from scipy.stats import entropy
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split

from qlayers.metrics import Bootstrap, dci_es
from qlayers.metrics.dci_es import loss_capacity_explicitness
from tests.metrics.samples import full_grid, noisy

DEPTHS = (1, 3, 6)


def restated(sources, latents, regression=()):
    """Scores as the paper and its public code have them."""
    rows = np.arange(len(sources))
    # Rows in the order that scikit-learn's split of row numbers gives.
    train, test = train_test_split(rows, test_size=1 / 3, random_state=0)
    curves, importance = [], []
    for depth in DEPTHS:
        options = {"n_estimators": 8, "max_depth": depth, "random_state": 0}
        losses, columns = [], []
        for j, source in enumerate(sources.T):
            kind = RandomForestRegressor if j in regression else RandomForestClassifier
            forest = kind(**options).fit(latents[train], source[train])
            losses.append(1 - forest.score(latents[test], source[test]))
            columns.append(forest.feature_importances_)
        curves.append(losses)
        importance.append(np.array(columns).T)
    curves = np.array(curves)
    best = int(np.argmax(1 - curves.mean(axis=1)))
    explicit = []
    for j, curve in enumerate(curves.T):
        least = np.array([curve[: i + 1].min() for i in range(len(curve))])
        twice = sum(
            (least[i] + least[i + 1] - 2 * least.min()) * (DEPTHS[i + 1] - DEPTHS[i])
            for i in range(len(DEPTHS) - 1)
        )
        guess = 1.0 if j in regression else 1 - 1 / len(np.unique(sources[:, j]))
        explicit.append(1 - twice / ((DEPTHS[-1] - DEPTHS[0]) * guess))
    matrix = importance[best]
    per_latent = 1 - entropy(matrix.T + 1e-11, base=matrix.shape[1])
    per_source = 1 - entropy(matrix + 1e-11, base=matrix.shape[0])
    return {
        "disentanglement": per_latent @ matrix.sum(1) / matrix.sum(),
        "completeness": per_source @ matrix.sum(0) / matrix.sum(),
        "informativeness": 1 - curves.mean(axis=1)[best],
        "explicitness": np.mean(explicit),
        "size": sources.shape[1] / latents.shape[1],
    }


@pytest.mark.parametrize("regression", [(), (1,)])
def test_scores_are_their_definition(regression):
    sources, latents = noisy((3, 6, 4), samples=400)
    found = dci_es(
        sources,
        latents,
        depths=DEPTHS,
        num_trees=8,
        continuous_sources=regression,
        verbose=False,
    )
    expected = restated(sources, latents, regression)
    assert found.scores() == pytest.approx(expected, abs=1e-9)
    assert found.losses.shape == (3, 3)


def test_real_numbers_among_the_sources():
    sources, latents = noisy((3, 6, 4), samples=400)
    generator = np.random.default_rng(1)
    mixed = sources + [0, 1, 0] * generator.normal(size=(400, 1)) / 7
    options = {"depths": DEPTHS, "num_trees": 8, "verbose": False}
    found = dci_es(mixed, latents, continuous_sources=(1,), **options)
    assert found.scores() == pytest.approx(restated(mixed, latents, (1,)), abs=1e-9)
    with pytest.raises(ValueError, match="column 1 has fractions"):
        dci_es(mixed, latents, **options)
    with pytest.raises(ValueError, match="column 2 has fractions"):
        dci_es(
            mixed + np.array([0, 0, 0.5]), latents, continuous_sources=(1,), **options
        )


def test_continuous_latents_equal_to_the_sources_are_perfect():
    z = np.random.default_rng(0).normal(size=(1500, 2))
    result = dci_es(
        z,
        z,
        continuous_sources=[0, 1],
        depths=(1, 8),
        num_trees=8,
        verbose=False,
        bootstrap=Bootstrap(4, verbose=False),
    )
    assert result.disentanglement > 0.99
    assert result.completeness > 0.99
    assert 0.98 < result.informativeness < 1.0
    assert result.notes == ()
    low, high = result.intervals["informativeness"]
    assert low < result.informativeness < high


def test_a_probe_of_one_cut_explains_what_one_cut_can():
    """The best cut of a uniform variable, in the middle, leaves 1/4 of its variance."""
    z = np.random.default_rng(0).uniform(size=(20_000, 2))
    result = dci_es(
        z, z, continuous_sources=[0, 1], depths=(1, 9), num_trees=4, verbose=False
    )
    np.testing.assert_allclose(result.losses[0], 0.25, atol=0.02)
    # The curve falls from 1/4 to 0 in a straight line, that of guessing from 1.
    np.testing.assert_allclose(result.explicitness_per_source, 0.75, atol=0.02)


def test_continuous_sources_that_cannot_be_scored():
    z = np.random.default_rng(0).normal(size=(200, 3))
    constant = z * [1, 0, 1] + [0, 0.1, 0]
    options = {"depths": (1, 4), "num_trees": 4, "verbose": False}
    result = dci_es(constant, z, continuous_sources=[0, 1, 2], **options)
    assert np.isnan(result.explicitness_per_source).tolist() == [False, True, False]
    assert result.notes == ("constant sources left out: 1",)
    assert result.size == pytest.approx(2 / 3)
    dependent = z[:, [0, 0]] + [0, 1] * z[:, 1:2] / 10
    result = dci_es(dependent, z, continuous_sources=[0, 1], **options)
    assert any("sources 0 and 1 are dependent" in note for note in result.notes)


def test_continuous_sources_of_a_data_frame_have_names():
    pandas = pytest.importorskip("pandas", reason="data frames have names")
    z = np.random.default_rng(0).normal(size=(200, 2))
    options = {"depths": (1, 4), "num_trees": 4, "verbose": False}
    table = pandas.DataFrame({"kind": (z[:, 0] > 0) * 1, "angle": z[:, 1]})
    named = dci_es(table, z, continuous_sources=["angle"], **options)
    numbered = dci_es(table.to_numpy(), z, continuous_sources=[1], **options)
    assert named.scores() == numbered.scores()
    with pytest.raises(ValueError, match="kind, angle"):
        dci_es(table, z, continuous_sources=["hue"], **options)


def test_curves_whose_area_is_known():
    # From guessing to nothing in a straight line: the area of half the rectangle.
    assert loss_capacity_explicitness([1, 2, 3], [0.5, 0.25, 0.0], 0.5) == 0.0
    assert loss_capacity_explicitness([1, 2, 9], [0.3, 0.3, 0.3], 0.5) == 1.0
    # A triangle of 0.4 x 2 under a curve that falls in the first of two stretches.
    falls = loss_capacity_explicitness([1, 3, 5], [0.4, 0.0, 0.0], 0.8)
    assert falls == pytest.approx(1 - 2 * 0.4 / (4 * 0.8))
    # A probe that does worse than a smaller one does not count.
    worse = loss_capacity_explicitness([1, 3, 5], [0.4, 0.0, 0.7], 0.8)
    assert worse == pytest.approx(falls)
    # Everything is learned by the last probe alone: as bad as it gets.
    late = loss_capacity_explicitness([1, 99, 100], [0.5, 0.5, 0.0], 0.5)
    assert late == pytest.approx(1 - 2 * 98.5 / 99)


def test_easy_latents_are_explicit_and_hidden_ones_less():
    grid = full_grid((4, 4), repeats=40)
    easy = dci_es(grid, grid, depths=(3, 9), num_trees=8, verbose=False)
    assert easy.explicitness > 0.99
    assert easy.informativeness > 0.99
    # Both sources in one latent: a tree has to cut 16 values apart.
    hidden = (grid[:, :1] + 4 * grid[:, 1:]) * 7 % 16
    hard = dci_es(grid, hidden, depths=(1, 3, 9), num_trees=8, verbose=False)
    assert hard.informativeness > 0.99
    assert hard.explicitness < 0.9
    assert (easy.size, hard.size) == (1.0, 2.0)


def test_noise_is_explicit_and_the_note_says_so():
    generator = np.random.default_rng(0)
    sources = generator.integers(0, 4, (600, 2))
    latents = generator.normal(size=(600, 3))
    result = dci_es(sources, latents, depths=(1, 4), num_trees=8, verbose=False)
    assert result.informativeness < 0.4
    assert result.explicitness > 0.8
    assert any("better than guessing" in note for note in result.notes)
    informed = dci_es(sources, sources, depths=(2, 4), num_trees=8, verbose=False)
    assert informed.notes == ()


def test_what_cannot_be_scored():
    sources, latents = noisy((3, 4), samples=90)
    constant = np.hstack([sources, np.ones((90, 1), int)])
    result = dci_es(constant, latents, depths=(1, 2), num_trees=4, verbose=False)
    assert np.isnan(result.explicitness_per_source[2])
    assert any("constant" in note for note in result.notes)
    nothing = dci_es(constant[:, 2:], latents, depths=(1, 2), num_trees=4)
    assert nothing.explicitness == nothing.informativeness == 0.0
    for options in ({"depths": (2,)}, {"depths": (2, 1)}, {"num_trees": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            dci_es(sources, latents, **options)
    with pytest.raises(ValueError, match="continuous_sources"):
        dci_es(sources, latents, continuous_sources=(2,))
