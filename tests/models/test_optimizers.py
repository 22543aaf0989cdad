"""Which variables weight decay touches."""

import numpy as np
import pytest

from models.optimizers import make_adam
from tests.models.tiny import tiny_images, tiny_model

RATE, DECAY = 1e-3, 0.5


@pytest.mark.parametrize("method", ["qlae", "tripod_naive", "vq_vae", "bio_ae"])
def test_one_step_decays_kernels_but_not_biases_and_codebooks(method):
    """Two models make the same step; AdamW takes `rate * decay * value` more."""
    plain, decayed = (_after_a_step(method, decay) for decay in (0.0, DECAY))
    kinds = {"kernel": 0, "bias": 0, "codebook": 0}
    for (path, start, without), (_, _, with_decay) in zip(plain, decayed, strict=True):
        kind = next((kind for kind in kinds if kind in path.rsplit("/")[-1]), None)
        if kind is None:
            continue
        kinds[kind] += 1
        expected = RATE * DECAY * start if kind == "kernel" else np.zeros_like(start)
        np.testing.assert_allclose(
            without - with_decay, expected, atol=1e-6, err_msg=path
        )
        # Zeros would not show a decay.
        if kind == "codebook":
            assert np.abs(start).max() > 0.1
    assert kinds["kernel"] > 5 and kinds["bias"] > 3
    assert bool(kinds["codebook"]) == (method != "bio_ae")


def _after_a_step(method, decay):
    """Path, value before and value after one step of every trainable variable."""
    model = tiny_model(method, weight_decay=decay, learning_rate=RATE)
    model.compile(run_eagerly=True)
    variables = model.trainable_variables
    for variable in variables:
        if "bias" in variable.path.rsplit("/")[-1]:
            variable.assign(np.full(variable.shape, 0.5, "float32"))
    before = [np.array(variable) for variable in variables]
    model.train_on_batch(tiny_images())
    after = [np.array(variable) for variable in variables]
    return [
        (variable.path, start, end)
        for variable, start, end in zip(variables, before, after, strict=True)
    ]


def test_unknown_settings_are_refused_at_once():
    from models.optimizers import adam_maker

    with pytest.raises(TypeError, match="momentum"):
        adam_maker(momentum=0.9)
    assert make_adam(weight_decay=0.0).weight_decay is None
