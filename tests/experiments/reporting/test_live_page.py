"""The page decodes, encodes and blends in a browser what Keras computes."""

import base64
import io
import json
import shutil

import keras
import numpy as np
import pytest
from PIL import Image

import models
from experiments.reporting.model_page import ShownModel, model_page
from experiments.reporting.report_files import write_report
from experiments.reporting.summary import find_runs, group_runs
from experiments.storage.files import read_json, write_json
from qlayers import metrics
from tests.experiments.reporting.browser import Browser
from tests.experiments.reporting.handwritten_runs import make_run

SIDE, LATENTS = 32, 4


def picture(seed):
    """A coloured picture with some structure, uint8."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
    return np.asarray(small.resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def live_run(folder, method, **settings):
    """A run with an untrained model whose kernels are halves, and two base images."""
    scores = {"infomec/modularity": 0.5}
    nmi = np.eye(2, LATENTS) * 0.58 + 0.01
    keras.utils.set_random_seed(0)
    model = models.build(method, (SIDE, SIDE, 3), LATENTS, **settings)
    for network in (model.encoder, model.decoder):
        for variable in network.trainable_variables:
            value = np.asarray(variable.value)
            # Larger weights than those that training starts with: codes differ.
            value = 2.0 * value if value.ndim >= 2 else value
            halved = value.ndim >= 2 and "codebook" not in variable.path
            variable.assign(value.astype("float16" if halved else "float32"))
    make_run(folder, scores, method)
    record = read_json(folder / "metrics.json")
    record["results"] = {"infomec": {"nmi": nmi.tolist(), "active": [True] * LATENTS}}
    write_json(folder / "metrics.json", record)
    config = read_json(folder / "config.json")
    config["model"] = {"reconstruction": {"kind": "bce"}}
    write_json(folder / "config.json", config)
    model.encoder.save(folder / "encoder.keras")
    model.decoder.save(folder / "decoder.keras")
    index = {
        "side": SIDE,
        "latents": LATENTS,
        "steps": 3,
        "values": [3] * LATENTS,
        "sources": ["hue", "size"],
        "codes": [[0] * LATENTS] * 2,
        "sprites": [[f"base-{i}.png"] * 2 for i in range(2)],
        "frequencies": [[0.2, 0.8, 0.0]] * LATENTS if model.quantizer else None,
    }
    for i in range(2):
        (folder / "pictures" / f"base-{i}.png").write_bytes(png(picture(i)))
    write_json(folder / "pictures" / "index.json", index)
    return model


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder of a report of two models, and the models."""
    folder = tmp_path_factory.mktemp("live")
    style = {"network": "style", "width": 0.125}
    continuous = live_run(folder / "ae", "ae", **style)
    quantized = live_run(folder / "qlae", "qlae", num_values=3, **style)
    write_report(group_runs(find_runs([folder])[0]), folder, "Live")
    return folder, continuous, quantized


@pytest.fixture(scope="module")
def browser(made, tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser") / "profile") as browser:
        yield browser


def open_page(browser, made, run):
    browser.open((made[0] / "report.html").as_uri())
    browser.wait_for("return document.body.dataset.ready === '0'")
    if run:
        choose_run(browser, run)


def choose_run(browser, run):
    browser.run(f"""
        const menu = document.getElementById("run");
        menu.value = {run}; menu.dispatchEvent(new Event("change"));""")
    browser.wait_for(f"return document.body.dataset.ready === '{run}'")


def slide(browser, latent, position):
    browser.run(f"""
        const slider = document.getElementById("latent-{latent}");
        slider.value = {position}; slider.dispatchEvent(new Event("input"));""")


def decoded(browser):
    """The canvas's pixels, uint8, and the numbers behind them."""
    browser.wait_for("""
        return !state.pending && document.getElementById("decoded").dataset.shown
            === state.positions.join(",")""")
    found = browser.run("""
        const canvas = document.getElementById("decoded");
        const data = canvas.getContext("2d")
            .getImageData(0, 0, canvas.width, canvas.height).data;
        return [canvas.height, canvas.width, [...data],
                [...state.model.decode(state.values)], [...state.values]];""")
    height, width, data, numbers, values = found
    pixels = np.reshape(data, (height, width, 4)).astype(int)
    assert (pixels[..., 3] == 255).all()
    return pixels[..., :3], np.reshape(numbers, (height, width, 3)), np.array(values)


def check_decoding(browser, model, latents):
    """Canvas and numbers are those of Keras."""
    wanted = model.decode(np.asarray(latents, "float32")[None])[0]
    pixels, numbers, values = decoded(browser)
    np.testing.assert_allclose(values, latents, atol=1e-5)
    np.testing.assert_allclose(numbers, wanted, atol=1e-4)
    assert np.abs(pixels - 255.0 * wanted).max() < 0.55


def drop(browser, well, content):
    """Drops a file onto one of the two images."""
    encoded = json.dumps(base64.b64encode(content).decode())
    browser.run(f"""
        const bytes = Uint8Array.from(atob({encoded}), (c) => c.charCodeAt(0));
        const carried = new DataTransfer();
        carried.items.add(new File([bytes], "own.png", {{ type: "image/png" }}));
        document.getElementById("well-{well}").dispatchEvent(
            new DragEvent("drop", {{ dataTransfer: carried, bubbles: true }}));""")


def codes_of(browser, well):
    text = browser.run(
        f"return document.getElementById('well-{well}').dataset.codes || ''"
    )
    return [int(code) for code in text.split(",")] if text else None


def test_two_sliders_decode_together(made, browser):
    _, _, model = made
    open_page(browser, made, 1)
    table = np.sort(np.asarray(model.quantizer.value_table()), axis=1)
    own = model.encode(picture(0)[None])[0]
    check_decoding(browser, model, own)
    slide(browser, 1, 0)
    slide(browser, 3, 2)
    latents = own.copy()
    latents[1], latents[3] = table[1, 0], table[3, 2]
    check_decoding(browser, model, latents)
    marked = "return document.querySelectorAll('#sliders rect.now').length"
    assert browser.run(marked) == LATENTS
    text = browser.run("return document.querySelector('#sliders .knows').textContent")
    assert text == "hue 0.59"
    browser.run("document.getElementById('random').click()")
    values = decoded(browser)[2]
    # Never the third code, which no image uses.
    used = np.asarray(model.quantizer.value_table())[:, :2]
    assert (np.abs(used - values[:, None]).min(1) < 1e-6).all()


def test_a_dropped_image_becomes_codes_and_a_reconstruction(made, browser):
    _, _, model = made
    open_page(browser, made, 1)
    before = codes_of(browser, "a")
    np.testing.assert_array_equal(before, model.codes(picture(0)[None])[0])
    own = next(
        picture(seed)
        for seed in range(10, 100)
        if model.codes(picture(seed)[None])[0].tolist() != before
    )
    drop(browser, "a", png(own))
    wanted = model.codes(own[None])[0].tolist()
    changed = "return document.getElementById('well-a').dataset.codes"
    browser.wait_for(f"{changed} === '{','.join(map(str, wanted))}'")
    assert codes_of(browser, "a") == wanted
    check_decoding(browser, model, model.encode(own[None])[0])
    drop(browser, "a", b"not an image")
    caption = "return document.getElementById('caption').textContent"
    browser.wait_for(f"{caption}.startsWith('This file is not an image')")
    assert codes_of(browser, "a") == wanted


def test_two_images_blend_latent_by_latent(made, browser):
    _, _, model = made
    open_page(browser, made, 1)
    first, second = model.encode(np.stack([picture(0), picture(1)]))
    assert (first != second).any()
    latent = int(np.flatnonzero(first != second)[0])
    browser.run(f"""
        document.querySelectorAll("#sliders .latent")[{latent}]
            .querySelectorAll(".takers button")[1].click()""")
    mixed = first.copy()
    mixed[latent] = second[latent]
    check_decoding(browser, model, mixed)
    for share, wanted in ((100, second), (0, first)):
        browser.run(f"""
            const blend = document.getElementById("blend");
            blend.value = {share}; blend.dispatchEvent(new Event("input"));""")
        check_decoding(browser, model, wanted)


def test_continuous_latents_take_any_value(made, browser):
    _, model, _ = made
    open_page(browser, made, 0)
    own = model.encode(picture(0)[None])[0]
    check_decoding(browser, model, own)
    slide(browser, 2, 1.5)
    latents = own.copy()
    latents[2] = 1.5
    check_decoding(browser, model, latents)
    assert codes_of(browser, "a") is None
    browser.run("document.getElementById('random').click()")
    _, numbers, values = decoded(browser)
    wanted = model.decode(values.astype("float32")[None])[0]
    np.testing.assert_allclose(numbers, wanted, atol=1e-4)
    assert not np.isclose(values, latents).any()


def test_page_of_models_in_memory(made, browser, tmp_path):
    _, _, model = made
    sources = np.arange(64).reshape(-1, 1) % 2
    codes = np.repeat(sources, LATENTS, axis=1).astype("float32")
    codes[:, 1:] = 0.0
    info = metrics.infomec(sources, codes, discrete_latents=True)
    entry = ShownModel("a </script> name", model, {"InfoM": info.modularity}, info)
    images = np.stack([picture(seed) for seed in range(3)])
    text = model_page([entry], images, title="Memory", source_names=["parity"])
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    browser.open((tmp_path / "page.html").as_uri())
    browser.wait_for("return document.body.dataset.ready === '0'")
    check_decoding(browser, model, model.encode(images[:1])[0])
    known = "return [...document.querySelectorAll('#sliders .knows')]"
    texts = browser.run(f"{known}.map((e) => e.textContent)")
    assert texts == ["parity 1.00", *["inactive"] * (LATENTS - 1)]
    option = browser.run("return document.querySelector('#run option').textContent")
    assert option == entry.name
    shares = browser.run("return runs[0].pictures.frequencies")
    counts = [np.bincount(row, minlength=3) for row in model.codes(images).T]
    np.testing.assert_allclose(shares, np.array(counts) / 3)


def test_a_model_shows_after_a_run_without_pictures(made, browser, tmp_path):
    empty = make_run(tmp_path / "ae", {"infomec/modularity": 0.5}, "ae")
    shutil.rmtree(empty / "pictures")
    shutil.copytree(made[0] / "qlae", tmp_path / "qlae")
    write_report(group_runs(find_runs([tmp_path])[0]), tmp_path, "Both")
    open_page(browser, (tmp_path,), 0)
    seen = """
        return [".columns", "#traversal", "#latent-0"].map((name) => {
            const found = document.querySelector(name);
            return found !== null && found.checkVisibility();
        })"""
    assert browser.run(seen) == [False] * 3
    choose_run(browser, 1)
    assert browser.run(seen) == [True] * 3
    choose_run(browser, 0)
    assert browser.run(seen) == [False] * 3


def test_page_works_with_the_keyboard_and_on_a_phone(made, browser):
    open_page(browser, made, 1)
    for width in (400, 1400):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.command("Emulation.setDeviceMetricsOverride", size)
        assert browser.run("return document.documentElement.scrollWidth") <= width
    unnamed = browser.run("""
        return [...document.querySelectorAll("button, input, select")]
            .filter((e) => !e.hidden && !e.textContent.trim() && !e.ariaLabel
                && !(e.labels && e.labels.length)).length""")
    assert unnamed == 0
    browser.run("document.getElementById('latent-0').focus()")
    positions = "return state.positions[0]"
    slide(browser, 0, 0)
    key = {"type": "keyDown", "key": "ArrowRight", "windowsVirtualKeyCode": 39}
    browser.command("Input.dispatchKeyEvent", key)
    assert browser.wait_for(positions) == 1
