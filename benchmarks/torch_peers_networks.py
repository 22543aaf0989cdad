"""The networks of `models.networks` in plain PyTorch, to measure against.

The same layers, widths and parameters, written as PyTorch users write them: `Conv2d`,
`ConvTranspose2d`, `interpolate`, `GroupNorm` with one channel a group (faster on CPU
than `InstanceNorm2d`, and the same function). Only the papers' variants are here.
A learned start stays a batch of one until a style comes in, as in our decoders.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Shape = Sequence[int]
_LEAKY_SLOPE = 0.3


def _scaled(channels: int, width: float) -> int:
    return max(1, round(channels * width))


def _num_stages(image_shape: Shape) -> int:
    """Halvings from the image's side down to four pixels."""
    return int(math.log2(image_shape[0] // 4))


def _same(in_channels: int, out_channels: int, size: int, **kwargs: Any) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, size, padding=size // 2, **kwargs)


def _halving(in_channels: int, out_channels: int, **kwargs: Any) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, 4, stride=2, padding=1, **kwargs)


def _doubling(in_channels: int, out_channels: int, **kwargs: Any) -> nn.ConvTranspose2d:
    return nn.ConvTranspose2d(
        in_channels, out_channels, 4, stride=2, padding=1, **kwargs
    )


class _Affine(nn.Module):
    """Multiplies and shifts by fixed numbers."""

    def __init__(self, factor: float, offset: float) -> None:
        super().__init__()
        self.factor, self.offset = factor, offset

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor + self.offset


class _StyledNorm(nn.Module):
    """Instance normalization with scale and shift from a style."""

    def __init__(
        self, channels: int, features: int, scale_offset: float, eps: float
    ) -> None:
        super().__init__()
        self.channels, self.scale_offset, self.eps = channels, scale_offset, eps
        self.project = nn.Linear(features, 2 * channels)

    def forward(self, x: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        scale, shift = self.project(style)[:, :, None, None].chunk(2, dim=1)
        normalized = F.group_norm(x, self.channels, eps=self.eps)
        return torch.addcmul(shift, normalized, scale + self.scale_offset)


def _skip(before: int, channels: int) -> nn.Module:
    """What a residual block adds: its input, with as many channels as its output."""
    return nn.Identity() if before == channels else nn.Conv2d(before, channels, 1)


def _with_head(layers: Sequence[nn.Module], *units: int) -> nn.Module:
    """Convolutions, then dense layers of these sizes with ReLU between them."""
    head: list[nn.Module] = [nn.Flatten()]
    for before, after in itertools.pairwise(units):
        head += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, *head[:-1])


# ------------------------------------------------------------------------- QLAE


def style_encoder(
    image_shape: Shape, num_outputs: int, width: float, preserving_layers: int
) -> nn.Module:
    """QLAE's encoder: convolution, leaky ReLU, instance normalization."""
    layers: list[nn.Module] = []
    before, stages = image_shape[-1], _num_stages(image_shape)
    for stage in range(stages):
        channels = _scaled(32 * 2**stage, width)
        for layer in range(preserving_layers + 1):
            if layer == preserving_layers:
                layers.append(_halving(before, channels, bias=False))
            else:
                layers.append(_same(before, channels, 3, bias=False))
            layers += [
                nn.LeakyReLU(_LEAKY_SLOPE),
                nn.GroupNorm(channels, channels, eps=1e-6),
            ]
            before = channels
    units = _scaled(256, width)
    return _with_head(layers, 16 * before, units, units, num_outputs)


class StyleDecoder(nn.Module):
    """QLAE's decoder: a learned map, convolutions, norms with a style."""

    def __init__(
        self,
        num_latents: int,
        image_shape: Shape,
        width: float,
        preserving_layers: int,
    ) -> None:
        super().__init__()
        stages = range(_num_stages(image_shape))
        widths = [_scaled(32 * 2**stage, width) for stage in reversed(stages)]
        units = _scaled(256, width)
        self.style = nn.Sequential(
            nn.Linear(num_latents, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU()
        )
        self.start = nn.Parameter(torch.full((1, widths[0], 4, 4), 0.1))
        self.convolutions, self.norms = nn.ModuleList(), nn.ModuleList()
        before = widths[0]
        for channels in widths:
            for layer in range(preserving_layers + 1):
                if layer == preserving_layers:
                    self.convolutions.append(_doubling(before, channels, bias=False))
                else:
                    self.convolutions.append(_same(before, channels, 3, bias=False))
                self.norms.append(_StyledNorm(channels, units, 0.0, eps=1e-6))
                before = channels
        self.logits = nn.Conv2d(before, image_shape[-1], 1, bias=False)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        style = self.style(latents)
        x = self.start
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(F.leaky_relu(convolution(x), _LEAKY_SLOPE), style)
        return self.logits(x)


# ------------------------------------------------------------------------- Tripod


class _ResidualBlock(nn.Module):
    """Two times (3x3 convolution, norm, GELU), added to the input."""

    def __init__(self, before: int, channels: int, features: int | None) -> None:
        super().__init__()
        self.skip = _skip(before, channels)
        self.convolutions = nn.ModuleList(
            [_same(before, channels, 3), _same(channels, channels, 3)]
        )
        self.norms = nn.ModuleList(
            nn.GroupNorm(channels, channels, eps=1e-5)
            if features is None
            else _StyledNorm(channels, features, 1.0, eps=1e-5)
            for _ in range(2)
        )

    def forward(self, x: torch.Tensor, *condition: torch.Tensor) -> torch.Tensor:
        y = x
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            y = F.gelu(norm(convolution(y), *condition), approximate="tanh")
        return self.skip(x) + y


def _dense_norm_gelu(before: int, units: int) -> list[nn.Module]:
    return [
        nn.Linear(before, units),
        nn.LayerNorm(units, eps=1e-5),
        nn.GELU(approximate="tanh"),
    ]


def residual_encoder(image_shape: Shape, num_outputs: int, width: float) -> nn.Module:
    """Tripod's encoder: residual blocks, pixels moved into channels, a mean."""
    layers: list[nn.Module] = [_Affine(2.0, -1.0)]
    before = image_shape[-1]
    for stage in range(_num_stages(image_shape)):
        channels = _scaled(32 * 2**stage, width)
        following = _scaled(64 * 2**stage, width)
        layers += [
            _ResidualBlock(before, channels, None),
            _ResidualBlock(channels, channels, None),
            nn.PixelUnshuffle(2),
            nn.Conv2d(4 * channels, following, 1),
        ]
        before = following
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        *_dense_norm_gelu(before, before),
        nn.Linear(before, num_outputs),
    )


class _UpStage(nn.Module):
    """Two conditional blocks, doubling, a 3x3 convolution."""

    def __init__(self, channels: int, following: int, features: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            [_ResidualBlock(channels, channels, features) for _ in range(2)]
        )
        self.convolution = _same(channels, following, 3)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, condition)
        return self.convolution(F.interpolate(x, scale_factor=2, mode="nearest"))


class ResidualDecoder(nn.Module):
    """Tripod's decoder: residual blocks whose norms read a condition."""

    def __init__(self, num_latents: int, image_shape: Shape, width: float) -> None:
        super().__init__()
        stages = range(_num_stages(image_shape))
        widths = [_scaled(64 * 2**stage, width) for stage in reversed(stages)]
        units = _scaled(256, width)
        self.condition = nn.Sequential(
            *_dense_norm_gelu(num_latents, units), *_dense_norm_gelu(units, units)
        )
        self.start = nn.Parameter(torch.ones(1, widths[0], 4, 4))
        after = [*widths[1:], image_shape[-1]]
        self.stages = nn.ModuleList(
            _UpStage(channels, following, units)
            for channels, following in zip(widths, after, strict=True)
        )

    def inner(self, latents: torch.Tensor) -> list[torch.Tensor]:
        """The condition and the outputs of all stages but the last."""
        condition = self.condition(latents)
        activations = [condition]
        x = self.start
        for stage in self.stages[:-1]:
            x = stage(x, condition)
            activations.append(x)
        return activations

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        activations = self.inner(latents)
        return self.stages[-1](activations[-1], activations[0])


# ------------------------------------------------------------------------- FactorQVAE


class _PlainBlock(nn.Module):
    """ReLU and convolution, four times, added to the input."""

    def __init__(self, before: int, channels: int, sizes: Sequence[int]) -> None:
        super().__init__()
        self.skip = _skip(before, channels)
        inputs = [before, channels, channels, channels]
        self.convolutions = nn.ModuleList(
            _same(i, channels, size) for i, size in zip(inputs, sizes, strict=True)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for convolution in self.convolutions:
            y = convolution(F.relu(y))
        return self.skip(x) + y


def _groups(
    before: int, widths: Sequence[int], sizes: Sequence[int], between: nn.Module
) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for group, channels in enumerate(widths):
        if group > 0:
            layers.append(between)
        layers += [
            _PlainBlock(before, channels, sizes),
            _PlainBlock(channels, channels, sizes),
        ]
        before = channels
    return layers


def dalle_encoder(image_shape: Shape, num_outputs: int, width: float) -> nn.Module:
    """FactorQVAE's encoder: residual blocks without norms, max-pooling."""
    widths = [_scaled(128 * 2**group, width) for group in range(3)]
    units = _scaled(128, width)
    size = widths[-1] * (image_shape[0] // 4) * (image_shape[1] // 4)
    return nn.Sequential(
        _Affine(1.0, -0.5),
        _same(image_shape[-1], widths[0], 3),
        *_groups(widths[0], widths, (3, 3, 3, 1), nn.MaxPool2d(2)),
        nn.Flatten(),
        nn.ReLU(),
        nn.Linear(size, units),
        nn.ReLU(),
        nn.Linear(units, units),
        nn.ReLU(),
        nn.Linear(units, num_outputs),
    )


def dalle_decoder(num_latents: int, image_shape: Shape, width: float) -> nn.Module:
    """FactorQVAE's decoder: residual blocks without norms, pixel doubling."""
    widths = [_scaled(128 * 2**group, width) for group in (2, 1, 0)]
    start = (_scaled(16, width), image_shape[0] // 4, image_shape[1] // 4)
    double = nn.Upsample(scale_factor=2, mode="nearest")
    return nn.Sequential(
        nn.Linear(num_latents, math.prod(start)),
        nn.Unflatten(1, start),
        *_groups(start[0], widths, (1, 3, 3, 3), double),
        nn.ReLU(),
        nn.Conv2d(widths[-1], image_shape[-1], 1),
        _Affine(1.0, 0.5),
    )


# ------------------------------------------------------------------------- Cliff


def locatello_encoder(image_shape: Shape, num_outputs: int, width: float) -> nn.Module:
    """The encoder of Locatello et al. with 4x4 kernels throughout."""
    layers: list[nn.Module] = []
    before, stages = image_shape[-1], _num_stages(image_shape)
    for stage in range(stages):
        channels = _scaled(64 if stage >= stages - 2 else 32, width)
        layers += [_halving(before, channels), nn.ReLU()]
        before = channels
    return _with_head(layers, 16 * before, _scaled(256, width), num_outputs)


def locatello_decoder(num_latents: int, image_shape: Shape, width: float) -> nn.Module:
    """The decoder of Locatello et al."""
    units, before = _scaled(256, width), _scaled(64, width)
    layers: list[nn.Module] = [
        nn.Linear(num_latents, units),
        nn.ReLU(),
        nn.Linear(units, 16 * before),
        nn.ReLU(),
        nn.Unflatten(1, (before, 4, 4)),
    ]
    for stage in range(_num_stages(image_shape) - 1):
        channels = _scaled(64 if stage == 0 else 32, width)
        layers += [_doubling(before, channels), nn.ReLU()]
        before = channels
    return nn.Sequential(*layers, _doubling(before, image_shape[-1]))


FAMILIES: dict[str, tuple[Callable[..., nn.Module], Callable[..., nn.Module]]] = {
    "style": (style_encoder, StyleDecoder),
    "residual": (residual_encoder, ResidualDecoder),
    "dalle": (dalle_encoder, dalle_decoder),
    "locatello": (locatello_encoder, locatello_decoder),
}
