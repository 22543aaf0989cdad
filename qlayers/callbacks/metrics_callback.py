"""Disentanglement metrics during `fit`."""

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from qlayers.metrics import EvaluationResult, evaluate
from qlayers.metrics.metric_result import plain, write_whole

_BATCH_SIZE = 256


@dataclass(frozen=True)
class CheckpointSelection:
    """Keeps the checkpoint with the best score.

    Args:
        path: Where to save the model: `.keras` for all of it, `.weights.h5` for its
            weights. A `.json` beside it records the score; a later run that finds it
            replaces the checkpoint only by a better one.
        monitor: Name of the score, `metric/score`.
        mode: `"max"` or `"min"`.
        require: Scores that must be reached, as name -> least value. Tripod's rule is
            the best InfoM among checkpoints whose PSNR reaches a threshold:
            `require={"psnr/psnr": 38.0}`.
    """

    path: str | os.PathLike[str]
    monitor: str = "infomec/modularity"
    mode: str = "max"
    require: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mode not in ("max", "min"):
            raise ValueError(f'`mode` must be "max" or "min"; received {self.mode!r}.')
        if not str(self.path).endswith((".keras", ".weights.h5")):
            raise ValueError(
                "`path` must end in .keras or .weights.h5; received "
                f"{str(self.path)!r}."
            )

    @property
    def record(self) -> Path:
        """The file that remembers the best score."""
        path = Path(self.path)
        return path.with_name(path.name + ".json")

    def best(self) -> float | None:
        """The score of the checkpoint that is there already, if any."""
        if not (self.record.exists() and Path(self.path).exists()):
            return None
        saved = json.loads(self.record.read_text(encoding="utf-8"))
        if saved.get("monitor") != self.monitor or saved.get("mode") != self.mode:
            raise ValueError(
                f"{self.record} was chosen by {saved.get('monitor')!r} "
                f"({saved.get('mode')!r}), not by {self.monitor!r} ({self.mode!r}). "
                "Choose another `path` or delete the file."
            )
        return float(saved["value"])

    def accepts(self, scores: Mapping[str, float], best: float | None) -> bool:
        """Whether these scores beat `best` and reach what is required."""
        value = self._score(scores, self.monitor)
        for name, least in self.require.items():
            if not self._score(scores, name) >= least:
                return False
        if not np.isfinite(value):
            return False
        if best is None:
            return True
        return value > best if self.mode == "max" else value < best

    @staticmethod
    def _score(scores: Mapping[str, float], name: str) -> float:
        if name not in scores:
            known = ", ".join(sorted(scores))
            raise ValueError(f"No score is called {name!r}; there are: {known}.")
        return scores[name]


class DisentanglementMetrics(keras.callbacks.Callback):
    """Scores a fixed sample every so many training steps.

    Runs before the first step, every `every_n_steps` steps and after the last one.
    The scores are kept in `history`, enter the epoch logs (and so `fit`'s history,
    `EarlyStopping` and the like, if listed after this callback) and go to TensorBoard
    if `log_dir` is given. Latents that are not finite give a warning, not an error.

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
        >>> watch.history[-1]["infomec/modularity"]

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
        super().__init__()
        if "discrete_latents" not in options:
            raise ValueError(
                "`discrete_latents` must be given: True for quantized latents."
            )
        if not isinstance(every_n_steps, int) or every_n_steps < 1:
            raise ValueError(
                f"`every_n_steps` must be a positive integer; received "
                f"{every_n_steps!r}."
            )
        self.sources = np.asarray(sources)
        self.inputs = np.asarray(inputs)
        if len(self.sources) != len(self.inputs):
            raise ValueError(
                "`sources` and `inputs` must describe the same samples; received "
                f"{len(self.sources)} and {len(self.inputs)}."
            )
        self.encode = encode
        self.every_n_steps = every_n_steps
        self.reconstruct = reconstruct
        self.log_dir = log_dir
        self.selection = selection
        self.options = {"metrics": "fast", "verbose": False, **options}
        self.history: list[dict[str, float]] = []
        self.latest: EvaluationResult | None = None
        self.best: float | None = None
        self._step = 0
        self._last_run = -1
        self._last_batch = -1
        self._writer: Any = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if self.selection is not None:
            self.best = self.selection.best()
        if self.log_dir is not None:
            import tensorflow as tf

            self._writer = tf.summary.create_file_writer(str(self.log_dir))
        optimizer = getattr(self.model, "optimizer", None)
        # A resumed run goes on counting where its optimizer stands.
        self._step = int(optimizer.iterations) if optimizer is not None else 0
        self._run()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._last_batch = -1

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        # With `steps_per_execution` several steps lie between two calls.
        self._step += batch - self._last_batch
        self._last_batch = batch
        if self._step // self.every_n_steps > self._last_run // self.every_n_steps:
            self._run()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None and self.latest is not None:
            logs.update(self.latest.scores())

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self._last_run != self._step:
            self._run()
        if self._writer is not None:
            self._writer.close()

    def _run(self) -> None:
        self._last_run = self._step
        latents = self._map(self.encode)
        if not np.isfinite(latents).all():
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
            self._save(self.selection, scores)

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

    def _save(
        self, selection: CheckpointSelection, scores: Mapping[str, float]
    ) -> None:
        path = Path(selection.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written elsewhere and moved, so that a crash cannot spoil the last best.
        partial = path.with_name("partial-" + path.name)
        if path.name.endswith(".weights.h5"):
            self.model.save_weights(partial)
        else:
            self.model.save(partial)
        os.replace(partial, path)
        self.best = scores[selection.monitor]
        record = {
            "monitor": selection.monitor,
            "mode": selection.mode,
            "value": self.best,
            "step": self._step,
            "scores": scores,
        }
        write_whole(selection.record, json.dumps(plain(record), indent=2) + "\n")
