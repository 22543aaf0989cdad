"""Disentanglement metrics during `fit`."""

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from qlayers.callbacks.checkpoint_selection import CheckpointSelection
from qlayers.callbacks.model_state import uncounted
from qlayers.callbacks.step_counter import StepCounter
from qlayers.metrics import EvaluationResult, MetricResult, evaluate

_BATCH_SIZE = 256


class DisentanglementMetrics(StepCounter):
    """Scores a fixed sample every so many training steps.

    Runs before the first step, every `every_n_steps` steps and after the last one.
    The scores are kept in `history`, enter the epoch logs (and so `fit`'s history,
    `EarlyStopping` and the like, if listed after this callback) and go to TensorBoard
    if `log_dir` is given. Latents that are not finite give a warning, not an error, and
    scores of NaN in the epoch logs.
    Training goes on as if nothing had been watched: the running means of `fit` do not
    count the sample.

    Args:
        sources: (samples, n_s) integers of the fixed sample.
        inputs: (samples, ...) images of the same samples.
        encode: A Keras model, or a function from a batch of inputs to latents. For
            quantizers return codes or `lookup(codes)`, not straight-through outputs.
        every_n_steps: Training steps between runs.
        reconstruct: A Keras model, or a function from a batch of inputs to their
            reconstructions on the same scale; adds PSNR and MSE.
        log_dir: Folder for TensorBoard scalars.
        selection: A `CheckpointSelection`, to keep the best checkpoint.
        **options: Passed to `qlayers.metrics.evaluate`: `discrete_latents` (required),
            `metrics` (here `"fast"` by default), `protocol`, `seed`, ...

    Example:
        >>> sources, images = dataset.sample(10_000, seed=0)
        >>> watch = DisentanglementMetrics(
        ...     sources, images, encoder, every_n_steps=5_000, discrete_latents=True,
        ...     selection=CheckpointSelection("runs/best.keras"))
        >>> model.fit(stream, steps_per_epoch=1_000, callbacks=[watch])
        >>> watch.history[-1].get("infomec/modularity")

    Reference:
        Hsu et al. 2024, Tripod, section 4.1 (selection by PSNR and InfoM).
    """

    def __init__(
        self,
        sources: npt.ArrayLike,
        inputs: npt.ArrayLike,
        encode: Callable[[Any], Any],
        every_n_steps: int = 1_000,
        reconstruct: Callable[[Any], Any] | None = None,
        log_dir: str | os.PathLike[str] | None = None,
        selection: CheckpointSelection | None = None,
        **options: Any,
    ) -> None:
        super().__init__(every_n_steps)
        if "discrete_latents" not in options:
            raise ValueError(
                "`discrete_latents` must be given: True for quantized latents."
            )
        self.sources = np.asarray(sources)
        self.inputs = np.asarray(inputs)
        if len(self.sources) != len(self.inputs):
            raise ValueError(
                "`sources` and `inputs` must describe the same samples; received "
                f"{len(self.sources)} and {len(self.inputs)}."
            )
        self.encode = encode
        self.reconstruct = reconstruct
        self.log_dir = log_dir
        self.selection = selection
        self.options = {"metrics": "fast", "verbose": False, **options}
        self.history: list[dict[str, float]] = []
        self.latest: EvaluationResult | None = None
        self.best: float | None = None
        self._last_run = -1
        self._is_scored = False
        self._writer: Any = None

    @property
    def results(self) -> Mapping[str, MetricResult]:
        """Results by metric; none where the last run could not be scored."""
        if self.latest is None or not self._is_scored:
            return {}
        return self.latest.results

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if self.selection is not None:
            self.best = self.selection.best()
        if self.log_dir is not None:
            import tensorflow as tf

            self._writer = tf.summary.create_file_writer(str(self.log_dir))
        super().on_train_begin(logs)
        self._run()

    def advance(self, step: int, logs: Mapping[str, Any]) -> None:
        if self._is_due(step):
            self._run()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is None or self.latest is None:
            return
        scores = self.latest.scores()
        logs.update(scores if self._is_scored else dict.fromkeys(scores, np.nan))

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self._last_run != self._step:
            self._run()
        if self._writer is not None:
            self._writer.close()

    def _run(self) -> None:
        with uncounted(self.model):
            self._score()

    def _score(self) -> None:
        self._last_run = self._step
        latents = self._map(self.encode)
        self._is_scored = bool(np.isfinite(latents).all())
        if not self._is_scored:
            warnings.warn(
                f"Latents at step {self._step} are not finite; metrics are skipped.",
                stacklevel=2,
            )
            return
        extra: dict[str, Any] = {}
        if self.reconstruct is not None:
            extra = {
                "images": self.inputs,
                "reconstructions": self._map(self.reconstruct),
            }
        self.latest = evaluate(self.sources, latents, **extra, **self.options)
        scores = self.latest.scores()
        self.history.append({"step": self._step, **scores})
        self._log(scores)
        if self.selection is not None and self.selection.accepts(scores, self.best):
            self.selection.save(self.model, self._step, scores)
            self.best = scores[self.selection.monitor]

    def _map(self, function: Callable[[Any], Any]) -> npt.NDArray[Any]:
        call = function
        if isinstance(function, keras.Model):
            # Compiled once, where calling the model would run it step by step.
            call = function.predict_on_batch
        parts = [
            keras.ops.convert_to_numpy(call(self.inputs[start : start + _BATCH_SIZE]))
            for start in range(0, len(self.inputs), _BATCH_SIZE)
        ]
        return np.concatenate(parts)

    def _log(self, scores: Mapping[str, float]) -> None:
        if self._writer is None:
            return
        import tensorflow as tf

        with self._writer.as_default(step=self._step):
            for name, value in scores.items():
                tf.summary.scalar(f"metrics/{name}", value)
        self._writer.flush()
