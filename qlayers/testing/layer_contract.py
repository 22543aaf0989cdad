"""What every layer must do, as checks that any layer can be put through."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from qlayers.backend import mirrored_strategy

BATCH = 8
FEATURES = 6


def _connect_plainly(layer: Any, latents: Any) -> Any:
    return layer(latents)


@dataclass(frozen=True)
class LayerCase:
    """A layer and how to put it into a model.

    Attributes:
        name: Name in the test report.
        make: Makes a new, unbuilt layer.
        size: Size of the last axis of the layer's input.
        connect: Applies the layer to a latent tensor; the default calls it.
        is_stochastic: Whether training calls draw random numbers.
        exact_on_replicas: Whether two replicas with half a batch each must take the
            same training step as one with the whole batch. Default: unless stochastic.

    Example:

    ```python
    case = LayerCase("latent", lambda: qlayers.LatentQuantizer(5, seed=3), size=4)
    ```
    """

    name: str
    make: Callable[[], Any]
    size: int
    connect: Callable[[Any, Any], Any] = _connect_plainly
    is_stochastic: bool = False
    exact_on_replicas: bool | None = None


def case_name(case: LayerCase) -> str:
    """The name of a case, as an id for pytest.

    Example:

    ```python
    case_name(LayerCase("latent", qlayers.LatentQuantizer, size=4))  # "latent"
    ```
    """
    return case.name


def check_name(check: Callable[..., None]) -> str:
    """The name of a check, as an id for pytest.

    Example:

    ```python
    [check_name(check) for check in contract_checks()]  # ["symbolic_spec_is...", ...]
    ```
    """
    return check.__name__.removeprefix("check_")


def sample_data(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(BATCH, FEATURES)).astype("float32")


def make_model(case: LayerCase, layer: Any = None, **compile_args: Any) -> keras.Model:
    """A dense autoencoder with the layer in its middle, the same at every call.

    Checks that are not about the compiled step pass `run_eagerly=True`, which saves
    the tracing; the others see to it that the traced and compiled steps work.
    """
    keras.utils.set_random_seed(1)
    inputs = keras.Input((FEATURES,))
    latents = keras.layers.Dense(case.size, name="encoder")(inputs)
    layer = case.make() if layer is None else layer
    outputs = keras.layers.Dense(FEATURES, name="head", dtype="float32")(
        case.connect(layer, latents)
    )
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.05), "mse", **compile_args)
    return model


def the_layer(case: LayerCase, model: keras.Model) -> Any:
    """The layer under test in a model of `make_model`."""
    kind = type(case.make())
    return next(layer for layer in model.layers if type(layer) is kind)


def fit(model: keras.Model, epochs: int = 2) -> dict[str, list[float]]:
    x = sample_data()
    history = model.fit(x, x, batch_size=BATCH, epochs=epochs, verbose=0, shuffle=False)
    return history.history


def take_steps(model: keras.Model, steps: int = 2) -> list[float]:
    """The training steps of `fit` without what `fit` sets up around them."""
    x = sample_data()
    return [
        float(value)
        for _ in range(steps)
        for value in model.train_on_batch(x, x, return_dict=True).values()
    ]


def infer(model: keras.Model, x: np.ndarray) -> np.ndarray:
    """Like `predict`, without the seconds that tracing its function takes."""
    return ops.convert_to_numpy(model(x, training=False))


def as_list(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, list | tuple) else [outputs]


# ---------------------------------------------------------------- on every backend


def check_symbolic_spec_is_eager_result(case: LayerCase, tmp_path: Path) -> None:
    layer = case.make()
    x = np.random.default_rng(0).normal(size=(BATCH, case.size)).astype("float32")
    symbolic = as_list(case.connect(layer, keras.KerasTensor((None, case.size))))
    eager = as_list(case.connect(layer, ops.convert_to_tensor(x)))
    assert len(symbolic) == len(eager)
    for spec, value in zip(symbolic, eager, strict=True):
        assert tuple(spec.shape) == (None, *value.shape[1:])
        assert spec.dtype == keras.backend.standardize_dtype(value.dtype)
    if hasattr(layer, "codes"):
        spec = layer.codes(keras.KerasTensor((None, case.size)))
        codes = layer.codes(x)
        assert spec.dtype == "int32"
        assert keras.backend.standardize_dtype(codes.dtype) == "int32"
        assert tuple(spec.shape) == (None, *codes.shape[1:])


def check_config_round_trip(case: LayerCase, tmp_path: Path) -> None:
    layer = case.make()
    config = layer.get_config()
    # The config must survive JSON, which is what a .keras file holds.
    as_text = json.dumps(keras.saving.serialize_keras_object(layer), sort_keys=True)
    restored = keras.saving.deserialize_keras_object(json.loads(as_text))
    assert type(restored) is type(layer)
    again = keras.saving.serialize_keras_object(restored)
    assert json.loads(json.dumps(again)) == json.loads(as_text)
    assert set(restored.get_config()) == set(config)


def check_fit_step_trains(case: LayerCase, tmp_path: Path) -> None:
    model = make_model(case)
    before = [np.array(w) for w in model.get_weights()]
    history = fit(model)
    assert all(np.all(np.isfinite(values)) for values in history.values())
    after = model.get_weights()
    assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    layer = the_layer(case, model)
    for metric in layer.metrics:
        is_shown = any(key.startswith(metric.name) for key in history)
        assert is_shown, f"{metric.name} is missing in {sorted(history)}"


def check_seed_reproduces(case: LayerCase, tmp_path: Path) -> None:
    first, second = (take_steps(make_model(case, run_eagerly=True)) for _ in range(2))
    assert first == second


def check_inference_is_deterministic(case: LayerCase, tmp_path: Path) -> None:
    model = make_model(case)
    x = sample_data()
    first = infer(model, x)
    np.testing.assert_array_equal(first, infer(model, x))
    if case.is_stochastic and hasattr(the_layer(case, model), "codes"):
        calls = [ops.convert_to_numpy(model(x, training=True)) for _ in range(2)]
        assert not np.array_equal(*calls)


def check_mixed_float16(case: LayerCase, tmp_path: Path) -> None:
    _check_mixed_precision(case, "mixed_float16")


def check_mixed_bfloat16(case: LayerCase, tmp_path: Path) -> None:
    _check_mixed_precision(case, "mixed_bfloat16")


def _check_mixed_precision(case: LayerCase, policy: str) -> None:
    full = make_model(case)
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        half = make_model(case, run_eagerly=True)
        half.set_weights(full.get_weights())
        layer, reference = the_layer(case, half), the_layer(case, full)
        if hasattr(layer, "codes"):
            latents = np.random.default_rng(3).normal(size=(64, case.size)) * 0.5
            latents = latents.astype("float32")
            np.testing.assert_array_equal(
                ops.convert_to_numpy(layer.codes(latents)),
                ops.convert_to_numpy(reference.codes(latents)),
            )
            z = as_list(layer(ops.convert_to_tensor(latents)))[0]
            assert keras.backend.standardize_dtype(z.dtype) == layer.compute_dtype
        values = take_steps(half)
        assert np.all(np.isfinite(values)), values
        for loss in half.losses:
            assert keras.backend.standardize_dtype(loss.dtype) == "float32"
        for variable in layer.trainable_variables:
            assert variable.dtype == "float32"
    finally:
        keras.config.set_dtype_policy(previous)


def check_keras_file_round_trip(case: LayerCase, tmp_path: Path) -> None:
    model = make_model(case, run_eagerly=True)
    take_steps(model)
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    x = sample_data(5)
    np.testing.assert_array_equal(infer(model, x), infer(restored, x))
    assert len(restored.weights) == len(model.weights)
    # Training goes on where it stopped, random state and schedules included.
    for trained in (model, restored):
        trained.reset_metrics()
    assert take_steps(model) == take_steps(restored)


# ------------------------------------------------------------- on TensorFlow only


def check_jit_step(case: LayerCase, tmp_path: Path) -> None:
    history = fit(make_model(case, jit_compile=True))
    assert all(np.all(np.isfinite(values)) for values in history.values())
    if not case.is_stochastic:
        plain = make_model(case, run_eagerly=True)
        np.testing.assert_allclose(
            history["loss"], fit(plain)["loss"], rtol=2e-5, atol=1e-6
        )


def check_steps_per_execution(case: LayerCase, tmp_path: Path) -> None:
    """Two steps in one compiled call are the two steps one by one."""
    x = np.concatenate([sample_data(seed) for seed in range(4)])
    results = []
    for count in (1, 2):
        model = make_model(case, steps_per_execution=count)
        model.fit(x, x, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
        results.append([ops.convert_to_numpy(v) for v in model.variables])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def check_export(case: LayerCase, tmp_path: Path) -> None:
    import tensorflow as tf

    model = make_model(case)
    model.export(str(tmp_path / "exported"), verbose=False)
    served = tf.saved_model.load(str(tmp_path / "exported"))
    x = sample_data(6)
    np.testing.assert_allclose(
        served.serve(x).numpy(), infer(model, x), rtol=1e-6, atol=1e-6
    )


def check_two_replicas(case: LayerCase, tmp_path: Path) -> None:
    strategy = mirrored_strategy()
    with strategy.scope():
        replicated = make_model(case)
    fit(replicated, epochs=3)
    for variable in replicated.variables:
        copies = strategy.experimental_local_results(variable.value)
        for copy in copies[1:]:
            np.testing.assert_array_equal(
                copies[0].numpy(), copy.numpy(), err_msg=variable.path
            )
    exact = case.exact_on_replicas
    if exact is None:
        exact = not case.is_stochastic
    if exact:
        single = make_model(case, run_eagerly=True)
        fit(single, epochs=3)
        for ours, theirs in zip(replicated.weights, single.weights, strict=True):
            np.testing.assert_allclose(
                ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-6, err_msg=ours.path
            )


BACKEND_NEUTRAL_CHECKS = (
    check_symbolic_spec_is_eager_result,
    check_config_round_trip,
    check_fit_step_trains,
    check_seed_reproduces,
    check_inference_is_deterministic,
    check_mixed_float16,
    check_mixed_bfloat16,
    check_keras_file_round_trip,
)
TENSORFLOW_CHECKS = (
    check_jit_step,
    check_steps_per_execution,
    check_export,
    check_two_replicas,
)


def contract_checks() -> list[Callable[..., None]]:
    """The checks that apply to the active backend.

    Each takes a case and an empty folder. The check of replicas needs two devices:
    split the CPU by `tf.config.set_logical_device_configuration` before TensorFlow
    starts.

    Example:

    ```python
    import pytest

    cases = [LayerCase("latent", lambda: qlayers.LatentQuantizer(5), size=4)]

    @pytest.mark.parametrize("check", contract_checks(), ids=check_name)
    @pytest.mark.parametrize("case", cases, ids=case_name)
    def test_contract(case, check, tmp_path):
        check(case, tmp_path)
    ```
    """
    checks = list(BACKEND_NEUTRAL_CHECKS)
    if keras.backend.backend() == "tensorflow":
        checks += TENSORFLOW_CHECKS
    return checks


def check_layer(case: LayerCase) -> None:
    """Puts a layer through every check that applies to the active backend.

    The checks: shape and dtype in graphs, the config's round trip, a `fit` step, seeds,
    determinism at inference, mixed precision, a `.keras` file from which training goes
    on; on TensorFlow also XLA, several steps in one call, export and two replicas. A
    failure is an AssertionError.

    Args:
        case: The layer and how to put it into a model.

    Example:

    ```python
    check_layer(LayerCase("latent", lambda: qlayers.LatentQuantizer(5), size=4))
    ```
    """
    for check in contract_checks():
        with tempfile.TemporaryDirectory() as folder:
            check(case, Path(folder))


_RELOAD_SCRIPT = """
import sys
from pathlib import Path
import numpy as np
import qlayers
import keras
folder = Path(sys.argv[1])
x = np.load(folder / "x.npy", allow_pickle=False)
for path in sorted(folder.glob("*.keras")):
    model = keras.saving.load_model(path)
    np.save(path.with_suffix(".npy"), keras.ops.convert_to_numpy(model(x)))
"""


def check_reload_in_fresh_process(cases: list[LayerCase], folder: Path) -> None:
    """Saves a model of every case; a new process that imports qlayers loads them.

    One process serves all cases because starting a backend takes seconds.

    Args:
        cases: Cases whose layers are registered by `import qlayers`.
        folder: An empty folder.

    Example:

    ```python
    import tempfile
    from pathlib import Path

    case = LayerCase("latent", lambda: qlayers.LatentQuantizer(5, seed=3), size=4)
    with tempfile.TemporaryDirectory() as folder:
        check_reload_in_fresh_process([case], Path(folder))
    ```
    """
    x = sample_data(7)
    np.save(folder / "x.npy", x)
    expected = {}
    for case in cases:
        model = make_model(case, run_eagerly=True)
        take_steps(model, 1)
        model.save(folder / f"{case.name}.keras")
        expected[case.name] = infer(model, x)
    # The new process imports this package, not another copy that is installed.
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "KERAS_BACKEND": keras.backend.backend(),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    subprocess.run(
        [sys.executable, "-c", _RELOAD_SCRIPT, str(folder)],
        check=True,
        env=environment,
        cwd=folder,
    )
    for name, outputs in expected.items():
        reloaded = np.load(folder / f"{name}.npy", allow_pickle=False)
        np.testing.assert_allclose(reloaded, outputs, rtol=1e-6, atol=1e-6)
