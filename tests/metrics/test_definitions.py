"""Each score against a plain re-statement of its published definition."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss, mutual_info_score
from sklearn.model_selection import KFold, train_test_split
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from qlayers.metrics import (
    dci,
    infomec,
    mcc,
    mig,
    model_agreement,
    modularity,
    plot_nmi,
    sample_efficiency,
    sap,
)
from qlayers.metrics._sample import split
from qlayers.metrics.linear_svm import fit_linear_svm
from tests.metrics.samples import noisy


def binned_information(sources, latents, bins=20):
    table = np.empty((sources.shape[1], latents.shape[1]))
    for i, j in itertools.product(*map(range, table.shape)):
        edges = np.histogram(latents[:, j], bins)[1][:-1]
        codes = np.digitize(latents[:, j], edges)
        table[i, j] = mutual_info_score(sources[:, i], codes)
    return table


def infomec_restated(sources, latents, discrete, protocol):
    """The three protocols, written as loops over scikit-learn calls."""
    n_s, n_z = sources.shape[1], latents.shape[1]
    neighbors = 3 if protocol == "paper" else 10
    nmi = np.empty((n_s, n_z))
    features = latents
    if protocol != "paper":
        features = StandardScaler().fit_transform(latents)
    for i, s in enumerate(sources.T):
        if discrete:
            codes = np.unique(latents, return_inverse=True)[1].reshape(latents.shape)
            nmi[i] = [mutual_info_score(s, z) for z in codes.T]
        else:
            nmi[i] = mutual_info_classif(
                features, s, n_neighbors=neighbors, random_state=0
            )
        nmi[i] /= mutual_info_score(s, s)
    spread = np.ptp(latents, axis=0)
    if protocol == "tripod":
        spread = np.subtract(*np.percentile(latents, [75, 25], axis=0))
    if protocol == "paper":
        active = spread >= spread.max() / 8
    elif discrete:
        active = spread > (0.1 if protocol == "tripod" else 0)
    else:
        active = spread > spread.max() / (10 if protocol == "tripod" else 20)
    used = nmi[:, active]
    columns = used.shape[1]
    modular = np.mean(used.max(axis=0) / used.sum(axis=0))
    compact = np.mean(used.max(axis=1) / used.sum(axis=1))
    if protocol == "paper" or not discrete:
        features = StandardScaler().fit_transform(latents)
    else:
        features = OneHotEncoder(sparse_output=False).fit_transform(latents)
    weight = None if protocol == "paper" else "balanced"
    explicit = []
    for s in sources.T:
        loss = []
        for inputs in (features, np.zeros_like(features)):
            model = LogisticRegression(C=np.inf, class_weight=weight, max_iter=100)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(inputs, s)
            loss.append(log_loss(s, model.predict_proba(inputs)))
        explicit.append(1 - loss[0] / loss[1])
    return (
        (modular - 1 / n_s) / (1 - 1 / n_s),
        np.mean(explicit),
        (compact - 1 / columns) / (1 - 1 / columns),
        nmi,
        active,
    )


@pytest.mark.parametrize("protocol", ["paper", "standalone", "tripod"])
@pytest.mark.parametrize("discrete", [True, False])
def test_infomec(protocol, discrete):
    # Imbalanced sources tell balanced weights apart; a narrow latent tells the
    # activity rules apart.
    sources, latents = noisy((3, 4, 5), samples=1500, values=8 if discrete else None)
    sources[:, 1] = np.where(sources[:, 1] > 1, 0, sources[:, 1])
    latents[:, 2] *= 0.06
    result = infomec(
        sources,
        latents,
        discrete_latents=discrete,
        protocol=protocol,
        fit="scikit_learn",
    )
    expected = infomec_restated(sources, latents, discrete, protocol)
    np.testing.assert_allclose(result.nmi, expected[3], atol=1e-6)
    np.testing.assert_array_equal(result.active, expected[4])
    found = (result.modularity, result.explicitness, result.compactness)
    np.testing.assert_allclose(found, expected[:3], atol=1e-5)


def test_converged_explicitness_is_not_below_the_recipe():
    sources, latents = noisy((3, 4, 5), samples=1500)
    options = {"discrete_latents": False, "balanced": False}
    recipe = infomec(sources, latents, fit="scikit_learn", **options)
    converged = infomec(sources, latents, **options)
    excess = converged.explicitness_per_source - recipe.explicitness_per_source
    assert np.all(excess > -1e-6)


def test_infomec_options_override_the_protocol():
    sources, latents = noisy((3, 4), samples=800, values=5)
    sources[:, 0] = np.where(sources[:, 0] == 2, 1, 0)
    base = infomec(sources, latents, discrete_latents=True)
    one_hot = infomec(sources, latents, discrete_latents=True, features="one_hot")
    assert one_hot.explicitness > base.explicitness
    # Integer codes are one-hot by themselves.
    codes = infomec(sources, latents.astype(int), discrete_latents=True)
    assert codes.explicitness == pytest.approx(one_hot.explicitness, abs=1e-5)
    assert codes.settings["features"] == "one_hot"
    balanced = infomec(sources, latents, discrete_latents=True, balanced=True)
    change = balanced.explicitness_per_source - base.explicitness_per_source
    assert np.all(np.abs(change) > 1e-5)
    near = infomec(sources, latents, discrete_latents=False, n_neighbors=5)
    assert near.settings["n_neighbors"] == 5


def test_infomec_of_continuous_sources():
    sources, latents = noisy((3, 4), samples=800)
    target = latents @ np.arange(4.0) + np.random.default_rng(0).normal(size=800)
    mixed = np.hstack([sources, target[:, None]])
    result = infomec(mixed, latents, discrete_latents=False, continuous_sources=(2,))
    plain = infomec(sources, latents, discrete_latents=False)
    assert result.modularity == pytest.approx(plain.modularity)
    np.testing.assert_array_equal(result.nmi[:2], plain.nmi)
    assert np.isnan(result.nmi[2]).all()
    design = np.hstack([np.ones((800, 1)), latents])
    residual = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
    determination = 1 - residual.var() / target.var()
    assert result.explicitness_per_source[2] == pytest.approx(determination)
    only = infomec(
        target[:, None], latents, discrete_latents=False, continuous_sources=(0,)
    )
    assert only.explicitness == pytest.approx(determination)


def test_infomec_of_continuous_sources_and_codes_that_fit_anything():
    """Held-out R² of a ridge regression, by its normal equations."""
    generator = np.random.default_rng(0)
    codes = np.hstack(
        [generator.integers(0, 3, (90, 1)), generator.integers(0, 30, (90, 4))]
    )
    target = np.array([0.0, 1.0, 5.0])[codes[:, 0]] + 0.1 * generator.normal(size=90)
    unknown = generator.normal(size=90)
    mixed = np.stack([target, codes[:, 0], unknown], axis=1)
    options = {"discrete_latents": True, "continuous_sources": (0, 2)}
    result = infomec(mixed, codes, **options)
    assert any("held-out" in note for note in result.notes)

    columns = [codes == value for value in range(30)]
    inputs = np.concatenate(columns, axis=1).astype(float)
    train, test = train_test_split(np.arange(90), test_size=1 / 3, random_state=0)
    centred = inputs[train] - inputs[train].mean(axis=0)
    weights = np.linalg.solve(
        centred.T @ centred + np.eye(inputs.shape[1]),
        centred.T @ (target[train] - target[train].mean()),
    )
    guess = (inputs[test] - inputs[train].mean(axis=0)) @ weights + target[train].mean()
    expected = 1 - np.mean((target[test] - guess) ** 2) / target.var()
    assert 0.5 < expected < 1
    assert result.explicitness_per_source[0] == pytest.approx(expected, abs=1e-6)
    assert result.explicitness_per_source[2] == 0.0
    assert result.explicitness == pytest.approx(result.explicitness_per_source.mean())


def test_notes_about_mixed_sources_name_their_own_columns():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 3, (200, 2)).astype(float)
    measured = codes[:, :1] + generator.normal(size=(200, 1))
    sources = np.hstack([measured, np.zeros((200, 1)), codes])
    result = infomec(sources, codes, discrete_latents=True, continuous_sources=[0])
    assert "constant sources left out: 1" in result.notes
    assert result.nmi.shape == (4, 2)
    assert np.isnan(result.compactness_per_source).tolist() == [
        True,
        True,
        False,
        False,
    ]
    figure = plot_nmi(result, source_names=["weight", "kind", "hue", "size"])
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels == ["weight", "kind", "hue", "size"]
    only = infomec(measured, codes, discrete_latents=True, continuous_sources=[0])
    assert only.explicitness > 0.3
    assert not any("every score is 0" in note for note in only.notes)
    assert any("no discrete source" in note for note in only.notes)


def test_note_on_dependent_sources_tells_the_modularity_they_would_have():
    """An identity, and the six bits it is written with."""
    identity = np.repeat(np.arange(64), 400)
    bits = (identity[:, None] >> np.arange(6)) & 1
    sources = np.hstack([identity[:, None], bits])
    result = infomec(sources, sources, discrete_latents=True)
    assert result.modularity == pytest.approx(0.714, abs=1e-3)
    (note,) = [note for note in result.notes if "dependent" in note]
    assert "0.71 (InfoM)" in note


def test_mcc_in_batches_has_an_interval():
    """Half samples that are smaller than a batch are one batch."""
    sources, latents = noisy(samples=400)
    result = mcc(sources, latents, batch_size=300, bootstrap=8)
    low, high = result.intervals["mcc"]
    assert low < result.mcc < high


def test_mig():
    sources, latents = noisy()
    table = binned_information(sources, latents)
    gaps = []
    for row, source in zip(table, sources.T, strict=True):
        ordered = sorted(row)
        gaps.append((ordered[-1] - ordered[-2]) / mutual_info_score(source, source))
    result = mig(sources, latents)
    np.testing.assert_allclose(result.mutual_information, table, atol=1e-9)
    assert result.mig == pytest.approx(np.mean(gaps), abs=1e-9)


def test_mig_with_binned_sources():
    generator = np.random.default_rng(0)
    sources = generator.normal(size=(1000, 2))
    latents = sources @ [[1, 0.2], [0, 1]]
    codes = np.stack(
        [np.digitize(s, np.histogram(s, 10)[1][:-1]) for s in sources.T], axis=1
    )
    expected = mig(codes, latents)
    assert mig(sources, latents, source_bins=10).mig == pytest.approx(expected.mig)


def test_modularity():
    sources, latents = noisy()
    latents[:, 3] = 1.0
    table = binned_information(sources, latents)
    scores = []
    for column in table.T:
        theta = column.max()
        if theta == 0:
            scores.append(0.0)
            continue
        template = np.where(column == theta, theta, 0.0)
        deviation = ((column - template) ** 2).sum() / (theta**2 * (len(column) - 1))
        scores.append(1 - deviation)
    found = modularity(sources, latents).modularity
    assert found == pytest.approx(np.mean(scores), abs=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_svm_weights_equal_liblinear(classes):
    # Imbalanced classes: liblinear's weights differ between 2 and more classes.
    generator = np.random.default_rng(classes)
    labels = generator.choice(
        classes, 1000, p=np.arange(1, classes + 1) / sum(range(classes + 1))
    )
    labels[:classes] = np.arange(classes)
    feature = labels + 2 * generator.normal(size=1000) + 3
    model = LinearSVC(
        C=0.01, class_weight="balanced", dual=False, tol=1e-12, max_iter=10**6
    ).fit(feature[:, None], labels)
    ((w, b),) = fit_linear_svm(feature, labels[:, None])
    if classes == 2:
        assert w[0] == pytest.approx(-w[1])
        w, b = w[1:], b[1:]
    np.testing.assert_allclose(w, model.coef_[:, 0], atol=1e-9)
    np.testing.assert_allclose(b, model.intercept_, atol=1e-9)


def test_sap():
    sources, latents = noisy(samples=1500)
    latents[:, 2] = 0.5
    result = sap(sources, latents, test_size=0.25, seed=3)
    rows = train_test_split(np.arange(1500), test_size=0.25, random_state=3)
    expected = np.empty((6, 12))
    for i, j in itertools.product(range(6), range(12)):
        model = LinearSVC(C=0.01, class_weight="balanced", dual=False, tol=1e-10)
        model.fit(latents[rows[0], j : j + 1], sources[rows[0], i])
        expected[i, j] = model.score(latents[rows[1], j : j + 1], sources[rows[1], i])
    np.testing.assert_allclose(result.score_matrix, expected, atol=1e-9)
    ordered = np.sort(expected, axis=1)
    assert result.sap == pytest.approx(np.mean(ordered[:, -1] - ordered[:, -2]))


def test_sap_of_continuous_sources():
    sources, latents = noisy()
    result = sap(sources + 0.5, latents, continuous_sources=True)
    expected = np.array([[np.corrcoef(s, z)[0, 1] ** 2 for z in latents.T]
                         for s in sources.T])  # fmt: skip
    np.testing.assert_allclose(result.score_matrix, expected, atol=1e-12)
    ordered = np.sort(expected, axis=1)
    assert result.sap == pytest.approx(np.mean(ordered[:, -1] - ordered[:, -2]))


def test_sap_of_constant_continuous_sources():
    sources, latents = noisy((5, 4), samples=300)
    known = sources + 0.5
    # The sum of equal numbers is rounded: their mean need not be one of them.
    constant = np.full((300, 1), 0.1)
    plain = sap(known, latents, continuous_sources=True)
    result = sap(
        np.hstack([constant, known]), latents, continuous_sources=True, bootstrap=8
    )
    assert np.isnan(result.gap_per_source[0])
    # A product of matrices may round its sums otherwise with one row more.
    np.testing.assert_allclose(
        result.gap_per_source[1:], plain.gap_per_source, rtol=1e-12
    )
    assert result.sap == pytest.approx(plain.sap, rel=1e-12)
    assert result.notes == ("constant sources left out: 0",)
    assert plain.notes == ()
    assert np.isfinite(result.intervals["sap"]).all()
    nothing = sap(constant, latents, continuous_sources=True)
    assert nothing.sap == 0.0
    assert np.isnan(nothing.gap_per_source).all()


@pytest.mark.parametrize("correlation", ["spearman", "pearson"])
def test_mcc(correlation):
    sources, latents = noisy((5, 4, 6), samples=700)
    function = stats.spearmanr if correlation == "spearman" else stats.pearsonr
    table = np.array([[abs(function(s, z)[0]) for z in latents.T] for s in sources.T])
    best = max(
        np.mean(table[range(3), chosen])
        for chosen in itertools.permutations(range(6), 3)
    )
    result = mcc(sources, latents, correlation)
    np.testing.assert_allclose(result.correlation, table, atol=1e-12)
    assert result.mcc == pytest.approx(best)


def test_mcc_in_batches():
    sources, latents = noisy((5, 4, 6), samples=700)
    parts = [mcc(sources[i : i + 200], latents[i : i + 200]).mcc for i in (0, 200, 400)]
    assert mcc(sources, latents, batch_size=200).mcc == pytest.approx(np.mean(parts))


@pytest.mark.parametrize("estimator", ["random_forest", "gradient_boosting"])
def test_dci(estimator):
    sources, latents = noisy((3, 4), samples=400)
    result = dci(sources, latents, estimator=estimator, seed=5)
    if estimator == "random_forest":
        latents = StandardScaler().fit_transform(latents)
        size = 0.1
    else:
        size = 1 / 3
    rows = train_test_split(np.arange(400), test_size=size, random_state=5)
    importance, accuracy = [], []
    for s in sources.T:
        if estimator == "random_forest":
            model = RandomForestClassifier(
                100, criterion="entropy", max_depth=10, random_state=5
            )
        else:
            model = GradientBoostingClassifier(random_state=5)
        model.fit(latents[rows[0]], s[rows[0]])
        importance.append(np.abs(model.feature_importances_))
        accuracy.append(model.score(latents[rows[1]], s[rows[1]]))
    matrix = np.stack(importance, axis=1)
    np.testing.assert_allclose(result.importance, matrix, atol=1e-12)
    assert result.informativeness == pytest.approx(np.mean(accuracy))
    per_latent = 1 - stats.entropy(matrix.T + 1e-11, base=2)
    per_source = 1 - stats.entropy(matrix + 1e-11, base=4)
    weights = matrix.sum(axis=1) / matrix.sum()
    assert result.disentanglement == pytest.approx(weights @ per_latent)
    weights = matrix.sum(axis=0) / matrix.sum()
    assert result.completeness == pytest.approx(weights @ per_source)


def test_dci_with_lightgbm():
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is an optional extra")
    sources, latents = noisy((3, 4), samples=600)
    result = dci(sources, latents, estimator="lightgbm")
    assert result.settings["lightgbm"] == lightgbm.__version__
    np.testing.assert_allclose(result.importance.sum(axis=0), 1.0)
    boosted = dci(sources, latents, estimator="gradient_boosting")
    # Another estimator of the same kind: near, not equal.
    assert result.informativeness == pytest.approx(boosted.informativeness, abs=0.06)
    order = boosted.importance.argmax(axis=0)
    np.testing.assert_array_equal(result.importance.argmax(axis=0), order)


def test_lightgbm_is_named_when_it_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "lightgbm", None)
    sources, latents = noisy((3, 4), samples=100)
    with pytest.raises(ImportError, match="pip install lightgbm"):
        dci(sources, latents, estimator="lightgbm")


def test_split_is_scikit_learns():
    found = split(101, 0.3, 42)
    expected = train_test_split(np.arange(101), test_size=0.3, random_state=42)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_sample_efficiency():
    sources, latents = noisy((3, 4), samples=900)
    result = sample_efficiency(
        sources,
        latents,
        estimators=("logistic_regression", "gradient_boosting"),
        train_sizes=(50, 500),
        test_samples=400,
        seed=2,
    )
    order = np.random.RandomState(2).permutation(900)
    test, rest = order[:400], order[400:]
    makers = {
        "logistic_regression": lambda: LogisticRegression(tol=1e-10, max_iter=5000),
        "gradient_boosting": lambda: GradientBoostingClassifier(random_state=2),
    }
    for name, make in makers.items():
        accuracy = []
        for size in (50, 500):
            rows = rest[:size]
            models = [make().fit(latents[rows], s[rows]) for s in sources.T]
            accuracy.append(
                np.mean([model.score(latents[test], s[test])
                         for model, s in zip(models, sources.T, strict=True)])
            )  # fmt: skip
        assert list(result.accuracy[name].values()) == pytest.approx(accuracy)
        assert result.efficiency[name] == pytest.approx(accuracy[0] / accuracy[1])


@pytest.mark.slow
def test_sample_efficiency_with_cross_validation():
    sources, latents = noisy((3, 4), samples=300)
    result = sample_efficiency(
        sources[:, :1],
        latents,
        estimators=("logistic_regression_cv",),
        train_sizes=(40, 150),
        test_samples=150,
    )
    order = np.random.RandomState(0).permutation(300)
    test, train = order[:150], order[150:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model = LogisticRegressionCV(Cs=10, cv=KFold(10), max_iter=1000)
        model.fit(latents[train], sources[train, 0])
    expected = model.score(latents[test], sources[test, 0])
    assert result.accuracy["logistic_regression_cv"][150] == pytest.approx(expected)


def test_sample_efficiency_with_unseen_classes():
    # 20 training samples of 12 classes: at most 20 - 12 kinds are seen in part, and
    # what was not seen is never predicted.
    sources = np.random.default_rng(0).integers(0, 12, (1000, 1))
    order = np.random.RandomState(0).permutation(1000)
    test, seen = order[:500], set(sources[order[500:520], 0])
    result = sample_efficiency(
        sources,
        np.eye(12)[sources[:, 0]],
        estimators=("logistic_regression",),
        train_sizes=(20, 400),
        test_samples=500,
    )
    small, large = result.accuracy["logistic_regression"].values()
    assert len(seen) < 12
    # One-hot latents are recognised whenever their class was seen.
    assert small == pytest.approx(np.mean(np.isin(sources[test, 0], list(seen))))
    assert large == 1.0


def relative_strength(table):
    """UDR of one pair: mean over all latents of max^2 / sum."""
    terms = [row.max() ** 2 / row.sum() for row in table]
    terms += [column.max() ** 2 / column.sum() for column in table.T]
    return np.mean(terms)


def test_model_agreement():
    generator = np.random.default_rng(0)
    factors = generator.uniform(size=(600, 3))
    dead = 0.01 * generator.uniform(size=(600, 1))
    good = np.hstack([factors[:, [2, 0, 1]] * [1, -1, 1], dead])
    rotation = np.linalg.qr(generator.normal(size=(3, 3)))[0]
    models = [factors, good, factors @ rotation]
    result = model_agreement(models)
    assert result.active[1].tolist() == [True, True, True, False]
    for i, j in itertools.permutations(range(3), 2):
        first, second = models[i][:, :3], models[j][:, :3]
        table = np.array([[abs(stats.spearmanr(a, b)[0]) for b in second.T]
                          for a in first.T])  # fmt: skip
        assert result.pairwise[i, j] == pytest.approx(relative_strength(table))
    assert result.best in (0, 1)
    assert result.model_scores[2] < result.model_scores[:2].min()
    # Two equal models agree up to their factors' own sampling correlation.
    assert result.pairwise[0, 1] > 0.8


def test_model_agreement_by_lasso():
    from sklearn.linear_model import Lasso

    generator = np.random.default_rng(1)
    first = generator.normal(size=(300, 2))
    second = first @ [[1.0, 0.5], [0.0, 1.0]]
    result = model_agreement([first, second], similarity="lasso")
    scaled = [StandardScaler().fit_transform(latents) for latents in (first, second)]
    table = np.abs(Lasso(alpha=0.1).fit(scaled[0], scaled[1]).coef_).T
    assert result.pairwise[0, 1] == pytest.approx(relative_strength(table))
    assert result.model_scores[1] == pytest.approx(result.pairwise[0, 1])


def test_names_of_codes_do_not_matter():
    """A latent that uses two neighbouring indices of 512 is as active as any other."""
    generator = np.random.default_rng(5)
    sources = generator.integers(0, 2, size=(600, 2))
    names = np.array([[0, 511], [255, 256]])
    codes = names[[0, 1], sources]
    found = infomec(sources, codes, discrete_latents=True)
    renamed = infomec(sources, 511 - 3 * sources, discrete_latents=True)
    assert found.active.tolist() == [True, True]
    assert found.scores() == renamed.scores()
    assert found.compactness == pytest.approx(1.0, abs=0.02)


def _sklearn_explicitness(features, labels, max_steps):
    """The public codes' fit, written out: balanced, unpenalised, stopped early."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        C=np.inf, class_weight="balanced", tol=1e-4, max_iter=max_steps
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = model.fit(features, labels).predict_proba(features)
    given = -np.log(rows[np.arange(len(labels)), labels]).mean()
    nothing = np.log(labels.max() + 1)
    return (nothing - given) / nothing


def _imbalanced_sample():
    generator = np.random.default_rng(4)
    sources = generator.choice(4, size=(400, 2), p=[0.7, 0.1, 0.1, 0.1])
    noise = generator.normal(size=(400, 3))
    return sources, sources @ generator.normal(size=(2, 3)) + 0.3 * noise


def test_protocol_of_the_code_behind_the_papers_tables():
    """Balanced class weights and 100 steps; ranges of 1/8 and three neighbours."""
    sources, latents = _imbalanced_sample()
    latents[:, 2] *= np.ptp(latents[:, 0]) / np.ptp(latents[:, 2]) / 8.001
    found = infomec(sources, latents, discrete_latents=False, protocol="qlae_code")
    scaled = StandardScaler().fit_transform(latents)
    for i, value in enumerate(found.explicitness_per_source):
        wanted = _sklearn_explicitness(scaled, sources[:, i], 100)
        assert value == pytest.approx(wanted, abs=1e-6)
    assert found.active.tolist() == [True, True, False]
    assert found.settings["n_neighbors"] == 3
    text = infomec(sources, latents, discrete_latents=False)
    assert np.abs(text.explicitness - found.explicitness) > 1e-3


def test_protocol_of_the_factor_qvae_code():
    """The published function with three neighbours and 500 steps."""
    sources, latents = _imbalanced_sample()
    codes = np.clip(np.rint(2 * latents), -3, 3)
    found = infomec(sources, codes, discrete_latents=True, protocol="factor_qvae")
    columns = [(codes[:, [j]] == np.unique(codes[:, j])) for j in range(3)]
    one_hot = np.hstack(columns).astype(float)
    for i, value in enumerate(found.explicitness_per_source):
        wanted = _sklearn_explicitness(one_hot, sources[:, i], 500)
        assert value == pytest.approx(wanted, abs=1e-6)
    real = {"discrete_latents": False, "fit": "converged"}
    ours = infomec(sources, latents, protocol="factor_qvae", **real)
    alike = infomec(sources, latents, protocol="standalone", n_neighbors=3, **real)
    assert ours.scores() == alike.scores()


def test_sap_does_not_take_columns_for_true():
    """Other scores name their continuous columns; SAP treats all alike."""
    sources, latents = np.zeros((9, 2), int), np.zeros((9, 2))
    with pytest.raises(ValueError, match="for all sources together"):
        sap(sources, latents, continuous_sources=[1])
