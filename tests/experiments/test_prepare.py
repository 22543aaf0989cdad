"""The command that prepares datasets, and the page about what they need."""

import numpy as np
import pytest

from qlayers import datasets
from qlayers.datasets import catalogue
from tests.conftest import ROOT
from tests.datasets import published_files
from tests.experiments.test_commands import launch


@pytest.mark.slow
def test_prepares_once_and_says_so(tmp_path):
    file = tmp_path / "3dshapes.h5"
    images = published_files.write_shapes3d(file, n=20)
    flags = (
        "--dataset=shapes3d",
        f"--data_dir={tmp_path / 'data'}",
        f"--file={file}",
        "--allow_partial",
    )
    code, output, errors = launch("prepare", *flags)
    assert code == 0, errors
    assert "shapes3d is prepared: 20 images." in output
    assert "Traceback" not in errors
    dataset = datasets.load(
        "shapes3d", data_dir=str(tmp_path / "data"), file=file, allow_partial=True
    )
    shown = dataset.images_of([[0, 0, 0, 0, 0, 3]], dtype="uint8")[0]
    np.testing.assert_array_equal(shown, images[3])


@pytest.mark.slow
def test_dry_run_and_errors(tmp_path):
    code, output, errors = launch(
        "prepare", "--dataset=mpi3d", f"--data_dir={tmp_path}", "--dry_run"
    )
    assert code == 0, errors
    for text in (
        "real3d_complicated_shapes_ordered.npz (about 5.7 GB)",
        "https://drive.google.com",
        "CC BY 4.0",
        str(tmp_path / "downloads" / "manual"),
    ):
        assert text in output
    assert not list(tmp_path.iterdir())
    code, _, errors = launch("prepare", "--dataset=mpi3d", f"--data_dir={tmp_path}")
    assert code == 2
    said = [line for line in errors.splitlines() if "ordered.npz" in line]
    assert len(said) == 1
    assert said[0].startswith(str(tmp_path / "downloads" / "manual"))
    assert "Traceback" not in errors


def test_the_page_is_what_the_records_say():
    text = (ROOT / "docs" / "datasets.md").read_text()
    assert text == catalogue.page(), (
        "run: python -m qlayers.datasets.catalogue > docs/datasets.md"
    )


@pytest.mark.parametrize(
    "name", [n for n in datasets.names() if datasets.info(n).files and n != "folder"]
)
def test_facts_agree_with_the_dataset_record(name):
    found = catalogue.facts(name)
    record = datasets.info(name)
    assert set(record.factor_names) <= set(found.space.names)
    assert found.licence
    assert found.url.startswith("http")
    assert found.disk > 10**6
    text = (ROOT / "docs" / "datasets.md").read_text()
    section = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
    for factor in record.factor_names:
        assert f"| `{factor}` |" in section
    for file in found.files:
        assert file in section


def test_generated_datasets_have_no_files():
    with pytest.raises(ValueError, match="not made from published files"):
        catalogue.facts("circles")
