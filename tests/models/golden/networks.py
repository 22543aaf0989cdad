"""The papers' networks as PyTorch functions of named weights.

A function takes `w`, from the path of a variable to its value in Keras's layout
(kernels `(height, width, in, out)`, of transposed convolutions `(..., out, in)`).
"""

import pytest

torch = pytest.importorskip("torch", reason="golden steps are computed by PyTorch")
F = torch.nn.functional


def linear(w, x, name):
    return x @ w(f"{name}/kernel") + w(f"{name}/bias")


def convolution(w, x, name, stride=1, padding=None, bias=True):
    kernel = w(f"{name}/kernel").permute(3, 2, 0, 1)
    padding = (kernel.shape[-1] - 1) // 2 if padding is None else padding
    return F.conv2d(
        x, kernel, w(f"{name}/bias") if bias else None, stride=stride, padding=padding
    )


def doubling(w, x, name, bias=True):
    """A transposed 4x4 convolution with stride 2."""
    kernel = w(f"{name}/kernel").permute(3, 2, 0, 1)
    bias = w(f"{name}/bias") if bias else None
    return F.conv_transpose2d(x, kernel, bias, stride=2, padding=1)


def flat(x):
    """Flattened as (height, width, channels)."""
    return x.permute(0, 2, 3, 1).reshape(len(x), -1)


def unflat(x, side):
    return x.reshape(len(x), side, side, -1).permute(0, 3, 1, 2)


def instance_norm(x, epsilon):
    mean = x.mean((2, 3), keepdim=True)
    variance = ((x - mean) ** 2).mean((2, 3), keepdim=True)
    return (x - mean) / torch.sqrt(variance + epsilon)


def affine(w, x, name):
    scale, shift = w(f"{name}/gamma"), w(f"{name}/beta")
    return x * scale[:, None, None] + shift[:, None, None]


def styled(w, x, style, name, offset, epsilon):
    scale, shift = linear(w, style, name).chunk(2, dim=1)
    normal = instance_norm(x, epsilon)
    return normal * (scale + offset)[:, :, None, None] + shift[:, :, None, None]


# QLAE, appendix B.3: slope 0.3, the activation before the normalization.


def style_encoder(w, x, stages):
    """Outputs of the last hidden layer and of the head."""
    for stage in range(stages):
        x = convolution(w, x, f"stage{stage}_0_conv", 2, 1, bias=False)
        x = F.leaky_relu(x, 0.3)
        x = affine(w, instance_norm(x, 1e-6), f"stage{stage}_0_norm")
    x = torch.relu(linear(w, flat(x), "hidden"))
    features = torch.relu(linear(w, x, "features"))
    return features, linear(w, features, "head")


def style_decoder(w, z, stages):
    style = torch.relu(linear(w, z, "style0"))
    style = torch.relu(linear(w, style, "style1"))
    x = w("start/constant").permute(2, 0, 1).expand(len(z), -1, -1, -1)
    for stage in range(stages):
        x = F.leaky_relu(doubling(w, x, f"stage{stage}_0_conv", bias=False), 0.3)
        x = styled(w, x, style, f"stage{stage}_0_adain", 0.0, 1e-6)
    return convolution(w, x, "logits", bias=False)


# FactorQVAE, table A.4: residual blocks of full width.


def _dalle_block(w, x, name):
    try:
        skip = convolution(w, x, f"{name}_skip")
    except KeyError:
        skip = x
    for layer in range(4):
        x = convolution(w, torch.relu(x), f"{name}_{layer}_conv")
    return skip + x


def dalle_encoder(w, x):
    x = convolution(w, x - 0.5, "stem")
    for group in range(3):
        x = F.max_pool2d(x, 2) if group else x
        x = _dalle_block(w, _dalle_block(w, x, f"group{group}_0"), f"group{group}_1")
    x = torch.relu(linear(w, torch.relu(flat(x)), "hidden"))
    return linear(w, torch.relu(linear(w, x, "features")), "head")


def dalle_decoder(w, z, side):
    x = unflat(linear(w, z, "start_dense"), side // 4)
    for group in range(3):
        x = F.interpolate(x, scale_factor=2, mode="nearest") if group else x
        x = _dalle_block(w, _dalle_block(w, x, f"group{group}_0"), f"group{group}_1")
    return convolution(w, torch.relu(x), "centered_image") + 0.5


# Locatello et al., table 2 of Friede et al.: kernels 4, 4, 2 and 2 of 64x64 images;
# 16x16 images have the last two.


def locatello_encoder(w, x):
    for stage in range(2):
        x = torch.relu(convolution(w, x, f"conv{stage}", 2, 0))
    return linear(w, torch.relu(linear(w, flat(x), "features")), "head")


def locatello_decoder(w, z):
    x = torch.relu(linear(w, z, "hidden"))
    x = unflat(torch.relu(linear(w, x, "start_dense")), 4)
    return doubling(w, torch.relu(doubling(w, x, "deconv0")), "logits")


# Tripod's public code: GELU by tanh, epsilon 1e-5.


def gelu(x):
    return F.gelu(x, approximate="tanh")


def _normal_dense(w, x, name):
    x = linear(w, x, f"{name}_dense")
    mean = x.mean(1, keepdim=True)
    variance = ((x - mean) ** 2).mean(1, keepdim=True)
    x = (x - mean) / torch.sqrt(variance + 1e-5)
    return gelu(x * w(f"{name}_norm/gamma") + w(f"{name}_norm/beta"))


def _residual(w, x, name, normalize):
    try:
        skip = convolution(w, x, f"{name}_skip")
    except KeyError:
        skip = x
    for layer in range(2):
        x = convolution(w, x, f"{name}_{layer}_conv")
        x = gelu(normalize(x, f"{name}_{layer}_norm"))
    return skip + x


def residual_encoder(w, x, stages):
    def normalize(x, name):
        return affine(w, instance_norm(x, 1e-5), name)

    x = 2 * x - 1
    for stage in range(stages):
        for block in range(2):
            x = _residual(w, x, f"stage{stage}_{block}", normalize)
        # Pixels of a 2x2 patch into channels: row, column, then channel.
        n, c, h, v = x.shape
        x = x.reshape(n, c, h // 2, 2, v // 2, 2).permute(0, 3, 5, 1, 2, 4)
        x = convolution(w, x.reshape(n, 4 * c, h // 2, v // 2), f"stage{stage}_down")
    return linear(w, _normal_dense(w, x.mean((2, 3)), "features"), "head")


def residual_decoder(w, z, stages):
    """Logits, and the inner activations that Tripod regularizes."""
    condition = _normal_dense(w, _normal_dense(w, z, "cond_hidden"), "cond")

    def normalize(x, name):
        return styled(w, x, condition, name, 1.0, 1e-5)

    inner = [condition]
    x = w("start/constant").permute(2, 0, 1).expand(len(z), -1, -1, -1)
    for stage in range(stages):
        for block in range(2):
            x = _residual(w, x, f"stage{stage}_{block}", normalize)
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        is_last = stage == stages - 1
        x = convolution(w, x, "logits" if is_last else f"block{stage}")
        inner += [] if is_last else [x]
    return x, inner


def discriminator(w, x, layers, slope=0.2):
    """Two logits: samples of the joint, samples of the product of the marginals."""
    for depth in range(layers):
        x = x @ w(f"discriminator/kernel_{depth}") + w(f"discriminator/bias_{depth}")
        x = F.leaky_relu(x, slope) if depth < layers - 1 else x
    return x


def mlp(w, x):
    """Cliff, appendix G.1."""
    for layer in range(3):
        x = torch.tanh(linear(w, x, f"hidden{layer}"))
    return linear(w, x, "head")
