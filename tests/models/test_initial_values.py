"""Discriminators and critics start as those of the papers' public codes."""

import keras
import numpy as np
import pytest
from scipy import stats

import models
from tests.models.tiny import STYLE, tiny_model

# Enough weights to tell distributions apart; layers of one size must differ.
WIDE = {"hidden_units": [200, 200, 200], "seed": 0}


def values(weight):
    return np.asarray(weight, "float64").ravel()


@pytest.mark.parametrize("method", ["factor_vae", "factor_d_vae"])
def test_friedes_discriminators_have_haikus_truncated_normals(method):
    discriminator = tiny_model(method, **WIDE).discriminator
    for kernel in discriminator.kernels[1:3]:
        # Haiku: a normal of deviation 1/sqrt(fan_in), cut at two deviations.
        cut = stats.truncnorm(-2, 2, scale=200**-0.5)
        assert stats.kstest(values(kernel), cut.cdf).pvalue > 1e-3
        assert stats.kstest(values(kernel), "uniform", (-0.12, 0.24)).pvalue < 1e-6
    assert not any(values(bias).any() for bias in discriminator.biases)
    first, second = map(values, discriminator.kernels[1:3])
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05


@pytest.mark.parametrize("method", ["factor_qvae", "factor_dvae_learned"])
def test_factor_qvaes_discriminators_have_normals_of_deviation_002(method):
    discriminator = tiny_model(method, **WIDE).discriminator
    for kernel in discriminator.kernels[:3]:
        normal = stats.norm(scale=0.02)
        assert stats.kstest(values(kernel), normal.cdf).pvalue > 1e-3
    first, second = map(values, discriminator.kernels[1:3])
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05


@pytest.mark.parametrize("method", ["infowgan_gp", "ql_infowgan_gp"])
def test_critic_is_one_projection_with_equinoxs_uniform_values(method):
    options = {**STYLE, "width": 4.0}
    kernel_values, bias_values = [], []
    for seed in range(2):
        keras.utils.set_random_seed(seed)
        model = models.build(method, (8, 8, 3), 4, **options)
        kernel, bias = model.critic.get_layer("value").get_weights()
        kernel_values.append(values(kernel))
        bias_values.append(float(bias[0]))
    features = len(kernel_values[0])
    limit = features**-0.5
    drawn = np.concatenate(kernel_values)
    uniform = stats.uniform(-limit, 2 * limit)
    assert stats.kstest(drawn, uniform.cdf).pvalue > 1e-3
    # Glorot's limit would be larger by sqrt(6) for one output.
    assert np.abs(drawn).max() <= limit
    assert all(0 < abs(bias) <= limit for bias in bias_values)
