"""The logistic regression reaches the infimum that slower solvers approach."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from qlayers.metrics.explicitness import explicitness_per_source, one_hot
from qlayers.metrics.logistic import fit_logistic
from tests.metrics.samples import full_grid, noisy


def slow_infimum(features, labels, weight):
    """Plain L-BFGS on the weighted loss, run until nothing moves."""
    classes = labels.max() + 1
    inputs = np.hstack([np.ones((len(features), 1)), features])
    target = np.eye(classes)[labels]

    def objective(flat):
        scores = inputs @ flat.reshape(-1, classes)
        top = scores.max(axis=1, keepdims=True)
        log_sum = top + np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
        loss = -(target * (scores - log_sum)).sum(axis=1)
        residual = (np.exp(scores - log_sum) - target) * weight[:, None]
        return weight @ loss, (inputs.T @ residual).ravel()

    start = np.zeros(inputs.shape[1] * classes)
    options = {"maxiter": 20000, "maxfun": 30000, "ftol": 1e-15, "gtol": 1e-10}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    scores = inputs @ found.x.reshape(-1, classes)
    scores -= scores.max(axis=1, keepdims=True)
    losses = np.log(np.exp(scores).sum(axis=1)) - (scores * target).sum(axis=1)
    return found.fun, losses.mean()


@pytest.mark.parametrize("source", [3, 4, 5])
@pytest.mark.parametrize("balanced", [False, True])
def test_loss_is_the_infimum(source, balanced):
    sources, latents = noisy()
    labels = sources[:, source]
    counts = np.bincount(labels)
    weight = np.full(len(labels), 1 / len(labels))
    if balanced:
        weight = 1 / (len(counts) * counts[labels])
    fit = fit_logistic(latents, labels, balanced=balanced)
    _, expected = slow_infimum(latents, labels, weight)
    assert fit.loss == pytest.approx(expected, abs=1e-5)


def test_one_hot_features_with_redundant_columns():
    sources, latents = noisy((3, 4), samples=1000, values=4)
    features = one_hot(latents)
    fit = fit_logistic(features, sources[:, 1])
    weight = np.full(1000, 1 / 1000)
    _, expected = slow_infimum(features, sources[:, 1], weight)
    assert fit.loss == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_separable_with_effort():
    """Few samples have curvature left: steps must not be cut short without end.

    A fit that is right about every sample shows that the infimum is 0.
    """
    sources, latents = noisy(samples=10_000, values=10)
    features, labels = one_hot(latents[:1_000]), sources[:1_000, 5]
    fit = fit_logistic(features, labels)
    assert (fit.predict(features) == labels).all()
    assert fit.loss < 1e-4


def test_not_above_the_reference_recipe():
    sources, latents = noisy(samples=3000)
    for labels in sources.T:
        model = LogisticRegression(C=np.inf, max_iter=100)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(latents, labels)
        log_probability = model.predict_log_proba(latents)
        reference = -log_probability[np.arange(3000), labels].mean()
        assert fit_logistic(latents, labels).loss <= reference + 1e-6


@pytest.mark.parametrize("strength", [0.01, 1.0])
def test_penalised_weights_equal_scikit_learn(strength):
    sources, latents = noisy()
    labels = sources[:, 5]
    model = LogisticRegression(C=strength, tol=1e-10, max_iter=10000)
    model.fit(latents, labels)
    fit = fit_logistic(latents, labels, l2=1 / (strength * 2000), tolerance=1e-14)
    np.testing.assert_allclose(fit.weights, model.coef_, atol=1e-4)
    np.testing.assert_array_equal(fit.predict(latents), model.predict(latents))


def test_separable_classes_reach_zero():
    # Scores 2 t k x - t k^2 single out class k at x = k; t grows without bound.
    labels = np.tile(np.arange(10), 30)
    fit = fit_logistic(labels[:, None].astype(float), labels)
    assert fit.loss < 1e-5


@pytest.mark.parametrize("features", ["scalars", "one_hot"])
@pytest.mark.slow
def test_default_tolerance_ends_within_a_millionth(features):
    sources, latents = noisy(values=6)
    inputs = one_hot(latents) if features == "one_hot" else latents
    for labels in sources.T[3:5]:
        usual = fit_logistic(inputs, labels)
        exact = fit_logistic(inputs, labels, tolerance=1e-11)
        assert usual.iterations <= exact.iterations
        assert usual.loss - exact.loss < 2e-6


def test_weights_are_those_of_the_features_as_given():
    sources, latents = noisy()
    features = latents * np.tile([1, 100], 6) + 5
    fit = fit_logistic(features, sources[:, 4])
    scores = features @ fit.weights.T + fit.intercept
    scores -= scores.max(axis=1, keepdims=True)
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(2000), sources[:, 4]]
    assert losses.mean() == pytest.approx(fit.loss, abs=1e-9)


def test_one_hot_encoding():
    latents = np.array([[0.5, 7], [-1.0, 7], [0.5, 9]])
    expected = [[0, 1, 1, 0], [1, 0, 1, 0], [0, 1, 0, 1]]
    np.testing.assert_array_equal(one_hot(latents), expected)


def test_continuous_source_gives_r_squared():
    generator = np.random.default_rng(0)
    latents = generator.normal(size=(500, 3))
    source = latents @ [1.0, -2.0, 0.0] + 0.5 * generator.normal(size=500)
    found = explicitness_per_source(
        source[:, None], latents, features="scalars", balanced=False,
        continuous_sources=(0,),
    )  # fmt: skip
    design = np.hstack([np.ones((500, 1)), latents])
    projection = design @ np.linalg.pinv(design) @ source
    expected = 1 - np.var(source - projection) / np.var(source)
    assert found[0] == pytest.approx(expected, abs=1e-10)


def test_independent_latents_explain_nothing():
    # On a full grid the class frequencies are the best constant prediction.
    grid = full_grid((4, 3, 5))
    found = explicitness_per_source(
        grid[:, :1].astype(float), grid[:, 1:], features="scalars", balanced=False
    )
    assert found[0] == pytest.approx(0.0, abs=1e-6)
