"""Tables of runs, and the page that shows them."""

import re

import numpy as np
import pytest

from experiments.report import write_report
from experiments.reporting.page import embed_json, make_page
from experiments.reporting.summary import (
    Interval,
    find_runs,
    format_table,
    group_runs,
    interval,
    table_rows,
)
from experiments.settings.published import published
from tests.experiments.reporting.browser import Browser
from tests.experiments.reporting.made_runs import STEPS, cell_color, make_run
from tests.experiments.runs import tiny_config


@pytest.fixture
def study(tmp_path):
    """Two seeds of QLAE, one AE, and one QLAE with another weight decay."""
    for seed, value in ((0, 0.8), (1, 0.9)):
        make_run(tmp_path / f"q{seed}", {"infomec/modularity": value}, seed=seed)
    make_run(tmp_path / "a", {"infomec/modularity": 0.3, "psnr/psnr": 31.25}, "ae")
    other = {"weight_decay": 0.5}
    make_run(tmp_path / "w", {"infomec/modularity": 0.1}, hyperparameters=other)
    return tmp_path


def test_interval_is_students():
    # Table of the t distribution: 2.776 for 95 % and 4 degrees of freedom.
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    found = interval(values)
    assert found.mean == 3.0
    assert found.half_width == pytest.approx(2.776 * np.sqrt(2.5 / 5), abs=1e-3)
    assert interval([4.0]) == Interval(4.0, None, 1)
    assert interval([1.0, None, float("nan"), 1.0]).count == 2
    assert interval([]).count == 0


def test_runs_are_grouped_by_everything_but_their_seed(study):
    runs, unfinished = find_runs([study])
    assert (len(runs), unfinished) == (4, [])
    groups = {group.label: group for group in group_runs(runs)}
    assert set(groups) == {"ae", "qlae (weight_decay=0.1)", "qlae (weight_decay=0.5)"}
    both = groups["qlae (weight_decay=0.1)"]
    assert [run.config.seed for run in both.runs] == [0, 1]
    # 12.706 is the quantile for one degree of freedom.
    half = both.scores["infomec/modularity"].half_width
    assert half == pytest.approx(12.706 * 0.05, abs=1e-3)


def test_table_stands_beside_the_paper(study):
    headings, rows = table_rows(group_runs(find_runs([study])[0]))
    assert headings == ["dataset", "model", "runs", "InfoM", "PSNR (dB)"]
    assert rows[0] == ["mini_shapes3d", "ae", "1", "0.30", "31.2"]
    assert rows[1] == ["shapes3d", "  Hsu et al. 2023", "", "0.36 ± 0.03", "36.8 ± 0.3"]
    lines = format_table(headings, rows).splitlines()
    assert len({len(line) for line in lines}) == 1


def test_published_numbers():
    tripod = published("tripod", "isaac3d")["scores"]
    assert tripod["infomec/modularity"] == (0.84, None)
    assert tripod["infomec/compactness"] == (0.68, None)
    assert published("cliff", "balls")["scores"] == {"mcc/mcc": (0.5206, 0.04)}
    assert published("qlae", "circles") is None


def test_unfinished_runs_are_named(study):
    (study / "a" / "metrics.json").unlink()
    runs, unfinished = find_runs([study])
    assert len(runs) == 3
    assert unfinished == [study / "a"]
    with pytest.raises(ValueError, match="no folder"):
        find_runs([study / "nowhere"])


def test_page_is_escaped_and_self_contained(study):
    groups = group_runs(find_runs([study])[0])
    page = make_page(groups, "</title><script>alert(1)</script>")
    assert "<script>alert" not in page
    assert not re.search(r"""(src|href|url\()\s*=?\s*["']?(https?:)?//""", page)
    assert "default-src 'none'" in page
    text = embed_json("</script>&\u2028")
    assert text == '"\\u003c/script\\u003e\\u0026\\u2028"'


def test_report_files(study):
    groups = group_runs(find_runs([study])[0])
    write_report(groups, study, "Study")
    assert "Hsu et al. 2023" in (study / "report.md").read_text()
    assert (study / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_traversals_have_as_many_values_as_the_codebook(tmp_path):
    """A slider has no positions beyond a latent's last value."""
    from experiments.running.pictures import code_positions, values_per_latent
    from experiments.running.setup import build_model, load_dataset

    config = tiny_config(hyperparameters={"num_values": 3})
    dataset = load_dataset(config)
    images = dataset.sample(2, dtype="uint8")[1]
    model = build_model(config, dataset)
    assert values_per_latent(model, images[0]) == [3] * 4
    table = np.sort(np.array(model.quantizer.value_table()), axis=1)
    wanted = [
        [int(np.abs(row - x).argmin()) for row, x in zip(table, z, strict=True)]
        for z in model.encode(images)
    ]
    assert code_positions(model, images, 3) == wanted
    model = build_model(tiny_config("ae"), dataset)
    assert values_per_latent(model, images[0]) == [10] * 4


def test_heat_maps_are_those_of_the_scores(tmp_path):
    from experiments.running.evaluation import Evaluation
    from experiments.running.pictures import write_heat_maps
    from qlayers.metrics import infomec

    sources = np.random.default_rng(0).integers(0, 3, (200, 2))
    result = infomec(sources, sources.astype("float32"), discrete_latents=True)
    for name in ("infomec.png", "dci.png"):
        (tmp_path / name).write_bytes(b"old")
    found = Evaluation({}, {"infomec": result}, sources)
    write_heat_maps(tmp_path, found, ["first", "second"])
    assert not (tmp_path / "dci.png").exists()
    assert (tmp_path / "infomec.png").read_bytes().startswith(b"\x89PNG")


def test_sliders_show_decoded_images(study, tmp_path):
    write_report(group_runs(find_runs([study])[0]), study, "Study <&>")
    pixel = """
        const canvas = document.getElementById("decoded");
        return [...canvas.getContext("2d").getImageData(100, 100, 1, 1).data];"""
    with Browser(tmp_path / "profile") as browser:
        browser.open((study / "report.html").as_uri())
        shown = "return document.getElementById('decoded').dataset.shown"
        assert browser.wait_for(shown) == "0/0/1"
        assert (
            browser.run("return document.querySelector('h1').textContent")
            == "Study <&>"
        )
        assert (
            browser.run("return document.querySelectorAll('#run option').length") == 3
        )
        assert browser.run("return document.querySelectorAll('tr.paper').length") == 3
        assert browser.run(pixel)[:3] == cell_color(0, 0, 1)
        for latent in range(3):
            for value in (0, STEPS - 1):
                browser.run(f"""
                    const sliders = document.querySelectorAll("#sliders input");
                    const slider = sliders[{latent}];
                    slider.value = {value};
                    slider.dispatchEvent(new Event("input"));""")
                assert browser.run(pixel)[:3] == cell_color(0, latent, value)
        browser.run("document.querySelectorAll('#bases button')[1].click()")
        browser.wait_for(f"{shown}.startsWith('1/')")
        assert browser.run(pixel)[:3] == cell_color(1, 0, 0)
        most = "return document.querySelector('#sliders input').max"
        assert browser.run(most) == str(STEPS - 1)
        bars = "return document.querySelectorAll('#codes rect').length"
        assert browser.run(bars) == 6
        assert (
            browser.run("return document.querySelectorAll('#curves svg').length") == 1
        )
        browser.run("""
            const menu = document.getElementById("run");
            menu.value = 1; menu.dispatchEvent(new Event("change"));""")
        facts = "return document.getElementById('facts').textContent"
        assert "InfoM 0.80" in browser.wait_for(facts)
