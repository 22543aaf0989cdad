"""Does a vector quantizer keep its codes in use, and what is that worth?

    python -m studies.vector_quantizers [--quick]

A convolutional VQ-VAE on `mini_shapes3d` at 32x32 has 64 codes an image, of 128 vectors
of 16 numbers. It trains for 320 steps with each option of `qlayers.VectorQuantizer` and
with the layer of vector-quantize-pytorch, by default and with its k-means start and
expiry of codes. All rows share the network, its first weights, the batches and the
optimizer; the peer's twin of the network is written in PyTorch. A row's loss is the
mean squared error plus what its layer adds.

Scores, on 1,000 images:

- `codes/used`: share of the 128 codes that occur.
- `codes/perplexity`: `exp(entropy)` of their frequencies.
- `error/mse`: mean squared error of the reconstruction.

A trial is a file in the work folder; a second start trains what is missing.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.reporting.summary import format_table
from experiments.storage.files import read_json, write_json
from experiments.storage.provenance import provenance
from studies.study import Study, StudySkippedError
from studies.summaries import paired_difference, spread

SEEDS = tuple(range(5))
SETTINGS: dict[str, Any] = {
    "dataset": "mini_shapes3d",
    "image_size": 32,
    "num_codes": 128,
    "code_dim": 16,
    "channels": [16, 32],
    "batch_size": 32,
    "steps": 320,
    "learning_rate": 1e-3,
    "scored_images": 1_000,
    "threads": 1,
}
_TINY = {"steps": 2, "batch_size": 8, "scored_images": 20, "channels": [4, 4]}
DEFAULT = "ours, default"
OURS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "ours, by gradient": {"codebook_update": "gradient"},
    "ours, no revival": {"revive_after": None},
    "ours, uniform start": {"init": "uniform"},
    "ours, cosine": {"similarity": "cosine"},
    "ours, rotation": {"gradient": "rotation"},
    "ours, plain (VQ-VAE)": {
        "revive_after": None,
        "codebook_update": "gradient",
        "init": "uniform",
        "similarity": "euclidean",
        "gradient": "straight_through",
        "loss_reduction": "sum",
    },
}
PEERS: dict[str, dict[str, Any]] = {
    "peer, default": {},
    "peer, k-means + expiry": {"kmeans_init": True, "threshold_ema_dead_code": 2},
}
COLUMNS = {
    "codes/used": "codes used (%)",
    "codes/perplexity": "perplexity",
    "error/mse": "mse (1e-3)",
}


def network(settings: dict[str, Any], quantizer: Any = None) -> tuple[Any, Any]:
    """Encoder and decoder, Keras models; their first weights follow Keras's seed."""
    import keras

    layers, size = keras.layers, settings["image_size"]
    first, second = settings["channels"]
    wide = {"padding": "same", "activation": "relu"}
    inputs = keras.Input((size, size, 3))
    h = layers.Conv2D(first, 4, 2, **wide)(inputs)
    h = layers.Conv2D(second, 4, 2, **wide)(h)
    encoder = keras.Model(inputs, layers.Conv2D(settings["code_dim"], 1)(h))
    latents = keras.Input(encoder.output.shape[1:])
    h = layers.Conv2D(second, 3, **wide)(latents)
    h = layers.Conv2DTranspose(first, 4, 2, **wide)(h)
    outputs = layers.Conv2DTranspose(3, 4, 2, padding="same", activation="sigmoid")(h)
    return encoder, keras.Model(latents, outputs)


def batches(settings: dict[str, Any], seed: int) -> Any:
    """The training images of a seed, as NumPy batches."""
    from qlayers import datasets

    data = datasets.load(settings["dataset"], image_size=settings["image_size"])
    stream = data.as_tf_dataset(settings["batch_size"], seed=seed)
    return stream.take(settings["steps"]).as_numpy_iterator()


def train_ours(
    settings: dict[str, Any], seed: int, options: dict[str, Any]
) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Trains with our layer; returns images -> codes and reconstructions."""
    import keras

    import qlayers

    keras.utils.set_random_seed(seed)
    encoder, decoder = network(settings)
    quantizer = qlayers.VectorQuantizer(
        settings["num_codes"], settings["code_dim"], seed=seed, **options
    )
    model = keras.Model(encoder.input, decoder(quantizer(encoder.output)))
    # Compiling takes longer than these few steps.
    optimizer = keras.optimizers.Adam(settings["learning_rate"])
    model.compile(optimizer, "mse", jit_compile=False)
    for images in batches(settings, seed):
        model.train_on_batch(images, images)

    def infer(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        latents = encoder.predict_on_batch(images)
        codes = keras.ops.convert_to_numpy(quantizer.codes(latents))
        return codes, model.predict_on_batch(images)

    return infer


def torch_twin(settings: dict[str, Any]) -> tuple[Any, Any]:
    """The same networks in PyTorch, with the weights that Keras would start from."""
    import torch
    from torch import nn

    first, second = settings["channels"]
    encoder = nn.Sequential(
        nn.Conv2d(3, first, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(first, second, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(second, settings["code_dim"], 1),
    )
    decoder = nn.Sequential(
        nn.Conv2d(settings["code_dim"], second, 3, 1, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(second, first, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(first, 3, 4, 2, 1),
        nn.Sigmoid(),
    )
    for twin, source in zip((encoder, decoder), network(settings), strict=True):
        layers = [part for part in twin if hasattr(part, "weight")]
        sources = [layer for layer in source.layers if layer.weights]
        for layer, given in zip(layers, sources, strict=True):
            kernel, bias = given.get_weights()
            # Keras has the channels last, in both kinds of convolution.
            layer.weight.data = torch.tensor(kernel.transpose(3, 2, 0, 1).copy())
            layer.bias.data = torch.tensor(bias)
    return encoder, decoder


def train_peer(
    settings: dict[str, Any], seed: int, options: dict[str, Any]
) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Trains with vector-quantize-pytorch; returns images -> codes, reconstructions."""
    import keras
    import torch
    import vector_quantize_pytorch as peer

    torch.set_num_threads(settings["threads"])
    keras.utils.set_random_seed(seed)  # PyTorch's seed too
    torch.manual_seed(seed)
    encoder, decoder = torch_twin(settings)
    quantizer = peer.VectorQuantize(
        dim=settings["code_dim"],
        codebook_size=settings["num_codes"],
        accept_image_fmap=True,
        **options,
    )
    parts = torch.nn.ModuleList([encoder, quantizer, decoder]).train()
    # Keras's Adam has this epsilon.
    optimizer = torch.optim.Adam(
        parts.parameters(), lr=settings["learning_rate"], eps=1e-7
    )

    def as_tensor(images: np.ndarray) -> torch.Tensor:
        return torch.tensor(images).permute(0, 3, 1, 2)

    for images in batches(settings, seed):
        x = as_tensor(images)
        z, _, commitment = quantizer(encoder(x))
        loss = torch.nn.functional.mse_loss(decoder(z), x) + commitment.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    parts.eval()

    def infer(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            z, codes, _ = quantizer(encoder(as_tensor(images)))
            return codes.numpy(), decoder(z).permute(0, 2, 3, 1).numpy()

    return infer


def score(infer: Callable[..., Any], settings: dict[str, Any]) -> dict[str, float]:
    """The scores of a trained model, see the module's text."""
    from qlayers import datasets

    data = datasets.load(settings["dataset"], image_size=settings["image_size"])
    _, images = data.evaluation_set(settings["scored_images"])
    images = np.asarray(images, "float32")
    codes, outputs = infer(images)
    counts = np.bincount(codes.ravel(), minlength=settings["num_codes"])
    share = counts[counts > 0] / counts.sum()
    return {
        "codes/used": float(np.mean(counts > 0)),
        "codes/perplexity": float(np.exp(-np.sum(share * np.log(share)))),
        "error/mse": float(np.mean((outputs - images) ** 2)),
    }


def run_here(path: Path, label: str, seed: int, settings: dict[str, Any]) -> None:
    """Trains and scores one trial, and writes its file."""
    import keras

    keras.backend.clear_session()
    clock, processor = time.perf_counter(), time.process_time()
    train = train_ours if label in OURS else train_peer
    infer = train(settings, seed, {**OURS, **PEERS}[label])
    scores = score(infer, settings)
    write_json(
        path,
        {
            "seed": seed,
            "scores": scores,
            "seconds": time.perf_counter() - clock,
            "cpu_seconds": time.process_time() - processor,
            "code": str(provenance()["code"]),
        },
    )
    print(
        f"{label}, seed {seed}: {100 * scores['codes/used']:.0f} % of the codes, "
        f"mse {scores['error/mse']:.5f}",
        flush=True,
    )


def run(study: Study, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs what has no file yet, seed by seed; returns the groups of all."""
    study.workdir.mkdir(parents=True, exist_ok=True)
    seeds = SEEDS[:1] if study.quick else SEEDS
    labels = [*OURS, *PEERS]

    def file_of(label: str, seed: int) -> Path:
        name = "".join(c if c.isalnum() else "_" for c in label)
        return study.workdir / f"{name}-seed{seed}.json"

    for seed in seeds:
        for label in labels:
            path = file_of(label, seed)
            if not path.exists():
                run_here(path, label, seed, settings)
    return [
        _group(label, settings, [read_json(file_of(label, seed)) for seed in seeds])
        for label in labels
    ]


def _group(
    label: str, settings: dict[str, Any], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    codes = sorted({row.pop("code") for row in rows})
    names = sorted(rows[0]["scores"])
    return {
        "label": label,
        "config": {**settings, "options": {**OURS, **PEERS}[label]},
        "runs": rows,
        "scores": {n: spread([row["scores"][n] for row in rows]) for n in names},
        "code": codes,
    }


def vector_table(record: Any) -> str:
    """Means with 95 % t-intervals; the mean squared error in thousandths."""

    def cell(value: dict[str, Any], scale: float, digits: int) -> str:
        text = f"{scale * value['mean']:.{digits}f}"
        if value["half_width"] is None:
            return text
        return f"{text} ± {scale * value['half_width']:.{digits}f}"

    formats = {"codes/used": (100.0, 1), "codes/perplexity": (1.0, 1)}
    rows = [
        [
            group["label"],
            str(len(group["runs"])),
            *(cell(group["scores"][n], *formats.get(n, (1000.0, 2))) for n in COLUMNS),
        ]
        for group in record["groups"]
    ]
    return format_table(["layer", "runs", *COLUMNS.values()], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    description = "Codes in use and error of vector quantizers, ours and a peer's."
    study = Study.from_arguments("vector_quantizers", description, arguments)
    try:
        import vector_quantize_pytorch as _  # noqa: F401
    except ImportError as error:
        raise StudySkippedError(
            "The study compares with vector-quantize-pytorch (extra `bench`), which is "
            "not installed."
        ) from error
    settings = {**SETTINGS, **(_TINY if study.quick else {})}
    from experiments.running.setup import use_threads

    use_threads(settings["threads"])
    groups = run(study, settings)
    by_label = {group["label"]: group for group in groups}
    ours = by_label[DEFAULT]
    findings = {
        f"default_minus/{label}": paired_difference(ours, by_label[label], "error/mse")
        for label in PEERS
    }
    described = {
        "question": "Does a vector quantizer keep its codes in use?",
        "seeds": SEEDS[:1] if study.quick else SEEDS,
        "settings": settings,
        "ours": OURS,
        "peer": PEERS,
        "peer_version": _peer_version(),
    }
    study.write(described, groups, findings)
    print(vector_table({"groups": groups}))


def _peer_version() -> str:
    from importlib.metadata import version

    return version("vector-quantize-pytorch")


if __name__ == "__main__":
    main()
