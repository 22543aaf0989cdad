"""How much of the normalized Hessian penalty's gradient is noise.

    python -m studies.penalty_noise [--quick]

Tripod estimates its penalty from two random directions of each kind (Algorithm 1). The
value is a ratio of two variances of two numbers each; such a ratio has a heavy tail.
This study measures what that does to the gradient: it trains autoencoders with
quantized latents without the penalty, then takes the penalty's gradient again and again
on one batch, with fresh directions each time.

Scores, for every number of directions `k`, with `g` the gradient over all weights.
`signal/k` is for random directions, `signal/coordinates/k` for steps along latents
(`directions="coordinates"`), which decode no more points. Likewise the others:

- `length/k`: root of the mean of |g|^2, over the length of the reconstruction's
  gradient on the same batch.
- `signal/k`: |mean of g|^2 over the mean of |g|^2, estimated without bias from pairs of
  different draws. 1 would be a gradient without noise.
- `value/k`: mean of the penalty. The share that it estimates is at most 1.

A small share needs many draws to tell it from none: its standard error is about one
over their number. Random directions get more draws than coordinates; few directions
get more than many, as they cost less.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.reporting.summary import FinishedRun
from experiments.sweeps.plan import plan_sweep
from studies.run_latents import encode
from studies.study import Study
from studies.summaries import as_text, summarise
from studies.trials import QUICK

DIRECTIONS = (2, 3, 4, 6, 8)
SEEDS = (0, 1, 2)
SETTINGS: dict[str, Any] = {
    "steps": 1_500,
    "batch_size": 32,
    "evaluate_every": 1_500,
    "log_every": 250,
    "threads": 1,
    "select": "last",
    "psnr_threshold": None,
}
_TINY = {**QUICK, "evaluation_size": 200, "image_size": 16, "width": 0.125}
_TINY |= {"metrics": "fast"}
WITHOUT_PENALTIES = {"nhp_weight": 0.0, "klm_weight": 0.0}
_BATCH = 32
# Draws times directions, by kind.
_BUDGET = {"random": 256, "coordinates": 64}


def signal_share(gradients: np.ndarray) -> float:
    """|mean|^2 over the mean square of rows, estimated from pairs of different rows.

    Example:

    ```python
    signal_share(np.ones((4, 10)))  # 1.0
    signal_share(rng.normal(size=(4, 10)))  # about 0, on average exactly
    ```
    """
    draws = len(gradients)
    squares = float(np.sum(gradients**2))
    pairs = float(np.sum(gradients.sum(axis=0) ** 2)) - squares
    return pairs / (draws * (draws - 1)) / (squares / draws)


def estimators() -> dict[str, tuple[str, int]]:
    """Kind and number of directions by the label of their scores."""
    random = {f"{count}": ("random", count) for count in DIRECTIONS}
    along = {f"coordinates/{count}": ("coordinates", count) for count in DIRECTIONS}
    return random | along


def num_draws(label: str, quick: bool = False) -> int:
    """How many gradients are taken of an estimator."""
    kind, count = estimators()[label]
    return 2 if quick else _BUDGET[kind] // count


def noise_scores(run: FinishedRun, quick: bool = False) -> dict[str, float]:
    """The scores of a trained autoencoder, see the module's text."""
    import keras

    import qlayers
    from models.networks import style_inner_layers

    _, images, _ = encode(run, _BATCH)
    encoder = keras.models.load_model(run.path / "encoder.keras")
    decoder = keras.models.load_model(run.path / "decoder.keras")
    inner = style_inner_layers(decoder.output.shape[1:], preserving_layers=0)
    weights = encoder.trainable_variables + decoder.trainable_variables

    def reconstruction(z: Any, h: Any) -> Any:
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
        return loss(images, decoder(z))

    _, plain = _value_and_gradient(reconstruction, encoder, images, weights)
    found = {}
    for label, (directions, count) in estimators().items():
        layer = qlayers.NormalizedHessianPenalty(
            decoder,
            1.0,
            num_perturbations=count,
            outputs=inner,
            directions=directions,
            seed=run.config.seed,
        )

        def penalty(z: Any, h: Any, layer: Any = layer) -> Any:
            layer(z, continuous=keras.ops.tanh(h), training=True)
            return sum(layer.losses)

        values, gradients = zip(
            *(
                _value_and_gradient(penalty, encoder, images, weights)
                for _ in range(num_draws(label, quick))
            ),
            strict=True,
        )
        table = np.stack(gradients)
        root = float(np.sqrt(np.mean(np.sum(table**2, axis=1))))
        found[f"length/{label}"] = root / float(np.linalg.norm(plain))
        found[f"signal/{label}"] = signal_share(table)
        found[f"value/{label}"] = float(np.mean(values))
    return found


def _value_and_gradient(
    loss: Any, encoder: Any, images: Any, weights: Sequence[Any]
) -> tuple[float, np.ndarray]:
    """The loss of latents and their continuous values, and its gradient in a row."""
    import tensorflow as tf

    network, quantizer = (
        encoder.get_layer(n) for n in ("encoder_network", "quantizer")
    )
    variables = [weight.value for weight in weights]
    with tf.GradientTape() as tape:
        h = network(images, training=True)
        value = loss(quantizer(h), h)
    gradients = tape.gradient(
        value, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    return float(value), np.concatenate([np.ravel(g) for g in gradients])


def main(arguments: Sequence[str] | None = None) -> None:
    description = "How much of the normalized Hessian penalty's gradient is noise."
    study = Study.from_arguments("penalty_noise", description, arguments)
    settings = {**SETTINGS, **(_TINY if study.quick else {})}
    seeds = SEEDS[:1] if study.quick else SEEDS
    runs = study.run(
        plan_sweep(
            ["tripod"],
            ["mini_shapes3d"],
            seeds,
            profile="cpu",
            settings=settings,
            hyperparameters=WITHOUT_PENALTIES,
        )
    )
    scores = [noise_scores(run, study.quick) for run in runs]
    group = summarise("Tripod without penalties", runs, scores)
    described = {
        "question": "How much of the Hessian penalty's gradient is noise?",
        "seeds": seeds,
        "settings": settings,
        "draws": {label: num_draws(label, study.quick) for label in estimators()},
        "batch": _BATCH,
    }
    study.write(described, [group], {"directions": list(estimators())})
    for label in estimators():
        texts = [
            f"{name} {as_text(group['scores'][f'{name}/{label}'])}"
            for name in ("length", "signal", "value")
        ]
        print(f"{label} directions: {', '.join(texts)}")


if __name__ == "__main__":
    main()
