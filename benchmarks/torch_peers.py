"""Training steps of AE, QLAE, Tripod, FactorQVAE and Cliff in plain PyTorch.

What `models.build` makes, with the same losses, weights and optimizers. Two choices
favour PyTorch: its fused Adam, and `channels_last` where that is faster (the
benchmark tries both). Unlike our models, these track no running means and no usage of
codes: a step returns the loss alone.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.torch_peers_networks import FAMILIES

Step = Callable[[torch.Tensor], float]
_TINY = 1e-30


# ------------------------------------------------------------- the methods' own terms


def latent_quantize(
    x: torch.Tensor, codebook: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """QLAE: quantized latents, and the sum of the two losses without their weight."""
    distance = (x.detach().unsqueeze(-1) - codebook.detach()).abs()
    codes = distance.argmin(-1)
    z = torch.gather(codebook, 1, codes.T).T
    quantize = (x.detach() - z).square().sum(-1).mean()
    commit = (x - z.detach()).square().sum(-1).mean()
    return x + (z - x).detach(), quantize + commit


def finite_scalar(squashed: torch.Tensor, num_values: int) -> torch.Tensor:
    """Tripod: latents in [-1, 1] rounded to the grid, straight through."""
    half = (num_values - 1) / 2
    rounded = (torch.round((squashed + 1) * half) - half) / half
    return squashed + (rounded - squashed).detach()


def kernel_multiinformation(z: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Tripod: total correlation by kernel densities with Silverman's bandwidth."""
    num_samples, n = z.shape
    log_h = (math.log(4 / (n + 2)) - math.log(num_samples)) / (n + 4)
    u = z / scale
    half_squares = -0.5 * (u[:, None] - u[None]).square()
    joint = torch.logsumexp(half_squares.sum(-1) * math.exp(-2 * log_h), dim=1)
    marginals = torch.logsumexp(half_squares, dim=1).sum(-1)
    constant = (n - 1) * math.log(num_samples) - n * log_h
    return (joint - marginals).mean() + constant


def draw_directions(num_samples: int, n: int) -> torch.Tensor:
    """Two directions of signs and two of normal numbers, `(4, num_samples, n)`."""
    signs = torch.randint(0, 2, (2, num_samples, n)) * 2.0 - 1.0
    return torch.cat([signs, torch.randn(2, num_samples, n)])


def normalized_hessian_penalty(
    fn: Callable[[torch.Tensor], list[torch.Tensor]],
    z: torch.Tensor,
    directions: torch.Tensor,
    epsilon: float = 0.1,
) -> torch.Tensor:
    """Tripod: ratio of two variances of second differences, mean over samples."""
    steps = epsilon * directions
    points = torch.cat([z + steps, z - steps]).flatten(0, 1)
    numerator = denominator = torch.zeros(())
    for output in fn(points):
        values = output.reshape(8, len(z), -1)
        sums = values[:4] + values[4:]
        numerator = numerator + 0.5 * (sums[0] - sums[1]).square().sum(-1)
        denominator = denominator + 0.5 * (sums[2] - sums[3]).square().sum(-1)
    return (numerator / (denominator + _TINY)).mean()


def gumbel_assignments(
    x: torch.Tensor, codebook: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """FactorQVAE: relaxed one-hots `(b, n, values)`, and the divergence to uniform."""
    logits = -(x.unsqueeze(-1) - codebook).abs()
    log_q = F.log_softmax(logits, dim=-1)
    divergence = (log_q.exp() * log_q).sum(-1) + math.log(len(codebook))
    uniform = torch.rand_like(logits).clamp_min(_TINY)
    noisy = logits - torch.log(-torch.log(uniform))
    return F.softmax(noisy / temperature, dim=-1), divergence.sum(-1).mean()


def permute_latents(z: torch.Tensor) -> torch.Tensor:
    """Shuffles each latent of `(b, n, values)` over the batch."""
    order = torch.rand(z.shape[:2]).argsort(0)
    return torch.gather(z, 0, order.unsqueeze(-1).expand_as(z))


def cliff_terms(
    z: torch.Tensor,
    conditions: torch.Tensor,
    points: torch.Tensor,
    bandwidth: float = 0.1,
) -> dict[str, torch.Tensor]:
    """Cliff: the three terms, all pairs of latents as one matrix product."""
    num_grid, limit = 100, 5.0
    n, num_samples = z.shape[1], z.shape[0]
    u = ((z - z.mean(0)) / z.std(0, correction=0)).T
    grid, step = torch.linspace(-limit, limit, num_grid), 2 * limit / num_grid
    offset = (grid[:, None] - u[:, None]) / bandwidth
    slopes = -offset * torch.exp(-0.5 * offset.square())
    density = _normalized(slopes.sum(-1).abs(), step)
    offset = (u[:, conditions, None] - u[:, None]) / bandwidth
    heights = torch.exp(-0.5 * offset.square())
    joint = slopes.reshape(-1, num_samples) @ heights.reshape(-1, num_samples).T
    pairs = _normalized(joint.abs().reshape(n, num_grid, n, -1), step)
    mean_entropy = _entropy(pairs, step).mean(-1)
    divergence = _entropy(pairs.mean(-1), step) - mean_entropy
    offset = (points[:, None] - u[:, None]) / bandwidth
    log_density = torch.logsumexp(-0.5 * offset.square(), dim=-1)
    log_norm = 0.5 * math.log(2 * math.pi) + math.log(bandwidth * num_samples)
    cross_entropy = log_norm - log_density.mean(-1)
    return {
        "univariate": _entropy(density, step).sum(),
        "bivariate": divergence.sum() - divergence.diagonal().sum(),
        "uniform": (cross_entropy - math.log(2 * math.sqrt(3))).sum(),
    }


def _normalized(magnitude: torch.Tensor, step: float) -> torch.Tensor:
    return magnitude / (magnitude.sum(1, keepdim=True) * step + _TINY)


def _entropy(density: torch.Tensor, step: float) -> torch.Tensor:
    return -step * (density * density.clamp_min(_TINY).log()).sum(1)


# ------------------------------------------------------------------------- the models


class Autoencoder(nn.Module):
    """AE: encoder, decoder and the loss of a batch.

    Args:
        encoder: Images to what the method reads.
        decoder: Latents to images or their logits.
        kind: `"bce"` or `"mse"`.
        summed: Whether the reconstruction loss is a sum over pixels.
    """

    def __init__(
        self, encoder: nn.Module, decoder: nn.Module, kind: str, summed: bool
    ) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.kind, self.summed = kind, summed

    def loss(self, images: torch.Tensor) -> torch.Tensor:
        return self.reconstruction(images, self.decoder(self.encoder(images)))

    def reconstruction(
        self, images: torch.Tensor, outputs: torch.Tensor
    ) -> torch.Tensor:
        compare = F.binary_cross_entropy_with_logits
        mean = (F.mse_loss if self.kind == "mse" else compare)(outputs, images)
        return mean * images[0].numel() if self.summed else mean


class QuantizedAutoencoder(Autoencoder):
    """QLAE."""

    def __init__(self, *parts: Any, num_latents: int) -> None:
        super().__init__(*parts)
        self.codebook = nn.Parameter(
            torch.linspace(-0.5, 0.5, 10).repeat(num_latents, 1)
        )

    def loss(self, images: torch.Tensor) -> torch.Tensor:
        z, terms = latent_quantize(self.encoder(images), self.codebook)
        return self.reconstruction(images, self.decoder(z)) + 1e-2 * terms


class Tripod(Autoencoder):
    """Tripod."""

    def loss(self, images: torch.Tensor) -> torch.Tensor:
        squashed = torch.tanh(self.encoder(images))
        z = finite_scalar(squashed, 12)
        scale = squashed.std(0, correction=0)
        klm = kernel_multiinformation(z, scale)
        directions = draw_directions(*z.shape) * scale
        decoder: Any = self.decoder
        nhp = normalized_hessian_penalty(decoder.inner, z, directions)
        loss = self.reconstruction(images, self.decoder(z))
        return loss + 1e-4 * klm + 1e-2 * nhp


class CliffVae(Autoencoder):
    """Cliff on the means of a beta-VAE."""

    def loss(self, images: torch.Tensor) -> torch.Tensor:
        mean, log_variance = self.encoder(images).chunk(2, dim=-1)
        scale = torch.exp(0.5 * log_variance)
        z = torch.addcmul(mean, scale, torch.randn_like(mean))
        divergence = 0.5 * (mean.square() + scale.square() - 1) - scale.log()
        points = (torch.rand(100) * 2 - 1) * math.sqrt(3)
        terms = cliff_terms(mean, torch.randperm(len(mean))[:20], points)
        loss = self.reconstruction(images, self.decoder(z))
        loss = loss + 10.0 * divergence.sum(-1).mean() + 0.5 * terms["univariate"]
        return loss + terms["bivariate"] + 0.7 * terms["uniform"]


class FactorQvae(Autoencoder):
    """FactorQVAE: the autoencoder's loss, and the discriminator beside it."""

    def __init__(self, *parts: Any, num_latents: int) -> None:
        super().__init__(*parts)
        self.codebook = nn.Parameter(torch.randn(64))
        widths = [64 * num_latents, *[1000] * 5]
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Linear(before, after), nn.LeakyReLU(0.2)]
        self.discriminator = nn.Sequential(*layers, nn.Linear(1000, 2))
        self.temperature = 1.0

    def assignments(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return gumbel_assignments(self.encoder(images), self.codebook, self.temperature)

    def log_ratio(self, weights: torch.Tensor) -> torch.Tensor:
        logits = self.discriminator(weights.flatten(1))
        return logits[:, 0] - logits[:, 1]

    def autoencoder_loss(
        self, images: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        weights, divergence = self.assignments(images)
        loss = self.reconstruction(images, self.decoder(weights @ self.codebook))
        loss = loss + 1e-3 * divergence + 1e-4 * self.log_ratio(weights).mean()
        return loss, weights.detach()

    def discriminator_loss(
        self, joint: torch.Tensor, permuted: torch.Tensor
    ) -> torch.Tensor:
        as_joint = F.softplus(-self.log_ratio(joint)).mean()
        return 0.5 * (as_joint + F.softplus(self.log_ratio(permuted)).mean())


# ------------------------------------------------------------------------- the steps


def build(
    method: str,
    family: str,
    image_shape: Sequence[int],
    num_latents: int,
    width: float = 1.0,
    loss: tuple[str, bool] = ("bce", False),
    **network_options: Any,
) -> Autoencoder:
    """The model of a method, not yet trained.

    Args:
        method: `"ae"`, `"qlae"`, `"tripod"`, `"factor_qvae"` or `"cliff"`.
        family: Networks, one of `FAMILIES`.
        image_shape: `(height, width, channels)`.
        num_latents: Number of latents.
        width: Multiplies channels and units.
        loss: Kind of the reconstruction loss, and whether it is a sum over pixels.
        **network_options: Options of encoder and decoder.
    """
    make_encoder, make_decoder = FAMILIES[family]
    num_outputs = 2 * num_latents if method == "cliff" else num_latents
    parts = (
        make_encoder(image_shape, num_outputs, width, **network_options),
        make_decoder(num_latents, image_shape, width, **network_options),
        *loss,
    )
    if method == "qlae":
        return QuantizedAutoencoder(*parts, num_latents=num_latents)
    if method == "factor_qvae":
        return FactorQvae(*parts, num_latents=num_latents)
    return {"ae": Autoencoder, "tripod": Tripod, "cliff": CliffVae}[method](*parts)


def num_parameters(model: nn.Module) -> int:
    """Number of trained scalars."""
    return sum(p.numel() for p in model.parameters())


def training_step(model: Autoencoder, method: str) -> Step:
    """A function that trains on a batch `(b, channels, height, width)`."""
    if isinstance(model, FactorQvae):
        return _factor_step(model)
    settings_of: dict[str, dict[str, Any]] = {
        "ae": {"betas": (0.9, 0.99)},
        "qlae": {"betas": (0.9, 0.99), "weight_decay": 0.1},
        "tripod": {"betas": (0.9, 0.99)},
        "cliff": {"lr": 1e-4},
    }
    optimizer = _adam(model.named_parameters(), **settings_of[method])

    def step(images: torch.Tensor) -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = model.loss(images)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _factor_step(model: FactorQvae) -> Step:
    """Algorithm 1: the autoencoder on one half, the discriminator on both."""
    own = [
        (name, parameter)
        for name, parameter in model.named_parameters()
        if not name.startswith("discriminator")
    ]
    optimizer = _adam(own)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, T_max=50_000, eta_min=1.25e-6
    )
    adversary = _adam(model.discriminator.named_parameters())

    def step(images: torch.Tensor) -> float:
        first, second = images.chunk(2)
        model.discriminator.requires_grad_(False)
        optimizer.zero_grad(set_to_none=True)
        loss, joint = model.autoencoder_loss(first)
        loss.backward()
        optimizer.step()
        schedule.step()
        model.temperature *= math.exp(-1e-5)
        model.discriminator.requires_grad_(True)
        with torch.no_grad():
            others, _ = model.assignments(second)
            permuted = permute_latents(others)
        adversary.zero_grad(set_to_none=True)
        model.discriminator_loss(joint, permuted).backward()
        adversary.step()
        return loss.item()

    return step


def _adam(
    named: Any, lr: float = 1e-3, weight_decay: float = 0.0, **settings: Any
) -> torch.optim.Optimizer:
    """Adam, or AdamW that spares biases and codebooks, as `models.optimizers`."""
    settings = {"lr": lr, "eps": 1e-8, "fused": True, **settings}
    named = list(named)
    if not weight_decay:
        return torch.optim.Adam([parameter for _, parameter in named], **settings)
    spared = [p for name, p in named if name.endswith(("bias", "codebook"))]
    decayed = [p for name, p in named if not name.endswith(("bias", "codebook"))]
    groups = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": spared, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, **settings)


def side(
    model: Autoencoder,
    method: str,
    images: np.ndarray,
    channels_last: bool,
    compiled: bool = False,
) -> Callable[[], float]:
    """A training step on fixed images `(b, height, width, channels)`, to be timed.

    Args:
        model: What is trained.
        method: Its name, which decides the optimizer.
        images: The batch.
        channels_last: Memory format of images and weights.
        compiled: Whether `torch.compile` makes the losses and their gradients one
            program. The optimizer is a fused one in any case.
    """
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    for parameter in model.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=memory_format)
    batch = torch.from_numpy(images).permute(0, 3, 1, 2)
    batch = batch.contiguous(memory_format=memory_format)
    if compiled:
        for name in ("loss", "autoencoder_loss", "discriminator_loss"):
            if hasattr(model, name):
                setattr(model, name, torch.compile(getattr(model, name)))
    step = training_step(model, method)
    return lambda: step(batch)
