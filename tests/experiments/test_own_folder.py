"""The launchers on a folder of one's own images, with labels and without."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from experiments.running.rescoring import rescore
from experiments.storage.run_directory import RunDirectory
from tests.conftest import ROOT
from tests.experiments.runs import tiny_run

SMALL = (
    "--profile=cpu",
    "--image_size=32",
    "--network=locatello",
    "--width=0.125",
    "--num_latents=4",
    "--batch_size=8",
    "--steps=4",
    "--log_every=2",
    "--evaluate_every=2",
    "--evaluation_size=60",
    "--metrics=fast",
)


@pytest.fixture
def photos(tmp_path):
    """Sixty pictures of two factors, not all combinations, and one that is broken."""
    folder = tmp_path / "photos"
    folder.mkdir()
    generator = np.random.default_rng(0)
    lines = ["file,shade,place"]
    for number in range(60):
        shade, place = generator.integers(0, 4), generator.choice(["left", "right"])
        pixels = np.full((30, 50, 3), 40 + 50 * shade, np.uint8)
        pixels[:, : 20 if place == "left" else 40] //= 2
        Image.fromarray(pixels).save(folder / f"{number}.png")
        lines.append(f"{number}.png,{shade},{place}")
    (folder / "labels.csv").write_text("\n".join([*lines, "broken.png,1,left"]))
    (folder / "broken.png").write_bytes(b"no picture")
    return folder


def _train(*flags):
    return subprocess.run(
        [sys.executable, "-m", "experiments.train", "--dataset=folder", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_labelled_folder_is_trained_on_and_scored(photos, tmp_path):
    flags = (f"--data_dir={photos}", f"--workdir={tmp_path / 'run'}", *SMALL)
    done = _train("--method=qlae", *flags)
    assert done.returncode == 2
    assert "broken.png: cannot be read as an image" in done.stderr
    assert "Traceback" not in done.stderr
    done = _train("--method=qlae", *flags, "--on_bad_image=skip")
    assert done.returncode == 0, done.stderr
    assert "Left out 1 of 61 pictures" in done.stderr
    record = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert "infomec/modularity" in record["scores"]
    assert np.shape(record["results"]["infomec"]["nmi"]) == (2, 4)
    index = json.loads((tmp_path / "run" / "pictures" / "index.json").read_text())
    assert index["sources"] == ["shade", "place"]


def test_a_refused_continuation_leaves_the_run_as_it_is(photos, tmp_path):
    (photos / "broken.png").unlink()
    (photos / "labels.csv").unlink()
    place = {"dataset": "folder", "data_dir": str(photos)}
    assert tiny_run(tmp_path / "run", **place).run() == "finished"
    before = (tmp_path / "run" / "config.json").read_bytes()
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(photos / "more.png")
    with pytest.raises(ValueError, match="are not those that the run"):
        tiny_run(tmp_path / "run", **place, steps=24).run()
    assert (tmp_path / "run" / "config.json").read_bytes() == before
    (photos / "more.png").unlink()
    assert tiny_run(tmp_path / "run", **place).run() == "nothing to do"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ae", "qlae"])
def test_a_folder_without_labels(photos, tmp_path, method):
    for name in ("labels.csv", "broken.png"):
        (photos / name).unlink()
    workdir = tmp_path / "run"
    done = _train(
        f"--method={method}", f"--data_dir={photos}", f"--workdir={workdir}", *SMALL
    )
    assert done.returncode == 0, done.stderr
    assert "have no labels" in done.stdout + done.stderr
    record = json.loads((workdir / "metrics.json").read_text())
    assert "psnr/psnr" in record["scores"]
    assert not any(name.startswith("infomec") for name in record["scores"])
    assert ("straight_through_gap/gap" in record["scores"]) == (method == "qlae")
    assert (workdir / "pictures" / "traversal-0.png").is_file()
    points = (workdir / "projector" / "metadata.tsv").read_text().splitlines()
    assert len(points) in (1000, 1001)
    said = []
    directory = RunDirectory(workdir)
    found = rescore(directory, directory.load_config(), report=said.append)
    assert found.scores.keys() == record["scores"].keys()
    assert any("have no labels" in line for line in said)
