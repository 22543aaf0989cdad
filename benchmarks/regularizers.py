"""Cost of the regularizers in a training step, and of Cliff's matrix form.

    python -m benchmarks.regularizers        # about eight minutes on two cores

`ratio` is the time of a training step with the regularizer over that of the same
autoencoder without: Tripod's residual networks at full width on small images, FSQ
latents, AdamW. Both sides are plain Keras models and take turns. Cliff's bivariate
term, value and gradient, as one matrix product is compared with the loop over ordered
pairs of latents that evaluates every two-dimensional kernel; `memory` is by how much
each raises the peak of a fresh process.
"""

import itertools
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.timing import (
    Row,
    Side,
    compared,
    machine,
    measure,
    median_ratio,
    peak_growth_of,
    peak_memory_of,
    print_table,
    use_threads,
)

# Stages of the network: two at 16 pixels, three at 32 (four at the paper's 64).
IMAGE_SIZES = (16, 32)
NUM_LATENTS = 12
BATCH = 16
INTERVAL = 16
BATCH_FRACTIONS = (0.5, 0.125)
PLAIN = "plain step"
ALONG = "NHP along coordinates"
# Of the batch: the largest part, in eighths, that keeps the step at 32x32 below twice
# the plain one.
PART_ALONG = 0.375
JACOBIAN = "Jacobian orthogonality"
# Latents and samples of Cliff's image and synthetic experiments.
CLIFF_SIZES = {"d=10, n=64": (10, 64), "d=2, n=5000": (2, 5000)}


def autoencoder_step(
    size: int, regularizer: str | None = None, **settings: Any
) -> Side:
    """A training step of Tripod's autoencoder with at most one regularizer."""
    import keras
    import numpy as np
    from keras import ops

    import qlayers
    from models.networks.residual import (
        residual_decoder,
        residual_encoder,
        residual_inner_layers,
    )

    keras.utils.set_random_seed(0)
    shape = (size, size, 3)
    image = keras.Input(shape)
    h = residual_encoder(shape, NUM_LATENTS)(image)
    z = qlayers.FiniteScalarQuantizer(12, track_usage=None)(h)
    decoder = residual_decoder(NUM_LATENTS, shape)
    if regularizer == "klm":
        z = qlayers.KernelMultiinformation(1e-4)(z, ops.tanh(h))
    if regularizer == "nhp":
        penalty = qlayers.NormalizedHessianPenalty(
            decoder, 1e-2, outputs=residual_inner_layers(shape), **settings
        )
        logits = penalty(z, ops.tanh(h))
    elif regularizer == "jacobian":
        penalty = qlayers.JacobianOrthogonality(decoder, 1e-2, **settings)
        logits = penalty(z, ops.tanh(h))
    else:
        logits = decoder(z)
    model = keras.Model(image, logits)
    model.compile(
        keras.optimizers.AdamW(2e-4, weight_decay=0.0),
        keras.losses.BinaryCrossentropy(from_logits=True),
        jit_compile=False,
    )
    images = np.random.default_rng(0).uniform(size=(BATCH, *shape)).astype("float32")
    return lambda: model.train_on_batch(images, images)


def several(step: Side, count: int) -> Side:
    """`count` steps in one call."""

    def run() -> None:
        for _ in range(count):
            step()

    return run


def step_rows(size: int, repeats: int = 5) -> list[Row]:
    """Training steps with KLM and NHP against the plain step."""
    plain = autoencoder_step(size)
    sides = {
        PLAIN: plain,
        "KLM": autoencoder_step(size, "klm"),
        "NHP": autoencoder_step(size, "nhp"),
        ALONG: autoencoder_step(size, "nhp", directions="coordinates"),
        JACOBIAN: autoencoder_step(size, "jacobian"),
    }
    for part in BATCH_FRACTIONS:
        step = autoencoder_step(size, "nhp", batch_fraction=part)
        sides[f"NHP on {part:g} of the batch"] = step
    few = f"{ALONG}, {PART_ALONG:g} of the batch"
    along = {"directions": "coordinates", "batch_fraction": PART_ALONG}
    sides[few] = autoencoder_step(size, "nhp", **along)
    times = measure(sides, repeats, warmup=2)
    case = f"{size}x{size}, step"
    rows = [compared(case, name, PLAIN, times) for name in sides if name != PLAIN]
    lazy = f"NHP every {INTERVAL} steps"
    several_sides = {
        PLAIN: several(plain, INTERVAL),
        lazy: several(autoencoder_step(size, "nhp", step_interval=INTERVAL), INTERVAL),
    }
    times = measure(several_sides, max(2, repeats // 2), warmup=1)
    rows.append(compared(f"{size}x{size}, {INTERVAL} steps", lazy, PLAIN, times))
    goals = {"KLM": 1.05, "NHP": 2.0, ALONG: 2.0, JACOBIAN: 2.0, lazy: 1.3, few: 2.0}
    for row in rows:
        row["goal"] = goals.get(str(row["ours"]))
    return rows


def cliff_sides(n: int, samples: int, compiled: bool = False) -> dict[str, Side]:
    """Cliff's bivariate term and its gradient, as a matrix product and as a loop."""
    import numpy as np

    z = np.random.default_rng(0).normal(size=(samples, n)).astype("float32")
    sides = {name: _gradient_of(form, z, compiled) for name, form in FORMS.items()}
    ours, theirs = (side()[0] for side in sides.values())
    np.testing.assert_allclose(ours, theirs, rtol=1e-3)
    return {**sides}


def _gradient_of(
    form: Callable[..., Any], latents: Any, compiled: bool = False
) -> Callable[[], list[Any]]:
    """A call that computes a form's value and gradient and waits for both."""
    import tensorflow as tf

    @tf.function(jit_compile=compiled)
    def value_and_gradient(z: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            tape.watch(z)
            value = form(z, list(range(20)))
        return value, tape.gradient(value, z)

    z = tf.constant(latents)
    return lambda: [result.numpy() for result in value_and_gradient(z)]


def _matrix_product(z: Any, conditions: list[int]) -> Any:
    from qlayers.functional import cliff_terms

    return cliff_terms(z, conditions=conditions, terms=["bivariate"])["bivariate"]


def _loop_over_pairs(
    z: Any,
    conditions: list[int],
    bandwidth: float = 0.1,
    num_grid: int = 100,
    limit: float = 5.0,
) -> Any:
    """Equations 3 to 6, one ordered pair after the other."""
    import tensorflow as tf

    u = (z - tf.reduce_mean(z, 0)) / tf.math.reduce_std(z, 0)
    grid = tf.linspace(-limit, limit, num_grid)
    step = 2 * limit / num_grid
    total = 0.0
    for i, j in itertools.permutations(range(z.shape[1]), 2):
        zeta = tf.gather(u[:, j], conditions)
        along = (grid[:, None, None] - u[None, None, :, i]) / bandwidth
        across = (zeta[None, :, None] - u[None, None, :, j]) / bandwidth
        kernel = tf.exp(-0.5 * (along**2 + across**2))
        magnitude = tf.abs(tf.reduce_sum(-along * kernel, axis=-1))
        density = magnitude / (tf.reduce_sum(magnitude, 0) * step)
        mixture = _entropy(tf.reduce_mean(density, axis=1), step)
        total += mixture - tf.reduce_mean(_entropy(density, step))
    return total


def _entropy(density: Any, step: float) -> Any:
    import tensorflow as tf

    return -step * tf.reduce_sum(
        density * tf.math.log(tf.maximum(density, 1e-30)), axis=0
    )


FORMS = {"matrix product": _matrix_product, "loop over pairs": _loop_over_pairs}


def cliff_rows(repeats: int = 25) -> list[Row]:
    """Cliff's matrix form against the pair loop, with the memory of both.

    Both as a graph and compiled by XLA, which is what Keras's `fit` does.
    """
    rows = []
    cases = itertools.product(CLIFF_SIZES.items(), (False, True))
    for (case, (n, samples)), compiled in cases:
        sides = cliff_sides(n, samples, compiled)
        times = measure(sides, repeats, warmup=1)
        label = f"{case}, {'XLA' if compiled else 'graph'}"
        ours, theirs = FORMS
        row = compared(label, ours, theirs, times)
        row["speedup"] = 1 / median_ratio(*times.values())
        row["goal"] = 1 / 10
        for side in () if compiled else sides:
            row[f"memory of {side} (MB)"] = peak_memory_of(
                "benchmarks.regularizers", f"{case}:{side}"
            )
        rows.append(row)
    return rows


def memory_of(case: str) -> float:
    """Megabytes by which one side of a Cliff case raises the peak of this process."""
    import tensorflow as tf

    size, side = case.split(":")
    # Loads what both sides need; a small case leaves the peak where it is.
    for small_side in cliff_sides(2, 24).values():
        small_side()
    n, samples = CLIFF_SIZES[size]
    z = tf.random.stateless_normal((samples, n), [1, 2])
    return peak_growth_of(_gradient_of(FORMS[side], z))


def run() -> list[Row]:
    """All comparisons, as rows of a table."""
    use_threads()
    steps = [row for size in IMAGE_SIZES for row in step_rows(size)]
    return [*steps, *cliff_rows()]


def main() -> None:
    if "--memory" in sys.argv:
        print(memory_of(sys.argv[sys.argv.index("--memory") + 1]))
        return
    use_threads()
    print(machine())
    for size in IMAGE_SIZES:
        print_table(f"Training steps, batch {BATCH}", step_rows(size))
    print_table("Cliff's bivariate term with its gradient", cliff_rows())


if __name__ == "__main__":
    main()
