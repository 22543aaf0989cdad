"""A trained model in the form in which a page can run it."""

from pathlib import Path
from typing import Any

import keras

from experiments.reporting.graph_export import GraphExport, NotExportableError
from experiments.reporting.latent_record import latent_record
from experiments.reporting.weight_store import WeightStore
from experiments.storage.files import read_json
from experiments.storage.run_directory import RunDirectory
from qlayers.quantizers.base import BaseQuantizer

# A page of this size still opens; larger ones stall browsers for many seconds.
_LARGEST = 48 * 2**20
_OUTPUTS = {"bce": "sigmoid", "mse": "clip"}


def page_model(
    encoder: keras.Model, decoder: keras.Model | None, reconstruction: str = "bce"
) -> dict[str, Any]:
    """Encoder, latents and decoder as plain data and packed weights.

    Args:
        encoder: Functional model, image to latents, with the quantizer at its end.
        decoder: Functional model, latents to an image.
        reconstruction: Whether the decoder gives logits (`"bce"`) or pixels
            (`"mse"`).

    Raises:
        NotExportableError: If the page's runtime cannot run the model; the message
            says what it lacks.

    Example:

    ```python
    model = models.build("qlae", (32, 32, 3), 12, width=0.5)
    data = page_model(model.encoder, model.decoder)
    data["latent"]["kind"]  # "nearest"
    ```
    """
    if decoder is None:
        raise NotExportableError("the model has no decoder")
    if reconstruction not in _OUTPUTS:
        raise NotExportableError(f"the reconstruction {reconstruction!r}")
    if len(encoder.inputs) != 1 or len(encoder.inputs[0].shape) != 4:
        raise NotExportableError("the encoder does not read images")
    store = WeightStore()
    quantizer, features = _split_quantizer(encoder)
    exported = {
        "image": [int(size) for size in encoder.inputs[0].shape[1:]],
        "output": _OUTPUTS[reconstruction],
        "latent": latent_record(quantizer, int(features.shape[-1]), store),
        "encoder": GraphExport(store).steps(encoder.inputs, features),
        "decoder": GraphExport(store).steps(decoder.inputs, decoder.outputs[0]),
    }
    if store.num_bytes > _LARGEST:
        raise NotExportableError(f"{store.num_bytes / 2**20:.0f} MB of weights")
    return {**exported, "weights": store.pack()}


def _split_quantizer(encoder: keras.Model) -> tuple[BaseQuantizer | None, Any]:
    """The quantizer that gives the encoder's output, and what goes into it."""
    output = encoder.outputs[0]
    layer, node_index, tensor_index = output._keras_history
    if not isinstance(layer, BaseQuantizer):
        return None, output
    if tensor_index != 0:
        raise NotExportableError("the encoder's output is not the quantizer's latents")
    return layer, layer._inbound_nodes[node_index].input_tensors[0]


def load_page_model(directory: RunDirectory) -> tuple[dict[str, Any] | None, str]:
    """The model of a run's folder for the page.

    Args:
        directory: Folder of a run.

    Returns:
        The model, or None and the reason why the page cannot run it.

    Example:

    ```python
    model, reason = load_page_model(RunDirectory("runs/qlae-0"))
    ```
    """
    files = [directory.path / f"{name}.keras" for name in ("encoder", "decoder")]
    for file in files:
        if not file.is_file():
            return None, f"there is no {file.name}"
    try:
        encoder, decoder = (_load(file) for file in files)
        record = read_json(directory.config_file).get("model", {})
        kind = record.get("reconstruction", {}).get("kind", "bce")
        return page_model(encoder, decoder, kind), ""
    except NotExportableError as error:
        return None, f"the page does not know {error}"
    except Exception as error:
        # Damaged files break zip, HDF5 and JSON readers in many ways, and a layer may
        # not be installed here. Neither ends the report of the other runs.
        return None, f"its files cannot be read ({type(error).__name__})"


def _load(file: Path) -> keras.Model:
    return keras.saving.load_model(file, compile=False, safe_mode=True)
