"""Speed of the metrics against the scikit-learn recipe of the papers' codes.

    python -m benchmarks.metrics             # some minutes on two cores
    python -m benchmarks.metrics --boosting  # and gradient boosting: many minutes more
    python -m benchmarks.metrics --growth    # seconds at 1,000 to 100,000 samples alone

10,000 samples; 6 sources of up to 15 values x 12 latents (the size of Shapes3D) and
7 sources of up to 40 values x 14 latents (MPI3D). `ratio` is ours / theirs, `speedup`
its inverse; `difference` is the largest between the two sides' values.
"""

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from benchmarks.timing import (
    Row,
    Side,
    compared,
    machine,
    median_ratio,
    print_table,
)
from qlayers.metrics import dci, evaluate, infomec, mcc, mig, sap
from qlayers.metrics._parallel import map_threads
from qlayers.metrics._sample import split, standardize
from qlayers.metrics.explicitness import one_hot
from qlayers.metrics.information import mutual_information, symbol_table
from qlayers.metrics.logistic import fit_logistic
from qlayers.metrics.neighbors import neighbor_information

SIZES = {"6x12": (10, 10, 10, 8, 4, 15), "7x14": (4, 4, 2, 3, 3, 40, 40)}
SAMPLES = 10_000
RECIPE = "scikit-learn recipe"

# At most this ratio, by the start of a case's name.
GOALS = {
    "discrete information": 1 / 5,
    "nearest neighbours": 1 / 10,
    "explicitness": 1 / 3,
    "SAP": 1 / 5,
    "DCI, random forest, quantized": 1 / 5,
    "DCI, random forest": 1.0,
    "DCI, gradient_boosting, quantized": 1 / 20,
    "DCI, gradient_boosting, continuous": 1 / 8,
}


def make_sample(
    sizes: Sequence[int],
    samples: int = SAMPLES,
    values: int | None = None,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Random sources and latents that mix some of them with noise.

    Args:
        sizes: Number of values of each source.
        samples: Number of samples.
        values: Quantize latents to this many values in [-1, 1]; None does not.
        seed: Seed of the random numbers.
    """
    generator = np.random.default_rng(seed)
    sources = np.stack([generator.integers(0, k, samples) for k in sizes], axis=1)
    scaled = (sources - sources.mean(axis=0)) / sources.std(axis=0)
    shape = (len(sizes), 2 * len(sizes))
    mixing = generator.normal(size=shape) * (generator.random(shape) < 0.4)
    noise = generator.normal(size=(samples, shape[1]))
    latents = np.tanh(scaled @ mixing + 0.3 * noise)
    if values is not None:
        latents = np.round((latents + 1) / 2 * (values - 1)) / (values - 1) * 2 - 1
    return sources, latents


def alternate(
    sides: dict[str, Side], repeats: int = 3
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Wall and processor seconds of sides called in turns, after one warm-up each.

    For calls of seconds. Processor time counts all threads and, unlike the clock, is
    not lengthened by what else the machine does.
    """
    wall: dict[str, list[float]] = {name: [] for name in sides}
    processor: dict[str, list[float]] = {name: [] for name in sides}
    for repeat in range(repeats + 1):
        for name, call in sides.items():
            start, started = time.perf_counter(), time.process_time()
            call()
            if repeat:
                wall[name].append(time.perf_counter() - start)
                processor[name].append(time.process_time() - started)
    return wall, processor


def against_recipe(
    case: str,
    ours: Callable[[], np.ndarray],
    theirs: Callable[[], np.ndarray],
    repeats: int = 3,
) -> Row:
    """One table row: both sides' times and how far their values lie apart."""
    values: dict[str, np.ndarray] = {}

    def keep(name: str, call: Callable[[], np.ndarray]) -> Side:
        def run() -> None:
            values[name] = call()

        return run

    sides = {"qlayers": keep("qlayers", ours), RECIPE: keep(RECIPE, theirs)}
    with warnings.catch_warnings():
        # The recipe's fits stop before they converge; that is a finding, see below.
        warnings.simplefilter("ignore")
        wall, processor = alternate(sides, repeats)
    row = compared(case, "qlayers", RECIPE, wall)
    row["speedup"] = 1 / float(row["ratio"])  # type: ignore[arg-type]
    row["processor_speedup"] = 1 / median_ratio(processor["qlayers"], processor[RECIPE])
    row["difference"] = float(np.abs(values["qlayers"] - values[RECIPE]).max())
    row["goal"] = next(
        (g for start, g in GOALS.items() if case.startswith(start)), None
    )
    return row


def discrete_information(name: str) -> Row:
    from sklearn.metrics import mutual_info_score
    from sklearn.preprocessing import LabelEncoder

    sources, latents = make_sample(SIZES[name], values=10)

    def ours() -> np.ndarray:
        return mutual_information(symbol_table(sources), symbol_table(latents))

    def theirs() -> np.ndarray:
        codes = [LabelEncoder().fit_transform(column) for column in latents.T]
        return np.array([[mutual_info_score(s, z) for z in codes] for s in sources.T])

    return against_recipe(f"discrete information {name}", ours, theirs, repeats=7)


def continuous_information(name: str, n_neighbors: int) -> Row:
    from sklearn.feature_selection import mutual_info_classif

    sources, latents = make_sample(SIZES[name])

    def ours() -> np.ndarray:
        return neighbor_information(symbol_table(sources), latents, n_neighbors)

    def theirs() -> np.ndarray:
        # One call per source is kinder than the reference's one per pair.
        return np.stack(
            [
                mutual_info_classif(latents, s, n_neighbors=n_neighbors, random_state=0)
                for s in sources.T
            ]
        )

    case = f"nearest neighbours, k={n_neighbors} {name}"
    return against_recipe(case, ours, theirs)


def explicitness(name: str, features: str) -> Row:
    """Losses of the same objective; `above` and `below` compare them.

    The recipe stops after 100 steps, so its loss may lie well above the infimum:
    `recipe_above` is by how much, at most; `ours_above` is ours over the recipe's,
    which must not exceed 1e-4; `gap` is ours over a fit a thousand times tighter.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    scalars = features == "scalars"
    sources, latents = make_sample(SIZES[name], values=None if scalars else 10)
    inputs = standardize(latents) if scalars else one_hot(latents)

    def ours(tolerance: float = 1e-7) -> np.ndarray:
        def loss(index: int) -> float:
            labels = sources[:, index]
            return fit_logistic(inputs, labels, balanced=True, tolerance=tolerance).loss

        return np.array(map_threads(loss, range(sources.shape[1])))

    def theirs() -> np.ndarray:
        losses = []
        for s in sources.T:
            model = LogisticRegression(
                C=np.inf, class_weight="balanced", tol=1e-4, max_iter=100
            )
            model.fit(inputs, s)
            losses.append(log_loss(s, model.predict_proba(inputs)))
        return np.array(losses)

    row = against_recipe(f"explicitness, {features} {name}", ours, theirs)
    found, exact = ours(), ours(1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recipe = theirs()
    row["ours_above"] = float((found - recipe).max())
    row["recipe_above"] = float((recipe - found).max())
    row["gap"] = float((found - exact).max())
    return row


def separated_predictability(name: str) -> Row:
    from sklearn.svm import LinearSVC

    sources, latents = make_sample(SIZES[name], samples=15_000)
    train, test = split(len(sources), 1 / 3, 0)

    def ours() -> np.ndarray:
        return sap(sources, latents).score_matrix

    def theirs() -> np.ndarray:
        table = np.empty((sources.shape[1], latents.shape[1]))
        for i, s in enumerate(sources.T):
            for j in range(latents.shape[1]):
                model = LinearSVC(C=0.01, class_weight="balanced")
                model.fit(latents[train, j : j + 1], s[train])
                table[i, j] = model.score(latents[test, j : j + 1], s[test])
        return table

    return against_recipe(f"SAP, 10,000 + 5,000 {name}", ours, theirs)


def forests(name: str, values: int | None = None) -> Row:
    from sklearn.ensemble import RandomForestClassifier

    sources, latents = make_sample(SIZES[name], values=values)

    def ours() -> np.ndarray:
        return dci(sources, latents, verbose=False).importance

    def theirs() -> np.ndarray:
        inputs = standardize(latents)
        train, test = split(SAMPLES, 0.1, 0)
        columns = []
        for s in sources.T:
            model = RandomForestClassifier(
                100, criterion="entropy", max_depth=10, random_state=0, n_jobs=-1
            )
            model.fit(inputs[train], s[train])
            model.score(inputs[test], s[test])
            model.score(inputs[train], s[train])
            columns.append(model.feature_importances_)
        return np.stack(columns, axis=1)

    # Two turns of half a minute each tell enough.
    kind = "continuous" if values is None else "quantized"
    case = f"DCI, random forest, {kind}, all cores {name}"
    return against_recipe(case, ours, theirs, repeats=2)


def boosting(name: str, samples: int = SAMPLES, values: int | None = None) -> list[Row]:
    """Gradient boosting as the papers use it, and LightGBM if it is installed.

    `seed_difference` is how far scikit-learn's own importances lie apart for two seeds,
    which decide between equal splits.
    """
    from sklearn.ensemble import GradientBoostingClassifier

    sources, latents = make_sample(SIZES[name], samples, values)
    train, _ = split(samples, 1 / 3, 0)

    def theirs(seed: int = 0) -> np.ndarray:
        def fit(index: int) -> np.ndarray:
            model = GradientBoostingClassifier(random_state=seed)
            model.fit(latents[train], sources[train, index])
            return model.feature_importances_

        return np.stack(map_threads(fit, range(sources.shape[1])), axis=1)

    kind = "continuous" if values is None else "quantized"
    case = f"DCI, {{}}, {kind}, {samples:,} samples {name}"
    reference, *peer = _timed(theirs)
    spread = float(np.abs(theirs(1) - reference).max())
    rows: list[Row] = []
    for estimator in ("gradient_boosting", "lightgbm"):

        def ours(rows: slice = slice(None), estimator: str = estimator) -> np.ndarray:
            return dci(
                sources[rows], latents[rows], estimator=estimator, verbose=False
            ).importance

        try:
            # Loads, and the first time compiles, the loops.
            ours(slice(200))
        except ImportError as error:
            print(error, file=sys.stderr)
            continue
        found, wall, processor = _timed(ours)
        # One run each: the difference is minutes, not noise.
        times = {"qlayers": [wall], RECIPE: [peer[0]]}
        row = compared(case.format(estimator), "qlayers", RECIPE, times)
        row["speedup"] = 1 / float(row["ratio"])  # type: ignore[arg-type]
        row["processor_speedup"] = peer[1] / processor
        row["difference"] = float(np.abs(found - reference).max())
        row["seed_difference"] = spread
        row["goal"] = GOALS.get(f"DCI, {estimator}, {kind}")
        rows.append(row)
    return rows


def _timed(call: Callable[[], np.ndarray]) -> tuple[np.ndarray, float, float]:
    """What a call returns, its seconds and its processor seconds."""
    start, started = time.perf_counter(), time.process_time()
    found = call()
    return found, time.perf_counter() - start, time.process_time() - started


def whole_evaluation() -> list[Row]:
    """`evaluate` without trees, and where its time goes."""
    rows: list[Row] = []
    for name, sizes in SIZES.items():
        for kind, values in (("continuous", None), ("quantized", 10)):
            sources, latents = make_sample(sizes, values=values)

            def run(
                s: np.ndarray = sources, z: np.ndarray = latents
            ) -> dict[str, float]:
                report = evaluate(
                    s,
                    z,
                    discrete_latents=kind == "quantized",  # noqa: B023
                    metrics="fast",
                )
                return dict(report.seconds)

            runs = [run() for _ in range(4)][1:]
            fastest = min(runs, key=lambda seconds: sum(seconds.values()))
            row: Row = {
                "case": f"evaluate, {kind} {name}",
                "seconds": float(np.median([sum(r.values()) for r in runs])),
            }
            rows.append({**row, **fastest})
    return rows


def growth() -> list[Row]:
    """Seconds at 1,000, 10,000 and 100,000 samples, 6 sources x 12 latents."""
    cases: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
        "nearest neighbours": lambda s, z: neighbor_information(s, z),
        "discrete information": lambda s, z: mutual_information(
            symbol_table(s), symbol_table(np.round(z, 1))
        ),
        "InfoMEC, quantized scalars": lambda s, z: infomec(
            s, np.round(z, 1), discrete_latents=True
        ),
        "InfoMEC, continuous": lambda s, z: infomec(s, z, discrete_latents=False),
        "InfoMEC, one-hot": lambda s, z: infomec(
            s, np.round(5 * z), discrete_latents=True, protocol="standalone"
        ),
        "MIG": lambda s, z: mig(s, z),
        "SAP": lambda s, z: sap(s, z),
        "MCC": lambda s, z: mcc(s, z),
        "DCI, random forest": lambda s, z: dci(s, z, verbose=False),
        "evaluate, fast": lambda s, z: evaluate(
            s, z, discrete_latents=False, metrics="fast"
        ),
    }
    rows: list[Row] = []
    for case, call in cases.items():
        seconds: dict[int, float] = {}
        for samples in (1_000, 10_000, 100_000):
            sources, latents = make_sample(SIZES["6x12"], samples)
            times = []
            for _ in range(1 if "forest" in case else 3):
                start = time.perf_counter()
                call(sources, latents)
                times.append(time.perf_counter() - start)
            seconds[samples] = min(times)
        row: Row = {"case": f"growth: {case}"}
        row |= {f"{samples:,}": value for samples, value in seconds.items()}
        row["factor_10k_to_100k"] = seconds[100_000] / seconds[10_000]
        rows.append(row)
    return rows


def run(boosted: bool = False) -> list[Row]:
    """All rows; `boosted` adds gradient boosting, which takes many minutes."""
    steps: list[Callable[[], Row | list[Row]]] = []
    for name in SIZES:
        steps += [
            partial(discrete_information, name),
            partial(continuous_information, name, 3),
            partial(explicitness, name, "scalars"),
            partial(explicitness, name, "one_hot"),
            partial(separated_predictability, name),
        ]
    steps += [partial(continuous_information, "6x12", 10), whole_evaluation]
    steps += [partial(forests, name) for name in SIZES]
    steps += [partial(forests, name, 10) for name in SIZES]
    if boosted:
        steps += [partial(boosting, "6x12", SAMPLES, values) for values in (10, None)]
    rows: list[Row] = []
    start = time.perf_counter()
    for done, step in enumerate(steps, start=1):
        found = step()
        found = found if isinstance(found, list) else [found]
        rows += found
        seconds = time.perf_counter() - start
        print(f"{done}/{len(steps)} after {seconds:.0f} s", file=sys.stderr)
        for row in found:
            print(f"  {_short(row)}", file=sys.stderr)
    return rows


def _short(row: Row) -> str:
    numbers = {key: value for key, value in row.items() if isinstance(value, float)}
    values = ", ".join(f"{key} {value:.3g}" for key, value in numbers.items())
    return f"{row['case']}: {values}"


def main() -> None:
    print(machine())
    if "--growth" in sys.argv[1:]:
        print_table("Growth with the number of samples, seconds", growth())
        return
    rows = run("--boosting" in sys.argv[1:])
    peers = [row for row in rows if "peer" in row]
    whole = [row for row in rows if "seconds" in row]
    print_table("Against scikit-learn", peers)
    print_table("evaluate(metrics='fast'): median seconds, and parts of a run", whole)


if __name__ == "__main__":
    main()
