"""What a sweep does to the folders of its trials before the first one runs."""

import pytest

from experiments.reporting.summary import find_runs
from experiments.storage.files import write_json
from experiments.storage.run_directory import RunDirectory
from experiments.sweeps.plan import plan_sweep
from experiments.sweeps.run_sweep import run_sweep


def plan(steps):
    """QVAE's temperature falls over all steps, so more of them are another run."""
    return plan_sweep(
        ["ae", "qvae"], ["mini_shapes3d"], [0], profile="cpu", settings={"steps": steps}
    )


def nothing(left):
    yield from ()


@pytest.fixture
def finished(tmp_path):
    for trial in plan(1000):
        with RunDirectory(tmp_path / trial.name) as directory:
            directory.start(trial.config)
            made = {"scores": {"mig/mig": 0.5}, "checkpoint": {"step": 1000}}
            write_json(directory.metrics_file, {**made, "trained_steps": 1000})
    return tmp_path


def test_a_sweep_that_is_refused_leaves_every_run_as_it_was(finished):
    with pytest.raises(ValueError, match="steps: 1000 there, 2000 now"):
        run_sweep(plan(2000), finished, engine=nothing, pictures=False)
    assert len(find_runs([finished])[0]) == 2
    assert run_sweep(plan(1000), finished, engine=nothing, pictures=False) == []


def test_a_damaged_folder_is_told_once_and_not_started(finished, capsys):
    damaged = finished / plan(1000)[0].name
    (damaged / "config.json").write_text("{")
    failed = run_sweep(plan(1000), finished, engine=nothing, pictures=False)
    assert failed == [damaged]
    assert capsys.readouterr().out.count("Delete the folder") == 1
