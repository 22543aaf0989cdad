"""Lets Python callbacks inside tf.data end before the interpreter does."""

import atexit
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

_QUIET_SECONDS = 0.1
_PATIENCE_SECONDS = 5.0


class StreamGuard:
    """Keeps an endless stream from blocking the end of the program.

    A stream prepares batches ahead in background threads. If one of these wants to run
    Python while the interpreter shuts down, it waits for ever, and so does whoever
    waits for the thread: the program hangs after its last line. Therefore callbacks
    refuse to work once the program is ending, and its end waits until all of them have
    come to rest.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active = 0
        self._last_call = 0.0
        self._closing = False
        self._registered = False

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function with the guard around it."""
        if not self._registered:
            # Late, so that it runs before the handlers of TensorFlow and Keras.
            atexit.register(self.close)
            self._registered = True

        @functools.wraps(function)
        def guarded(*args: Any) -> Any:
            with self._lock:
                self._last_call = time.monotonic()
                if self._closing:
                    raise RuntimeError("The program is ending; the stream is closed.")
                self._active += 1
            try:
                return function(*args)
            finally:
                with self._lock:
                    self._active -= 1

        return guarded

    def close(self) -> None:
        """Refuses further calls and waits until the running ones have ended."""
        self._closing = True
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with self._lock:
                quiet = time.monotonic() - self._last_call
                if self._active == 0 and quiet > _QUIET_SECONDS:
                    return
            time.sleep(0.01)


STREAM_GUARD = StreamGuard()


def graph_callback(
    function: Callable[..., Any], inputs: list[Any], output_type: Any
) -> Any:
    """Calls a pure Python function from a graph.

    Args:
        function: Takes and returns arrays and depends on nothing else, which keeps
            iterators that contain it storable in checkpoints.
        inputs: Tensors.
        output_type: Type of the result.
    """
    import tensorflow as tf

    return tf.numpy_function(
        STREAM_GUARD.wrap(function), inputs, output_type, stateful=False
    )
