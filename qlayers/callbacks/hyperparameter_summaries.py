"""Hyperparameters and final scores for TensorBoard's HParams page."""

import os
from collections.abc import Mapping, Sequence
from typing import Any


def write_hyperparameters(
    log_dir: str | os.PathLike[str],
    hyperparameters: Mapping[str, Any],
    scores: Mapping[str, float],
    step: int,
) -> None:
    """Writes one run's row of the HParams page.

    Args:
        log_dir: Folder of the run; one folder is one row.
        hyperparameters: Numbers, truth values and text. What is None is left out: one
            would turn its column into text and hide runs. Others become text.
        scores: Final scores by name.
        step: Training step at which the scores were taken.

    Example:
        >>> write_hyperparameters("runs/0", {"beta": 3.0}, {"mig/mig": 0.4}, 10_000)
    """
    import tensorflow as tf
    from tensorboard.plugins.hparams import api as hp

    values = {
        name: value if isinstance(value, (bool, int, float, str)) else str(value)
        for name, value in hyperparameters.items()
        if value is not None
    }
    writer = tf.summary.create_file_writer(os.fspath(log_dir))
    with writer.as_default(step=step), tf.summary.record_if(True):
        hp.hparams(values)
        for name, value in scores.items():
            tf.summary.scalar(f"final/{name}", value)
    writer.close()


def write_hyperparameter_columns(
    log_dir: str | os.PathLike[str], names: Sequence[str], scores: Sequence[str]
) -> None:
    """Writes which columns the HParams page of a set of runs has.

    Without it the page takes the columns of whichever run it reads first.

    Args:
        log_dir: The folder above the runs'.
        names: Names of hyperparameters.
        scores: Names of scores, as given to `write_hyperparameters`.
    """
    import tensorflow as tf
    from tensorboard.plugins.hparams import api as hp

    writer = tf.summary.create_file_writer(os.fspath(log_dir))
    with writer.as_default(step=0), tf.summary.record_if(True):
        hp.hparams_config(
            hparams=[hp.HParam(name) for name in names],
            metrics=[hp.Metric(f"final/{name}", display_name=name) for name in scores],
        )
    writer.close()
