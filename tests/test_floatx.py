"""Every layer where Keras's default float type is float64."""

import keras
import numpy as np
import pytest

from qlayers import functional
from qlayers.testing.layer_contract import make_model, take_steps
from tests.contract import with_slow_variants
from tests.quantizers.cases import CASES as QUANTIZERS
from tests.regularizers.cases import CASES as REGULARIZERS


@pytest.fixture
def use_float64():
    """Switches the default to float64; a new process would start with its policy."""
    floatx, policy = keras.config.floatx(), keras.config.dtype_policy()

    def switch():
        keras.config.set_floatx("float64")
        keras.config.set_dtype_policy("float64")

    yield switch
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(policy)


# Traced: only a graph compares the types of both branches of a condition.
@pytest.mark.parametrize("case", with_slow_variants([*QUANTIZERS, *REGULARIZERS]))
def test_training_steps_are_those_of_float32(case, use_float64):
    single = make_model(case, jit_compile=False)
    weights = single.get_weights()
    expected = take_steps(single)
    use_float64()
    double = make_model(case, jit_compile=False)
    double.set_weights(weights)
    np.testing.assert_allclose(take_steps(double), expected, rtol=1e-3, atol=1e-6)


FUNCTIONS = {
    "gumbel_softmax": lambda x: functional.gumbel_softmax(x, 0.5, seed=0),
    "k_means": lambda x: functional.k_means(x, 3),
    "uniform_kl": lambda x: functional.uniform_kl(x, num_active=[3.0]),
}


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_other_precision_are_those_of_float32(name, dtype):
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(16, 4)).astype(dtype)
    function = tf.function(FUNCTIONS[name])
    expected = function(tf.constant(x.astype("float32")))
    value = function(tf.constant(x))
    assert value.dtype == tf.float32
    np.testing.assert_allclose(value, expected, atol=1e-6)
