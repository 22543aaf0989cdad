"""What each layer becomes in a page: one function a kind of layer."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import layers

from experiments.reporting.graph_export import GraphExport, NotExportableError
from qlayers import blocks

_ACTIVATIONS = {"linear", "relu", "tanh", "sigmoid", "gelu", "softplus", "silu", "elu"}


def write_layer(
    graph: GraphExport, layer: Any, node: Any, inputs: Sequence[int]
) -> list[int]:
    """Appends the steps of one call of a layer.

    Args:
        graph: Takes the steps.
        layer: A Keras layer or operation.
        node: Its call in the functional graph.
        inputs: Numbers of the steps that make its inputs.

    Returns:
        Number of the step of each output.

    Example:

    ```python
    graph = GraphExport(WeightStore())
    graph.steps(model.inputs, model.outputs[0])  # calls write_layer for each layer
    ```
    """
    write = _writer_of(layer)
    if write is None:
        raise NotExportableError(f"the layer {layer.name!r} ({type(layer).__name__})")
    if getattr(layer, "data_format", "channels_last") == "channels_first":
        raise NotExportableError(f"the layer {layer.name!r} has its channels first")
    made = write(graph, layer, list(inputs), [t.shape for t in node.output_tensors])
    return made if isinstance(made, list) else [made]


def _writer_of(layer: Any) -> Callable[..., Any] | None:
    # Exact types: a subclass may compute something else.
    if type(layer) in _LAYERS:
        return _LAYERS[type(layer)]
    if type(layer).__module__.startswith("keras.src.ops."):
        return _OPERATIONS.get(type(layer).__name__)
    return None


def _activate(graph: GraphExport, number: int, activation: Any) -> int:
    """The step of an activation function, or the same number for the identity."""
    name = keras.activations.serialize(activation)
    name = name if isinstance(name, str) else name.get("config", name)
    name = {"swish": "silu"}.get(name, name) if isinstance(name, str) else None
    if name == "leaky_relu":
        return _leaky(graph, number, 0.2)
    if name not in _ACTIVATIONS:
        raise NotExportableError(f"the activation {activation!r}")
    if name == "linear":
        return number
    shape = [None, *graph.shape_of(number)]
    return graph.add("activation", [number], shape, kind=name)


def _leaky(graph: GraphExport, number: int, slope: float) -> int:
    shape = [None, *graph.shape_of(number)]
    slope = float(slope)
    return graph.add("activation", [number], shape, kind="leaky_relu", slope=slope)


def _dense(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    if len(graph.shape_of(inputs[0])) != 1:
        raise NotExportableError(
            f"{layer.name!r} is a dense layer of more than vectors"
        )
    weights = {"kernel": layer.kernel, "bias": layer.bias}
    return _activate(
        graph, graph.add("dense", inputs, shapes[0], weights), layer.activation
    )


def _check_plain(layer: Any, *, padding: Any = ("same", "valid")) -> None:
    """Refuses what the runtime's convolutions and poolings lack."""
    odd = [
        getattr(layer, "groups", 1) != 1,
        any(rate != 1 for rate in getattr(layer, "dilation_rate", (1,))),
        layer.padding not in padding,
        getattr(layer, "output_padding", None) is not None,
    ]
    if any(odd):
        raise NotExportableError(f"the options of the layer {layer.name!r}")


def _before(size: int, kernel: int, stride: int, padding: str) -> int:
    """Zeros that "same" puts before the first pixel; the odd one goes behind."""
    if padding == "valid":
        return 0
    return max((-(-size // stride) - 1) * stride + kernel - size, 0) // 2


def _conv(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    _check_plain(layer)
    numbers = _window(graph, inputs[0], layer.kernel_size, layer.strides, layer.padding)
    weights = {"kernel": layer.kernel, "bias": layer.bias}
    number = graph.add("conv", inputs, shapes[0], weights, **numbers)
    return _activate(graph, number, layer.activation)


def _window(
    graph: GraphExport, number: int, size: Any, strides: Any, padding: str
) -> dict[str, Any]:
    rows, columns = graph.shape_of(number)[:2]
    before = [
        _before(length, kernel, stride, padding)
        for length, kernel, stride in zip((rows, columns), size, strides, strict=True)
    ]
    return {"size": list(size), "strides": list(strides), "before": before}


def _conv_transpose(
    graph: GraphExport, layer: Any, inputs: list[int], shapes: Any
) -> int:
    _check_plain(layer)
    pairs = list(zip(layer.kernel_size, layer.strides, strict=True))
    crop = [
        0 if layer.padding == "valid" else max(kernel - stride, 0) // 2
        for kernel, stride in pairs
    ]
    weights = {"kernel": layer.kernel, "bias": layer.bias}
    number = graph.add(
        "conv_transpose",
        inputs,
        shapes[0],
        weights,
        size=list(layer.kernel_size),
        strides=list(layer.strides),
        before=crop,
    )
    return _activate(graph, number, layer.activation)


def _upsampling_conv(
    graph: GraphExport, layer: Any, inputs: list[int], shapes: Any
) -> int:
    weights = {"kernel": layer.kernel, "bias": layer.bias}
    return graph.add("upsampling_conv", inputs, shapes[0], weights)


def _instance_norm(
    graph: GraphExport, layer: Any, inputs: list[int], shapes: Any
) -> int:
    weights = {"gamma": layer.gamma, "beta": layer.beta} if layer.affine else None
    epsilon = float(layer.epsilon)
    return graph.add("instance_norm", inputs, shapes[0], weights, epsilon=epsilon)


def _adain(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    image, style = inputs
    weights = {"kernel": layer.kernel, "bias": layer.bias}
    size = (None, int(layer.bias.shape[0]))
    projected = graph.add("dense", [style], size, weights)
    projected = _activate(graph, projected, layer.activation)
    return graph.add(
        "adain",
        [image, projected],
        shapes[0],
        epsilon=float(layer.epsilon),
        scale_offset=float(layer.scale_offset),
    )


def _layer_norm(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    axes = layer.axis if isinstance(layer.axis, (list, tuple)) else [layer.axis]
    if list(axes) not in ([-1], [len(shapes[0]) - 1]):
        raise NotExportableError(f"{layer.name!r} normalizes other axes than the last")
    weights = {"gamma": layer.gamma, "beta": layer.beta}
    epsilon = float(layer.epsilon)
    return graph.add("layer_norm", inputs, shapes[0], weights, epsilon=epsilon)


def _batch_norm(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    if layer.axis not in (-1, len(shapes[0]) - 1):
        raise NotExportableError(f"{layer.name!r} normalizes other axes than the last")
    weights = {
        "gamma": layer.gamma if layer.scale else None,
        "beta": layer.beta if layer.center else None,
        "mean": layer.moving_mean,
        "variance": layer.moving_variance,
    }
    epsilon = float(layer.epsilon)
    return graph.add("batch_norm", inputs, shapes[0], weights, epsilon=epsilon)


def _rescaling(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    try:
        scale, offset = float(layer.scale), float(layer.offset)
    except TypeError:
        raise NotExportableError(f"{layer.name!r} scales by channel") from None
    return graph.add("rescale", inputs, shapes[0], scale=scale, offset=offset)


def _activation_layer(
    graph: GraphExport, layer: Any, inputs: list[int], shapes: Any
) -> int:
    return _activate(graph, inputs[0], layer.activation)


def _leaky_layer(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    return _leaky(graph, inputs[0], layer.negative_slope)


def _relu_layer(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    if layer.max_value is not None or layer.threshold != 0:
        raise NotExportableError(f"the options of the layer {layer.name!r}")
    return _leaky(graph, inputs[0], layer.negative_slope)


def _gelu_operation(
    graph: GraphExport, operation: Any, inputs: list[int], shapes: Any
) -> int:
    kind = "gelu_tanh" if operation.approximate else "gelu"
    return graph.add("activation", inputs, shapes[0], kind=kind)


def _activation_operation(name: str) -> Callable[..., int]:
    def write(
        graph: GraphExport, operation: Any, inputs: list[int], shapes: Any
    ) -> int:
        return graph.add("activation", inputs, shapes[0], kind=name)

    return write


def _reshape(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    return graph.add("reshape", inputs, shapes[0])


def _same(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    return inputs[0]


def _elementwise(op: str) -> Callable[..., int]:
    def write(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
        wanted = [int(size) for size in shapes[0][1:]]
        if len(inputs) < 2 or any(graph.shape_of(i) != wanted for i in inputs):
            raise NotExportableError(f"{layer.name!r} broadcasts its inputs")
        return graph.add(op, inputs, shapes[0])

    return write


def _concatenate(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    if layer.axis not in (-1, len(shapes[0]) - 1):
        raise NotExportableError(f"{layer.name!r} joins other axes than the last")
    return graph.add("concatenate", inputs, shapes[0])


def _split(
    graph: GraphExport, operation: Any, inputs: list[int], shapes: Any
) -> list[int]:
    if operation.axis not in (-1, len(shapes[0]) - 1):
        raise NotExportableError(f"{operation.name!r} cuts other axes than the last")
    made, start = [], 0
    for shape in shapes:
        made.append(graph.add("slice", inputs, shape, start=start))
        start += int(shape[-1])
    return made


def _max_pool(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    _check_plain(layer)
    numbers = _window(graph, inputs[0], layer.pool_size, layer.strides, layer.padding)
    return graph.add("max_pool", inputs, shapes[0], **numbers)


def _global_average(
    graph: GraphExport, layer: Any, inputs: list[int], shapes: Any
) -> int:
    if layer.keepdims:
        raise NotExportableError(f"the options of the layer {layer.name!r}")
    return graph.add("global_average", inputs, shapes[0])


def _upsample(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    if layer.interpolation != "nearest":
        raise NotExportableError(f"{layer.name!r} interpolates")
    return graph.add("upsample", inputs, shapes[0], factors=list(layer.size))


def _zero_pad(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    before = [int(pair[0]) for pair in layer.padding]
    return graph.add("zero_pad", inputs, shapes[0], before=before)


def _constant(graph: GraphExport, layer: Any, inputs: list[int], shapes: Any) -> int:
    return graph.add("constant", [], shapes[0], {"value": layer.constant})


def _space_to_depth(
    graph: GraphExport, layer: Any, inputs: list[int], shapes: Any
) -> int:
    return graph.add("space_to_depth", inputs, shapes[0], block=int(layer.block_size))


def _spatial_broadcast(
    graph: GraphExport, layer: Any, inputs: list[int], shapes: Any
) -> int:
    return graph.add("spatial_broadcast", inputs, shapes[0])


_LAYERS: dict[type, Callable[..., Any]] = {
    layers.Dense: _dense,
    layers.Conv2D: _conv,
    layers.Conv2DTranspose: _conv_transpose,
    layers.LayerNormalization: _layer_norm,
    layers.BatchNormalization: _batch_norm,
    layers.Rescaling: _rescaling,
    layers.Activation: _activation_layer,
    layers.LeakyReLU: _leaky_layer,
    layers.ReLU: _relu_layer,
    layers.Reshape: _reshape,
    layers.Flatten: _reshape,
    layers.Identity: _same,
    layers.Dropout: _same,
    layers.Add: _elementwise("add"),
    layers.Multiply: _elementwise("multiply"),
    layers.Concatenate: _concatenate,
    layers.MaxPooling2D: _max_pool,
    layers.GlobalAveragePooling2D: _global_average,
    layers.UpSampling2D: _upsample,
    layers.ZeroPadding2D: _zero_pad,
    blocks.AdaptiveInstanceNormalization: _adain,
    blocks.FirstInput: _same,
    blocks.InstanceNormalization: _instance_norm,
    blocks.LearnedConstant: _constant,
    blocks.SpaceToDepth: _space_to_depth,
    blocks.SpatialBroadcast: _spatial_broadcast,
    blocks.UpsamplingConv2D: _upsampling_conv,
}

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "Add": _elementwise("add"),
    "Multiply": _elementwise("multiply"),
    "Concatenate": _concatenate,
    "Split": _split,
    "Gelu": _gelu_operation,
    "Relu": _activation_operation("relu"),
    "Sigmoid": _activation_operation("sigmoid"),
    "Tanh": _activation_operation("tanh"),
}
