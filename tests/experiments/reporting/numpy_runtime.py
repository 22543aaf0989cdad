"""Runs an exported network in NumPy float64, from the export's description alone."""

import base64
import math
import zlib

import numpy as np

from tests import numpy_layers


def unpack(packed):
    """The arrays of a packed store, read by struct layout."""
    raw = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), np.uint8)
    sizes = [int(np.prod(shape)) for shape in packed["shapes"]]
    halves = sum(n for n, half in zip(sizes, packed["half"], strict=True) if half)
    first = raw[: 2 * halves].reshape(2, -1).T.copy().view("<f2").ravel()
    rest = raw[2 * halves :].reshape(4, -1).T.copy().view("<f4").ravel()
    arrays = []
    for shape, size, half in zip(packed["shapes"], sizes, packed["half"], strict=True):
        if half:
            taken, first = first[:size], first[size:]
        else:
            taken, rest = rest[:size], rest[size:]
        arrays.append(taken.astype(float).reshape(shape))
    assert not len(first) and not len(rest)
    return arrays


def run(steps, weights, x):
    """The output of a list of steps for a batch."""
    values = []
    for step in steps:
        own = {k: weights[i] for k, i in step.get("weights", {}).items()}
        inputs = [values[i] for i in step["inputs"]]
        value = np.asarray(x, float) if step["op"] == "input" else None
        if value is None:
            value = _OPS[step["op"]](step, own, *inputs)
        assert list(value.shape[1:]) == step["shape"], step
        values.append(value)
    return values[-1]


def _dense(step, own, x):
    return x @ own["kernel"] + own.get("bias", 0.0)


def _padded(step, x, kernel, stride, value=0.0):
    """Rows and columns that the windows of a step cover."""
    ends = []
    for axis in (0, 1):
        covered = (step["shape"][axis] - 1) * stride[axis] + kernel[axis]
        before = step["before"][axis]
        ends.append((before, max(covered - before - x.shape[1 + axis], 0)))
    return np.pad(x, [(0, 0), *ends, (0, 0)], constant_values=value)


def _conv(step, own, x):
    (stride, other), kernel = step["strides"], own["kernel"]
    assert stride == other
    x = _padded(step, x, kernel.shape[:2], step["strides"])
    return numpy_layers.conv(x, kernel, stride, 0, own.get("bias"))[
        :, : step["shape"][0], : step["shape"][1]
    ]


def _conv_transpose(step, own, x):
    full = numpy_layers.conv_transpose(x, own["kernel"], step["strides"][0], 0)
    rows, columns = step["shape"][:2]
    full = np.pad(full, ((0, 0), (0, rows), (0, columns), (0, 0)))
    top, left = step["before"]
    return full[:, top : top + rows, left : left + columns] + own.get("bias", 0.0)


def _upsampling_conv(step, own, x):
    return numpy_layers.conv(numpy_layers.double(x), own["kernel"], bias=own["bias"])


def _adain(step, own, x, style):
    channels = x.shape[-1]
    scale, shift = style[:, :channels] + step["scale_offset"], style[:, channels:]
    x = np.broadcast_to(x, (len(style), *x.shape[1:]))
    return numpy_layers.instance_norm(x, step["epsilon"], scale, shift)


def _instance_norm(step, own, x):
    gamma, beta = own.get("gamma", 1.0), own.get("beta", 0.0)
    return numpy_layers.instance_norm(x, step["epsilon"], gamma, beta)


def _layer_norm(step, own, x):
    return numpy_layers.layer_norm(x, step["epsilon"], own["gamma"], own["beta"])


def _batch_norm(step, own, x):
    deviation = np.sqrt(own["variance"] + step["epsilon"])
    return (x - own["mean"]) / deviation * own["gamma"] + own["beta"]


def _activation(step, own, x):
    erf = np.vectorize(math.erf)
    return {
        "relu": numpy_layers.relu,
        "leaky_relu": lambda x: numpy_layers.leaky_relu(x, step["slope"]),
        "tanh": np.tanh,
        "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
        "silu": lambda x: x / (1.0 + np.exp(-x)),
        "softplus": lambda x: np.log1p(np.exp(x)),
        "elu": lambda x: np.where(x > 0, x, np.exp(x) - 1.0),
        "gelu": lambda x: 0.5 * x * (1.0 + erf(x / math.sqrt(2.0))),
        "gelu_tanh": numpy_layers.gelu_tanh,
    }[step["kind"]](x)


def _max_pool(step, own, x):
    x = _padded(step, x, step["size"], step["strides"], -np.inf)
    rows, columns = step["shape"][:2]
    moved = [
        x[:, a : a + rows * s : s, b : b + columns * t : t][:, :rows, :columns]
        for s, t in [step["strides"]]
        for a in range(step["size"][0])
        for b in range(step["size"][1])
    ]
    return np.max(moved, axis=0)


def _zero_pad(step, own, x):
    ends = [
        (step["before"][i], step["shape"][i] - step["before"][i] - x.shape[1 + i])
        for i in (0, 1)
    ]
    return np.pad(x, [(0, 0), *ends, (0, 0)])


def _space_to_depth(step, own, x):
    b = step["block"]
    cells = [x[:, i::b, j::b] for i in range(b) for j in range(b)]
    return np.concatenate(cells, axis=-1)


def _spatial_broadcast(step, own, x):
    rows, columns, _ = step["shape"]
    made = np.zeros((len(x), *step["shape"]))
    made[..., :-2] = x[:, None, None]
    made[..., -2] = np.linspace(-1, 1, columns)
    made[..., -1] = np.linspace(-1, 1, rows)[:, None]
    return made


_OPS = {
    "dense": _dense,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "upsampling_conv": _upsampling_conv,
    "adain": _adain,
    "instance_norm": _instance_norm,
    "layer_norm": _layer_norm,
    "batch_norm": _batch_norm,
    "activation": _activation,
    "max_pool": _max_pool,
    "zero_pad": _zero_pad,
    "space_to_depth": _space_to_depth,
    "spatial_broadcast": _spatial_broadcast,
    "constant": lambda step, own: own["value"][None],
    "reshape": lambda step, own, x: x.reshape(len(x), *step["shape"]),
    "rescale": lambda step, own, x: x * step["scale"] + step["offset"],
    "add": lambda step, own, *all_of: sum(all_of[1:], all_of[0]),
    "multiply": lambda step, own, x, y: x * y,
    "concatenate": lambda step, own, *all_of: np.concatenate(all_of, -1),
    "slice": lambda step, own, x: x[
        ..., step["start"] : step["start"] + step["shape"][-1]
    ],
    "global_average": lambda step, own, x: x.mean((1, 2)),
    "upsample": lambda step, own, x: x.repeat(step["factors"][0], 1).repeat(
        step["factors"][1], 2
    ),
}
