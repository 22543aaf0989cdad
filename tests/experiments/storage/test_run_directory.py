"""Files of a run that are not what they should be."""

import pytest

from experiments.settings.config import RunConfig
from experiments.storage.files import read_json, write_json
from experiments.storage.run_directory import RunDirectory
from qlayers.files import DamagedFileError
from tests.experiments.reporting.handwritten_runs import make_run
from tests.experiments.runs import tiny_config


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b"null", b"\xff", b'{"method": "qlae"}', b"[" * 100_000],
)
def test_a_damaged_config_is_named(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(DamagedFileError, match=r"config\.json is damaged"):
        RunDirectory(tmp_path).load_config()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", "12"),
        ("steps", True),
        ("steps", None),
        ("width", "wide"),
        ("method", 3),
        ("hyperparameters", []),
        ("psnr_threshold", "high"),
        ("deterministic", 1),
        ("select", 2),
    ],
)
def test_settings_of_another_kind_are_refused(name, value):
    values = tiny_config().to_dict()
    assert RunConfig.from_dict(values) == tiny_config()
    with pytest.raises(ValueError, match=name):
        RunConfig.from_dict({**values, name: value})


@pytest.mark.parametrize(
    "change",
    [
        {"scores": []},
        {"scores": {"mig/mig": "high"}},
        {"scores": {"mig/mig": 10**400}},
        {"trained_steps": "12"},
        {"checkpoint": {"step": None}},
        {"provenance": 3},
    ],
)
def test_damaged_scores_are_taken_again(tmp_path, change):
    directory = RunDirectory(make_run(tmp_path, {"mig/mig": 0.5}))
    assert directory.is_finished()
    write_json(directory.metrics_file, {**read_json(directory.metrics_file), **change})
    with pytest.raises(DamagedFileError):
        directory.load_metrics()
    assert not directory.is_finished()


def folder_config(place, **settings):
    return tiny_config("qlae", dataset="folder", data_dir=str(place), **settings)


def test_other_images_are_another_run(tmp_path):
    for name in ("cats", "dogs"):
        (tmp_path / name).mkdir()
    with RunDirectory(tmp_path / "run") as directory:
        directory.start(folder_config(tmp_path / "cats"))
        with pytest.raises(ValueError, match=r"data_dir: .*cats' there, .*dogs' now"):
            directory.start(folder_config(tmp_path / "dogs"))
        same = tmp_path / "dogs" / ".." / "cats"  # however it is written
        assert directory.start(folder_config(same, steps=24))
    with RunDirectory(tmp_path / "made") as directory:
        directory.start(tiny_config(data_dir="a"))
        assert directory.start(tiny_config(data_dir="b"))  # prepared files may move


def test_a_run_knows_the_images_it_was_started_with(tmp_path):
    with RunDirectory(tmp_path / "run") as directory:
        directory.start(folder_config(tmp_path))
        assert directory.has_seen("abc") and directory.has_seen("def")
        directory.note_data("abc")
        directory.note_data("def")  # the first counts
        directory.start(folder_config(tmp_path, steps=24))
        assert directory.has_seen("abc") and not directory.has_seen("def")
        assert directory.has_seen(None)


def test_a_folder_is_the_same_from_everywhere(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with RunDirectory(tmp_path / "run") as directory:
        directory.start(folder_config("photos"))
        monkeypatch.chdir("/")
        assert directory.start(folder_config(tmp_path / "photos"))
        assert directory.start(folder_config("~/photos"))


def test_a_damaged_status_is_no_reason_to_stop(tmp_path):
    directory = RunDirectory(tmp_path)
    directory.status_file.write_text("[")
    assert directory.load_status() == {}
    directory.forget_divergence()
