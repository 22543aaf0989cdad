"""Random state that is saved with the weights."""

from typing import Any

import keras

# Entry of a saved layer that holds the state of its random draws.
_SEED_KEY = "seed_state"


class SavesRandomState:
    """Mixin of layers and models that draw random numbers.

    Keras saves the weights of a layer but not the state of its random draws; with it,
    training that is saved and continued draws what it would have drawn. A class that
    draws assigns `seed_generator`.
    """

    seed_generator: keras.random.SeedGenerator | None = None

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)  # type: ignore[misc]
        if self.seed_generator is not None:
            store[_SEED_KEY] = self.seed_generator.state

    def load_own_variables(self, store: Any) -> None:
        names = list(store.keys())
        if self.seed_generator is not None and _SEED_KEY in names:
            self.seed_generator.state.assign(store[_SEED_KEY])
        rest = {name: store[name] for name in names if name != _SEED_KEY}
        super().load_own_variables(rest)  # type: ignore[misc]
