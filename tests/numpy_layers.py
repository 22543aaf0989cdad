"""Layers in NumPy float64, written from their definitions: what networks must equal."""

import math

import numpy as np


def conv(x, kernel, stride=1, pad=None, bias=None):
    """Cross-correlation of `(b, h, w, i)` with `(k, k, i, o)`, padded on all sides."""
    size = kernel.shape[0]
    pad = (size - 1) // 2 if pad is None else pad
    x = np.pad(np.asarray(x, float), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    rows = (x.shape[1] - size) // stride + 1
    columns = (x.shape[2] - size) // stride + 1
    y = np.zeros((len(x), rows, columns, kernel.shape[-1]))
    for i in range(rows):
        for j in range(columns):
            top, left = i * stride, j * stride
            patch = x[:, top : top + size, left : left + size]
            y[:, i, j] = np.tensordot(patch, kernel, axes=3)
    return y if bias is None else y + bias


def conv_transpose(x, kernel, stride, pad, bias=None):
    """Every input pixel stamps the kernel `(k, k, o, i)` on the output; then crop."""
    size = kernel.shape[0]
    batch, rows, columns, _ = x.shape
    shape = ((rows - 1) * stride + size, (columns - 1) * stride + size)
    y = np.zeros((batch, *shape, kernel.shape[2]))
    for i in range(rows):
        for j in range(columns):
            top, left = i * stride, j * stride
            stamp = np.einsum("bi,kloi->bklo", x[:, i, j], kernel)
            y[:, top : top + size, left : left + size] += stamp
    y = y[:, pad : shape[0] - pad, pad : shape[1] - pad]
    return y if bias is None else y + bias


def instance_norm(x, epsilon, scale=1.0, shift=0.0):
    """Per sample and channel; `scale` and `shift` broadcast against `(b, c)`."""
    y = np.empty(np.shape(x))
    for b in range(len(x)):
        for c in range(x.shape[-1]):
            values = x[b, ..., c]
            deviation = math.sqrt(((values - values.mean()) ** 2).mean() + epsilon)
            y[b, ..., c] = (values - values.mean()) / deviation
    scale = np.broadcast_to(scale, (len(x), x.shape[-1]))[:, None, None]
    shift = np.broadcast_to(shift, (len(x), x.shape[-1]))[:, None, None]
    return y * scale + shift


def layer_norm(x, epsilon, scale, shift):
    """Over the last axis."""
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + epsilon) * (
        scale
    ) + (shift)


def relu(x):
    return np.maximum(x, 0.0)


def leaky_relu(x, slope):
    return np.where(x > 0, x, slope * x)


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def double(x):
    """Nearest-neighbour upsampling by two."""
    return x.repeat(2, axis=1).repeat(2, axis=2)


def max_pool(x):
    """2x2 with stride 2."""
    b, h, w, c = x.shape
    return x.reshape(b, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))
