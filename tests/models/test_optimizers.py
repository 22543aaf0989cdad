"""Which variables weight decay touches."""

import keras
import numpy as np
import pytest

from models.optimizers import make_adam
from tests.models.tiny import tiny_images, tiny_model

PolynomialDecay = keras.optimizers.schedules.PolynomialDecay
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


@pytest.mark.parametrize("decay", [0.0, DECAY])
@pytest.mark.parametrize("clip_all", [False, True])
def test_clipping_leaves_biases_and_codebooks_alone(clip_all, decay):
    """Adam's first moment shows the gradient that it was given: a tenth of it."""
    names = ("kernel", "bias", "beta", "gamma", "codebook")
    variables = [keras.Variable(np.zeros(3), name=name) for name in names]
    optimizer = make_adam(clip_value=1.0, clip_all=clip_all, weight_decay=decay)
    optimizer.build(variables)
    gradient = np.array([-5.0, 0.5, 2.0], "float32")
    gradients = [keras.ops.convert_to_tensor(gradient) for _ in names]
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
    for name, moment in zip(names, optimizer._momentums, strict=True):
        is_clipped = clip_all or name in ("kernel", "gamma")
        expected = np.clip(gradient, -1.0, 1.0) if is_clipped else gradient
        np.testing.assert_allclose(moment.numpy(), 0.1 * expected, 1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("method", "optimizer", "variables"),
    [
        ("ql_infowgan_gp", "generator_optimizer", "generator_variables"),
        ("factor_vae", "discriminator_optimizer", None),
    ],
)
def test_second_optimizers_scale_their_losses_in_float16(method, optimizer, variables):
    """Gradients below the smallest float16 number still move the generator."""
    tiny = {"value_weight": 1e-7, "latent_weight": 0.0, "gradient_penalty_weight": 0.0}
    tiny |= {"quantize_weight": 0.0, "commit_weight": 0.0, "weight_decay": 0.0}
    try:
        keras.mixed_precision.set_global_policy("mixed_float16")
        model = tiny_model(method, **(tiny if variables else {}))
    finally:
        keras.mixed_precision.set_global_policy("float32")
    model.compile(run_eagerly=True)
    scaled = getattr(model, optimizer)
    assert isinstance(scaled, keras.optimizers.LossScaleOptimizer)
    discriminator = model.discriminator
    watched = (
        getattr(model, variables)
        if variables
        else discriminator.discriminator_variables
    )
    kernels = [v for v in watched if "kernel" in v.name]
    before = [np.array(kernel) for kernel in kernels]
    model.train_on_batch(tiny_images())
    assert int(scaled.inner_optimizer.iterations) == 1
    for kernel, old in zip(kernels, before, strict=True):
        moved = np.mean(np.array(kernel) != old)
        assert moved > 0.3, (kernel.path, moved)


@pytest.mark.parametrize(
    "settings",
    [
        {"weight_decay": DECAY},
        {"weight_decay": DECAY, "clip_value": 0.1},
        {"weight_decay": DECAY, "clip_value": 0.1, "clip_all": True},
        {"weight_decay": PolynomialDecay(DECAY, 10, 0.1)},
        {"clip_value": 0.1},
    ],
    ids=["decay", "clips_partly", "clips_all", "schedule", "clips_only"],
)
def test_a_saved_model_goes_on_with_the_optimizer_it_was_given(settings, tmp_path):
    """Three steps, and two with one more after loading, end at the same weights."""
    images = tiny_images()
    model = tiny_model("qlae")
    model.compile(make_adam(RATE, **settings), run_eagerly=True)
    for _ in range(2):
        model.train_on_batch(images)
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    restored.run_eagerly = True
    for each in (model, restored):
        each.train_on_batch(images)
    for ours, theirs in zip(model.weights, restored.weights, strict=True):
        np.testing.assert_array_equal(
            np.array(theirs), np.array(ours), err_msg=ours.path
        )


def test_unknown_settings_are_refused_at_once():
    from models.optimizers import adam_maker

    with pytest.raises(TypeError, match="momentum"):
        adam_maker(momentum=0.9)
    assert make_adam(weight_decay=0.0).weight_decay is None
