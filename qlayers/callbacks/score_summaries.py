"""Disentanglement scores and their heat maps in TensorBoard."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qlayers.callbacks.step_callback import StepCallback
from qlayers.metrics import DCIResult, InfoMECResult, plot_importance, plot_nmi
from qlayers.pixels import figure_pixels


class ScoreSummaries(StepCallback):
    """Writes metric results: every score over time, and the matrices behind them.

    - `metrics/<metric>/<score>`: scalars;
    - `nmi`: which latent knows which source (InfoMEC);
    - `importance`: which latent predicts which source (DCI).

    Args:
        log_dir: Folder for TensorBoard.
        results: Function that returns results by metric name, for example
            `lambda: watch.results` with a `DisentanglementMetrics` listed before this
            callback. A result is written once, however often it is returned.
        source_names: Names of the sources.
        every_n_steps: Training steps between two writings; those of the callback that
            computes the results, or a divisor.

    Example:
        >>> watch = DisentanglementMetrics(sources, images, encoder, 5_000, ...)
        >>> maps = ScoreSummaries("runs/0", lambda: watch.results)
        >>> model.fit(stream, callbacks=[watch, maps])
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        results: Callable[[], Mapping[str, Any]],
        source_names: Sequence[str] | None = None,
        every_n_steps: int = 1_000,
    ) -> None:
        super().__init__(log_dir, every_n_steps)
        self.results = results
        self.source_names = source_names
        self._written: dict[str, Any] = {}

    def write(self, step: int, logs: Mapping[str, Any]) -> None:
        import tensorflow as tf

        for metric, result in self.results().items():
            if result is self._written.get(metric):
                continue
            self._written[metric] = result
            for name, value in result.scores().items():
                tf.summary.scalar(f"metrics/{metric}/{name}", value)
            if isinstance(result, InfoMECResult):
                figure = plot_nmi(result, source_names=self.source_names)
                tf.summary.image("nmi", figure_pixels(figure)[None])
            elif isinstance(result, DCIResult):
                figure = plot_importance(result, source_names=self.source_names)
                tf.summary.image("importance", figure_pixels(figure)[None])
