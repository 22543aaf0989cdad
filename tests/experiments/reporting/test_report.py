"""Tables of runs, and the page that shows them."""

import base64
import dataclasses
import html
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from experiments.reporting.page import embed_json, make_chart, make_page, make_table
from experiments.reporting.report_files import write_report
from experiments.reporting.run_payload import best_sources, heat_maps, verdict
from experiments.reporting.run_pictures import picture_uri, read_index
from experiments.reporting.summary import (
    Interval,
    find_runs,
    format_table,
    group_runs,
    interval,
    load_run,
    table_notes,
    table_rows,
    why_unfinished,
)
from experiments.storage.files import read_json, write_json
from experiments.storage.run_directory import RunDirectory
from qlayers.files import DamagedFileError
from tests.experiments.reporting.browser import Browser
from tests.experiments.reporting.handwritten_runs import STEPS, cell_color, make_run
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


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.0041, 0.0046, 0.0045], "0.0044 ± 0.0007"),
        ([3e-5, 3e-5], "0.000030 ± 0.000000"),
        ([1e-9], "0.000000"),
        ([0.0], "0.00"),
        ([-0.004], "-0.0040"),
        ([0.25, 0.35], "0.30 ± 0.64"),
        ([27.25, 27.25], "27.2 ± 0.0"),
    ],
)
def test_small_errors_keep_two_digits(values, text):
    assert str(interval(values)) == text


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


def test_a_recipe_by_another_name_is_no_other_setting(study):
    """A run by --reproduce and one by the same settings otherwise are one group."""
    file = study / "q1" / "config.json"
    write_json(file, {**read_json(file), "profile": "qlae:table1:qlae/shapes3d"})
    groups = group_runs(find_runs([study])[0])
    assert [len(group.runs) for group in groups] == [1, 2, 1]
    assert not any("profile" in group.label for group in groups)


def test_runs_on_other_images_are_no_group(tmp_path):
    for name, value in (("cats", 0.9), ("cars", 0.1)):
        (tmp_path / name).mkdir()
        place = {"dataset": "folder", "data_dir": str(tmp_path / name)}
        make_run(tmp_path / "runs" / name, {"infomec/modularity": value}, **place)
    groups = group_runs(find_runs([tmp_path / "runs"])[0])
    assert [len(group.runs) for group in groups] == [1, 1]
    assert "cars)" in groups[0].label and "cats)" in groups[1].label


def test_other_images_in_the_same_folder_are_no_group(tmp_path):
    for seed, data in enumerate(("aaaa", "bbbb")):
        place = {"dataset": "folder", "data_dir": str(tmp_path), "seed": seed}
        folder = make_run(tmp_path / f"{seed}", {"infomec/modularity": seed}, **place)
        file = folder / "metrics.json"
        write_json(file, {**read_json(file), "settings": {"data": data}})
    groups = group_runs(find_runs([tmp_path])[0])
    assert [group.label for group in groups] == ["qlae (data=aaaa)", "qlae (data=bbbb)"]


def test_scores_of_another_protocol_stand_apart(tmp_path):
    for seed, (protocol, value) in enumerate([("tripod", 0.8), ("paper", 0.4)] * 2):
        folder = make_run(
            tmp_path / f"{seed}", {"infomec/modularity": value}, seed=seed
        )
        file = folder / "metrics.json"
        write_json(file, {**read_json(file), "settings": {"protocol": protocol}})
    groups = {group.label: group for group in group_runs(find_runs([tmp_path])[0])}
    assert set(groups) == {"qlae (protocol=paper)", "qlae (protocol=tripod)"}
    other = groups["qlae (protocol=tripod)"]
    assert other.scores["infomec/modularity"].mean == pytest.approx(0.8)


def test_a_score_that_a_run_lacks_is_told(tmp_path):
    scores = {"infomec/modularity": 0.5}
    for seed, more in enumerate(({}, {"mig/mig": 0.2}, {"mig/mig": 0.4})):
        make_run(tmp_path / f"{seed}", {**scores, **more}, seed=seed)
    groups = group_runs(find_runs([tmp_path])[0])
    headings, rows = table_rows(groups)
    assert rows[0][headings.index("MIG")].startswith("0.30")
    assert "qlae on mini_shapes3d: MIG is that of 2 of 3 runs." in table_notes(groups)


def test_a_run_and_a_seed_count_once(study):
    make_run(study / "again", {"infomec/modularity": 0.2}, seed=0)
    runs, _ = find_runs([study, study / "q0", str(study / ".." / study.name / "q1")])
    assert len(runs) == 5
    groups = {group.label: group for group in group_runs(runs)}
    both = groups["qlae (weight_decay=0.1)"]
    assert [run.config.seed for run in both.runs] == [0, 1]
    (left_out,) = both.repeated
    assert left_out.path.name == "q0"  # `again` comes first
    (note,) = (text for text in table_notes(list(groups.values())) if "twice" in text)
    assert note.endswith(f"seed 0 is there twice: {left_out.path} is not counted.")


def test_table_has_no_published_row_with_other_settings(study):
    """Short runs of small networks on other images are none of the papers' rows."""
    groups = group_runs(find_runs([study])[0])
    headings, rows = table_rows(groups)
    assert headings == ["dataset", "model", "runs", "InfoM", "PSNR (dB)"]
    assert rows[0] == ["mini_shapes3d", "ae", "1", "0.30", "31.2"]
    assert [row[1][:4] for row in rows] == ["ae", "qlae", "qlae"]
    lines = format_table(headings, rows).splitlines()
    assert len({len(line) for line in lines}) == 1
    notes = table_notes(groups)
    # Two papers train AE on Shapes3D, three train QLAE.
    assert len([note for note in notes if note.startswith("ae ")]) == 2
    assert len([note for note in notes if note.startswith("qlae (")]) == 6
    ours = next(note for note in notes if note.startswith("qlae (weight_decay=0.5)"))
    assert "dataset mini_shapes3d (there shapes3d)" in ours
    assert "steps 12 (there 200000)" in ours


def test_notes_say_who_passed_the_filter(tmp_path):
    threshold = {"psnr_threshold": 30.0}
    passed = {"step": 6, "value": 0.5, "scores": {"psnr/psnr": 31.0}}
    for seed, checkpoint in ((0, passed), (1, {"step": 12, "note": "none passes"})):
        folder = make_run(
            tmp_path / f"{seed}", {"infomec/modularity": 0.5}, seed=seed, **threshold
        )
        file = folder / "metrics.json"
        settings = {**threshold, "selection": "infom"}
        changes = {"checkpoint": checkpoint, "settings": settings}
        write_json(file, {**read_json(file), **changes})
    groups = group_runs(find_runs([tmp_path])[0])
    assert table_notes(groups)[0] == (
        "qlae on mini_shapes3d: 1 of 2 runs passed the filter of 30 dB."
    )
    write_report(groups, tmp_path, "Filter")
    assert read_json(tmp_path / "report.json")[0]["passed_filter"] == [True, False]
    for name in ("report.md", "report.html"):
        assert "1 of 2 runs passed the filter" in (tmp_path / name).read_text()


def test_unfinished_runs_are_named(study):
    (study / "a" / "metrics.json").unlink()
    runs, unfinished = find_runs([study])
    assert len(runs) == 3
    assert unfinished == [study / "a"]
    with pytest.raises(ValueError, match="no folder"):
        find_runs([study / "nowhere"])


def write_whole_report(folder):
    runs, unfinished = find_runs([folder])
    write_report(group_runs(runs), folder, "Study")
    return [path.name for path in unfinished]


def test_damaged_runs_are_listed_and_the_others_reported(study):
    (study / "a" / "metrics.json").write_text('{"scores": 3}')
    (study / "w" / "config.json").write_bytes(b"{")
    (study / "q1" / "status.json").write_text("no JSON")
    (study / "q1" / "history.jsonl").write_bytes(b"[1]\n\xff")
    assert write_whole_report(study) == ["a", "w"]
    assert "metrics.json is damaged" in why_unfinished(study / "a")
    assert "config.json is damaged" in why_unfinished(study / "w")
    shutil.rmtree(study / "q0")
    assert "damaged" in why_unfinished(study / "q0")
    config = read_json(study / "q1" / "config.json")
    write_json(study / "q1" / "config.json", {**config, "method": "qlaf"})
    with pytest.raises(DamagedFileError, match="no method 'qlaf'"):
        load_run(study / "q1")


def test_a_lengthened_run_is_under_way(study):
    """Its old scores are those of a shorter run."""
    config = read_json(study / "a" / "config.json")
    write_json(study / "a" / "config.json", {**config, "steps": 20})
    runs, unfinished = find_runs([study])
    assert unfinished == [study / "a"]
    assert "ae" not in {run.config.method for run in runs}
    assert why_unfinished(study / "a") == "running: 6 of 20 steps"
    with pytest.raises(ValueError, match="not finished"):
        load_run(study / "a")


def changed(value, generator):
    """Replaces one node of nested JSON by something else."""
    others = [None, 3, -1.5, "text", [], {}, [[1]], {"a": 1}, True, 10**30, "\0"]
    places = [*value] if isinstance(value, dict) else [*range(len(value))]
    if not places:
        return value
    place = places[int(generator.integers(len(places)))]
    inner = value[place]
    if isinstance(inner, dict | list) and inner and generator.random() < 0.7:
        new = changed(inner, generator)
    else:
        new = others[int(generator.integers(len(others)))]
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place] = new
    return copy


def assert_report_survives(study, cases):
    """Whatever a run's JSON says, the report of the others is written."""
    folder = study / "q0"
    results = {"infomec": {"nmi": [[0.5, 0.1, 0.2]], "active": [True, True, False]}}
    settings = {"psnr_threshold": 20.0, "selection": "infom", "protocol": "paper"}
    file = folder / "metrics.json"
    write_json(file, {**read_json(file), "results": results, "settings": settings})
    names = ("metrics.json", "config.json", "pictures/index.json")
    sound = {name: read_json(folder / name) for name in names}
    generator = np.random.default_rng(3)
    listed = 0
    for case in range(cases):
        name = names[case % 3]
        write_json(folder / name, changed(sound[name], generator))
        listed += "q0" in write_whole_report(study)
        write_json(folder / name, sound[name])
    assert 0.05 * cases < listed < 0.7 * cases


def test_report_survives_json_of_the_wrong_kind(study):
    assert_report_survives(study, 30)


@pytest.mark.slow
def test_report_survives_thousands_of_json_files(study):
    assert_report_survives(study, 2_000)


def test_page_is_escaped_and_self_contained(study):
    groups = group_runs(find_runs([study])[0])
    page = make_page(groups, "</title><script>alert(1)</script>")
    assert "<script>alert" not in page
    assert not re.search(r"""(src|href|url\()\s*=?\s*["']?(https?:)?//""", page)
    assert "default-src 'none'" in page
    text = embed_json("</script>&\u2028")
    assert text == '"\\u003c/script\\u003e\\u0026\\u2028"'


def test_table_of_the_page_has_seeds_steps_and_the_filter(study):
    for folder, chosen in (("q0", {"step": 6, "value": 0.8}), ("q1", {"step": 12})):
        file = study / folder / "metrics.json"
        metrics = {
            **read_json(file),
            "checkpoint": chosen,
            "settings": {"psnr_threshold": 22.0, "selection": "infom"},
        }
        write_json(file, metrics)
    groups = group_runs(find_runs([study])[0])
    rows = re.findall(r"<tr.*?</tr>", make_table(groups))
    cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row) for row in rows]
    assert cells[0][2:6] == ["runs", "seeds", "steps", "filter"]
    assert cells[1][1:6] == ["ae", "1", "0", "12", ""]
    (both,) = (row for row in cells if row[2] == "2")
    assert both[3:6] == ["0, 1", "12", "1 of 2 passed"]
    assert "at least 22 dB" in verdict(groups[1].runs[0].metrics)
    assert "Does not pass" in verdict(groups[1].runs[1].metrics)


def chart_labels(groups):
    """Shown and full labels of a chart's lines."""
    chart = make_chart(groups, "infomec/modularity")
    found = re.findall(r"<text[^>]*>([^<]*)<title>([^<]*)</title></text>", chart)
    return [text for text, _ in found], [text for _, text in found]


def test_charts_name_the_dataset_where_there_are_several(tmp_path):
    score = {"infomec/modularity": 0.5}
    for name, more in (("mini_shapes3d", {}), ("circles", {"mcc/mcc": 0.5})):
        make_run(tmp_path / name, {**score, **more}, dataset=name)
    groups = group_runs(find_runs([tmp_path])[0])
    names = ["circles: qlae", "mini_shapes3d: qlae"]
    assert chart_labels(groups) == (names, names)
    assert ">circles: qlae<" in make_chart(groups, "mcc/mcc")
    assert chart_labels(groups[:1]) == (["qlae"], ["qlae"])


def test_charts_have_the_whole_label_of_a_line_that_is_cut(study):
    groups = group_runs(find_runs([study])[0])
    label = "qlae (quantize_weight=0.1, note=</title><script>&)"
    groups[0] = dataclasses.replace(groups[0], label=label)
    shown, full = chart_labels(groups)
    assert shown[0] == "qlae (quantize_weight=0.1, n…"
    assert full[0] == html.escape(label)
    assert len(full) == len(groups)


def test_each_latent_is_named_by_the_source_it_knows_best():
    metrics = {
        "results": {
            "infomec": {"nmi": [[0.1, 0.58], [0.7, None]], "active": [True, False]},
            "dci": {"importance": [[1.0, 0.0], [0.25, 0.5]]},
            "mcc": {"correlation": [[1.0, 1.0], [1.0, 1.0]]},
        }
    }
    matrices = heat_maps(metrics, ["hue", "size"])
    assert [matrix["metric"] for matrix in matrices] == ["infomec", "dci"]
    assert matrices[1]["rows"] == [[1.0, 0.25], [0.0, 0.5]]
    assert best_sources(matrices) == [
        {"source": "size", "value": 0.7, "active": True},
        {"source": "hue", "value": 0.58, "active": False},
    ]
    assert heat_maps(metrics, [])[0]["sources"] == ["source 0", "source 1"]
    assert heat_maps({"results": {"infomec": {"nmi": [[], 3]}}}, []) == []


def test_page_reads_no_file_outside_the_run(study, tmp_path_factory):
    """Names in `index.json` and links cannot pull other files into the page."""
    outside = tmp_path_factory.mktemp("outside") / "secret.png"
    Image.fromarray(np.full((4, 4, 3), 77, np.uint8)).save(outside)
    secret = base64.b64encode(outside.read_bytes()).decode()
    pictures = study / "a" / "pictures"
    (pictures / "link.png").symlink_to(outside)
    (pictures / "text.png").write_text("not a picture")
    index = read_json(pictures / "index.json")
    up = "/".join([".."] * 30)
    for name in (str(outside), f"{up}{outside}", "link.png", "text.png", "a\0b"):
        index["sprites"][0][0] = name
        write_json(pictures / "index.json", index)
        page = make_page(group_runs(find_runs([study])[0]), "Study")
        assert secret not in page
        assert base64.b64encode(b"not a picture").decode() not in page
        directory = RunDirectory(study / "a")
        assert picture_uri(directory, name) is None
    assert picture_uri(directory, "base-1.png").startswith("data:image/png;base64,")
    (pictures / "index.json").unlink()
    (pictures / "index.json").symlink_to(outside)
    assert read_index(directory) is None


@pytest.mark.parametrize(
    "change",
    [
        {"latents": 10**9},
        {"side": "32"},
        {"codes": [[1, 2]]},
        {"sprites": [["only one"], ["x", "y"]]},
        {"sprites": 7},
        {"frequencies": [[0.5]]},
        {"values": [5, 5, 10**6]},
    ],
)
def test_index_that_makes_no_sense_is_left_out(study, change):
    directory = RunDirectory(study / "a")
    index = read_json(directory.pictures / "index.json")
    assert read_index(directory)["values"] == [STEPS] * 3
    write_json(directory.pictures / "index.json", {**index, **change})
    assert read_index(directory) is None
    make_page(group_runs(find_runs([study])[0]), "Study")


def test_report_files_escape_what_runs_call_things(study):
    groups = group_runs(find_runs([study])[0])
    hostile = "a|b</td><script>alert(1)</script>\n| x"
    groups[0] = dataclasses.replace(groups[0], label=hostile)
    write_report(groups, study, "Study")
    text = (study / "report.md").read_text()
    assert "<script" not in text
    table = text.partition("\n\n")[0].splitlines()
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
    assert len(bars) == 1
    assert "<script>alert" not in (study / "report.html").read_text()


def test_report_files(study):
    groups = group_runs(find_runs([study])[0])
    write_report(groups, study, "Study")
    assert "Hsu et al. 2023" in (study / "report.md").read_text()
    assert "Hsu et al. 2023" in (study / "report.html").read_text()
    found = read_json(study / "report.json")
    differences = found[0]["papers"][0]["differences"]
    assert "dataset mini_shapes3d (there shapes3d)" in differences
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
        return [...canvas.getContext("2d").getImageData(1, 1, 1, 1).data];"""
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
        assert browser.run("return document.querySelectorAll('tr.paper').length") == 0
        notes = "return document.querySelectorAll('.notes li').length"
        assert browser.run(notes) == 8
        assert browser.run(pixel)[:3] == cell_color(0, 0, 1)
        for latent in range(3):
            for value in (0, STEPS - 1):
                browser.run(f"""
                    const sliders = document.querySelectorAll("#sliders input");
                    const slider = sliders[{latent}];
                    slider.value = {value};
                    slider.dispatchEvent(new Event("input"));""")
                assert browser.run(pixel)[:3] == cell_color(0, latent, value)
        browser.run("document.querySelectorAll('#well-a button')[1].click()")
        browser.wait_for(f"{shown}.startsWith('1/')")
        assert browser.run(pixel)[:3] == cell_color(1, 0, 0)
        most = "return document.querySelector('#sliders input').max"
        assert browser.run(most) == str(STEPS - 1)
        notice = browser.run("return document.getElementById('notice').textContent")
        assert "cannot run in the page: there is no encoder.keras" in notice
        bars = "return document.querySelectorAll('#sliders rect').length"
        assert browser.run(bars) == 6
        assert (
            browser.run("return document.querySelectorAll('#curves svg').length") == 1
        )
        browser.run("""
            const menu = document.getElementById("run");
            menu.value = 1; menu.dispatchEvent(new Event("change"));""")
        facts = "return document.getElementById('facts').textContent"
        assert "InfoM 0.80" in browser.wait_for(facts)


def test_no_usage_bar_is_marked_where_the_page_knows_no_codes(study, tmp_path):
    """A picture's column is a value of the traversal, which says nothing of codes."""
    file = study / "a" / "pictures" / "index.json"
    shares = [[0.25, 0.0, 0.5, 0.0, 0.0, 0.25, 0.0, 0.0]] * 3
    write_json(file, {**read_json(file), "frequencies": shares})
    write_report(group_runs(find_runs([study])[0]), study, "Study")
    with Browser(tmp_path / "profile") as browser:
        browser.open((study / "report.html").as_uri())
        browser.wait_for("return document.body.dataset.ready === '0'")
        browser.run("""
            const slider = document.getElementById("latent-0");
            slider.value = 4;
            slider.dispatchEvent(new Event("input"));""")
        marked = "return document.querySelectorAll('#sliders rect.now').length"
        assert browser.run(marked) == 0
        bars = "return document.querySelectorAll('#sliders rect').length"
        assert browser.run(bars) == 3 * 8
