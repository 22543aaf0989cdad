"""Methods of quantizers on symbolic tensors."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import keras

_Method = TypeVar("_Method", bound=Callable[..., Any])


def shares_quantizer(method: _Method) -> _Method:
    """Makes a quantizer's method of one tensor a layer where the tensor is symbolic.

    In a functional graph the operations of a plain method would keep the weights as
    constants: a model made before training would answer as before training. A layer
    that shares the quantizer reads the weights when it is called.

    Args:
        method: A method of a `BaseQuantizer` that takes one tensor.
    """

    @functools.wraps(method)
    def called(quantizer: Any, *args: Any, **kwargs: Any) -> Any:
        tensor = next(iter((*args, *kwargs.values())), None)
        if isinstance(tensor, keras.KerasTensor):
            from qlayers.quantizers.quantizer_method import layer_of

            return layer_of(quantizer, method.__name__)(tensor)
        return method(quantizer, *args, **kwargs)

    called._shares_quantizer = True  # type: ignore[attr-defined]
    return called  # type: ignore[return-value]


def is_shared(quantizer: Any, name: str) -> bool:
    """Whether a quantizer has such a method of this name."""
    return hasattr(getattr(quantizer, name, None), "_shares_quantizer")
