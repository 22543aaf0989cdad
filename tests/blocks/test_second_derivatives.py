"""Gradient penalties differentiate a gradient: blocks must allow it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qlayers.blocks import AdaptiveInstanceNormalization, InstanceNormalization


def smooth_critic(normalize):
    """Leaky ReLUs would not do: their slopes jump, and with them the penalty."""
    keras.utils.set_random_seed(0)
    image = keras.Input((6, 6, 3))
    x = image
    for _ in range(2):
        x = keras.layers.Conv2D(8, 3, padding="same", activation="tanh")(x)
        x = normalize(x, image)
    x = keras.layers.Flatten()(keras.layers.Conv2D(4, 3, activation="tanh")(x))
    return keras.Model(image, keras.layers.Dense(1)(x))


def with_instance_norm(x, image):
    return InstanceNormalization()(x)


def with_adaptive_norm(x, image):
    style = keras.layers.GlobalAveragePooling2D()(image)
    return AdaptiveInstanceNormalization(scale_offset=1.0)([x, style])


def gradient_penalty(model, images):
    with tf.GradientTape() as tape:
        tape.watch(images)
        value = tf.reduce_sum(model(images))
    slopes = tf.reshape(tape.gradient(value, images), (len(images), -1))
    return tf.reduce_mean((tf.norm(slopes, axis=1) - 1.0) ** 2)


def central_difference(function, variables, directions, step=1e-3):
    """Slope of `function` along `directions`, of fourth order in the step."""
    values, position = {}, 0
    for target in (-2, -1, 1, 2):
        for variable, direction in zip(variables, directions, strict=True):
            variable.assign_add((target - position) * step * direction)
        position = target
        values[target] = function()
    return (8.0 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12.0 * step)


@pytest.mark.parametrize("normalize", [with_instance_norm, with_adaptive_norm])
def test_gradient_penalty_against_finite_differences(normalize):
    model = smooth_critic(normalize)
    rng = np.random.default_rng(0)
    images = tf.constant(rng.uniform(size=(4, 6, 6, 3)), "float32")
    variables = model.trainable_variables[:-1]  # the last bias has no effect on slopes
    directions = [rng.normal(size=v.shape).astype("float32") for v in variables]
    with tf.GradientTape() as tape:
        penalty = gradient_penalty(model, images)
    gradients = tape.gradient(penalty, variables)
    slope = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True))
    difference = central_difference(
        lambda: float(gradient_penalty(model, images)), variables, directions
    )
    assert abs(difference) > 0.1
    assert slope == pytest.approx(difference, rel=1e-3)
