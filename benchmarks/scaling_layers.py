"""A training step of each layer alone, over batch, latents and values."""

from collections.abc import Callable
from typing import Any

from benchmarks.growth import Side, Sweep

BATCH, LATENTS, VALUES = 256, 16, 16
AXES: dict[str, tuple[int, ...]] = {
    "batch": (256, 1024, 4096, 16384),
    "latents": (8, 32, 128, 512),
    "values": (8, 32, 128, 512),
}
# Pairs of samples, or all combinations of codes, would not fit into the memory.
_SMALLER: dict[tuple[str, str], tuple[int, ...]] = {
    ("KernelMultiinformation", "batch"): (128, 256, 512, 1024),
    ("KernelMultiinformation", "latents"): (4, 8, 16, 32),
    ("MinibatchTotalCorrelation", "batch"): (128, 256, 512, 1024),
    ("HausdorffFactorizedSupport", "batch"): (64, 128, 256, 512),
    ("HausdorffFactorizedSupport", "latents"): (4, 8, 16, 32),
    ("IndependentSupport", "latents"): (4, 8, 16, 32),
    ("Cliff", "latents"): (4, 8, 16, 32),
    ("LookupFreeQuantizer, joint entropy", "latents"): (4, 8, 10, 12),
    ("LookupFreeQuantizer, joint entropy", "batch"): (64, 256, 1024),
}
_VALUES_OF = {
    "LatentQuantizer": "num_values",
    "FiniteScalarQuantizer": "num_values",
    "SelfSizingQuantizer": "num_values",
    "GumbelQuantizer": "num_values",
    "CategoricalQuantizer": "num_values",
    "OrderedCategoricalQuantizer": "num_values",
    "VectorQuantizer": "num_codes",
}

Maker = Callable[[int, int], tuple[Any, int]]


def layers() -> dict[str, Maker]:
    """Name -> function from latents and values to the layer and its input's width."""
    import qlayers

    def latent_wise(name: str, **more: Any) -> Maker:
        kind = getattr(qlayers, name)

        def make(n: int, k: int) -> tuple[Any, int]:
            given = {_VALUES_OF[name]: k} if name in _VALUES_OF else {}
            return kind(**given, **more), n

        return make

    def wide(name: str, width: Callable[[int, int], int], **more: Any) -> Maker:
        make = latent_wise(name, **more)
        return lambda n, k: (make(n, k)[0], width(n, k))

    def regularizer(name: str, *given: Any, **more: Any) -> Maker:
        return lambda n, k: (getattr(qlayers, name)(*given, **more), n)

    def of_decoder(name: str) -> Maker:
        return lambda n, k: (getattr(qlayers, name)(_decoder(n), 1e-3), n)

    def residual(n: int, k: int) -> tuple[Any, int]:
        parts = [qlayers.VectorQuantizer(k, code_dim=16) for _ in range(4)]
        return qlayers.ResidualQuantizer(parts), 16 * n

    return {
        "LatentQuantizer": latent_wise("LatentQuantizer"),
        "FiniteScalarQuantizer": latent_wise("FiniteScalarQuantizer"),
        "SelfSizingQuantizer": latent_wise("SelfSizingQuantizer"),
        "GumbelQuantizer": latent_wise("GumbelQuantizer", kl_weight=1e-3),
        "CategoricalQuantizer": wide(
            "CategoricalQuantizer", lambda n, k: n * k, kl_weight=1e-3
        ),
        "OrderedCategoricalQuantizer": wide(
            "OrderedCategoricalQuantizer", lambda n, k: n * k
        ),
        "VectorQuantizer": wide("VectorQuantizer", lambda n, k: 16 * n, code_dim=16),
        "ResidualQuantizer": residual,
        "LookupFreeQuantizer, joint entropy": latent_wise("LookupFreeQuantizer"),
        "LookupFreeQuantizer, factorized": latent_wise(
            "LookupFreeQuantizer", entropy="factorized"
        ),
        "GaussianLatent": lambda n, k: (qlayers.GaussianLatent(), 2 * n),
        "KernelMultiinformation": regularizer("KernelMultiinformation", 1e-3),
        "MinibatchTotalCorrelation": regularizer(
            "MinibatchTotalCorrelation", 1e-3, 10_000
        ),
        "TotalCorrelationDiscriminator": regularizer(
            "TotalCorrelationDiscriminator", 1e-3, (256, 256)
        ),
        "HausdorffFactorizedSupport": regularizer("HausdorffFactorizedSupport", 1e-3),
        "IndependentSupport": regularizer("IndependentSupport", 1e-3),
        "Cliff": regularizer("Cliff", 1e-3),
        "ActivityEnergy": regularizer("ActivityEnergy", 1e-3),
        "NormalizedHessianPenalty": of_decoder("NormalizedHessianPenalty"),
        "HessianPenalty": of_decoder("HessianPenalty"),
        "JacobianOrthogonality": of_decoder("JacobianOrthogonality"),
    }


def _decoder(n: int) -> Any:
    import keras

    hidden = [keras.layers.Dense(64, "tanh", name=name) for name in ("a", "b")]
    return keras.Sequential([keras.Input((n,)), *hidden, keras.layers.Dense(64)])


def sweeps() -> list[Sweep]:
    """Every layer over every size that it has."""
    found = []
    for name, make in layers().items():
        for axis, usual in AXES.items():
            if axis == "values" and not _has_values(name):
                continue
            sizes = _SMALLER.get((name, axis), usual)
            found.append(_sweep(name, make, axis, sizes))
    return found


def _has_values(name: str) -> bool:
    return name in _VALUES_OF or name == "ResidualQuantizer"


def _sweep(name: str, make: Maker, axis: str, sizes: tuple[int, ...]) -> Sweep:
    fixed = {"batch": BATCH, "latents": LATENTS, "values": VALUES}
    if name.startswith("LookupFreeQuantizer, joint"):
        fixed["latents"] = 10  # 1,024 codes
    if not _has_values(name):
        del fixed["values"]
    fixed.pop(axis, None)

    def side(size: int) -> Side:
        chosen = {"values": VALUES, **fixed, axis: size}
        layer, width = make(chosen["latents"], chosen["values"])
        return _step(name, layer, chosen["batch"], width)

    text = ", ".join(f"{value} {what}" for what, value in fixed.items())
    return Sweep(name, axis, sizes, side, text.replace(" batch", " samples"))


def _step(name: str, layer: Any, batch: int, width: int) -> Side:
    """Value and gradient of a layer's outputs and losses in a compiled step."""
    import keras
    import numpy as np
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    inputs = np.random.default_rng(0).normal(size=(batch, width)).astype("float32")
    x = tf.constant(inputs)
    if name == "MinibatchTotalCorrelation":

        def call(h: Any) -> Any:
            return layer(h, h, tf.nn.softplus(h), training=True)

    else:

        def call(h: Any) -> Any:
            return layer(h, training=True)

    call(x[:2])  # builds it

    @tf.function(jit_compile=False)
    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(call(x)) + sum(layer.losses)
        return tape.gradient(value, x)

    step()  # traces it, which can take longer than many steps
    return lambda: step().numpy()
