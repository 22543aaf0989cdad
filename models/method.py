"""The record that describes a method to the laboratory."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Union

from models.latent_model import LatentModel
from models.methods.common import model_from
from models.networks.choice import FAMILIES, NetworkName
from models.optimizers import make_adam

# Arguments that the laboratory sets, not a user.
_INTERNAL = {"networks", "num_latents", "parts", "name", "quantizer", "self"}
_INTERNAL |= {"discriminator_optimizer", "label_sizes", "supervised_loss"}
_INTERNAL |= {"make_parts"}


class Paper(NamedTuple):
    """A short key for lists and flags, and the title that a reader knows."""

    key: str
    title: str


def undivided(hyperparameters: Mapping[str, Any]) -> int:
    """A training step takes its batch as one piece."""
    del hyperparameters
    return 1


@dataclass(frozen=True, eq=False)
class Method:
    """Everything that the laboratory needs to know about a method.

    Attributes:
        name: Name that users type, such as `"qlae"`.
        build: Function from `(networks, num_latents, **hyperparameters)` to the model.
        paper: Paper that introduces the method or compares with it.
        network: Networks of the paper, used unless a user chooses others.
        only_network: Whether the method works with no other networks.
        other_networks: Networks that `only_network` lets pass besides.
        hands_on: Functions or methods that receive the keyword arguments which `build`
            does not name, in the order in which they are called.
        fixed: Arguments of `build` that define the method. Users cannot set them.
        pieces: Number of pieces that a training step cuts its batch into, from the
            hyperparameters.
        needs_decoder: Whether the method trains a decoder; otherwise it can also train
            an encoder alone, on points.
        quantized: Whether the latents have codes.
        gaussian: Whether the latents can have a Gaussian posterior to draw from.
        checkpoint: Which checkpoint the paper reports: `"best_above_psnr"` has the best
            InfoM of those that pass the dataset's PSNR threshold, if there is one.

    Example:

    ```python
    def wide_qlae(networks, num_latents, **options):
        return METHODS["qlae"].build(networks, num_latents, num_values=20, **options)

    qlae = METHODS["qlae"]
    register(Method("wide_qlae", wide_qlae, quantized=True, hands_on=(qlae,)))
    ```
    """

    name: str
    build: Callable[..., LatentModel]
    paper: Paper | None = None
    network: NetworkName = "style"
    only_network: bool = False
    other_networks: tuple[NetworkName, ...] = ()
    hands_on: tuple[Union[Callable[..., Any], "Method"], ...] = (model_from, make_adam)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    pieces: Callable[[Mapping[str, Any]], int] = undivided
    needs_decoder: bool = True
    quantized: bool = False
    gaussian: bool = False
    checkpoint: Literal["best_above_psnr", "last"] = "last"

    @property
    def supervised(self) -> bool:
        """Whether the method can learn from labels."""
        return "supervision_weight" in self.hyperparameters()

    def hyperparameters(self) -> dict[str, Any]:
        """Names and defaults of what a user can set.

        A default of None stands for the method's own choice: a schedule, or what it
        hands to its optimizer and loss.
        """
        functions = tuple(self._functions())
        found: dict[str, Any] = {}
        for function in functions:
            for name, parameter in inspect.signature(function).parameters.items():
                if name in found or parameter.kind is inspect.Parameter.VAR_KEYWORD:
                    continue
                # Methods replace defaults of what they call, so only theirs count.
                found[name] = _default(parameter) if function is self.build else None
        hidden = _INTERNAL.union(*self._all_fixed())
        return {name: found[name] for name in found if name not in hidden}

    def check_network(self, network: str) -> None:
        """Raises a ValueError if the method cannot be trained with these networks."""
        known = (self.network, *self.other_networks)
        if self.only_network and network not in known:
            raise ValueError(
                f"The method {self.name!r} needs `network={'` or `'.join(known)}`. "
                f"Received: {network!r}."
            )
        if self.needs_decoder and network in FAMILIES and not FAMILIES[network].decoder:
            raise ValueError(
                f"The method {self.name!r} needs a decoder, which the networks "
                f"{network!r} lack."
            )

    def _functions(self) -> Iterator[Callable[..., Any]]:
        yield self.build
        for target in self.hands_on:
            if isinstance(target, Method):
                yield from target._functions()
            else:
                yield target

    def _all_fixed(self) -> Iterator[Mapping[str, Any]]:
        yield self.fixed
        for target in self.hands_on:
            if isinstance(target, Method):
                yield from target._all_fixed()


def _default(parameter: inspect.Parameter) -> Any:
    if parameter.default is inspect.Parameter.empty:
        return None
    value = parameter.default
    return list(value) if isinstance(value, tuple) else value
