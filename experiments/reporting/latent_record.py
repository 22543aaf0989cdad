"""What a page knows of the latents: how codes are chosen and which values they have."""

from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

import qlayers
from experiments.reporting.graph_export import NotExportableError
from experiments.reporting.weight_store import WeightStore

_PROBES = 256
# Near-ties may fall on the other side where sums are ordered differently.
_AGREEMENT = 0.99


def latent_record(quantizer: Any, num_outputs: int, store: WeightStore) -> dict:
    """A quantizer as plain data.

    `kind` says what the page does with the encoder's numbers `x`:

    - `continuous`: the latents are `x`; `gaussian`: the first half of `x`.
    - `nearest`: each is replaced by the nearest value of its row of the table.
    - `grid`: `tanh(x)` is rounded to an even grid, whose values the table holds.
    - `vector`: each piece of `x` is replaced by the nearest row of the table.
    - `argmax`: `x` holds logits, the most likely category's value is taken.
    - `expected`: `x` holds logits, the mean value of the categories is taken.

    Args:
        quantizer: A layer of `qlayers.quantizers`, or None.
        num_outputs: Number of the encoder's outputs.
        store: Takes the tables.

    Raises:
        NotExportableError: For quantizers that the page does not know, or whose codes
            differ from what the page would choose.

    Example:

    ```python
    record = latent_record(None, 12, WeightStore())
    record["kind"]  # "continuous"
    ```
    """
    if quantizer is None:
        return {"kind": "continuous", "latents": num_outputs, "size": 1}
    describe = _KINDS.get(type(quantizer))
    if describe is None:
        raise NotExportableError(f"the quantizer {type(quantizer).__name__}")
    record, table = describe(quantizer)
    record["latents"] = int(quantizer.num_latents)
    record.setdefault("size", 1)
    if record["kind"] != "gaussian":
        record["counts"] = [int(count) for count in quantizer.codes_per_latent]
    _check_codes(quantizer, record, table)
    record["table"] = store.add(table, exact=True)
    return record


def _latent(layer: Any) -> tuple[dict, np.ndarray]:
    return {"kind": "nearest"}, _numpy(layer.value_table())


def _grid(layer: Any) -> tuple[dict, np.ndarray]:
    table = _numpy(layer.value_table())
    return {"kind": "grid"}, np.nan_to_num(table)  # the counts tell where rows end


def _vector(layer: Any) -> tuple[dict, np.ndarray]:
    record = {"kind": "vector", "size": int(layer.code_dim), "distance": "l2"}
    return record, _numpy(layer.value_table())[0]


def _gumbel(layer: Any) -> tuple[dict, np.ndarray]:
    if layer.code_dim == 1:
        return {"kind": "nearest"}, _numpy(layer.value_table())
    record, table = _vector(layer)
    record["distance"] = "l1" if layer.distance == "l1" else "l2"
    return record, table


def _categorical(layer: Any) -> tuple[dict, np.ndarray]:
    return {"kind": "argmax"}, _numpy(layer.value_table())


def _ordered(layer: Any) -> tuple[dict, np.ndarray]:
    temperature = float(_numpy(layer.value_of("temperature")))
    record = {"kind": "expected", "temperature": temperature}
    if layer.active_categories is not None:
        record["active"] = layer.active_categories
    return record, _numpy(layer.value_table())


def _gaussian(layer: Any) -> tuple[dict, np.ndarray]:
    return {"kind": "gaussian"}, _numpy(layer.value_table())


_KINDS: dict[type, Callable[[Any], tuple[dict, np.ndarray]]] = {
    qlayers.LatentQuantizer: _latent,
    qlayers.FiniteScalarQuantizer: _grid,
    qlayers.VectorQuantizer: _vector,
    qlayers.GumbelQuantizer: _gumbel,
    qlayers.CategoricalQuantizer: _categorical,
    qlayers.OrderedCategoricalQuantizer: _ordered,
    qlayers.GaussianLatent: _gaussian,
}


def _check_codes(layer: Any, record: dict, table: np.ndarray) -> None:
    """Compares the record's rule with the layer, whose options may change it."""
    rng = np.random.default_rng(0)
    scale = max(1.0, float(np.abs(table).max()))
    x = rng.normal(0.0, scale, (_PROBES, layer.input_size)).astype("float32")
    same = _numpy(layer.codes(x)) == codes_of(record, table, x)
    if same.mean() < _AGREEMENT:
        raise NotExportableError(
            f"options of the quantizer {layer.name!r} ({type(layer).__name__})"
        )


def codes_of(record: dict, table: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Codes of the encoder's numbers by the rule that the page follows.

    Args:
        record: See `latent_record`.
        table: The record's table.
        x: Shape `(samples, outputs)`.

    Example:

    ```python
    record = {"kind": "nearest", "latents": 1, "counts": [2]}
    codes_of(record, np.array([[0.0, 1.0]]), np.array([[0.7]]))  # [[1]]
    ```
    """
    kind, num_latents = record["kind"], record["latents"]
    if kind == "grid":
        half = (np.asarray(record["counts"], "float32") - 1.0) / 2.0
        return np.rint((np.tanh(x) + 1.0) * half).astype(int)
    if kind == "vector":
        pieces = x.reshape(len(x), num_latents, 1, -1) - table
        far = np.abs(pieces) if record["distance"] == "l1" else np.square(pieces)
        return far.sum(-1).argmin(-1)
    if kind in ("argmax", "expected"):
        logits = x.reshape(len(x), num_latents, -1).copy()
        for j, kept in enumerate(record.get("active", ())):
            logits[:, j, np.setdiff1d(np.arange(logits.shape[-1]), kept)] = -np.inf
        return logits.argmax(-1)
    return np.abs(x[:, :num_latents, None] - table).argmin(-1)


def _numpy(values: Any) -> np.ndarray:
    return np.asarray(ops.convert_to_numpy(values), "float32")
