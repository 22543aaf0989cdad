"""Time of a training step of whole models, against PyTorch and against the plain AE.

    python -m benchmarks.train_step                # all cases
    python -m benchmarks.train_step locatello 32   # those whose name has all words
    python -m benchmarks.train_step --threads=1    # as a trial of a sweep runs

For each pair of networks and image size these sides take turns in one run: an
autoencoder (AE) and a method, each as `models.build` makes it, with and without XLA,
and as plain PyTorch (`benchmarks.torch_peers`) with the same layers, parameters, losses
and optimizers, with and without `torch.compile`. The rows with a goal compare the
faster of our two ways (`--jit`) with the faster of PyTorch's two (goal: at most 0.95),
and the method with the AE, which has the same networks (goal for QLAE: 1.03). The
others show which way to choose. Our own models on JAX run in processes of their own,
after the others, at 32x32 only.

Our step is the function that `fit` calls, with every running mean and code count that
the history shows; PyTorch's returns its loss alone. PyTorch gets the faster of its two
memory formats for the AE, named in the row, and its fused Adam. All have the same
number of threads.

Times are medians over interleaved repeats. `best` is the ratio of the shortest times
and `cpu` that of the processor time used, which other programs on the machine disturb
less: OpenMP, unlike TensorFlow's pool, waits for the slowest thread at every operation.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import timing

if TYPE_CHECKING:
    from models.networks.choice import NetworkName

# Threads that wait for work sleep: on a shared machine spinning ones slow both sides.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

REPEATS = 15
GOAL = 0.95
QLAE_GOAL = 1.03
NUM_LATENTS = 12
JAX_SIZE = 32  # of the largest images that are put through JAX
TITLES = {
    "ae": "AE",
    "qlae": "QLAE",
    "tripod": "Tripod",
    "factor_qvae": "FactorQVAE",
    "cliff": "Cliff",
}


@dataclass(frozen=True)
class Case:
    """Networks, image size and batch on which the AE and a method are timed.

    Attributes:
        method: The method beside the AE.
        network: Family of the networks.
        size: Side of the images.
        width: Multiplies channels and units.
        batch: Images on which an autoencoder is trained. FactorQVAE gets as many again
            for its discriminator.
        options: Options of encoder and decoder.
    """

    method: str
    network: "NetworkName"
    size: int
    width: float
    batch: int
    options: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        extra = "".join(f", {k}={v}" for k, v in self.options.items())
        return (
            f"{self.size}x{self.size}, {self.network} width {self.width:g}{extra}, "
            f"batch {self.batch}"
        )

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return (self.size, self.size, 3)

    @property
    def loss(self) -> tuple[str, bool]:
        """Kind of the reconstruction loss, and whether it is a sum over pixels."""
        kind = "mse" if self.method == "factor_qvae" else "bce"
        return kind, self.method == "cliff"

    def images(self, method: str) -> np.ndarray:
        """A batch for the AE or for the method."""
        count = 2 * self.batch if method == "factor_qvae" else self.batch
        rng = np.random.default_rng(0)
        return rng.random((count, *self.image_shape), dtype="float32")


# Widths and batches that keep a step of two threads below about a second.
CASES = (
    Case("qlae", "style", 32, 0.5, 64, {"preserving_layers": 0}),
    Case("qlae", "style", 32, 0.5, 64, {"preserving_layers": 2}),
    Case("tripod", "residual", 32, 0.25, 32),
    Case("factor_qvae", "dalle", 32, 0.125, 64),
    Case("cliff", "locatello", 32, 1.0, 64),
    Case("qlae", "style", 64, 0.5, 32, {"preserving_layers": 0}),
    Case("qlae", "style", 64, 0.5, 32, {"preserving_layers": 2}),
    Case("tripod", "residual", 64, 0.125, 32),
    Case("factor_qvae", "dalle", 64, 0.125, 32),
    Case("cliff", "locatello", 64, 1.0, 64),
)


class CpuClock:
    """A side that also notes the processor time of each of its calls."""

    def __init__(self, side: timing.Side) -> None:
        self.side = side
        self.seconds: list[float] = []

    def __call__(self) -> object:
        start = time.process_time()
        result = self.side()
        self.seconds.append(time.process_time() - start)
        return result


# ------------------------------------------------------------------------- our side


def our_model(case: Case, method: str) -> Any:
    """The method, or the AE with the method's networks and reconstruction loss."""
    import models

    kind, summed = case.loss
    hyperparameters: dict[str, Any] = {}
    if method == "ae":
        hyperparameters = {
            "reconstruction": kind,
            "reduction": "sum" if summed else "mean",
        }
    return models.build(
        method,
        case.image_shape,
        NUM_LATENTS,
        network=case.network,
        width=case.width,
        encoder_options=dict(case.options),
        decoder_options=dict(case.options),
        **hyperparameters,
    )


def our_side(case: Case, method: str, xla: bool = False) -> timing.Side:
    """The step that `fit` runs, on an endless stream of one batch."""
    import tensorflow as tf

    model = our_model(case, method)
    model.compile(jit_compile=xla)
    model.make_train_function()
    step = model.train_function
    batches = iter(tf.data.Dataset.from_tensors(case.images(method)).repeat())
    return lambda: step(batches)["loss"].numpy()


# ------------------------------------------------------------------------- PyTorch


def torch_model(case: Case, method: str) -> Any:
    """The same model in PyTorch."""
    from benchmarks import torch_peers

    return torch_peers.build(
        method,
        case.network,
        case.image_shape,
        NUM_LATENTS,
        case.width,
        loss=case.loss,
        **case.options,
    )


def torch_side(
    case: Case, method: str, memory_format: str, compiled: bool = False
) -> timing.Side:
    """A step in one of PyTorch's memory formats."""
    from benchmarks import torch_peers

    return torch_peers.side(
        torch_model(case, method),
        method,
        case.images(method),
        channels_last=memory_format == "channels_last",
        compiled=compiled,
    )


def faster_format(case: Case) -> str:
    """The memory format in which the AE's step takes less processor time."""
    seconds = {}
    for memory_format in ("contiguous", "channels_last"):
        clock = CpuClock(torch_side(case, "ae", memory_format))
        for _ in range(4):
            clock()
        seconds[memory_format] = min(clock.seconds[1:])
    return min(seconds, key=lambda name: seconds[name])


# ----------------------------------------------------------------------------- JAX


def jax_seconds(case: Case, method: str) -> list[float]:
    """Seconds of our step on JAX, measured by a child process."""
    command = [sys.executable, "-m", "benchmarks.train_step", "--jax", method]
    threads = os.environ.get("OMP_NUM_THREADS", "2")
    flags = f"--xla_cpu_multi_thread_eigen={'false' if threads == '1' else 'true'}"
    result = subprocess.run(
        [*command, str(CASES.index(case))],
        env={**os.environ, "KERAS_BACKEND": "jax", "XLA_FLAGS": flags},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = result.stdout.strip().splitlines()
    return json.loads(lines[-1]) if result.returncode == 0 and lines else []


def print_jax_seconds(case: Case, method: str) -> None:
    """What the child process does."""
    model = our_model(case, method)
    model.compile()
    images = case.images(method)
    times = timing.measure({"jax": lambda: model.train_on_batch(images)}, REPEATS, 2)
    print(json.dumps(times["jax"]))


# ------------------------------------------------------------------------- running


def rows_of(case: Case, with_torch: bool = True) -> list[timing.Row]:
    """Ratios of the AE and the method to their peers, and of the method to the AE."""
    import keras

    keras.utils.set_random_seed(0)
    methods = ("ae", case.method)
    sides: dict[str, timing.Side] = {}
    for method in methods:
        sides[TITLES[method]] = our_side(case, method)
        sides[f"{TITLES[method]}, XLA"] = our_side(case, method, xla=True)
    memory_format = faster_format(case) if with_torch else ""
    for method in methods if with_torch else ():
        title = f"{TITLES[method]}, PyTorch, {memory_format}"
        sides[title] = torch_side(case, method, memory_format)
        sides[f"{title}, compiled"] = torch_side(case, method, memory_format, True)
    clocks = {name: CpuClock(side) for name, side in sides.items()}
    times = timing.measure({**clocks}, repeats=REPEATS, warmup=2)
    rows = []
    for method in methods:
        rows += _rows_of_method(case, TITLES[method], times, clocks)
    goal = {"goal": QLAE_GOAL} if case.method == "qlae" else {}
    rows.append(_row(case, TITLES[case.method], "AE", times, clocks, **goal))
    keras.backend.clear_session()
    for method in methods if case.size <= JAX_SIZE else ():
        rows += _jax_rows(case, method, times)
    return rows


def _rows_of_method(
    case: Case,
    title: str,
    times: dict[str, list[float]],
    clocks: dict[str, CpuClock],
) -> list[timing.Row]:
    """The faster of our two ways against the faster of PyTorch's, then the others."""

    def by_time(names: list[str]) -> list[str]:
        return sorted(names, key=lambda name: statistics.median(times[name]))

    first, second = by_time([title, f"{title}, XLA"])
    peers = by_time([name for name in times if name.startswith(f"{title}, PyTorch")])
    rows = [_row(case, first, peer, times, clocks) for peer in peers]
    if rows:
        rows[0]["goal"] = GOAL
    return [*rows, _row(case, first, second, times, clocks)]


def _jax_rows(
    case: Case, method: str, times: dict[str, list[float]]
) -> list[timing.Row]:
    ours, theirs = TITLES[method], f"{TITLES[method]}, our model on JAX"
    found = jax_seconds(case, method)
    if not found:
        return []
    # Another process, after ours: medians, not turns.
    seconds = {ours: times[ours], theirs: found}
    medians = {name: [statistics.median(of)] for name, of in seconds.items()}
    return [timing.compared(case.name, ours, theirs, medians)]


def _row(
    case: Case,
    ours: str,
    theirs: str,
    times: dict[str, list[float]],
    clocks: dict[str, CpuClock],
    **more: object,
) -> timing.Row:
    # The first calls compile and allocate: the median of all calls is past them.
    cpu = [statistics.median(clocks[name].seconds) for name in (ours, theirs)]
    return timing.compared(
        case.name,
        ours,
        theirs,
        times,
        best=min(times[ours]) / min(times[theirs]),
        ours_cpu_ms=1e3 * cpu[0],
        peer_cpu_ms=1e3 * cpu[1],
        cpu=cpu[0] / cpu[1],
        **more,
    )


def run(words: tuple[str, ...] = (), threads: int = 2) -> list[timing.Row]:
    """All cases whose name contains all of the words."""
    with_torch = True
    try:
        import torch as _  # noqa: F401
    except ImportError:
        with_torch = False
    os.environ["OMP_NUM_THREADS"] = str(threads)
    timing.use_threads(threads)
    rows: list[timing.Row] = []
    for case in CASES:
        if all(word in f"{case.method} {case.name}" for word in words):
            of_case = rows_of(case, with_torch)
            # Long work shows what it has so far.
            timing.print_table(f"{case.method}:", of_case)
            sys.stdout.flush()
            rows += of_case
    if not with_torch:
        skipped = "skipped: torch is not installed (extra `bench`)"
        rows.append({"case": "training steps against PyTorch", "ours": skipped})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="of the cases' names")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jax", nargs=2, help="used by the benchmark")
    given = parser.parse_args()
    if given.jax:
        method, index = given.jax
        print_jax_seconds(CASES[int(index)], method)
        return
    timing.print_table(timing.machine(), run(tuple(given.words), given.threads))


if __name__ == "__main__":
    main()
