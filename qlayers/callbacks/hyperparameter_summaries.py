"""Hyperparameters and final scores for TensorBoard's HParams page."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_hyperparameters(
    log_dir: str | os.PathLike[str],
    hyperparameters: Mapping[str, Any],
    scores: Mapping[str, float],
    step: int,
    name: str | None = None,
) -> None:
    """Writes one run's row of the HParams page.

    The page shows five hyperparameters at first: those that differ between the runs,
    then by name, capital letters before small ones.

    Args:
        log_dir: Folder of the run; one folder is one row.
        hyperparameters: Numbers, truth values and text. What is None is left out: one
            would turn its column into text and hide runs. Others become text.
        scores: Final scores by name.
        step: Training step at which the scores were taken.
        name: Name of the row. Runs of one name are one row, so that each needs its own.
            Default: the folder and the one above it.

    Example:
        >>> write_hyperparameters("runs/0", {"beta": 3.0}, {"mig/mig": 0.4}, 10_000)
    """
    import tensorflow as tf
    from tensorboard.plugins.hparams import api as hp

    values = _shown(hyperparameters)
    name = name or "/".join(Path(log_dir).resolve().parts[-2:])
    writer = tf.summary.create_file_writer(os.fspath(log_dir))
    with writer.as_default(step=step), tf.summary.record_if(True):
        hp.hparams(values, trial_id=name)
        for score, value in scores.items():
            tf.summary.scalar(f"final/{score}", value)
    writer.close()


def _shown(hyperparameters: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    return {
        name: value if isinstance(value, (bool, int, float, str)) else str(value)
        for name, value in hyperparameters.items()
        if value is not None
    }


def write_hyperparameter_columns(
    log_dir: str | os.PathLike[str],
    runs: Sequence[Mapping[str, Any]],
    scores: Sequence[str],
) -> None:
    """Writes which columns the HParams page of a set of runs has.

    Without it every curve of the runs is a column of scores.

    Args:
        log_dir: The folder above the runs'.
        runs: Hyperparameters of every run, as given to `write_hyperparameters`.
        scores: Names of scores, as given to `write_hyperparameters`.

    Example:
        >>> runs = [{"beta": 1.0}, {"beta": 3.0}]
        >>> write_hyperparameter_columns("runs", runs, ["mig/mig"])
    """
    import tensorflow as tf
    from tensorboard.plugins.hparams import api as hp
    from tensorboard.plugins.hparams import plugin_data_pb2

    rows = [_shown(run) for run in runs]
    names = sorted({name for row in rows for name in row})
    summary = hp.hparams_config_pb(
        hparams=[hp.HParam(name) for name in names],
        metrics=[hp.Metric(f"final/{name}", display_name=name) for name in scores],
    )
    written = summary.value[0].metadata.plugin_data
    data = plugin_data_pb2.HParamsPluginData.FromString(written.content)
    for info in data.experiment.hparam_infos:
        _describe(info, [row[info.name] for row in rows if info.name in row])
    written.content = data.SerializeToString()
    writer = tf.summary.create_file_writer(os.fspath(log_dir))
    with writer.as_default(step=0), tf.summary.record_if(True):
        tf.summary.experimental.write_raw_pb(summary.SerializeToString())
    writer.close()


def _describe(info: Any, values: Sequence[Any]) -> None:
    """Says of a column what the page would find out itself from finished runs."""
    from tensorboard.plugins.hparams import api_pb2

    info.differs = len(set(values)) > 1
    if all(isinstance(value, bool) for value in values):
        info.type = api_pb2.DATA_TYPE_BOOL
        info.domain_discrete.extend(sorted(set(values)))
    elif any(isinstance(value, (bool, str)) for value in values):
        info.type = api_pb2.DATA_TYPE_STRING
        info.domain_discrete.extend(sorted(set(map(str, values))))
    else:
        info.type = api_pb2.DATA_TYPE_FLOAT64
        info.domain_interval.min_value = min(values)
        info.domain_interval.max_value = max(values)
