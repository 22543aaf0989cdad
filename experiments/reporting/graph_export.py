"""A functional Keras model as a list of simple steps that a page can run."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from experiments.reporting.weight_store import WeightStore


class NotExportableError(ValueError):
    """A model holds something that the page's runtime does not know."""


class GraphExport:
    """Turns the layers between two tensors into steps.

    A step is a dict: `op`, `inputs` (numbers of earlier steps), `shape` of its result
    without the batch axis, `weights` (names to numbers in the store) and the op's own
    numbers. Nested models are written out in place. Layers that the outputs do not
    depend on are left out.

    Args:
        store: Takes the weights.

    Example:

    ```python
    store = WeightStore()
    steps = GraphExport(store).steps(model.inputs, model.outputs[0])
    ```
    """

    def __init__(self, store: WeightStore) -> None:
        self.store = store
        self._steps: list[dict[str, Any]] = []

    def steps(self, inputs: Sequence[Any], output: Any) -> list[dict[str, Any]]:
        """The steps from the one input tensor to the output, which is the last step.

        Raises:
            NotExportableError: For layers that the page's runtime does not know.
        """
        if len(inputs) != 1:
            raise NotExportableError(f"the model has {len(inputs)} inputs")
        self._steps = []
        start = self.add("input", [], inputs[0].shape)
        last = self._visit(output, {id(inputs[0]): start})
        if last != len(self._steps) - 1:  # an earlier step is the output
            self.add("reshape", [last], output.shape)
        return self._steps

    def add(
        self,
        op: str,
        inputs: Sequence[int],
        shape: Sequence[int | None],
        weights: dict[str, Any] | None = None,
        **numbers: Any,
    ) -> int:
        """Appends a step and returns its number.

        Args:
            op: Name of what the step does.
            inputs: Numbers of the steps that it reads.
            shape: Shape of its result, with the batch axis.
            weights: Arrays by name; None entries are left out.
            **numbers: Further plain values.
        """
        sizes = [None if size is None else int(size) for size in shape[1:]]
        if None in sizes:
            raise NotExportableError(f"a layer's output has an open size: {shape}")
        step = {"op": op, "inputs": list(inputs), "shape": sizes, **numbers}
        kept = {name: w for name, w in (weights or {}).items() if w is not None}
        if kept:
            step["weights"] = {
                name: self.store.add(_array_of(w)) for name, w in kept.items()
            }
        self._steps.append(step)
        return len(self._steps) - 1

    def shape_of(self, number: int) -> list[int]:
        """Shape of a step's result without the batch axis."""
        return self._steps[number]["shape"]

    def _visit(self, tensor: Any, known: dict[int, int]) -> int:
        """Number of the step that makes a tensor; writes what is missing for it."""
        from experiments.reporting.layer_steps import write_layer

        if id(tensor) in known:
            return known[id(tensor)]
        layer, node_index, _ = tensor._keras_history
        node = layer._inbound_nodes[node_index]
        inputs = [self._visit(source, known) for source in node.input_tensors]
        if isinstance(layer, keras.Model):
            results = self._visit_nested(layer, inputs)
        else:
            results = write_layer(self, layer, node, inputs)
        for made, number in zip(node.output_tensors, results, strict=True):
            known[id(made)] = number
        return known[id(tensor)]

    def _visit_nested(self, model: keras.Model, inputs: list[int]) -> list[int]:
        if type(model).__name__ not in ("Functional", "Sequential"):
            raise NotExportableError(f"the model {model.name!r} (not a functional one)")
        known = {id(t): i for t, i in zip(model.inputs, inputs, strict=True)}
        return [self._visit(output, known) for output in model.outputs]


def _array_of(weight: Any) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(weight), "float32")
