"""Variables that no optimizer shrinks, whatever a user compiles."""

import functools
import warnings
import weakref
from typing import Any

import keras

_HOOK = "_use_weight_decay"
# By identity: `==` of variables compares their values.
_undecayed: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()


def exclude_from_weight_decay(variable: keras.Variable) -> None:
    """Keeps a variable out of the weight decay of every Keras optimizer.

    Keras lets the user of an optimizer name variables that it must not shrink; a layer
    never sees the optimizer. So the question that every optimizer asks of each
    variable is answered here, for the variables marked by this function alone.

    Example:

    ```python
    exclude_from_weight_decay(layer.codebook)
    ```
    """
    _undecayed[id(variable)] = variable
    if not _install():
        _warn_once()


@functools.cache
def _install() -> bool:
    """Wraps the optimizers' question, once. False if this Keras does not ask it."""
    optimizer = keras.optimizers.Optimizer
    original = getattr(optimizer, _HOOK, None)
    if original is None:
        return False

    @functools.wraps(original)
    def use_weight_decay(self: Any, variable: Any) -> bool:
        return not _is_undecayed(self, variable) and original(self, variable)

    setattr(optimizer, _HOOK, use_weight_decay)
    return True


def _is_undecayed(optimizer: Any, variable: Any) -> bool:
    if isinstance(variable, keras.Variable):
        return _undecayed.get(id(variable)) is variable
    # TensorFlow's own variable, or one replica's copy of it.
    key = optimizer._var_key(variable)
    return any(optimizer._var_key(v) == key for v in list(_undecayed.values()))


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        "This version of Keras does not let qlayers keep codebooks out of weight "
        "decay. If you use an optimizer with weight decay, call "
        "`optimizer.exclude_from_weight_decay(var_names=['codebook'])` before `fit`.",
        stacklevel=2,
    )
