"""What the two Hessian penalties share."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from qlayers.backend import Tensor, num_replicas, sum_over_replicas
from qlayers.checks import check_choice, check_count, check_number
from qlayers.functional.hessian_penalty import (
    DIRECTIONS,
    check_aggregate,
    coordinate_moments,
    draw_coordinates,
    draw_directions,
    num_evaluations,
    penalty_of_moments,
    penalty_of_samples,
)
from qlayers.functional.random_order import random_order
from qlayers.functional.standardize import standard_deviation
from qlayers.masks import refuse_mask
from qlayers.regularizers.base import BaseRegularizer
from qlayers.regularizers.replicas import (
    gather_samples,
    part_of_replica,
    share_of_samples,
)
from qlayers.schedules import Schedulable


class _Untracked:
    """Hides a model from Keras, which would save its weights a second time."""

    def __init__(self, model: Any) -> None:
        self.model = model


class BaseHessianPenalty(BaseRegularizer, keras.layers.Wrapper):
    """Wraps a decoder and penalises its mixed derivatives in training.

    Perturbed latents are decoded with `training=False`, so that dropout does not enter
    the differences and no moving average is touched, and only as far as the last
    regularized activation.

    Args:
        decoder: Keras layer or model that maps `(batch, n)` to one or more tensors.
        weight: Weight of the penalty, a number or a schedule.
        num_perturbations: Number of random directions of each kind.
        epsilon: Step of the finite differences.
        outputs: Names of inner layers whose outputs are regularized. Default: the
            decoder's outputs.
        aggregate: How the outputs' penalties become one number; None for the paper's
            way.
        batch_fraction: Part of the batch, chosen at random, that is perturbed.
        step_interval: The penalty is computed at every `step_interval`-th training
            step, with the weight times `step_interval`.
        directions: `"random"` or `"coordinates"`.
        **kwargs: Keyword arguments of `BaseRegularizer`.
    """

    reads = ("latents", "decoder")
    config_names: tuple[str, ...] = (
        "num_perturbations",
        "epsilon",
        "outputs",
        "aggregate",
        "batch_fraction",
        "step_interval",
        "directions",
    )
    is_normalized = False
    term = "hessian_penalty"
    fewest_perturbations = 2

    def __init__(
        self,
        decoder: keras.layers.Layer,
        weight: Schedulable,
        num_perturbations: int = 2,
        epsilon: float = 0.1,
        outputs: Sequence[str] | None = None,
        aggregate: str | None = None,
        batch_fraction: float = 1.0,
        step_interval: int = 1,
        directions: str = "random",
        **kwargs: Any,
    ) -> None:
        super().__init__(layer=decoder, **kwargs)
        self.weight = self.schedulable("weight", weight)
        self.num_perturbations = check_count(
            "num_perturbations", num_perturbations, minimum=self.fewest_perturbations
        )
        self.epsilon = check_number("epsilon", epsilon, exclusive=True)
        self.outputs = _check_names(outputs)
        self.aggregate = check_aggregate(aggregate, self.is_normalized)
        self.batch_fraction = check_number(
            "batch_fraction", batch_fraction, exclusive=True
        )
        if self.batch_fraction > 1.0:
            raise ValueError(
                f"`batch_fraction` must be at most 1. Received: {batch_fraction!r}."
            )
        self.step_interval = check_count("step_interval", step_interval)
        self.directions = check_choice("directions", directions, DIRECTIONS)
        self._regularized = _Untracked(None)
        if not self.is_off("weight"):
            self.track_terms(self.term)

    @property
    def decoder(self) -> keras.layers.Layer:
        """The wrapped decoder."""
        return self.layer

    def build(self, input_shape: Any) -> None:
        if len(input_shape) != 2 or input_shape[-1] is None:
            raise ValueError(
                f"{type(self).__name__} needs latents of shape (batch, n) with a known "
                f"n. Received an input of shape {tuple(input_shape)}."
            )
        super().build(input_shape)
        self.build_step(always=self.step_interval > 1)
        if self.step_interval > 1:
            self.last_penalty = self.add_state("last_penalty")
        if self.outputs is not None:
            self._regularized = _Untracked(_up_to(self.layer, self.outputs))

    def regularize(
        self, z: Tensor, training: bool | None, mask: Tensor | None, **others: Tensor
    ) -> None:
        refuse_mask(self, mask)
        if self.applies(training, "weight"):
            self._add_penalty(z, others.get("continuous"), bool(training))
            # What the perturbed decodings added is not a loss of the model.
            self.layer._clear_losses()

    def outputs_of(self, z: Tensor, training: bool | None) -> Any:
        """`decoder(z)`."""
        # After the perturbed calls, and explicitly: `training=False` would stay set
        # for the layers that follow.
        return self._call_layer(self.layer, z, training)

    def _add_penalty(
        self, z: Tensor, continuous: Tensor | None, training: bool
    ) -> None:
        own = self.own_samples(z)
        of_all = gather_samples(own)
        directions = self._directions(of_all, own, continuous)
        share = share_of_samples(own)
        own, directions = self._subset(own, directions)

        def measure() -> Tensor:
            return self._measure(own, directions)

        # Nothing that talks to other replicas may stand inside the branch.
        is_due = self._is_due(training)
        weight = self.value_of("weight")
        if is_due is True:
            value = self._value(measure(), share)
            self.add_term(self.term, value, weight)
            return
        shape = (self._num_ratios(), 2) if self._is_pooled else ()
        measured = ops.cond(is_due, measure, lambda: ops.zeros(shape, dtype="float32"))
        value = self._value(measured, share)
        self.add_loss(self.step_interval * weight * value)
        # Between its steps the penalty is shown as it was last seen.
        before = ops.convert_to_tensor(self.last_penalty)
        shown = ops.where(is_due, ops.stop_gradient(value), before)
        self.last_penalty.assign(shown)
        self.show_term(self.term, shown)

    @property
    def _is_pooled(self) -> bool:
        """Whether the penalty is a ratio of means over the batch, not a mean."""
        return self.is_normalized and self.directions == "coordinates"

    def _measure(self, own: Tensor, directions: Tensor) -> Tensor:
        """The mean penalty of these samples, or the means whose ratios it is."""
        settings = (self.epsilon, self.is_normalized, self.aggregate)
        if self.directions == "random":
            penalties = penalty_of_samples(self._decode, own, directions, *settings)
            return ops.mean(penalties)
        num_points = num_evaluations(self.num_perturbations, self.is_normalized)
        moments = coordinate_moments(
            self._decode, own, directions, *settings, num_points
        )
        return moments if self._is_pooled else penalty_of_moments(moments)

    def _decode(self, points: Tensor) -> Any:
        """The regularized outputs at perturbed latents."""
        regularized = self._regularized.model or self.layer
        return self._call_layer(regularized, points, False)

    def _value(self, measured: Tensor, share: Tensor | float) -> Tensor:
        """The penalty of all replicas' samples, or this replica's share in its mean."""
        if not self._is_pooled:
            return share * measured
        return penalty_of_moments(sum_over_replicas(share * measured) / num_replicas())

    def _num_ratios(self) -> int:
        if self.aggregate == "joint":
            return 1
        if self.outputs is not None:
            return len(self.outputs)
        return len(keras.tree.flatten(self.layer.output))

    def _is_due(self, training: bool) -> Any:
        if self.step_interval == 1 or not training:
            return True
        return ops.equal(ops.mod(self.training_step, self.step_interval), 0)

    def _directions(
        self, of_all: Tensor, own: Tensor, continuous: Tensor | None
    ) -> Tensor:
        """Scaled perturbations of this replica's samples."""
        directions = self._draw(ops.shape(of_all)[0], of_all.shape[-1])
        by_sample = part_of_replica(ops.transpose(directions, (1, 0, 2)), own)
        directions = ops.transpose(by_sample, (1, 0, 2))
        if not self._is_scaled:
            return directions
        if continuous is not None:
            of_all = self.global_samples(continuous)
        return directions * standard_deviation(of_all)

    @property
    def _is_scaled(self) -> bool:
        """Whether perturbations are in units of the latents' standard deviations."""
        return self.is_normalized

    def _draw(self, num_samples: Any, n: int) -> Tensor:
        """Perturbations of unit scale, `(directions, num_samples, n)`."""
        draw = draw_directions if self.directions == "random" else draw_coordinates
        return draw(
            num_samples,
            n,
            self.num_perturbations,
            self.is_normalized,
            self.seed_generator,
        )

    def _subset(self, own: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        """A random part of the samples, and their perturbations."""
        if self.batch_fraction == 1.0:
            return own, directions
        size = ops.shape(own)[0]
        chosen = random_order(size, self.seed_generator)[: self._subset_size(size)]
        return ops.take(own, chosen, axis=0), ops.take(directions, chosen, axis=1)

    def _subset_size(self, size: Any) -> Any:
        if isinstance(size, int):
            return max(1, round(self.batch_fraction * size))
        share = ops.cast(size, "float32") * self.batch_fraction
        return ops.maximum(1, ops.cast(ops.round(share), "int32"))

    def _call_layer(self, layer: Any, z: Tensor, training: Any) -> Any:
        if getattr(layer, "_call_has_training_arg", False):
            return layer(z, training=training)
        return layer(z)

    def compute_output_spec(self, z: Any, *args: Any, **kwargs: Any) -> Any:
        return self.layer.compute_output_spec(z)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config["decoder"] = config.pop("layer")
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        decoder = keras.saving.deserialize_keras_object(
            config["decoder"], custom_objects=custom_objects
        )
        return cls(**{**config, "decoder": decoder})


def _check_names(outputs: Sequence[str] | None) -> list[str] | None:
    if outputs is None:
        return None
    names = [outputs] if isinstance(outputs, str) else list(outputs)
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(
            "`outputs` must be a list of names of the decoder's layers, or None for "
            f"the decoder's own outputs. Received: {outputs!r}."
        )
    return names


def _up_to(decoder: Any, names: list[str]) -> keras.Model:
    """The part of a functional decoder that computes the named layers' outputs."""
    if not isinstance(decoder, keras.Model) or not getattr(decoder, "inputs", None):
        raise ValueError(
            "`outputs` names inner layers, which needs a functional or Sequential "
            f"decoder with a known input. Received a {type(decoder).__name__}."
        )
    known = [layer.name for layer in decoder.layers]
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(
            f"`outputs` names {missing}, but the layers of decoder '{decoder.name}' "
            f"are {known}."
        )
    tensors = [decoder.get_layer(name).output for name in names]
    return keras.Model(decoder.inputs, tensors)
