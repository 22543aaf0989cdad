"""The page of shipped models, made without training and driven in a browser."""

import subprocess
import sys

import numpy as np
import pytest

import models
from experiments import explore
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
    shown = explore._shown(name, {**card, "scored_on": scored}, sources, images)
    np.testing.assert_allclose(shown.info.nmi, wanted.nmi)
    of_means = explore._shown(name, card, sources, images).info
    assert np.abs(of_means.nmi - wanted.nmi).max() > 1e-3


def test_unknown_model_is_named():
    with pytest.raises(ValueError, match="ae-mini_shapes3d-32"):
        models.read_card("no-such-model")
