"""The page of shipped models, made without training and driven in a browser."""

import re
import subprocess
import sys

import numpy as np
import pytest

import models
from experiments import explore
from experiments.reporting.model_page import ShownModel, model_page
from experiments.running.latents import latents_of
from qlayers import datasets
from qlayers.metrics import infomec
from tests.conftest import ROOT
from tests.experiments.reporting.browser import Browser


@pytest.mark.slow
def test_page_of_shipped_models(tmp_path):
    page = tmp_path / "page" / "explore.html"
    done = subprocess.run(
        [sys.executable, "-m", "experiments.explore", f"--output={page}", "--noopen"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert str(page) in done.stdout
    assert "cuInit" not in done.stderr and "InitializeLog" not in done.stderr
    assert page.stat().st_size < 2_200_000  # of two models
    images = datasets.load("mini_shapes3d", image_size=32).evaluation_set(1)[1]
    model = models.load_pretrained("qlae-mini_shapes3d-32")
    table = np.asarray(model.quantizer.value_table())
    # Sliders go from the least value of a latent to the largest.
    wanted = (table < model.encode(images).T - 1e-6).sum(axis=1)
    with Browser(tmp_path / "profile") as browser:
        browser.open(page.as_uri())
        browser.wait_for("return document.body.dataset.ready === '0'")
        # The page opens with the first image: its sliders stand at Keras's latents.
        places = browser.run(
            "return [...document.querySelectorAll('input[id^=latent-]')]"
            ".map(slider => Number(slider.value))"
        )
        np.testing.assert_array_equal(places, wanted)


def test_heat_map_is_of_what_the_card_was_scored_on():
    """A card that was scored on samples, by another protocol, is shown so."""
    name = "beta_vae-mini_shapes3d-32"
    dataset = datasets.load("mini_shapes3d", image_size=32)
    sources, images = dataset.evaluation_set(150)
    card = models.read_card(name)
    scored = {**card["scored_on"], "scored_as": "samples", "protocol": "tripod"}
    model = models.load_pretrained(name)
    latents, _ = latents_of(model, images, "samples")
    wanted = infomec(sources, latents, discrete_latents=False, protocol="tripod")
    other = {**card, "scored_on": scored}
    shown = explore._shown(name, "VAE", other, sources, images)
    np.testing.assert_allclose(shown.info.nmi, wanted.nmi)
    of_means = explore._shown(name, "VAE", card, sources, images).info
    assert np.abs(of_means.nmi - wanted.nmi).max() > 1e-3


def test_unknown_model_is_named():
    with pytest.raises(ValueError, match="ae-mini_shapes3d-32"):
        models.read_card("no-such-model")


@pytest.fixture(scope="module")
def tiny():
    return models.build("ae", (16, 16, 3), 2, network="locatello", width=0.125)


def test_scores_stand_under_their_own_headings(tiny):
    images = np.zeros((2, 16, 16, 3), "uint8")
    few = ShownModel("few", tiny, {"InfoM": 0.4, "PSNR": 30.0})
    all_of_them = ShownModel("all", tiny, {"InfoM": 0.9, "InfoE": 0.8, "PSNR": 33.0})
    page = model_page([few, all_of_them], images, title="Two")
    table = re.search(r"<table>.*?</table>", page)[0]
    cells = r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>"
    rows = [re.findall(cells, row) for row in table.split("</tr>")]
    assert rows[:3] == [
        ["model", "InfoM", "PSNR", "InfoE"],
        ["few", "0.40", "30.00", ""],
        ["all", "0.90", "33.00", "0.80"],
    ]


def test_what_a_card_lacks_is_named(tiny, tmp_path):
    models.save_pretrained(tiny, tmp_path, {"licence": "CC0-1.0", "method": "ae"})
    cards = {"published": models.read_card(tmp_path)}
    with pytest.raises(ValueError, match="card of published lacks dataset, image_size"):
        explore._shared_data(cards)


def test_a_card_without_scores_is_shown(tiny, tmp_path):
    facts = {"method": "ae", "dataset": "mini_shapes3d", "image_size": 16}
    models.save_pretrained(tiny, tmp_path, facts)
    card = models.read_card(tmp_path)
    assert explore._shared_data({"published": card}) == ("mini_shapes3d", 16)
    sources, images = datasets.load("mini_shapes3d", image_size=16).evaluation_set(100)
    shown = explore._shown(str(tmp_path), "mine", card, sources, images)
    assert (shown.name, shown.scores) == ("mine", {})


def test_models_of_one_method_are_told_apart():
    methods = {"first": "qlae", "b": "ae", "runs/c": "qlae"}
    cards = {name: {"method": method} for name, method in methods.items()}
    wanted = {"first": "first", "b": "ae", "runs/c": "runs/c"}
    assert explore._titles(cards) == wanted
