"""Models by name, from folders and from addresses."""

import http.server
import json
import threading
import zipfile
from functools import partial

import keras
import numpy as np
import pytest

import models
from experiments.running.evaluation import evaluate_model, final_sample
from experiments.running.export import export
from experiments.running.setup import describe_model
from experiments.storage.files import write_json
from experiments.storage.run_directory import RunDirectory
from models import publication
from models.pretrained import SHIPPED, file_checksum
from qlayers import datasets
from studies.pretrained import plan

NAMES = models.pretrained_names()
SMALLEST = min(NAMES, key=lambda name: models.read_card(name)["bytes"], default=None)


@pytest.fixture(scope="module")
def small():
    """A model with a codebook, and images."""
    keras.utils.set_random_seed(3)
    model = models.build("qlae", (32, 32, 3), 4, network="locatello", width=0.125)
    images = np.random.default_rng(0).random((6, 32, 32, 3), np.float32)
    return model, images


@pytest.fixture(scope="module")
def published(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("published") / "mine"
    models.save_pretrained(small[0], folder, {"licence": "CC0-1.0"})
    return folder


def test_shipped_files_are_those_of_their_cards():
    assert NAMES, "no model ships with the project"
    assert "qlae-mini_shapes3d-32" in NAMES
    for name in NAMES:
        card, file = models.read_card(name), SHIPPED / name / "model.keras"
        assert card["name"] == name
        assert card["bytes"] == file.stat().st_size <= 1_000_000
        assert card["checksum"] == file_checksum(file)
        assert name in card["command"] and card["licence"] and card["data"]
        assert zipfile.ZipFile(file).namelist() == [
            "metadata.json",
            "config.json",
            "model.weights.h5",
        ]
    whole = sum(file.stat().st_size for file in SHIPPED.rglob("*") if file.is_file())
    assert whole <= 8_000_000  # what every clone carries


def check_scores(name, metrics):
    """A shipped model, loaded and scored as its card says, has the card's scores."""
    card = models.read_card(name)
    config = plan(card["method"]).config
    assert config.evaluation_size == card["scored_on"]["images"]
    dataset = datasets.load(card["dataset"], image_size=card["image_size"])
    model = models.load_pretrained(name)
    sample = final_sample(config, dataset)
    found = evaluate_model(config, model, sample, metrics=metrics).scores
    compared = [score for score in card["scores"] if score in found]
    assert {"infomec/modularity", "psnr/psnr"} <= set(compared)
    for score in compared:
        tolerance = 0.05 if score == "psnr/psnr" else 5e-3
        assert found[score] == pytest.approx(card["scores"][score], abs=tolerance)


@pytest.mark.skipif(SMALLEST is None, reason="no model ships")
def test_smallest_shipped_model_scores_as_its_card_says():
    check_scores(SMALLEST, ("infomec",))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_shipped_models_score_as_their_cards_say(name):
    check_scores(name, "standard")


def test_half_precision_rounds_each_weight_once(small, published):
    model, images = small
    loaded = models.load_pretrained(published)
    assert type(loaded) is type(model)
    for ours, theirs in zip(loaded.weights, model.weights, strict=True):
        wanted = np.asarray(theirs)
        if wanted.dtype.kind == "f":
            wanted = wanted.astype(np.float16).astype(wanted.dtype)
        np.testing.assert_array_equal(np.asarray(ours), wanted)
    np.testing.assert_allclose(
        loaded.reconstruct(images), model.reconstruct(images), atol=5e-3
    )


def test_single_precision_is_the_model_itself(small, tmp_path):
    model, images = small
    card = models.save_pretrained(model, tmp_path, precision="single")
    loaded = models.load_pretrained(tmp_path, checksum=card["checksum"])
    np.testing.assert_array_equal(loaded.reconstruct(images), model.reconstruct(images))


def test_numbers_too_large_for_half_precision_stay():
    large = np.array([1.0, 1e6], np.float32)
    assert publication._rounded(large, np.float16) is large
    assert publication._rounded(large[:1], np.float16).dtype == np.float16
    assert publication._rounded(np.arange(3), np.float16).dtype.kind == "i"


def test_same_weights_give_the_same_file(small, published, tmp_path):
    card = models.save_pretrained(small[0], tmp_path, {"licence": "another"})
    assert card["checksum"] == models.read_card(published)["checksum"]
    assert models.read_card(published)["licence"] == "CC0-1.0"


def test_changed_file_is_refused(published, tmp_path):
    for file in published.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with open(tmp_path / "model.keras", "ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match="not the published file"):
        models.load_pretrained(tmp_path)
    with pytest.raises(ValueError, match="64 hexadecimal"):
        models.load_pretrained(published, checksum="md5:1234")
    with pytest.raises(ValueError, match="not the published file"):
        models.load_pretrained(published / "model.keras", checksum="0" * 64)


@pytest.fixture
def address(published):
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=published)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/model.keras"
        server.shutdown()


def test_address_needs_its_checksum(small, published, address, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    with pytest.raises(ValueError, match="needs a checksum"):
        models.load_pretrained(address)
    with pytest.raises(ValueError, match=r"(?i)hash|incomplete|corrupt"):
        models.load_pretrained(address, checksum="0" * 64)
    card = models.read_card(published)
    model = models.load_pretrained(address, card["checksum"])
    images = small[1]
    np.testing.assert_array_equal(
        model.codes(images), models.load_pretrained(published).codes(images)
    )


def test_foreign_files_run_no_code(tmp_path):
    layer = keras.layers.Lambda(lambda x: x + 1)
    foreign = keras.Sequential([keras.Input((2,)), layer])
    foreign.save(tmp_path / "lambda.keras")
    with pytest.raises(ValueError, match="safe"):
        models.load_pretrained(tmp_path / "lambda.keras")
    plain = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    plain.save(tmp_path / "plain.keras")
    with pytest.raises(ValueError, match="not a model of"):
        models.load_pretrained(tmp_path / "plain.keras")


def test_unknown_names_and_empty_folders_say_what_there_is(tmp_path):
    with pytest.raises(ValueError, match="qlae-mini_shapes3d-32"):
        models.load_pretrained("qlae-mini_shapes3d-33")
    with pytest.raises(ValueError, match="holds no model"):
        models.load_pretrained(tmp_path)
    (tmp_path / "card.json").write_text(json.dumps({"name": "x"}))
    with pytest.raises(ValueError, match="no `checksum`"):
        models.read_card(tmp_path)


def test_folder_of_a_run(small, tmp_path):
    model, images = small
    model.compile()
    write_json(tmp_path / "config.json", {"model": describe_model(model)})
    export(model, RunDirectory(tmp_path))
    loaded = models.load_pretrained(tmp_path)
    np.testing.assert_array_equal(loaded.reconstruct(images), model.reconstruct(images))
