"""A run is finished when its last file is there."""

import json
import shutil

import pytest

from experiments.running import board
from experiments.running.rescoring import rescore
from experiments.running.training_loop import FINISHED
from experiments.running.training_run import NOTHING_TO_DO, TrainingRun
from experiments.storage.run_directory import RunDirectory
from tests.experiments.runs import quiet, tiny_config


class Kill(BaseException):
    """Stands for a kill."""


@pytest.mark.slow
def test_a_run_that_was_killed_before_its_pictures_makes_them(tmp_path, monkeypatch):
    config = tiny_config(steps=2, evaluate_every=2, evaluation_size=50)

    def kill(*_):
        raise Kill

    with monkeypatch.context() as patch:
        patch.setattr(board, "write_pictures", kill)
        with pytest.raises(Kill):
            TrainingRun(config, tmp_path, quiet).run()
    directory = RunDirectory(tmp_path)
    assert not directory.is_finished()
    assert TrainingRun(config, tmp_path, quiet).run() == FINISHED
    index = json.loads((tmp_path / "pictures" / "index.json").read_text())
    files = {name for pair in index["sprites"] for name in pair}
    files |= {"swaps.png", "infomec.png", "index.json"}
    files |= {"interventions.png", "interpolation.png"}
    assert {path.name for path in directory.pictures.iterdir()} == files
    assert TrainingRun(config, tmp_path, quiet).run() == NOTHING_TO_DO

    # What is lost later comes back by `evaluate`.
    scores = directory.load_metrics()["scores"]
    shutil.rmtree(directory.pictures)
    for name in ("encoder.keras", "decoder.keras", "metrics.json"):
        (tmp_path / name).unlink()
    with directory:
        rescore(directory, config, report=quiet)
    assert {path.name for path in directory.pictures.iterdir()} == files
    assert (tmp_path / "decoder.keras").exists()
    assert directory.load_metrics()["scores"] == scores

    # The weights that were chosen are lost: the last ones are reported, with a note.
    best = directory.checkpoints / "best.weights.h5"
    best.write_bytes(best.read_bytes()[:-100])
    with directory:
        rescore(directory, config, report=quiet, pictures=False)
    checkpoint = directory.load_metrics()["checkpoint"]
    assert checkpoint["step"] == 2 and "was lost" in checkpoint["note"]
    assert (directory.checkpoints / "best.weights.h5.damaged").exists()
