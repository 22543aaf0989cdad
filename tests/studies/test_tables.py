"""The page of results says what the records say."""

import json
import re

import pytest

from studies import tables
from studies.common import score_table

RECORDS = {path.stem: path for path in tables.RESULTS.glob("*.json")}


@pytest.mark.skipif(not RECORDS, reason="there are no committed results")
def test_page_is_that_of_the_committed_records():
    assert tables.PAGE.read_text(encoding="utf-8") == tables.page()


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_every_group_of_a_record_has_a_row(name):
    record = json.loads(RECORDS[name].read_text())
    text = tables.section(record)
    for group in record["groups"]:
        assert re.search(rf"\| {re.escape(group['label'])} +\|", text), group["label"]


def test_a_row_shows_mean_and_interval():
    scores = {"mig/mig": {"mean": 0.25, "half_width": 0.1, "count": 3}}
    group = {"label": "D-VAE", "runs": [{}] * 3, "scores": scores}
    text = score_table([group], {"mig/mig": "MIG", "psnr/psnr": "PSNR"})
    assert "| D-VAE  | 3    | 0.25 ± 0.10 |      |" in text.splitlines()


def test_cliff_in_percent_beside_the_paper():
    spread = {"mean": 0.9, "standard_error": 0.02}
    group = {"kind": "random", "label": "Cliff", "runs": [{}] * 10}
    group["scores"] = {"mcc/mcc": spread, "mcc/pearson": spread}
    paper = {m: {"mcc": 0.941, "standard_error": 0.009} for m in ("cliff", "ioss")}
    text = tables.cliff_table({"groups": [group], "findings": {"paper": paper}})
    assert "90.0 ± 2.0" in text
    assert "94.1 ± 0.9" in text


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
