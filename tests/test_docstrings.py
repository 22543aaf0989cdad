"""Every public class and function is documented, and its example runs."""

import doctest
import functools
import importlib
import inspect
import re
import textwrap

import keras
import matplotlib
import numpy as np
import pytest

import qlayers

matplotlib.use("Agg")

MODULES = ("quantizers", "functional", "regularizers", "metrics", "blocks")
_FENCED = re.compile(r"```python\n(.*?)```", re.DOTALL)


def public_objects(module_name):
    """Public classes and functions of a subpackage that are defined in qlayers."""
    module = importlib.import_module(f"qlayers.{module_name}")
    names = getattr(module, "__all__", None) or dir(module)
    for name in sorted(names):
        thing = getattr(module, name)
        is_code = inspect.isclass(thing) or inspect.isfunction(thing)
        is_public = is_code and not name.startswith("_")
        if is_public and thing.__module__.startswith("qlayers."):
            yield pytest.param(thing, id=f"{module_name}.{name}")


EVERYTHING = [param for module in MODULES for param in public_objects(module)]


def is_result(thing):
    """Results are explained by the function that returns them."""
    base = qlayers.metrics.MetricResult
    return inspect.isclass(thing) and issubclass(thing, base)


def example_of(thing):
    """The code of the docstring's Example section, or None."""
    docstring = inspect.getdoc(thing) or ""
    _, found, section = docstring.partition("Example:")
    if not found:
        return None
    fenced = _FENCED.search(section)
    if fenced:
        return textwrap.dedent(fenced.group(1))
    prompts = doctest.DocTestParser().get_examples(section)
    return "".join(example.source for example in prompts) or None


@functools.cache
def arrays():
    rng = np.random.default_rng(0)
    sources = rng.integers(0, 3, size=(120, 6))
    return {
        "sources": sources,
        "codes": sources[:, ::-1].copy(),
        "latents": sources + 0.1 * rng.normal(size=sources.shape),
        "images": rng.random((4, 8, 8, 3), dtype="float32"),
    }


def few(function, **sizes):
    """A sampled score with fewer samples than its thorough default."""
    return functools.partial(function, **sizes)


def namespace_of(thing):
    """What an example may use without making it: the reader's own things."""
    normal = functools.partial(keras.random.normal, seed=0)
    decoder = keras.Sequential(
        [
            keras.layers.Input((10,)),
            keras.layers.Dense(16, activation="tanh", name="block0"),
            keras.layers.Dense(8),
        ]
    )
    own = importlib.import_module(".".join(thing.__module__.split(".")[:2]))
    public = {k: v for k, v in vars(own).items() if not k.startswith("_")}
    space = {
        **public,
        **arrays(),
        "keras": keras,
        "np": np,
        "qlayers": qlayers,
        "generator": keras.random.SeedGenerator(0),
        "inputs": normal((8, 64)),
        "features": normal((8, 32)),
        "x": normal((8, 10)),
        "h": normal((8, 10)),
        "z": normal((8, 10)),
        "continuous": normal((8, 10)),
        "mean": normal((8, 10)),
        "scale": keras.ops.abs(normal((8, 10))) + 0.1,
        "logits": normal((8, 10)),
        "sample": lambda moments: moments[0],
        "loss": 0.0,
        "decoder": decoder,
    }
    if own is qlayers.metrics:
        space.update(_for_metrics(space))
    elif own is qlayers.blocks:
        space.update(x=normal((2, 8, 8, 4)), style=normal((2, 6)))
    return space


def _for_metrics(space):
    """Trained things that examples of scores speak of, tiny."""
    from qlayers import datasets

    data = datasets.load("mini_shapes3d", image_size=16)
    encoder = keras.Sequential([keras.layers.Input((None, None, 3)), _Mean()])
    images, latents = space["images"], space["latents"]
    return {
        "seed_0": latents,
        "seed_1": latents[:, ::-1],
        "seed_2": -latents,
        "encoder": encoder,
        "decoder": lambda z: images,
        "dataset": data,
        "data": data,
        "result": qlayers.metrics.infomec(
            space["sources"], space["codes"], discrete_latents=True
        ),
        "elbo": lambda batch, hard: float(np.mean(batch)) + hard,
        "batches": [images, images],
        "beta_vae_score": few(
            qlayers.metrics.beta_vae_score, num_train=20, num_eval=20, batch_size=4
        ),
        "factor_vae_score": few(
            qlayers.metrics.factor_vae_score,
            num_train=20,
            num_eval=20,
            batch_size=4,
            num_variance=50,
        ),
        "sample_efficiency": few(
            qlayers.metrics.sample_efficiency,
            train_sizes=(20, 60),
            test_samples=60,
            estimators=("logistic_regression",),
        ),
    }


class _Mean(keras.layers.Layer):
    def call(self, images):
        return keras.ops.mean(images, axis=(1, 2))


@pytest.mark.parametrize("thing", EVERYTHING)
def test_documented_with_an_example(thing):
    docstring = inspect.getdoc(thing) if "__doc__" in vars(thing) else None
    own = thing.__doc__ if inspect.isfunction(thing) else docstring
    assert own, f"{thing.__name__} has no docstring"
    first = own.strip().splitlines()[0]
    assert first.endswith((".", "`", ":")), f"{thing.__name__}: {first!r}"
    if is_result(thing):
        return
    assert example_of(thing), f"{thing.__name__} has no Example with code"


@pytest.mark.parametrize("thing", EVERYTHING)
def test_example_runs(thing, tmp_path, monkeypatch):
    code = example_of(thing)
    if code is None:
        # That there is one is the other test's business.
        return
    monkeypatch.chdir(tmp_path)
    exec(compile(code, f"<example of {thing.__name__}>", "exec"), namespace_of(thing))
