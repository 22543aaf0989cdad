"""Data on which a score means little: it says so, or refuses."""

import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from qlayers.metrics import dci, evaluate, infomec, mcc, mig
from qlayers.metrics._parallel import map_threads
from qlayers.metrics.explicitness import explicitness_per_source, one_hot
from qlayers.metrics.logistic import fit_logistic, free_rows, interpolation_loss
from tests.metrics.samples import full_grid, noisy


def noted(result, text):
    return any(text in note for note in result.notes)


def test_more_one_hot_features_than_samples_are_scored_on_held_out_samples():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 64, (200, 4))
    sources = generator.integers(0, 5, (200, 2))
    result = infomec(sources, codes, discrete_latents=True)
    # Codes that know nothing: the fit in sample would give 1.
    assert result.explicitness < 0.1
    assert noted(result, "held-out")
    known = infomec(codes[:, :2] // 13, codes, discrete_latents=True)
    assert known.explicitness > 0.2


def test_too_few_samples_for_one_hot_features_are_noted_with_the_error():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 10, (400, 6))
    sources = generator.integers(0, 5, (400, 2))
    result = infomec(sources, codes, discrete_latents=True)
    note = next(note for note in result.notes if "too high by up to" in note)
    # Codes that know nothing: all explicitness is error.
    size = float(note.split("up to ")[1].split(":")[0])
    assert result.explicitness == pytest.approx(size, rel=0.5)
    assert not noted(
        infomec(*noisy(samples=2000, values=3), discrete_latents=True), "too high"
    )


def test_continuous_latents_declared_discrete_are_noted():
    sources, latents = noisy((3, 4), samples=300)
    result = infomec(sources, latents, discrete_latents=True)
    assert result.modularity == pytest.approx(0.0, abs=1e-9)
    assert noted(result, "discrete_latents=False")
    assert not noted(infomec(sources, latents, discrete_latents=False), "discrete")


def test_interpolation_is_the_infimum():
    generator = np.random.default_rng(1)
    codes = generator.integers(0, 12, (60, 3))
    codes[30:] = codes[:30]
    labels = generator.integers(0, 3, 60)
    labels[:3] = [0, 1, 2]
    inputs = one_hot(codes)
    rows = free_rows(inputs, codes)
    assert rows is not None
    for balanced in (False, True):
        fit = fit_logistic(inputs, labels, balanced=balanced)
        found = interpolation_loss(rows, labels, balanced=balanced)
        assert found == pytest.approx(fit.loss, abs=1e-4)
    assert free_rows(one_hot(codes % 3), codes % 3) is None


def test_clearly_separable_classes_have_no_loss():
    sources = full_grid((4, 4, 4), repeats=5)
    fit = fit_logistic(one_hot(sources), sources[:, 0])
    assert fit.loss == 0.0
    assert (fit.predict(one_hot(sources)) == sources[:, 0]).all()
    # A sample that contradicts another keeps the loss away from 0.
    labels = sources[:, 0].copy()
    labels[0] = 3
    assert fit_logistic(one_hot(sources), labels).loss > 1e-3


def test_many_values_take_no_fit():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 128, (500, 8))
    sources = generator.integers(0, 4, (500, 1)).astype(float)
    found = explicitness_per_source(sources, codes, features="one_hot", balanced=False)
    assert found[0] == pytest.approx(1.0)


def test_evaluate_on_two_samples_is_a_clear_error():
    with pytest.raises(ValueError, match="at least 10 samples"):
        evaluate([[0], [1]], [[0.0], [1.0]], discrete_latents=True)
    with pytest.raises(ValueError, match="leaves no training samples"):
        dci([[0], [1]], [[0.0], [1.0]], test_size=0.9)


def blas_threads():
    return [
        pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"
    ]


def test_overlapping_calls_leave_blas_as_they_found_it():
    before = blas_threads()
    entered = threading.Event()

    def first():
        map_threads(lambda _: (entered.set(), time.sleep(0.3)), [0])

    def second():
        entered.wait(10)
        map_threads(lambda _: time.sleep(0.6), [0])

    threads = [threading.Thread(target=call) for call in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert blas_threads() == before


class Table:
    """As much of a data frame as the metrics use."""

    def __init__(self, **columns):
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return self._columns[name]

    def __len__(self):
        return len(next(iter(self._columns.values())))

    def to_numpy(self):
        return np.stack([np.asarray(c, object) for c in self._columns.values()], 1)


def test_data_frames_with_text_and_names():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 3, (300, 2))
    hue = np.array(["blue", "green", "red"])[codes[:, 0]]
    angle = codes[:, 1] + 0.1 * generator.normal(size=300)
    table = Table(hue=hue, angle=angle, size=codes[:, 1])
    result = infomec(
        table, codes.astype(float), discrete_latents=True, continuous_sources=["angle"]
    )
    plain = np.stack([codes[:, 0], angle, codes[:, 1]], axis=1)
    expected = infomec(
        plain, codes.astype(float), discrete_latents=True, continuous_sources=[1]
    )
    assert result.scores() == pytest.approx(expected.scores())
    with pytest.raises(ValueError, match="hue, angle, size"):
        infomec(table, codes, discrete_latents=True, continuous_sources=["shade"])
    with pytest.raises(ValueError, match="pass a data frame"):
        infomec(plain, codes, discrete_latents=True, continuous_sources=["angle"])


def test_numbers_of_a_data_frame_keep_their_order():
    """Frames that were filled row by row hold numbers as objects."""
    generator = np.random.default_rng(0)
    sources = generator.integers(-20, 20, (400, 1))
    latents = sources + 0.1 * generator.normal(size=(400, 1))
    table = Table(angle=np.array(sources[:, 0].tolist(), object))
    assert float(mcc(table, latents)) == float(mcc(sources, latents))


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_labels_are_no_class_of_their_own(missing):
    codes = np.random.default_rng(0).integers(0, 3, (300, 1))
    hue = np.array(["blue", "green", "red"], object)[codes[:, 0]]
    mig(Table(hue=hue), codes)
    hue[:120] = missing
    with pytest.raises(ValueError, match="'hue' lacks 120 of 300 labels"):
        mig(Table(hue=hue), codes)


def test_missing_labels_of_categories_are_no_class():
    class Categories(list):
        """As much of a pandas column of categories as the metrics use."""

        codes = np.array([0, 1, -1, 0] * 50)

        @property
        def cat(self):
            return self

    column = Categories([1.0, 2.0, np.nan, 1.0] * 50)
    with pytest.raises(ValueError, match="'hue' lacks 50 of 200 labels"):
        mig(Table(hue=column), np.zeros((200, 1), int))


def test_pandas_frames():
    pandas = pytest.importorskip("pandas")
    codes = np.random.default_rng(0).integers(0, 3, (300, 2))
    frame = pandas.DataFrame(
        {
            "hue": pandas.Categorical.from_codes(codes[:, 0], ["a", "b", "c"]),
            "name": np.array(["x", "y", "z"])[codes[:, 1]],
        }
    )
    result = infomec(frame, codes, discrete_latents=True)
    expected = infomec(codes, codes, discrete_latents=True)
    assert result.scores() == pytest.approx(expected.scores())
