"""What the golden steps share: injected draws, weights in PyTorch, comparisons.

Each golden step computes a method's training step a second time in PyTorch, in double
precision, from the formulas of its paper. It shares with the model under test nothing
but the initial weights, the images and the random numbers.
"""

import keras
import numpy as np
import pytest

import models

torch = pytest.importorskip("torch", reason="golden steps are computed by PyTorch")


def golden_model(method, shape, num_latents, seed, **options):
    """A model whose step runs eagerly, so that its draws can be replaced."""
    keras.utils.set_random_seed(seed)
    model = models.build(method, shape, num_latents, **options)
    model.compile(run_eagerly=True)
    return model


def follow(model, weights, adam, batches, terms_of, draws=None, **tolerance):
    """Trains a model, takes the same steps in PyTorch, and compares both after each.

    Args:
        model: Model under test.
        weights: Its `Weights`.
        adam: Optimizer of PyTorch that owns them.
        batches: For each step the images, as the model and as PyTorch take them.
        terms_of: From the step's number and its images to the loss by the paper's
            formulas, and the terms that the model logs.
        draws: `Draws` that `terms_of` takes all of, if the step is random.
        **tolerance: Arguments of `Weights.check`.
    """
    for step, (images, x) in enumerate(batches):
        logs = step_of(model, images)
        loss, terms = terms_of(step, x)
        if draws is not None:
            draws.check_all_taken()
        weights.descend(loss, adam)
        check_logs(logs, loss=loss, **terms)
        weights.check((model.optimizer, adam), **tolerance)


def step_of(model, images):
    """One training step of the model under test; what it logs of this step alone."""
    logs = model.train_on_batch(images, return_dict=True)
    model.reset_metrics()
    return logs


class Draws:
    """Random numbers from NumPy in place of Keras's, kept for the second computation.

    `take` gives them back in the order in which the paper draws them, and checks that
    the model asked for this kind and this shape.
    """

    def __init__(self, monkeypatch, seed=0):
        self._random = np.random.default_rng(seed)
        self._kept = []
        for name in ("uniform", "normal", "shuffle"):
            monkeypatch.setattr(keras.random, name, getattr(self, f"_{name}"))

    def _uniform(self, shape, minval=0.0, maxval=1.0, dtype=None, seed=None):
        unit = self._random.random([int(size) for size in shape]).astype("float32")
        values = (minval + (maxval - minval) * unit).astype("float32")
        return self._keep("uniform", values)

    def _normal(self, shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
        values = self._random.standard_normal([int(size) for size in shape])
        return self._keep("normal", (mean + stddev * values).astype("float32"))

    def _shuffle(self, x, axis=0, seed=None):
        return self._keep("shuffle", self._random.permutation(np.asarray(x)))

    def _keep(self, kind, values):
        self._kept.append((kind, values))
        return keras.ops.convert_to_tensor(values)

    def take(self, kind, shape):
        """The next draw, which must be of this kind and shape."""
        kept, values = self._kept.pop(0)
        assert (kept, values.shape) == (kind, tuple(shape))
        return torch.tensor(values, dtype=torch.float64)

    def check_all_taken(self):
        assert not self._kept, [(kind, v.shape) for kind, v in self._kept]


def gumbel(uniform):
    """Standard Gumbel noise from uniform draws."""
    return -torch.log(-torch.log(uniform))


def summed_cross_entropy(logits, x):
    """Cross-entropy summed over pixels, as a mean over images."""
    sums = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, x, reduction="sum"
    )
    return sums / len(x)


class Weights:
    """Keras variables as PyTorch leaves, by the names that the variables have.

    Args:
        groups: For each part of the model, its variables.
    """

    def __init__(self, **groups):
        self.variables, self._leaves = {}, {}
        for part, variables in groups.items():
            for variable in variables:
                name = f"{part}/{variable.path}"
                assert name not in self.variables, name
                value = torch.tensor(np.array(variable), dtype=torch.float64)
                self.variables[name] = variable
                self._leaves[name] = value.requires_grad_()

    @classmethod
    def of_autoencoder(cls, model, **groups):
        """Those of encoder and decoder, and of other parts."""
        return cls(
            encoder=model.encoder.trainable_variables,
            decoder=model.decoder.trainable_variables,
            **groups,
        )

    def part(self, name):
        """Function from a variable's path to its leaf, in one part."""
        return lambda path: self._leaves[f"{name}/{path}"]

    def leaves(self, *parts, only=lambda name: True):
        return [
            leaf
            for name, leaf in self._leaves.items()
            if name.partition("/")[0] in parts and only(name.rpartition("/")[2])
        ]

    def descend(self, loss, optimizer):
        """A step of a PyTorch optimizer along the gradient of one loss."""
        for leaf in self._leaves.values():
            leaf.grad = None
        loss.backward()
        optimizer.step()

    def check(self, *optimizers, digits=5e-4):
        """Weights and Adam's moments agree with those of the Keras model.

        Args:
            *optimizers: Pairs of a Keras and a PyTorch optimizer.
            digits: Relative error of the gradients in single precision.
        """
        for ours, theirs in optimizers:
            checked = 0
            rate = float(ours.learning_rate)
            moments = [theirs.state[p]["exp_avg"] for p in theirs.state]
            # Some gradients vanish, such as those of biases before a normalization:
            # rounding is what is left.
            rounding = 1e-5 * max(float(m.abs().max()) for m in moments)
            index = {id(v): i for i, v in enumerate(ours._trainable_variables)}
            for name, variable in self.variables.items():
                leaf = self._leaves[name]
                if id(variable) not in index or leaf not in theirs.state:
                    assert (id(variable) in index) == (leaf in theirs.state), name
                    continue
                state, i = theirs.state[leaf], index[id(variable)]
                first, second = state["exp_avg"].numpy(), state["exp_avg_sq"].numpy()
                error = digits * np.abs(first).max() + rounding
                _close(ours._momentums[i], first, name, error)
                square = 3 * digits * second.max() + rounding**2
                _close(ours._velocities[i], second, name, square)
                # Where a gradient is small beside its error, the step is unsure. Keras
                # also adds epsilon before the correction of the bias, PyTorch after.
                unsure = error / (np.abs(first) + 1e-30)
                unsure += 1e-8 / (np.sqrt(second) + 1e-30)
                slack = rate * (2e-3 + np.minimum(2.0, 2 * unsure))
                difference = np.abs(np.array(variable) - leaf.detach().numpy())
                assert (difference <= slack + 1e-6).all(), (name, difference.max())
                # The next step starts from the same weights.
                leaf.data.copy_(torch.tensor(np.array(variable)))
                checked += 1
            wanted = sum(len(group["params"]) for group in theirs.param_groups)
            assert checked == wanted == len(index)


def _close(ours, theirs, name, tolerance):
    np.testing.assert_allclose(
        np.array(ours), theirs, rtol=0, atol=tolerance, err_msg=name
    )


def check_logs(logs, **expected):
    """Each term as the model logs it, to single precision."""
    for name, value in expected.items():
        ours, theirs = float(logs[name]), float(value.detach())
        assert ours == pytest.approx(theirs, rel=2e-4, abs=1e-6), (name, theirs, ours)


def check_factor_logs(logs, loss, error, kl, correlation, discriminator_loss):
    """The terms of a discrete autoencoder with a discriminator, as `check_logs`."""
    check_logs(logs, loss=loss, reconstruction=error, quantizer_kl=kl)
    check_logs(logs, discriminator_total_correlation=correlation)
    check_logs(logs, discriminator_loss=discriminator_loss)


def undecayed(name):
    """Biases, shifts of normalizations and codebooks, by the papers' rule."""
    return name in ("bias", "beta", "codebook")


def adam_with_decay(weights, parts, decay, **settings):
    """AdamW on weights, plain Adam on biases and codebooks, as one optimizer."""
    groups = [
        {"params": weights.leaves(*parts, only=undecayed), "weight_decay": 0.0},
        {
            "params": weights.leaves(*parts, only=lambda name: not undecayed(name)),
            "weight_decay": decay,
        },
    ]
    return torch.optim.AdamW(groups, **settings)


def batch(size, count, seed):
    """Images with structure, in [0, 1], and as PyTorch has them: channels first."""
    random = np.random.default_rng(seed)
    column = np.arange(size).reshape(1, 1, size, 1)
    edge = random.uniform(size=(count, 1, 1, 1)) * size
    images = random.uniform(size=(count, 1, 1, 3)) / (1 + np.exp(column - edge))
    images = np.broadcast_to(images, (count, size, size, 3)).astype("float32")
    return images, torch.tensor(images, dtype=torch.float64).permute(0, 3, 1, 2)
