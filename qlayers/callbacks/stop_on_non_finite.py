"""Stops a training that diverges and keeps its last good weights."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from qlayers.callbacks.model_state import synchronize
from qlayers.callbacks.step_counter import StepCounter

# What `fit` and the models with two optimizers call their losses.
LOSSES = ("loss", "discriminator_loss", "generator_loss")

_Kept = tuple[int, list[tuple[Any, Any]]]


class StopOnNonFinite(StepCounter):
    """Stops when a loss is NaN or infinite and puts back the last good weights.

    Losses are looked at after every batch. Every `every_n_steps` steps a copy of the
    model's state is kept in memory: weights, random states and all optimizers. A copy
    counts as good once a finite loss has been computed with it; a step that leaves
    finite but useless weights behind is thus undone as well. Weights that are not
    finite are noticed when they are copied and at the end of training, even if the loss
    hides them (a ReLU that a library fuses with its layer may make 0 of NaN).

    Without divergence training is the same, bit for bit, as without this callback.
    Running means stay as they are: the history shows what happened.

    A loop other than `fit` calls `begin`, `check` and `verify` itself.

    Args:
        every_n_steps: Training steps between two copies. Up to twice as many are lost.
        monitors: Names of the losses; those that the model does not have are ignored.
        error: Whether to raise a FloatingPointError after the weights were put back,
            instead of ending `fit` with a message.
        report: Called with the message.

    Attributes:
        diverged_at: The step whose loss was not finite, or None.
        restored_step: The step whose weights were put back, or None.
        message: The message that was reported, or None.

    Example:
        >>> guard = StopOnNonFinite(every_n_steps=100)
        >>> model.fit(stream, steps_per_epoch=1_000, callbacks=[guard])
        >>> guard.diverged_at is None
        True
    """

    def __init__(
        self,
        every_n_steps: int = 100,
        monitors: Sequence[str] = LOSSES,
        error: bool = False,
        report: Callable[[str], None] = print,
    ) -> None:
        super().__init__(every_n_steps)
        if isinstance(monitors, str) or not monitors:
            raise ValueError(
                f"`monitors` must be a list of names; received {monitors!r}."
            )
        self.monitors = tuple(monitors)
        self.error = error
        self.report = report
        self.diverged_at: int | None = None
        self.restored_step: int | None = None
        self.message: str | None = None
        self._good: _Kept | None = None
        self._untried: _Kept | None = None

    def begin(self, step: int) -> None:
        """Keeps the state that training starts from, after `step` steps."""
        self.diverged_at = self.restored_step = self.message = None
        _build_optimizer(self.model)
        self._good, self._untried = (step, self._copy()), None
        self._step = step

    def check(self, step: int, logs: Mapping[str, Any]) -> bool:
        """Looks at the losses of a step, and keeps a copy if one is due.

        Args:
            step: Training steps done.
            logs: Losses by name.

        Returns:
            Whether training may go on. If not, the last good state is back.
        """
        is_due = self._is_due(step)
        for name in self.monitors:
            if name in logs and not np.isfinite(float(np.asarray(logs[name]))):
                self._give_up(f"`{name}` is {float(np.asarray(logs[name]))}")
                return False
        if self._untried is not None:
            # A finite loss has been computed with it.
            self._good, self._untried = self._untried, None
        if is_due:
            copy = self._copy()
            if not all_finite([value for _, value in copy]):
                self._give_up("a weight is not finite")
                return False
            self._untried = (step, copy)
        return True

    def verify(self, values: Sequence[np.ndarray] | None = None) -> bool:
        """Looks at the weights as they are now, for example before they are saved.

        Args:
            values: A copy of all variables, if the caller has made one already.

        Returns:
            Whether they are finite. If not, the last good state is back.
        """
        if values is None:
            values = [value for _, value in self._copy()]
        finite = all_finite(values)
        if not finite:
            self._give_up("a weight is not finite")
        return finite

    def _copy(self) -> list[tuple[Any, Any]]:
        synchronize(self.model)
        variables = training_variables(self.model)
        return [(v, np.array(keras.ops.convert_to_numpy(v))) for v in variables]

    def _give_up(self, reason: str) -> None:
        assert self._good is not None, "`begin` was not called"
        restored, state = self._good
        synchronize(self.model)
        for variable, value in state:
            variable.assign(value)
        self.model.stop_training = True
        self.diverged_at, self.restored_step = self._step, restored
        self.message = (
            f"Training diverged: {reason} at step {self._step}. Stopped; weights and "
            f"optimizers are those of step {restored} again. A smaller learning rate "
            "or gradient clipping may help; so may a look at the data."
        )
        if self.error:
            raise FloatingPointError(self.message)
        self.report(self.message)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        super().on_train_begin(logs)
        self.begin(self._step)

    def advance(self, step: int, logs: Mapping[str, Any]) -> None:
        self.check(step, logs)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self.diverged_at is None:
            self.verify()
        self._good = self._untried = None  # frees the memory


def optimizers_of(model: keras.Model) -> list[Any]:
    """All optimizers that are attributes of a model, in a fixed order."""
    return [
        value
        for _, value in sorted(vars(model).items())
        if isinstance(value, keras.optimizers.Optimizer)
    ]


def training_variables(model: keras.Model) -> list[Any]:
    """Weights, random states and optimizer states, without running means."""
    variables = list(model.variables)
    for optimizer in optimizers_of(model):
        variables.extend(optimizer.variables)
    means = {id(variable) for variable in model.metrics_variables}
    unique = {id(v): v for v in variables if id(v) not in means}
    return list(unique.values())


def _build_optimizer(model: keras.Model) -> None:
    """Gives the optimizer its variables, as the first step would."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built and model.built:
        optimizer.build(model.trainable_variables)


def all_finite(values: Sequence[np.ndarray]) -> bool:
    """Whether no value of any array is NaN or infinite."""
    return all(
        bool(np.isfinite(value).all())
        for value in values
        if value.dtype.kind not in "biu"
    )
