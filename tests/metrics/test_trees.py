"""Boosted trees and forests against scikit-learn's."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from qlayers.metrics import dci
from qlayers.metrics._boosted_trees import BoostedTrees, compiled_trees
from qlayers.metrics._counted import CountedFeatures
from qlayers.metrics._counted_forest import CountedForest, ForestSample, can_count
from tests.metrics.samples import full_grid, noisy

compiled = pytest.mark.skipif(compiled_trees() is None, reason="numba is an extra")
ENGINES = [
    pytest.param(True, marks=compiled, id="numba"),
    pytest.param(False, id="numpy"),
]


@pytest.mark.parametrize("use_numba", ENGINES)
@pytest.mark.parametrize("classes", [2, 3, 6])
def test_boosting_of_continuous_features_is_scikit_learns(use_numba, classes):
    sources, latents = noisy((classes, 4), samples=300, seed=classes)
    labels = sources[:, 0] * 3 - 2
    ours = BoostedTrees(7, use_numba).fit(latents[:200], labels[:200])
    theirs = GradientBoostingClassifier(random_state=7).fit(latents[:200], labels[:200])
    expected = theirs.decision_function(latents[200:]).reshape(100, -1).T
    np.testing.assert_allclose(
        ours.feature_importances_, theirs.feature_importances_, atol=1e-12
    )
    np.testing.assert_allclose(
        ours.decision_function(latents[200:]), expected, atol=1e-9
    )
    np.testing.assert_array_equal(
        ours.predict(latents[200:]), theirs.predict(latents[200:])
    )
    np.testing.assert_array_equal(
        ours.predict_training(), theirs.predict(latents[:200])
    )


@pytest.mark.parametrize("use_numba", ENGINES)
@pytest.mark.parametrize("values", [2, 5, 10])
def test_boosting_of_counted_features_is_scikit_learns(use_numba, values):
    sources, latents = noisy((3, 4), samples=600, values=values)
    labels = sources[:, 0]
    ours = BoostedTrees(1, use_numba).fit(latents, labels).feature_importances_
    theirs = np.stack(
        [
            GradientBoostingClassifier(random_state=seed)
            .fit(latents, labels)
            .feature_importances_
            for seed in range(1, 5)
        ]
    )
    # Equal splits are decided by the seed, and by rounding: allow what they change.
    spread = np.ptp(theirs, axis=0).max()
    assert np.abs(ours - theirs[0]).max() < max(1e-3, spread)


def assert_engines_agree(latents, labels, importance, decision):
    fast = BoostedTrees(2).fit(latents, labels)
    plain = BoostedTrees(2, compiled=False).fit(latents, labels)
    np.testing.assert_allclose(
        fast.feature_importances_, plain.feature_importances_, atol=importance
    )
    np.testing.assert_allclose(
        fast.decision_function(latents),
        plain.decision_function(latents),
        atol=decision,
    )


@compiled
@pytest.mark.parametrize("values", [None, 6])
def test_both_engines_give_the_same_numbers(values):
    sources, latents = noisy((4, 2, 5), samples=400, seed=3, values=values)
    for labels in sources.T:
        assert_engines_agree(latents, labels, importance=1e-10, decision=1e-8)


@pytest.mark.parametrize("use_numba", ENGINES)
def test_boosting_finds_the_last_of_many_counted_features(use_numba):
    """Pairs of 16 values have 76,800 cells in all: more than 16 bits can number."""
    latents = np.random.default_rng(0).integers(0, 16, (400, 600))
    labels = latents[:, -1] > 7
    model = BoostedTrees(0, use_numba).fit(latents, labels)
    theirs = GradientBoostingClassifier(random_state=0).fit(latents, labels)
    assert theirs.feature_importances_[-1] == pytest.approx(1.0)
    np.testing.assert_allclose(
        model.feature_importances_, theirs.feature_importances_, atol=1e-9
    )
    assert np.array_equal(model.predict(latents), labels)
    assert np.array_equal(model.predict_training(), labels)


@compiled
def test_both_engines_give_the_same_numbers_of_many_counted_features():
    generator = np.random.default_rng(1)
    latents = generator.integers(0, 16, (300, 560))
    mixed = latents[:, -1] + latents[:, 0] + 0.1 * generator.normal(size=300)
    labels = mixed > 15
    assert_engines_agree(latents, labels, importance=1e-9, decision=1e-7)


@pytest.mark.parametrize(
    "features, values, samples",
    [(6, 5, 100), (510, 16, 100), (512, 16, 100), (600, 16, 100), (128, 512, 2048)],
)
def test_cells_tell_the_bins_of_every_feature(features, values, samples):
    """Up to 65,536 values in all are counted; their joint cells may be more."""
    columns = np.random.default_rng(2).integers(0, values, (features, samples))
    columns[:, :values] = np.arange(values)
    counted = CountedFeatures.of(columns.astype(np.float32))
    assert counted is not None
    _, groups = np.unique(counted.spans[:, 0], return_inverse=True)
    for feature, (first, last) in enumerate(counted.spans):
        cells = counted.cells[:, groups[feature]].astype(np.int64)
        assert first <= cells.min() and cells.max() < last
        np.testing.assert_array_equal(
            counted.bin_of_cell[feature, cells - first], columns[feature]
        )


@pytest.mark.parametrize("use_numba", ENGINES)
def test_twins_share_importance_as_in_scikit_learn(use_numba):
    sources = full_grid((4, 3), repeats=20)
    latents = sources[:, [0, 0, 1]].astype(float)
    ours = BoostedTrees(0, use_numba).fit(latents, sources[:, 0]).feature_importances_
    theirs = [
        GradientBoostingClassifier(random_state=seed)
        .fit(latents, sources[:, 0])
        .feature_importances_[0]
        for seed in range(6)
    ]
    assert ours[:2].sum() == pytest.approx(1.0, abs=1e-6)
    margin = 3 * np.std(theirs) + 1e-3
    assert np.mean(theirs) - margin < ours[0] < np.mean(theirs) + margin


@pytest.mark.parametrize("use_numba", ENGINES)
def test_constant_and_close_features(use_numba):
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, 200)
    latents = np.stack(
        [
            np.ones(200),
            labels + generator.normal(size=200),
            1 + 1e-8 * generator.normal(size=200),
            np.float32(1) + 6e-8 * generator.integers(0, 4, 200),
        ],
        axis=1,
    )
    ours = BoostedTrees(3, use_numba).fit(latents, labels)
    theirs = GradientBoostingClassifier(random_state=3).fit(latents, labels)
    assert ours.feature_importances_[[0, 2]].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(
        ours.feature_importances_, theirs.feature_importances_, atol=2e-2
    )


@pytest.mark.parametrize("use_numba", ENGINES)
def test_more_constant_features_than_an_array_has_dimensions(use_numba):
    latents = np.zeros((90, 100))
    latents[:, 70] = np.arange(90) % 3
    labels = latents[:, 70] > 1
    model = BoostedTrees(0, use_numba).fit(latents, labels)
    assert model.feature_importances_[70] == pytest.approx(1.0)
    np.testing.assert_array_equal(model.predict(latents), labels)


@pytest.mark.parametrize("use_numba", ENGINES)
@pytest.mark.parametrize("scale", [6.0, 12.0])
def test_boosting_of_saturated_features_is_scikit_learns(use_numba, scale):
    """Runs of close values forbid cuts; equal ones come in no certain order."""
    sources, latents = noisy((4, 3), samples=300, seed=8)
    spread = (latents - latents.mean(axis=0)) / latents.std(axis=0)
    latents = np.tanh(scale * spread)
    ordered = np.sort(latents.astype(np.float32), axis=0)
    assert (np.diff(ordered, axis=0) <= 1e-7).mean() > 0.02
    ours = BoostedTrees(4, use_numba).fit(latents, sources[:, 0])
    theirs = GradientBoostingClassifier(random_state=4).fit(latents, sources[:, 0])
    np.testing.assert_allclose(
        ours.feature_importances_, theirs.feature_importances_, atol=2e-3
    )
    expected = theirs.predict(latents)
    assert np.mean(ours.predict(latents) == expected) > 0.99


def test_nothing_to_split():
    model = BoostedTrees(0).fit(np.ones((20, 2)), np.arange(20) % 3)
    assert model.feature_importances_.tolist() == [0.0, 0.0]
    assert set(model.predict(np.ones((4, 2)))) <= {0, 1, 2}


def test_dci_with_the_sizes_of_the_papers():
    sources, latents = noisy((3, 4), samples=450)
    given = dci(
        sources,
        latents,
        estimator="gradient_boosting",
        train_size=300,
        test_size=150,
        seed=4,
    )
    third = dci(sources, latents, estimator="gradient_boosting", seed=4)
    np.testing.assert_array_equal(given.importance, third.importance)
    assert given.settings["train_size"] == 300
    fewer = dci(sources, latents, train_size=100, test_size=150, seed=4)
    train, test = train_test_split(
        np.arange(450), train_size=100, test_size=150, random_state=4
    )
    assert (len(train), len(test)) == (100, 150)
    scaled = StandardScaler().fit_transform(latents)
    model = RandomForestClassifier(criterion="entropy", max_depth=10, random_state=4)
    model.fit(scaled[train], sources[train, 0])
    np.testing.assert_allclose(fewer.importance[:, 0], model.feature_importances_)
    with pytest.raises(ValueError, match="do not fit"):
        dci(sources, latents, train_size=400, test_size=150)


@pytest.mark.parametrize("estimator", ["random_forest", "gradient_boosting"])
def test_scikit_learn_is_one_option_away(estimator):
    sources, latents = noisy((3, 4), samples=200)
    ours = dci(sources, latents, estimator=estimator)
    theirs = dci(sources, latents, estimator=estimator, backend="scikit_learn")
    np.testing.assert_allclose(ours.importance, theirs.importance, atol=1e-12)
    assert "scikit_learn" in theirs.settings
    with pytest.raises(ValueError, match="backend"):
        dci(sources, latents, backend="other")


@pytest.mark.parametrize("values", [None, 6])
def test_accuracies_of_boosting_are_scikit_learns(values):
    """Training samples are predicted while fitting, test samples afterwards."""
    sources, latents = noisy((3, 4), samples=240, values=values)
    ours, theirs = (
        dci(sources, latents, estimator="gradient_boosting", backend=backend)
        for backend in ("auto", "scikit_learn")
    )
    margin = 1e-12 if values is None else 0.05
    assert ours.informativeness == pytest.approx(theirs.informativeness, abs=margin)
    trained = theirs.informativeness_train
    assert ours.informativeness_train == pytest.approx(trained, abs=margin)


@compiled
@pytest.mark.parametrize("values", [3, 8])
@pytest.mark.slow
def test_forests_of_quantized_latents_are_within_scikit_learns_spread(values):
    sources, latents = noisy((3, 4), samples=900, values=values)
    ours = [dci(sources, latents, seed=seed).scores() for seed in range(4)]
    theirs = [
        dci(sources, latents, seed=seed, backend="scikit_learn").scores()
        for seed in range(4)
    ]
    for name in ours[0]:
        a = np.array([scores[name] for scores in ours])
        b = np.array([scores[name] for scores in theirs])
        # The same seed splits and draws alike: what is left is smaller than the spread.
        assert np.abs(a - b).max() <= max(np.ptp(b), 1e-3), name


@compiled
def test_a_forest_grows_scikit_learns_trees():
    """Counts are integers: without equal gains every tree is the same."""
    sources, latents = noisy((3, 4), samples=2000, values=12)
    model = CountedForest(3).fit(latents, sources[:, 0])
    theirs = RandomForestClassifier(
        criterion="entropy", max_depth=10, random_state=3
    ).fit(latents, sources[:, 0])
    root = [tree.tree_.feature[0] for tree in theirs.estimators_]
    assert np.mean(model._trees[0][:, 1] == root) > 0.95
    thresholds = [tree.tree_.threshold[0] for tree in theirs.estimators_]
    assert np.mean(np.isclose(model._trees[1][:, 1], thresholds)) > 0.95
    np.testing.assert_allclose(
        model.feature_importances_, theirs.feature_importances_, atol=0.01
    )
    agree = model.predict(latents) == theirs.predict(latents)
    assert agree.mean() > 0.97


@compiled
@pytest.mark.parametrize("values, classes", [(3, 2), (30, 12)])
def test_forests_of_few_and_of_many_cells(values, classes):
    """Histograms of 6 cells: every node counts. Of 360: most nodes sort."""
    sources, latents = noisy((classes, 4), samples=800, values=values)
    model = CountedForest(5).fit(latents, sources[:, 0])
    theirs = RandomForestClassifier(
        criterion="entropy", max_depth=10, random_state=5
    ).fit(latents, sources[:, 0])
    np.testing.assert_allclose(
        model.feature_importances_, theirs.feature_importances_, atol=0.015
    )
    # Values between those that were seen fall on the same sides of thresholds.
    between = latents + 0.3 / values
    assert np.mean(model.predict(between) == theirs.predict(between)) > 0.9


@compiled
def test_bootstraps_are_scikit_learns():
    _, latents = noisy((3, 4), samples=500, values=5)
    sample = ForestSample.of(latents, 11)
    theirs = RandomForestClassifier(random_state=11).fit(latents, np.arange(500) % 2)
    for weights, drawn in zip(sample.weights, theirs.estimators_samples_, strict=True):
        np.testing.assert_array_equal(weights, np.bincount(drawn, minlength=500))


def test_forests_of_continuous_latents_are_scikit_learns_own():
    _, latents = noisy((3, 4), samples=300)
    assert not can_count(latents)
