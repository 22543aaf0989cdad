"""The page of results says what the records say."""

import json
import re

import pytest

from studies import tables
from studies.claims import load_claims
from studies.rank_claims import load_rank_claims
from studies.row_settings import settings_table
from studies.summaries import score_table

RECORDS = {path.stem: path for path in tables.RESULTS.glob("*.json")}


@pytest.fixture(scope="module")
def page():
    return tables.page()


@pytest.mark.skipif(not RECORDS, reason="there are no committed results")
def test_page_is_that_of_the_committed_records(page):
    assert tables.PAGE.read_text(encoding="utf-8") == page


@pytest.mark.skipif(
    tables.LONG.name not in RECORDS, reason="the leaderboard's record is not here"
)
class TestReadme:
    text = tables.README.read_text(encoding="utf-8")

    def test_its_table_is_that_of_the_record(self):
        assert self.text == tables.readme(self.text)

    def test_differences_it_tells_are_on_the_page_of_results(self, page):
        results = self.text.partition("\n## Results\n")[2].partition("\n## ")[0]
        told = re.findall(r"[+-]\d\.\d\d ± \d\.\d\d", results)
        assert told
        assert [text for text in told if text not in page] == []

    def test_it_counts_verdicts_as_the_page_of_results_does(self, page):
        verdicts = r"(\d+) (claims|confirmed|contradicted|undecided|not run)"
        told = re.search(r"\d+ claims: [^.]*", self.text)
        counted = re.search(r"\d+ claims, frozen in .*?: [^.]*", page)
        expected = re.findall(verdicts, counted.group())
        assert sorted(re.findall(verdicts, told.group())) == sorted(expected)

    def test_a_readme_without_a_place_is_refused(self):
        with pytest.raises(ValueError, match="0 places"):
            tables.readme("# Another")


def test_readmes_table_is_best_first_with_minutes_a_run():
    def group(label, modularity, *seconds):
        spread = {"mean": modularity, "half_width": 0.05, "count": 2}
        runs = [{"cpu_seconds": value} for value in seconds]
        return {
            "label": label,
            "runs": runs,
            "scores": {"infomec/modularity": spread},
        }

    groups = [group("AE", 0.4, 600, 720), group("QLAE", 0.8, 1200, 1260)]
    _, _, first, second, _, last = tables.readme_table({"groups": groups}).splitlines()
    cells = [cell.strip() for cell in first.strip("|").split("|")]
    assert cells == ["QLAE", "2", "0.80 ± 0.05", "", "", "", "", "20"]
    assert second.startswith("| AE ") and second.strip("| ").endswith("11")
    assert last == "All 4 runs took 1.1 hours of one core."  # 3,780 seconds


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_every_group_of_a_record_has_a_row(name):
    record = json.loads(RECORDS[name].read_text())
    text = tables.section(record)
    for group in record["groups"]:
        assert re.search(rf"\| {re.escape(group['label'])} +\|", text), group["label"]


def test_a_section_names_the_processors_of_its_runs():
    record = json.loads(RECORDS["circles"].read_text())
    runs = [run for group in record["groups"] for run in group["runs"]]
    for run in runs:
        run["processor"] = "Intel Xeon, AVX-512"
    runs[0]["processor"] = "AMD EPYC, AVX2"
    record["machine"]["processor"] = "Another"  # it only wrote the record
    text = tables.section(record)
    assert (
        f"(AMD EPYC, AVX2: 1 run; Intel Xeon, AVX-512: {len(runs) - 1} runs; " in text
    )
    assert "Another" not in text


def test_a_section_of_one_processor_names_it_once():
    record = json.loads(RECORDS["circles"].read_text())
    for run in (run for group in record["groups"] for run in group["runs"]):
        run["processor"] = "AMD EPYC, AVX2"
    assert " (AMD EPYC, AVX2; Keras " in tables.section(record)


def test_a_record_whose_runs_name_no_processor_has_that_of_its_writing():
    record = json.loads(RECORDS["circles"].read_text())
    for run in (run for group in record["groups"] for run in group["runs"]):
        run.pop("processor", None)
    record["machine"]["processor"] = "AMD EPYC"
    assert " (AMD EPYC; Keras " in tables.section(record)


def test_a_row_shows_mean_and_interval():
    scores = {"mig/mig": {"mean": 0.25, "half_width": 0.1, "count": 3}}
    group = {"label": "D-VAE", "runs": [{}] * 3, "scores": scores}
    text = score_table([group], {"mig/mig": "MIG", "psnr/psnr": "PSNR"})
    assert "| D-VAE  | 3    | 0.25 ± 0.10 |      |" in text.splitlines()


def cliff_record():
    spread = {"mean": 0.9, "standard_error": 0.02}
    group = {"label": "Cliff", "runs": [{}] * 10}
    group["scores"] = {"mcc/mcc": spread, "mcc/pearson": spread}
    paper = {"Cliff": {"mcc": 0.941, "standard_error": 0.009}}
    scores = {name: {**spread, "mean": 0.95} for name in group["scores"]}
    best = {**group, "label": "Cliff, best of 3 starts", "scores": scores}
    difference = {"mean": -0.01, "half_width": 0.04, "count": 10}
    findings = {"paper": paper, "preferred": []}
    findings["best_of_starts"] = {"groups": [best], "difference": difference}
    return {"study": "cliff_synthetic", "groups": [group], "findings": findings}


def test_cliff_in_percent_beside_the_paper():
    text = tables.cliff_table(cliff_record())
    assert re.search(r"\| Cliff +\| 10 +\| 90.0 ± 2.0 .*\| 94.1 ± 0.9 \|", text)
    assert re.search(r"\| Cliff, best of 3 starts +\| 10 +\| 95.0 ± 2.0 ", text)
    assert "Cliff is then -1.00 ± 4.00 above IOSS" in text
    assert "below an MCC" not in text  # no dataset fails


def test_the_least_criterion_of_a_dataset_is_bold():
    record = cliff_record()
    solutions = {
        "start 0": {"criterion": 0.5, "mcc": 0.7},
        "from the truth": {"criterion": 0.25, "mcc": 0.98},
    }
    row = {"dataset": 3, "true_ranks": 0.3, "solutions": solutions}
    row |= {"least": "from the truth", "best_start": "start 0"}
    record["findings"]["preferred"] = [row]
    (line,) = (x for x in tables.cliff_table(record).splitlines() if "0.250" in x)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["3", "0.500, 70.0", "**0.250, 98.0**", "0.300", "start 0"]


def test_the_overview_has_every_claim():
    def group(label, modularity):
        scores = [
            {"infomec/modularity": value, "infomec/explicitness": 0.95}
            for value in modularity
        ]
        runs = [{"seed": seed, "scores": score} for seed, score in enumerate(scores)]
        config = {"steps": 12_000, "select": "last"}
        return {"label": label, "runs": runs, "scores": {}, "config": config}

    ten = group("QLAE, ten values", [0.8, 0.9, 0.8, 0.9, 0.8])
    groups = [group("AE", [0.4, 0.5, 0.5, 0.4, 0.4]), ten]
    diverged = {"run": {"seed": 0, "label": "Cliff"}}
    record = {"groups": groups, "diverged": diverged}
    text = tables.claims_overview({"leaderboard": record})
    lines = text.splitlines()
    lost = sum("Cliff" in (c.first, c.second) for c in load_claims("leaderboard"))
    others = len(load_claims()) - 1 - lost + len(load_rank_claims())
    counts = f"{others} not run, {lost} undecided, 1 confirmed."
    assert counts in lines[2]
    # t = 12.65 with 4 degrees of freedom: p = 0.0002.
    assert "1 of the 1 confirmed differences are not 0" in lines[2]
    assert "QLAE, ten values above AE (modularity)" in lines[2]
    (line,) = (x for x in lines if "Cliff above HFS" in x)
    assert re.search(r"\| undecided \(all runs diverged: Cliff\) +\|$", line)
    (line,) = (x for x in lines if "QLAE, ten values above AE" in x and "0.36" in x)
    # Differences 0.4, 0.4, 0.3, 0.5, 0.4: standard error 0.0316, t(4) = 2.776.
    assert re.search(r"\| \+0.40 ± 0.09 +\| confirmed +\|", line)
    (line,) = (x for x in lines if "Cliff above IOSS" in x)
    assert re.search(r"\| not run +\|$", line)


def test_the_overview_has_every_rank_claim():
    scores = [(0.1, 0.5), (0.2, 0.6), (0.3, 0.3), (0.4, 0.2), (0.5, 0.1)]
    names = "straight_through_gap/gap", "mig/mig"
    runs = [
        {"seed": seed, "scores": dict(zip(names, pair, strict=True))}
        for seed, pair in enumerate(scores)
    ]
    config = {"steps": 20_000, "select": "last"}
    group = {"label": "D-VAE", "runs": runs, "scores": {}, "config": config}
    text = tables.claims_overview({"dsprites": {"groups": [group]}})
    (line,) = (x for x in text.splitlines() if "most vital for MIG" in x)
    # Ranks 4, 5, 3, 2, 1: correlation -0.9; atanh and 1.96 sqrt(1.405 / 2).
    assert "| -0.90 [-1.00, +0.17] " in line
    assert "undecided (5 of 20 runs so far)" in line


def test_balls_beside_the_paper():
    def group(label):
        scores = {"mcc/mcc": {"mean": 0.5, "standard_error": 0.01}}
        scores["psnr/psnr"] = {"mean": 20.0, "half_width": 1.0, "count": 2}
        runs = [{"cpu_seconds": 10.0}, {"cpu_seconds": 20.0}]
        return {"label": label, "runs": runs, "scores": scores}

    paper = {"Cliff": {"mcc": 0.5206, "standard_error": 0.04}}
    findings = {"paper": paper, "psnr_of_the_mean": 14.64}
    record = {"study": "balls", "groups": [group("Cliff"), group("HFS")]}
    record["findings"] = findings
    text = tables.balls_table(record)
    assert re.search(
        r"\| Cliff +\| 2 +\| 50.0 ± 1.0 \| 52.1 ± 4.0 \| .*\| 15 +\|", text
    )
    assert re.search(r"\| HFS +\| 2 +\| 50.0 ± 1.0 \| +\|", text)
    assert "14.6 dB" in text


def test_pooled_claims_pair_all_seeds():
    def group(label, modularity, first_seed):
        scores = [{"infomec/modularity": value} for value in modularity]
        runs = [{"seed": first_seed + i, "scores": s} for i, s in enumerate(scores)]
        return {"label": label, "runs": runs, "scores": scores[0]}

    first = {"groups": [group("QLAE", [0.8, 0.9], 0), group("AE", [0.4, 0.5], 0)]}
    first["groups"].append(group("VQ-VAE", [0.1, 0.1], 0))
    second = {"groups": [group("AE", [0.7, 0.4], 3), group("QLAE", [0.9, 0.6], 3)]}
    text = tables.pooled_claims(first, second)
    assert "Over all 4 seeds" in text
    # Differences 0.4, 0.4, 0.2, 0.2: mean 0.3, standard error 0.0577, t(3) = 3.182.
    assert "+0.30 ± 0.18" in text
    assert "VQ-VAE" not in text  # only one of the records has it


def _group(label, notes=None, **hyperparameters):
    config = {"method": label, "batch_size": 64, "hyperparameters": hyperparameters}
    return {"label": label, "config": config, "notes": notes or {}}


def test_settings_of_rows_are_told_apart():
    rate = {"initial_learning_rate": 1e-3, "alpha": 0.01}
    schedule = {"class_name": "CosineDecay", "config": rate}
    groups = [
        _group("A", learning_rate=1e-3, beta_2=0.99),
        _group("B", learning_rate=1e-3, beta_2=0.99, beta=4.0),
        _group("C", learning_rate=schedule, beta_2=0.99),
    ]
    groups[0]["config"]["batch_size"] = 128
    text, _, _, _, *rows = settings_table(groups).splitlines()
    assert text.startswith("Most rows have batch_size 64, learning_rate 0.001;")
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert cells == [
        ["A", "batch_size 128", ""],
        ["B", "as most", "beta 4"],
        ["C", "learning_rate CosineDecay(0.001 to 1e-05)", ""],
    ]


def test_notes_of_scores_name_their_row():
    groups = [_group("A"), _group("B", notes={"infomec": "too high"})]
    (text,) = tables._score_notes(groups)
    assert text == "Notes of the scores (largest figures). B: too high."
    assert tables._score_notes(groups[:1]) == []


def test_an_undecided_claim_says_on_which_side_more_seeds_would_fall():
    def verdict(difference):
        claim = {"verdict": "undecided", "missed": [], "seeds_to_decide": 9}
        return tables._verdict({**claim, "difference": difference, "least": 0.02})

    assert verdict(0.05) == "undecided (about 9 seeds, for it)"
    assert verdict(0.01) == "undecided (about 9 seeds, against it)"
