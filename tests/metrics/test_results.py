"""Text, JSON, intervals, plots, progress, evaluation as a whole, and bad input."""

import functools
import itertools
import json
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import stats

from qlayers import metrics
from qlayers.metrics import (
    Bootstrap,
    dci,
    dci_es,
    evaluate,
    infomec,
    mcc,
    mig,
    model_agreement,
    modularity,
    plot_importance,
    plot_nmi,
    psnr,
    sample_efficiency,
    sap,
    straight_through_gap,
)
from qlayers.metrics._progress import Progress
from tests.metrics.samples import noisy

SOURCES, LATENTS = noisy((3, 4, 5), samples=400)

ARRAY_METRICS = {
    "infomec": lambda s, z, **kw: infomec(s, z, discrete_latents=False, **kw),
    "mig": mig,
    "modularity": modularity,
    "sap": sap,
    "mcc": mcc,
    "dci": dci,
    "sample_efficiency": lambda s, z, **kw: sample_efficiency(
        s,
        z,
        estimators=("logistic_regression",),
        train_sizes=(20, 200),
        test_samples=100,
        **kw,
    ),
}


class TestText:
    @pytest.mark.parametrize("name", ARRAY_METRICS)
    def test_str_and_json(self, name, tmp_path):
        result = ARRAY_METRICS[name](SOURCES, LATENTS)
        text = str(result)
        for score, value in result.scores().items():
            assert score in text
            assert f"{value:.4f}" in text
        path = tmp_path / "result.json"
        assert result.to_json(path) == path.read_text().rstrip("\n")
        loaded = json.loads(path.read_text())
        assert loaded["metric"] == result.title
        assert loaded["settings"]["samples"] == 400
        assert loaded["qlayers"]
        assert list(tmp_path.iterdir()) == [path]

    def test_json_holds_the_matrices(self):
        result = infomec(SOURCES, LATENTS, discrete_latents=False)
        loaded = json.loads(result.to_json())
        np.testing.assert_allclose(loaded["nmi"], result.nmi)
        assert loaded["active"] == result.active.tolist()

    def test_json_without_numbers(self):
        constant = np.hstack([SOURCES, np.zeros((400, 1), int)])
        loaded = json.loads(mig(constant, LATENTS).to_json())
        assert loaded["gap_per_source"][3] is None

    def test_inactive_latents_are_named(self):
        latents = LATENTS.copy()
        latents[:, 4] = 0
        text = str(infomec(SOURCES, latents, discrete_latents=False))
        assert "inactive latents: 4" in text
        assert "protocol=paper" in text


# Score that is an accuracy on held-out samples, and their number of 900.
HELD_OUT = {
    "dci": ("informativeness", 300),
    "dci, counts": ("informativeness", 450),
    "dci_es": ("informativeness", 300),
    "sap": ("sap", 300),
    "sample_efficiency": ("logistic_regression_accuracy_large", 200),
}
HELD_OUT_METRICS = {
    "dci": functools.partial(dci, estimator="gradient_boosting"),
    "dci, counts": functools.partial(
        dci, estimator="gradient_boosting", test_size=450, train_size=300
    ),
    "dci_es": functools.partial(dci_es, depths=(1, 2), num_trees=1, verbose=False),
    "sap": sap,
    "sample_efficiency": functools.partial(
        sample_efficiency,
        estimators=("logistic_regression",),
        train_sizes=(50, 500),
        test_samples=200,
        verbose=False,
    ),
}


class TestBootstrap:
    def test_mean_has_the_textbook_interval(self):
        # For a mean both methods estimate mean ± 1.96 s / sqrt(n).
        generator = np.random.default_rng(0)
        losses = generator.normal(size=2000)
        half = 1.96 * losses.std() / np.sqrt(2000)
        for method in ("half_sample", "with_replacement"):
            plan = Bootstrap(2000, method=method, verbose=False)
            result = straight_through_gap(losses, losses + 1, bootstrap=plan)
            low, high = result.intervals["soft_loss"]
            assert low == pytest.approx(losses.mean() - half, abs=0.1 * half)
            assert high == pytest.approx(losses.mean() + half, abs=0.1 * half)
            # The gap has no spread at all.
            assert result.intervals["gap"] == pytest.approx((1.0, 1.0))

    def test_odd_sizes_are_rescaled(self):
        losses = np.random.default_rng(1).normal(size=7)
        plan = Bootstrap(20000, verbose=False)
        result = straight_through_gap(losses, losses, bootstrap=plan)
        # Means of 3 of 7 values spread by s^2 (1/3 - 1/7); times 3/4 that is s^2 / 7.
        low, high = result.intervals["soft_loss"]
        deviation = losses.std(ddof=1) / np.sqrt(7)
        subsets = list(itertools.combinations(losses, 3))
        spread = (np.mean(subsets, axis=1) - losses.mean()) * np.sqrt(3 / 4)
        assert spread.std() == pytest.approx(deviation)
        tails = np.quantile(spread, [0.025, 0.975])
        assert low == pytest.approx(losses.mean() - tails[1], abs=0.1 * deviation)
        assert high == pytest.approx(losses.mean() - tails[0], abs=0.1 * deviation)

    def test_coverage_of_a_correlation(self):
        # The true correlation must lie in about 19 of 20 intervals.
        generator = np.random.default_rng(0)
        hits = 0
        for _ in range(100):
            x = generator.normal(size=(300, 1))
            y = 0.6 * x + 0.8 * generator.normal(size=(300, 1))
            plan = Bootstrap(100, verbose=False)
            low, high = mcc(x, y, "pearson", bootstrap=plan).intervals["mcc"]
            hits += low <= 0.6 <= high
        assert 87 <= hits <= 100

    @pytest.mark.parametrize(
        "method",
        ["half_sample", pytest.param("with_replacement", marks=pytest.mark.slow)],
    )
    @pytest.mark.parametrize("name", HELD_OUT)
    def test_accuracy_on_held_out_samples_has_the_binomial_interval(self, name, method):
        """A latent that is the source, four times in five: what is learned is sure."""
        score, tests = HELD_OUT[name]
        generator = np.random.default_rng(0)
        sources = generator.integers(0, 2, (900, 1))
        latents = sources ^ (generator.random((900, 1)) < 0.2)
        plan = Bootstrap(300, method=method, verbose=False)
        result = HELD_OUT_METRICS[name](sources, latents.astype(float), bootstrap=plan)
        low, high = result.intervals[score]
        right = result.scores()[score]
        wanted = 2 * 1.96 * np.sqrt(right * (1 - right) / tests)
        assert high - low == pytest.approx(wanted, rel=0.12)

    @pytest.mark.parametrize("samples", [20, 21, 901])
    @pytest.mark.parametrize("method", ["half_sample", "with_replacement"])
    def test_a_row_stays_in_its_part(self, method, samples):
        """Ten tenths of a sample; three of them train, five test, two are unused."""

        def parts_of(size):
            order = np.random.default_rng(7).permutation(size)
            tenth = size // 10
            return order[: 3 * tenth], order[3 * tenth : 8 * tenth]

        parts = parts_of(samples)
        plan = Bootstrap(5, method=method)
        for rows in plan.draw(samples, parts_of):
            for place, part in zip(parts_of(len(rows)), parts, strict=True):
                assert set(rows[place]) <= set(part)
            if method == "half_sample":
                assert len(set(rows)) == len(rows) == samples // 2

    @pytest.mark.parametrize("name", [n for n in ARRAY_METRICS if n != "dci"])
    def test_every_array_metric(self, name):
        plan = Bootstrap(8, verbose=False)
        result = ARRAY_METRICS[name](SOURCES, LATENTS, bootstrap=plan)
        plain = ARRAY_METRICS[name](SOURCES, LATENTS)
        assert result.scores() == plain.scores()
        assert set(result.intervals) == set(result.scores())
        for score, (low, high) in result.intervals.items():
            assert 0 <= low <= high
            assert low <= result.scores()[score] + 0.1
        assert "8 x half_sample" in str(result)
        first = next(iter(result.intervals.values()))
        assert f"[{first[0]:.4f}, {first[1]:.4f}]" in str(result)

    def test_dci_and_images_and_models(self):
        plan = Bootstrap(2, verbose=False)
        assert set(dci(SOURCES, LATENTS, bootstrap=plan).intervals) == {
            "disentanglement",
            "completeness",
            "informativeness",
        }
        images = np.random.default_rng(0).random((10, 4))
        assert set(psnr(images, images * 0.9, bootstrap=2).intervals) == {"psnr", "mse"}
        agreement = model_agreement([LATENTS, -LATENTS], bootstrap=plan)
        assert set(agreement.intervals) == {"model_0", "model_1"}

    def test_few_resamples_give_a_t_interval(self):
        """Of a mean: t with 7 degrees of freedom times its standard error, about."""
        losses = np.random.default_rng(3).normal(size=4000)
        widths = []
        for seed in range(40):
            plan = Bootstrap(8, seed=seed, verbose=False)
            result = straight_through_gap(losses, losses + 1, bootstrap=plan)
            low, high = result.intervals["soft_loss"]
            assert (low + high) / 2 == pytest.approx(result.soft_loss)
            widths.append((high - low) / 2)
        error = losses.std() / np.sqrt(len(losses))
        # The standard deviation of eight is 0.96 of the true one on average.
        wanted = stats.t.ppf(0.975, 7) * 0.965 * error
        assert np.mean(widths) == pytest.approx(wanted, rel=0.15)

    def test_bad_plans(self):
        with pytest.raises(ValueError, match="num_resamples"):
            Bootstrap(1)
        with pytest.raises(ValueError, match="confidence"):
            Bootstrap(10, confidence=1.0)
        with pytest.raises(ValueError, match="method"):
            Bootstrap(10, method="jackknife")
        with pytest.raises(ValueError, match="at least 4 samples"):
            mcc(SOURCES[:3], LATENTS[:3], bootstrap=10)


class TestEvaluate:
    def test_equals_the_single_metrics(self):
        report = evaluate(
            SOURCES, LATENTS, discrete_latents=False, seed=3, protocol="standalone"
        )
        assert set(report.results) == {
            "infomec", "mig", "modularity", "sap", "mcc", "sample_efficiency", "dci",
        }  # fmt: skip
        singles = {
            "infomec": infomec(
                SOURCES, LATENTS, discrete_latents=False, protocol="standalone", seed=3
            ),
            "mig": mig(SOURCES, LATENTS),
            "modularity": modularity(SOURCES, LATENTS),
            "sap": sap(SOURCES, LATENTS, seed=3),
            "mcc": mcc(SOURCES, LATENTS),
            "dci": dci(SOURCES, LATENTS, seed=3),
        }
        for name, single in singles.items():
            assert report[name].scores() == pytest.approx(single.scores(), abs=1e-9)
        assert report.scores()["mig/mig"] == report["mig"].mig
        assert json.loads(report.to_json())["results"]["dci"]["importance"]
        assert "dci/completeness" in str(report)
        assert set(report.seconds) == set(report.results)

    def test_binned_information_is_computed_once(self, monkeypatch):
        from qlayers.metrics import information

        calls = []
        original = information.mutual_information

        def counting(sources, latents):
            calls.append(1)
            return original(sources, latents)

        monkeypatch.setattr(information, "mutual_information", counting)
        evaluate(
            SOURCES,
            LATENTS,
            discrete_latents=True,
            metrics=("infomec", "mig", "modularity"),
        )
        # Once for symbols (InfoMEC), once for bins (both others).
        assert len(calls) == 2

    def test_profiles(self):
        fast = evaluate(SOURCES, LATENTS, discrete_latents=False, metrics="fast")
        assert "dci" not in fast.results
        one = evaluate(SOURCES, LATENTS, discrete_latents=False, metrics="mig")
        assert list(one.results) == ["mig"]
        small = fast["sample_efficiency"].settings
        assert small["train_sizes"] == (26, 267)
        assert small["test_samples"] == 133

    def test_images_add_psnr_and_intervals_are_gathered(self):
        images = np.random.default_rng(0).random((20, 4, 4))
        report = evaluate(
            SOURCES,
            LATENTS,
            discrete_latents=False,
            metrics=("mig",),
            images=images,
            reconstructions=images + 0.1,
            bootstrap=4,
            verbose=False,
        )
        assert report.scores()["psnr/psnr"] == pytest.approx(20.0)
        assert set(report.intervals) == {"mig/mig", "psnr/psnr", "psnr/mse"}

    def test_bad_choices(self):
        with pytest.raises(ValueError, match="metrics"):
            evaluate(SOURCES, LATENTS, discrete_latents=True, metrics="everything")
        with pytest.raises(ValueError, match="metrics"):
            evaluate(SOURCES, LATENTS, discrete_latents=True, metrics=("mig", "fid"))
        with pytest.raises(ValueError, match="at least one"):
            evaluate(SOURCES, LATENTS, discrete_latents=True, metrics=())
        with pytest.raises(ValueError, match="together"):
            evaluate(SOURCES, LATENTS, discrete_latents=True, images=np.zeros((2, 2)))
        with pytest.raises(ValueError, match="psnr"):
            evaluate(SOURCES, LATENTS, discrete_latents=True, metrics="psnr")


class TestPlots:
    def test_nmi_marks_inactive_latents_red(self, tmp_path):
        latents = LATENTS.copy()
        latents[:, [1, 4]] *= 0.01
        result = infomec(SOURCES, latents, discrete_latents=False)
        figure = plot_nmi(result, source_names=["a", "b", "c"])
        axes = figure.axes[0]
        shown = axes.images[0].get_array()
        np.testing.assert_allclose(shown, result.nmi.T)
        colours = [label.get_color() for label in axes.get_yticklabels()]
        assert [c == "red" for c in colours] == [i in (1, 4) for i in range(6)]
        assert [t.get_text() for t in axes.get_xticklabels()] == ["a", "b", "c"]
        figure.savefig(tmp_path / "nmi.png")
        assert (tmp_path / "nmi.png").stat().st_size > 5000

    def test_importance(self):
        latents = LATENTS.copy()
        latents[:, 2] = 0
        result = dci(SOURCES, latents)
        axes = plot_importance(result).axes[0]
        np.testing.assert_allclose(axes.images[0].get_array(), result.importance)
        colours = [label.get_color() for label in axes.get_yticklabels()]
        assert colours.index("red") == 2
        given = plot_importance(result, active=[False] + [True] * 5).axes[0]
        assert given.get_yticklabels()[0].get_color() == "red"

    def test_no_window_is_opened(self):
        import matplotlib.pyplot as plt

        before = plt.get_fignums()
        plot_nmi(infomec(SOURCES, LATENTS, discrete_latents=False))
        assert plt.get_fignums() == before

    def test_bad_names(self):
        result = infomec(SOURCES, LATENTS, discrete_latents=False)
        with pytest.raises(ValueError, match="source_names"):
            plot_nmi(result, source_names=["a"])
        with pytest.raises(ValueError, match="active"):
            plot_importance(dci(SOURCES, LATENTS), active=[True])


class TestProgress:
    def test_silent_when_quick_and_when_asked(self, capfd):
        with Progress(2, "quick") as progress:
            progress.advance()
            progress.advance()
        assert capfd.readouterr().err == ""

    def test_shown_when_long(self, capfd, monkeypatch):
        now = iter([0.0, 2.0, 15.0, 30.0])
        monkeypatch.setattr(time, "monotonic", lambda: next(now))
        with Progress(3, "forest") as progress:
            for _ in range(3):
                progress.advance()
        lines = capfd.readouterr().err.splitlines()
        assert lines[0] == "forest: 1/3, 2 s, 4 s left"
        assert lines[-1] == "forest: 3/3, 30 s, 0 s left"

    def test_switched_off(self, capfd, monkeypatch):
        now = iter([0.0, 2.0])
        monkeypatch.setattr(time, "monotonic", lambda: next(now))
        with Progress(1, "forest", verbose=False) as progress:
            progress.advance()
        assert capfd.readouterr().err == ""


DISCRETE_METRICS = [name for name in ARRAY_METRICS if name != "mcc"]


class TestBadInput:
    @pytest.mark.parametrize("name", ARRAY_METRICS)
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_not_finite(self, name, value):
        latents = LATENTS.copy()
        latents[3, 2] = value
        with pytest.raises(ValueError, match=r"`latents`.*column 2"):
            ARRAY_METRICS[name](SOURCES, latents)

    @pytest.mark.parametrize("name", ARRAY_METRICS)
    def test_different_lengths(self, name):
        with pytest.raises(ValueError, match=r"`sources` and `latents`.*400.*399"):
            ARRAY_METRICS[name](SOURCES, LATENTS[1:])

    @pytest.mark.parametrize("name", DISCRETE_METRICS)
    def test_fractional_sources(self, name):
        with pytest.raises(ValueError, match=r"`sources`.*integer.*column 1"):
            ARRAY_METRICS[name](SOURCES + np.array([0, 0.5, 0]), LATENTS)

    @pytest.mark.parametrize("name", DISCRETE_METRICS)
    def test_text_sources(self, name):
        with pytest.raises(ValueError, match=r"`sources`.*integer"):
            ARRAY_METRICS[name](SOURCES.astype(str), LATENTS)

    @pytest.mark.parametrize("name", ARRAY_METRICS)
    def test_one_sample(self, name):
        with pytest.raises(ValueError, match=r"`sources`.*at least 2 samples"):
            ARRAY_METRICS[name](SOURCES[:1], LATENTS[:1])

    @pytest.mark.parametrize("name", ARRAY_METRICS)
    def test_wrong_rank(self, name):
        with pytest.raises(ValueError, match=r"`sources`.*shape"):
            ARRAY_METRICS[name](SOURCES[:, 0], LATENTS)
        with pytest.raises(ValueError, match=r"`latents`.*shape"):
            ARRAY_METRICS[name](SOURCES, LATENTS[:, :0])

    @pytest.mark.parametrize("name", ARRAY_METRICS)
    def test_text_latents(self, name):
        with pytest.raises(ValueError, match="`latents` must hold numbers"):
            ARRAY_METRICS[name](SOURCES, np.full(LATENTS.shape, "x"))

    def test_whole_floats_are_accepted(self):
        expected = mig(SOURCES, LATENTS).mig
        assert mig(SOURCES.astype(np.float32), LATENTS).mig == expected

    @pytest.mark.parametrize(
        ("call", "name"),
        [
            (lambda: infomec(SOURCES, LATENTS, discrete_latents=True, protocol="x"),
             "protocol"),
            (lambda: infomec(SOURCES, LATENTS, discrete_latents=True, features="x"),
             "features"),
            (lambda: infomec(SOURCES, LATENTS, discrete_latents=True, fit="x"), "fit"),
            (lambda: infomec(SOURCES, LATENTS, discrete_latents=False, n_neighbors=0),
             "n_neighbors"),
            (lambda: infomec(SOURCES, LATENTS, discrete_latents=False,
                             continuous_sources=(9,)), "continuous_sources"),
            (lambda: mcc(SOURCES, LATENTS, "kendall"), "correlation"),
            (lambda: mcc(SOURCES, LATENTS, batch_size=1), "batch_size"),
            (lambda: mcc(SOURCES, LATENTS, batch_size=500), "batch_size"),
            (lambda: mig(SOURCES, LATENTS, num_bins=0), "num_bins"),
            (lambda: mig(SOURCES, LATENTS, num_bins=2.5), "num_bins"),
            (lambda: modularity(SOURCES, LATENTS, dead_latents="x"), "dead_latents"),
            (lambda: sap(SOURCES, LATENTS, test_size=1.0), "test_size"),
            (lambda: sap(SOURCES, LATENTS, penalty=0), "penalty"),
            (lambda: dci(SOURCES, LATENTS, estimator="tree"), "estimator"),
            (lambda: dci(SOURCES, LATENTS, test_size=0), "test_size"),
            (lambda: sample_efficiency(SOURCES, LATENTS), "train_sizes"),
            (lambda: sample_efficiency(SOURCES, LATENTS, train_sizes=(9, 5)),
             "train_sizes"),
            (lambda: sample_efficiency(SOURCES, LATENTS, estimators=("svm",)),
             "estimators"),
            (lambda: model_agreement([LATENTS]), "latents_of_models"),
            (lambda: model_agreement([LATENTS, LATENTS[1:]]), "latents_of_models"),
            (lambda: model_agreement([LATENTS, LATENTS * np.nan]),
             "latents_of_models"),
            (lambda: model_agreement([LATENTS, LATENTS], similarity="x"),
             "similarity"),
            (lambda: model_agreement([LATENTS, LATENTS], active=[[True], [True]]),
             "active"),
        ],
    )  # fmt: skip
    def test_bad_settings_are_named(self, call, name):
        with pytest.raises(ValueError, match=name):
            call()


@pytest.mark.slow
def test_heavy_packages_are_imported_only_when_used():
    # Keras itself may load some of them, so the metrics are looked at after it.
    code = (
        "import sys, keras\n"
        "before = set(sys.modules)\n"
        "import qlayers.metrics\n"
        "names = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "heavy = {'sklearn', 'scipy', 'matplotlib', 'threadpoolctl', 'numba'}\n"
        "assert not names & heavy, names & heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_every_public_name_has_a_docstring():
    for name in metrics.__all__:
        assert getattr(metrics, name).__doc__, name


def test_intervals_of_one_metric_alone():
    found = evaluate(
        SOURCES,
        LATENTS,
        discrete_latents=False,
        metrics=("mig", "sap"),
        bootstrap={"mig": 3},
        verbose=False,
    )
    assert set(found.intervals) == {"mig/mig"}


def test_samples_kept_for_tests():
    """Trees are tested on as many; what has no test does not see that many."""
    found = evaluate(
        SOURCES,
        LATENTS,
        discrete_latents=False,
        metrics=("mig", "infomec", "dci_gradient_boosting", "sap", "sample_efficiency"),
        test_samples=len(SOURCES) // 4,
        verbose=False,
    )
    part = slice(len(SOURCES) - len(SOURCES) // 4)
    assert found["mig"].mig == mig(SOURCES[part], LATENTS[part]).mig
    assert found["infomec"].settings["samples"] == part.stop
    trees = found["dci_gradient_boosting"]
    assert trees.settings["samples"] == len(SOURCES)
    assert trees.settings["test_size"] == len(SOURCES) // 4
    assert found["sap"].settings["test_size"] == pytest.approx(0.25, abs=0.01)
    efficiency = found["sample_efficiency"].settings
    assert efficiency["test_samples"] == len(SOURCES) // 4
    assert efficiency["train_sizes"][1] == len(SOURCES) - len(SOURCES) // 4
    with pytest.raises(ValueError, match="test_samples"):
        evaluate(
            SOURCES, LATENTS, discrete_latents=False, test_samples=len(SOURCES) - 1
        )
