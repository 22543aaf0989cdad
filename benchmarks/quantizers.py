"""Speed and memory of the quantizers.

`python -m benchmarks.quantizers` answers two questions:

1. What does a quantizer cost in training? A gradient step of the autoencoder of
   Locatello et al. (64x64x3 images, batch 64) with the quantizer against the same
   autoencoder whose encoder gives the decoder its latents directly. Goal: a ratio of
   at most 1.05.
2. How fast is it on its own? Forward and backward against the layer of the same name
   in vector-quantize-pytorch on PyTorch. Goal: a ratio of at most 1. The codes of
   inputs and the values of codes, without a gradient, likewise.

Both sides get two threads. `ratio` is ours over theirs, the median over interleaved
repeats, `best_ratio` that of the fastest repeats. Memory is by how much twenty steps,
the first with its tracing or compiling included, raise the peak resident size of a
fresh process in which the side's library is loaded and the layer is built.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks import timing

BATCH = 64
IMAGE_SHAPE = (64, 64, 3)
NUM_LATENTS = 12
MEMORY_STEPS = 20
_rng = np.random.default_rng(0)


# ------------------------------------------------- what a quantizer costs in training


def _autoencoder_cases() -> dict[str, tuple[int, int, Callable[[], Any]]]:
    """Name -> size of the encoder's output, size of the decoder's input, layer."""
    import qlayers

    n = NUM_LATENTS
    return {
        "LatentQuantizer": (n, n, qlayers.LatentQuantizer),
        "LatentQuantizer, revival": (
            n,
            n,
            lambda: qlayers.LatentQuantizer(revive_after=10),
        ),
        "FiniteScalarQuantizer": (n, n, qlayers.FiniteScalarQuantizer),
        "VectorQuantizer": (n * 64, n * 64, qlayers.VectorQuantizer),
        "LookupFreeQuantizer": (n, n, qlayers.LookupFreeQuantizer),
        "ResidualQuantizer": (
            n * 64,
            n * 64,
            lambda: qlayers.ResidualQuantizer(
                [qlayers.VectorQuantizer() for _ in range(4)]
            ),
        ),
        "GumbelQuantizer": (n, n, lambda: qlayers.GumbelQuantizer(kl_weight=1e-3)),
        "CategoricalQuantizer": (
            n * 64,
            n,
            lambda: qlayers.CategoricalQuantizer(kl_weight=1e-3),
        ),
        "OrderedCategoricalQuantizer": (n * 64, n, qlayers.OrderedCategoricalQuantizer),
        "GaussianLatent": (n * 2, n, qlayers.GaussianLatent),
    }


def _training_step(size: int, latent_size: int, layer: Any) -> timing.Side:
    """A gradient step of the Locatello autoencoder, with or without a layer.

    Without one, the decoder gets the first `latent_size` outputs of the encoder, so
    that both sides have the same convolutions and dense layers.
    """
    import keras
    import tensorflow as tf

    from models.networks.locatello import locatello_decoder, locatello_encoder

    keras.utils.set_random_seed(0)
    encoder = locatello_encoder(IMAGE_SHAPE, size)
    decoder = locatello_decoder(latent_size, IMAGE_SHAPE)
    images = tf.constant(_rng.random((BATCH, *IMAGE_SHAPE), dtype="float32"))
    optimizer = keras.optimizers.Adam(1e-4)
    variables = encoder.trainable_variables + decoder.trainable_variables
    if layer is not None:
        layer.build((None, size))
        variables = variables + layer.trainable_variables
    optimizer.build(variables)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            latents = encoder(images, training=True)
            if layer is None:
                latents = latents[:, :latent_size]
            else:
                latents = layer(latents, training=True)
            logits = decoder(latents, training=True)
            loss = tf.reduce_sum(
                tf.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=logits)
            )
            if layer is not None:
                loss += sum(layer.losses)
        gradients = tape.gradient(loss, [v.value for v in variables])
        optimizer.apply(gradients, variables)
        return loss

    return lambda: step().numpy()


def training_cost() -> list[timing.Row]:
    """Ratio of a training step with each quantizer to one without."""
    import keras

    rows = []
    for name, (size, latent_size, make) in _autoencoder_cases().items():
        sides = {
            name: _training_step(size, latent_size, make()),
            "no quantizer": _training_step(size, latent_size, None),
        }
        times = timing.measure(sides, repeats=25)
        rows.append(
            timing.compared(
                "training step, Locatello 64x64x3, batch 64",
                name,
                "no quantizer",
                times,
                goal=1.05,
            )
        )
        keras.backend.clear_session()
    return rows


# -------------------------------------------------------------- against another library


def _shapes() -> dict[str, tuple[int, ...]]:
    return {
        "latent (64, 12)": (64, 12),
        "latent (4096, 12)": (4096, 12),
        "fsq (64, 12)": (64, 12),
        "fsq (4096, 12)": (4096, 12),
        "fsq, sigmoid (4096, 12)": (4096, 12),
        "vq (64, 16 x 64)": (64, 16 * 64),
        "vq, averages + rotation (64, 16 x 64)": (64, 16 * 64),
        "vq, cosine averages (64, 16 x 64)": (64, 16 * 64),
        "vq, averages after k-means (64, 16 x 64)": (64, 16 * 64),
        "codes of vq (64, 16 x 64)": (64, 16 * 64),
        "lookup of vq (64, 16 x 64)": (64, 16),
        "lookup of vq (4096, 16 x 64)": (4096, 16),
        "residual vq, 4 steps (64, 16 x 64)": (64, 16 * 64),
        "residual fsq, 4 steps (4096, 6)": (4096, 6),
        "lfq (4096, 10)": (4096, 10),
        "lfq, spherical (4096, 10)": (4096, 10),
    }


# The options of our vector quantizer for what the peer does in the same case.
_BY_LOSS = {"revive_after": None, "codebook_update": "gradient", "init": "uniform"}
_BY_AVERAGES = {"revive_after": None, "codebook_update": "moving_average", "decay": 0.8}


def _our_layer(case: str, **kwargs: Any) -> Any:
    import qlayers

    def vectors(**options: Any) -> Any:
        return qlayers.VectorQuantizer(512, 64, **options, **kwargs)

    makers: dict[str, Callable[[], Any]] = {
        "latent": lambda: qlayers.LatentQuantizer(10, **kwargs),
        "fsq": lambda: qlayers.FiniteScalarQuantizer(12, **kwargs),
        "fsq, sigmoid": lambda: qlayers.FiniteScalarQuantizer(
            12, squash="sigmoid", **kwargs
        ),
        "vq": lambda: vectors(**_BY_LOSS),
        "vq, averages + rotation": lambda: vectors(
            **_BY_AVERAGES, init="uniform", gradient="rotation"
        ),
        "vq, cosine averages": lambda: vectors(
            **_BY_AVERAGES, init="uniform", similarity="cosine"
        ),
        "vq, averages after k-means": lambda: vectors(**_BY_AVERAGES, init="data"),
        "codes of vq": lambda: qlayers.Codes(vectors(**_BY_LOSS)),
        "lookup of vq": lambda: qlayers.Lookup(vectors(**_BY_LOSS)),
        "residual vq, 4 steps": lambda: qlayers.ResidualQuantizer(
            [vectors(**_BY_AVERAGES, init="uniform") for _ in range(4)]
        ),
        "residual fsq, 4 steps": lambda: qlayers.ResidualQuantizer(
            [
                qlayers.FiniteScalarQuantizer(4, squash="clip", **kwargs)
                for _ in range(4)
            ]
        ),
        "lfq": lambda: qlayers.LookupFreeQuantizer(**kwargs),
        "lfq, spherical": lambda: qlayers.LookupFreeQuantizer(spherical=True, **kwargs),
    }
    return makers[case.partition(" (")[0]]()


def our_step(case: str, jit_compile: bool, **kwargs: Any) -> timing.Side:
    """Forward and backward of our layer, gradients to inputs and codebook."""
    import tensorflow as tf

    if _is_view(case):
        return _our_view(case, jit_compile)
    x = tf.constant(_rng.normal(size=_shapes()[case]).astype("float32"))
    layer = _our_layer(case, **kwargs)
    layer.build(x.shape)
    variables = [variable.value for variable in layer.trainable_variables]

    @tf.function(jit_compile=jit_compile)
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = layer(x, training=True)
            loss = tf.reduce_sum(z * z) + sum(layer.losses, 0.0)
        return tape.gradient(loss, [x, *variables])

    return lambda: step(x)[0]  # complete when it returns, as the peer's


def _is_view(case: str) -> bool:
    """Whether a case is about codes or values alone, without a gradient."""
    return case.startswith(("codes of", "lookup of"))


def _our_view(case: str, jit_compile: bool) -> timing.Side:
    """The codes of inputs, or the values of codes."""
    import tensorflow as tf

    shape = _shapes()[case]
    if case.startswith("codes"):
        inputs = tf.constant(_rng.normal(size=shape).astype("float32"))
    else:
        inputs = tf.constant(_rng.integers(0, 512, size=shape).astype("int32"))
    layer = _our_layer(case)
    layer.build(inputs.shape)
    view = tf.function(layer, jit_compile=jit_compile)
    # Without `.numpy()`, which copies: the peer's result is not copied either.
    return lambda: view(inputs)


def _their_view(case: str) -> timing.Side:
    """The same of the peer, which finds codes by its whole forward pass."""
    import torch

    layer = _their_layer("vq (").eval()
    samples = _shapes()[case][0]
    x = torch.tensor(_rng.normal(size=(samples, 16, 64)).astype("float32"))
    codes = torch.tensor(_rng.integers(0, 512, size=(samples, 16)))

    @torch.no_grad()
    def view() -> Any:
        if case.startswith("codes"):
            return layer(x)[1]
        return layer.get_output_from_indices(codes)

    return view


def _their_layer(case: str) -> Any:
    """The peer's layer of the same scheme, as cheap as its options allow.

    LatentQuantize lists all combinations of values when it is made, which is impossible
    for 10^12: it gets its 12 latents as 4 codebooks of 3. FSQ is told not to make
    indices for the same reason, and to use the same symmetric grid.
    """
    import vector_quantize_pytorch as vqp

    vectors = {"dim": 64, "codebook_size": 512}
    fsq = {"return_indices": False, "preserve_symmetry": True}
    makers: dict[str, Callable[[], Any]] = {
        "latent": lambda: vqp.LatentQuantize(levels=[10] * 3, dim=12, num_codebooks=4),
        "fsq": lambda: vqp.FSQ(levels=[12] * 12, **fsq),
        # It has no other squash than tanh.
        "fsq, sigmoid": lambda: vqp.FSQ(levels=[12] * 12, **fsq),
        # By loss, as ours.
        "vq": lambda: vqp.VectorQuantize(
            **vectors, ema_update=False, learnable_codebook=True, rotation_trick=False
        ),
        "vq, averages + rotation": lambda: vqp.VectorQuantize(**vectors),
        "vq, cosine averages": lambda: vqp.VectorQuantize(
            **vectors, use_cosine_sim=True, rotation_trick=False
        ),
        # What the k-means of the first call costs is not measured.
        "vq, averages after k-means": lambda: vqp.VectorQuantize(
            **vectors, kmeans_init=True, rotation_trick=False
        ),
        "residual vq, 4 steps": lambda: vqp.ResidualVQ(
            **vectors, num_quantizers=4, rotation_trick=False
        ),
        "residual fsq, 4 steps": lambda: vqp.ResidualFSQ(
            levels=[4] * 6, num_quantizers=4, dim=6
        ),
        "lfq": lambda: vqp.LFQ(dim=10, commitment_loss_weight=0.25),
        "lfq, spherical": lambda: vqp.LFQ(
            dim=10, commitment_loss_weight=0.25, spherical=True
        ),
    }
    return makers[case.partition(" (")[0]]()


def their_step(case: str) -> timing.Side:
    """Forward and backward of the peer's layer."""
    import torch

    if _is_view(case):
        return _their_view(case)
    shape = _shapes()[case]
    if "vq" in case:
        shape = (64, 16, 64)
    elif not case.startswith("latent"):
        shape = (shape[0], 1, shape[1])
    x = torch.tensor(_rng.normal(size=shape).astype("float32"), requires_grad=True)
    layer = _their_layer(case).train()

    def step() -> Any:
        x.grad = None
        layer.zero_grad()
        z, *rest = layer(x)
        loss = (z * z).sum()
        if len(rest) == 2:
            loss = loss + rest[1].sum()
        loss.backward()
        return x.grad  # on a CPU there is nothing to wait for

    return step


OUR_VARIANTS: dict[str, dict[str, Any]] = {
    "tf.function": {"jit_compile": False},
    "tf.function, no usage": {"jit_compile": False, "track_usage": None},
    "XLA": {"jit_compile": True},
    "XLA, no usage": {"jit_compile": True, "track_usage": None},
}


def our_variants(case: str) -> dict[str, dict[str, Any]]:
    """How our side of a case is run. Codes and values alone are never counted."""
    is_view = _is_view(case)
    return {
        name: options
        for name, options in OUR_VARIANTS.items()
        if not (is_view and "track_usage" in options)
    }


def against_peer(cases: Sequence[str] | None = None) -> list[timing.Row]:
    """Ratio of forward + backward to vector-quantize-pytorch, and peak memory.

    Args:
        cases: Some of the cases, or None for all.
    """
    rows = []
    module = "benchmarks.quantizers"
    for case in cases or _shapes():
        variants = our_variants(case)
        sides = {name: our_step(case, **kw) for name, kw in variants.items()}
        peer = "vector-quantize-pytorch"
        times = timing.measure({**sides, peer: their_step(case)}, repeats=25)
        their_memory = timing.peak_memory_of(module, f"{peer}|{case}")
        for name in variants:
            rows.append(
                timing.compared(
                    case,
                    name,
                    peer,
                    times,
                    goal=1.0,
                    ours_mb=timing.peak_memory_of(module, f"{name}|{case}"),
                    peer_mb=their_memory,
                )
            )
    return rows


def peak_growth(side_and_case: str) -> float:
    """Megabytes by which some steps raise the peak of this process."""
    side, case = side_and_case.split("|")
    is_ours = side in OUR_VARIANTS
    step = our_step(case, **OUR_VARIANTS[side]) if is_ours else their_step(case)

    def work() -> None:
        for _ in range(MEMORY_STEPS):
            step()

    return timing.peak_growth_of(work)


# ------------------------------------------------------------------------- running


def run() -> list[timing.Row]:
    """Everything that can be measured with what is installed."""
    has_peer = True
    try:
        import vector_quantize_pytorch as _  # noqa: F401
    except ImportError:
        has_peer = False
    timing.use_threads()
    rows = training_cost()
    if has_peer:
        return rows + against_peer()
    skipped = "skipped: vector-quantize-pytorch is not installed (extra `bench`)"
    return [*rows, {"case": "the layers against a peer", "ours": skipped}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", help="only measure the peak memory of one case")
    arguments = parser.parse_args()
    if arguments.memory:
        timing.use_threads()
        print(peak_growth(arguments.memory))
        return
    timing.print_table(timing.machine(), run())


if __name__ == "__main__":
    main()
