"""Tables of all committed records, written by no hand.

    python -m studies.tables

reads `studies/results/*.json` and writes `docs/results.md` and the table of README's
results; a test compares them.
"""

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from experiments.reporting.summary import format_table
from studies.claims import Claim, holm, judge, load_claims
from studies.leaderboard import COLUMNS, by_modularity, table
from studies.leaderboard_plan import LONG, SHORT, Regime
from studies.rank_claims import judge_ranks, load_rank_claims
from studies.row_settings import settings_table
from studies.second_dataset_reasons import reasons_table
from studies.self_sizing import sizing_table
from studies.study import ROOT
from studies.summaries import as_text, score_table, signed
from studies.vector_quantizers import vector_table

RESULTS = ROOT / "studies" / "results"
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
Record = Mapping[str, Any]

_CIRCLES = {
    "alignment/degrees": "degrees off the axes",
    "alignment/score": "alignment",
    "mig/mig": "MIG",
    "mcc/mcc": "MCC",
}
_DSPRITES = {
    "mig/mig": "MIG",
    "dci_gradient_boosting/disentanglement": "D (boosted)",
    "dci/disentanglement": "D",
    "dci/completeness": "C",
    "infomec/modularity": "InfoM",
    "straight_through_gap/gap": "ST gap",
    "udr/udr": "UDR",
    "psnr/psnr": "PSNR (dB)",
}
_README = {
    score: heading
    for score, heading in COLUMNS.items()
    if score not in ("dci/completeness", "dci/informativeness")
}
_NOT_FROZEN = (
    "Exploratory: these claims were not frozen before the runs, and settings were "
    "changed after some of these seeds had been seen."
)
# What stands between these lines of README is written by this module.
_WRITTEN = re.compile(
    r"(?<=<!-- python -m studies.tables -->\n\n).*?(?=\n\n<!-- end of the table -->)",
    re.DOTALL,
)


def _percent(value: Record) -> str:
    """Mean and standard error, as Cliff's paper prints them."""
    return f"{100 * value['mean']:.1f} ± {100 * value['standard_error']:.1f}"


def _of_paper(value: Record) -> str:
    return _percent({"mean": value["mcc"], **value})


def cliff_table(record: Record) -> str:
    """MCC in percent beside the paper's, the claim, and the datasets that fail."""
    paper = record["findings"]["paper"]
    # A record from before several starts were compared has one.
    best = record["findings"].get("best_of_starts", {"groups": []})
    rows = []
    for group in (*record["groups"], *best["groups"]):
        printed = paper.get(group["label"])
        rows.append(
            [
                group["label"],
                str(len(group["runs"])),
                _percent(group["scores"]["mcc/mcc"]),
                _percent(group["scores"]["mcc/pearson"]),
                _of_paper(printed) if printed else "",
            ]
        )
    heads = ["method", "datasets", "MCC (%), rank", "MCC (%), linear", "paper (%)"]
    parts = [format_table(heads, rows), claims_of(record)]
    if best["groups"]:
        gap = as_text(_in_percent(best["difference"]))
        parts.append(
            "Of several starts the one with the least loss counts; paired, Cliff is "
            f"then {gap} above IOSS (95 %, rank)."
        )
    if record["findings"]["preferred"]:
        parts += [
            "Datasets on which Cliff ends below an MCC of 0.9: the criterion, and the "
            "MCC in percent, at the end of each attempt. The least criterion is bold.",
            _preferred_table(record["findings"]["preferred"]),
        ]
    return "\n\n".join(parts)


def _preferred_table(found: Sequence[Record]) -> str:
    """A row for each dataset, a column for each attempt."""
    labels = list(found[0]["solutions"])
    rows = []
    for row in found:
        cells = []
        for label in labels:
            value = row["solutions"][label]
            text = f"{value['criterion']:.3f}, {100 * value['mcc']:.1f}"
            cells.append(f"**{text}**" if label == row["least"] else text)
        truth = f"{row['true_ranks']:.3f}"
        rows.append([str(row["dataset"]), *cells, truth, row["best_start"]])
    heads = ["dataset", *labels, "at the true ranks", "best start by loss"]
    return format_table(heads, rows)


def balls_table(record: Record) -> str:
    """MCC in percent beside the paper's, and how well images are reconstructed."""
    findings = record["findings"]
    rows = []
    for group in record["groups"]:
        printed = findings["paper"].get(group["label"])
        seconds = sum(run["cpu_seconds"] for run in group["runs"]) / len(group["runs"])
        rows.append(
            [
                group["label"],
                str(len(group["runs"])),
                _percent(group["scores"]["mcc/mcc"]),
                _of_paper(printed) if printed else "",
                as_text(group["scores"]["psnr/psnr"]),
                f"{seconds:.0f}",
            ]
        )
    heads = ["method", "runs", "MCC (%)", "paper (%)", "PSNR (dB)", "s of a core a run"]
    mean = f"{findings['psnr_of_the_mean']:.1f} dB. MCC with standard errors."
    parts = [format_table(heads, rows), f"PSNR of the mean image: {mean}"]
    return "\n\n".join([*parts, claims_of(record)])


def circles_table(record: Record) -> str:
    """Angles and scores, and the claims."""
    return f"{score_table(record['groups'], _CIRCLES)}\n\n{claims_of(record)}"


def dsprites_table(record: Record) -> str:
    """Scores, the claims, and how two criteria without labels rank the runs."""
    parts = [score_table(record["groups"], _DSPRITES), claims_of(record)]
    for criterion, found in record["findings"]["rank_correlations"].items():
        ranks = [
            f"{_DSPRITES[name]} {found[name]['correlation']:+.2f} "
            f"(p = {found[name]['p_value']:.2g})"
            for name in _DSPRITES
            if name in found
        ]
        parts.append(
            f"Rank correlation of {_DSPRITES[criterion]} over {found['runs']} discrete "
            f"runs with {', '.join(ranks)}."
        )
    return "\n\n".join(parts)


def penalty_noise_table(record: Record) -> str:
    """A row for each number of directions."""
    (group,) = record["groups"]
    heads = [
        "gradient, over the reconstruction's",
        "share that is no noise (%)",
        "value",
    ]
    rows = [
        [
            group["label"],
            str(k),
            as_text(group["scores"][f"length/{k}"]),
            as_text(_in_percent(group["scores"][f"signal/{k}"])),
            as_text(group["scores"][f"value/{k}"]),
        ]
        for k in record["findings"]["directions"]
    ]
    return format_table(["model", "directions", *heads], rows)


def _in_percent(score: Mapping[str, Any]) -> dict[str, Any]:
    percent = {name: 100 * score[name] for name in ("mean", "half_width")}
    return {**score, **percent}


def leaderboard_table(record: Record, regime: Regime) -> str:
    """Rows by InfoM, the papers' claims, and the weights that were chosen."""
    groups = {group["label"]: group for group in record["groups"]}
    tuned = [
        [
            label,
            row["key"],
            ", ".join(_candidate(tried) for tried in row["candidates"]),
            f"{row['chosen']:g}",
        ]
        for label, row in record["findings"]["tuning"].items()
    ]
    parts = [
        table(groups),
        *_score_notes(record["groups"]),
        *([] if regime is LONG else [_NOT_FROZEN]),
        claims_table(judge(regime.claims, groups)),
        settings_table(record["groups"]),
        "Key weights, chosen on a seed of their own. A candidate's InfoM, and its PSNR "
        "in dB: those below 18 dB were chosen by PSNR.",
        format_table(["method", "weight", "tried", "chosen"], tuned),
    ]
    return "\n\n".join(parts)


def _score_notes(groups: Sequence[Record]) -> list[str]:
    """What InfoMEC itself says of the rows' scores."""
    notes = [
        f"{group['label']}: {group['notes']['infomec']}"
        for group in groups
        if group.get("notes")
    ]
    return [f"Notes of the scores (largest figures). {'. '.join(notes)}."] * bool(notes)


def _candidate(tried: Record) -> str:
    """Value, InfoM and PSNR of a candidate; a GAN may have no PSNR."""
    text = f"{tried['value']:g}: {tried['infomec/modularity']:.2f}"
    quality = tried["psnr/psnr"]
    return text if quality is None else f"{text} ({quality:.1f})"


def second_dataset_table(record: Record) -> str:
    """Rows by InfoM, and the claims."""
    groups = {group["label"]: group for group in record["groups"]}
    return f"{table(groups)}\n\n{claims_of(record)}"


def claims_of(record: Record) -> str:
    """The frozen claims of a record's study, decided by its runs."""
    groups = {group["label"]: group for group in record["groups"]}
    found = judge(load_claims(record["study"]), groups)
    return claims_table(found) if found else "No frozen claim is about these runs."


def claims_table(claims: Sequence[Record]) -> str:
    """A row for each claim, see `studies.claims.judge`."""
    rows = [
        [
            claim["claim"],
            claim["score"].partition("/")[2],
            signed(claim["difference"], claim["half_width"]),
            "{mean:.2f} [{low:.2f}, {high:.2f}]".format(**claim["probability"]),
            str(claim["seeds"]),
            f"≥ {claim['least']:g}",
            _verdict(claim),
        ]
        for claim in claims
    ]
    heads = ["claim", "score", "difference, paired", "P(ahead)", "seeds", "asked"]
    return format_table([*heads, "verdict"], rows)


def claims_overview(records: Mapping[str, Record]) -> str:
    """A row for each frozen claim, run or not, and how many have which verdict.

    Args:
        records: Records by name of their study.
    """
    rows, judged = [], []
    for claim in load_claims():
        record = records.get(claim.study, {"groups": []})
        found = judge([claim], {group["label"]: group for group in record["groups"]})
        cells = ["", _why_not_judged(claim, record)]
        if found:
            gap = signed(found[0]["difference"], found[0]["half_width"])
            cells = [gap, _verdict(found[0])]
        score = claim.score.partition("/")[2]
        rows.append([claim.paper, claim.where, claim.text, score, claim.study, *cells])
        judged += found
    rows += _rank_rows(records)
    verdicts = Counter(row[-1].partition(" (")[0] for row in rows)
    counts = ", ".join(f"{count} {name}" for name, count in verdicts.most_common())
    heads = ["paper", "where", "claim", "score", "study"]
    table_text = format_table([*heads, "difference or correlation", "verdict"], rows)
    return (
        f"## Claims\n\n{len(rows)} claims, frozen in `studies/claims.json` before "
        f"their runs: {counts}.{_together(judged)}\n\n{table_text}"
    )


def _why_not_judged(claim: Claim, record: Record) -> str:
    """A row may have no run at all because all of them diverged."""
    lost = {run.get("label") for run in record.get("diverged", {}).values()}
    there = {group["label"] for group in record["groups"]}
    labels = [x for x in (claim.first, claim.second) if x in lost and x not in there]
    if not labels:
        return "not run"
    return f"undecided (all runs diverged: {', '.join(labels)})"


def _together(judged: Sequence[Record]) -> str:
    """What is left of the confirmed claims if all are asked at once."""
    known = {
        claim["id"]: claim["p_value"]
        for claim in judged
        if claim["p_value"] is not None and not claim["missed"]
    }
    confirmed = {c["id"]: c["claim"] for c in judged if c["verdict"] == "confirmed"}
    if not confirmed:
        return ""
    kept = [name for name in holm(known) if name in confirmed]
    names = ", ".join(f"{confirmed[name]} ({_score_of(name, judged)})" for name in kept)
    return (
        f" Each is judged by itself. By Holm's correction over the {len(known)} that "
        f"have all their runs, {len(kept)} of the {len(confirmed)} confirmed "
        f"differences are not 0 at the 5 % level: {names or 'none'}."
    )


def _score_of(claim_id: str, judged: Sequence[Record]) -> str:
    (found,) = (claim for claim in judged if claim["id"] == claim_id)
    return found["score"].partition("/")[2]


def _rank_rows(records: Mapping[str, Record]) -> list[list[str]]:
    """A row of the overview for each frozen rank claim, run or not."""
    rows = []
    for claim in load_rank_claims():
        groups = records.get(claim.study, {"groups": []})["groups"]
        cells = ["", "not run"]
        for found in judge_ranks([claim], groups):
            cells = [f"{found['correlation']:+.2f}", found["verdict"]]
            if found["low"] is not None:
                cells[0] += f" [{found['low']:+.2f}, {found['high']:+.2f}]"
            if found["runs"] < claim.runs:
                cells[1] += f" ({found['runs']} of {claim.runs} runs so far)"
        score = claim.score.partition("/")[2]
        rows.append([claim.paper, claim.where, claim.text, score, claim.study, *cells])
    return rows


def _verdict(claim: Record) -> str:
    """The verdict, with what keeps a claim from being decided."""
    if claim["missed"]:
        return f"{claim['verdict']} ({'; '.join(claim['missed'])})"
    if claim["seeds_to_decide"]:
        side = "for" if claim["difference"] >= claim["least"] else "against"
        return f"{claim['verdict']} (about {claim['seeds_to_decide']} seeds, {side} it)"
    return claim["verdict"]


def pooled_claims(first: Record, second: Record) -> str:
    """Claims over the seeds of two records, for the rows that both have."""
    others = {group["label"]: group for group in second["groups"]}
    pooled = {
        group["label"]: {**group, "runs": [*group["runs"], *others[label]["runs"]]}
        for group in first["groups"]
        if (label := group["label"]) in others
    }
    count = min(len(group["runs"]) for group in pooled.values())
    return f"Over all {count} seeds:\n\n{claims_table(judge(SHORT.claims, pooled))}"


TABLES: dict[str, Callable[[Record], str]] = {
    "cliff_synthetic": cliff_table,
    "balls": balls_table,
    "leaderboard": functools.partial(leaderboard_table, regime=LONG),
    "second_dataset": second_dataset_table,
    "second_dataset_reasons": reasons_table,
    "leaderboard_short": functools.partial(leaderboard_table, regime=SHORT),
    "leaderboard_confirmation": functools.partial(leaderboard_table, regime=SHORT),
    "self_sizing": sizing_table,
    "dsprites": dsprites_table,
    "penalty_noise": penalty_noise_table,
    "vector_quantizers": vector_table,
    "circles": circles_table,
}


def section(record: Record) -> str:
    """Heading, question, cost and table of one study."""
    name, spent = record["study"], record["seconds"]
    packages = record["machine"]["packages"]
    used = f"Keras {packages['keras']}, TensorFlow {packages['tensorflow']}"
    lines = [
        f"## {name}",
        f"{record['settings']['question']} `{record['command']}`: "
        f"{spent['all_runs'] / 60:.0f} min of wall time over all runs, "
        f"{spent['all_runs_processor'] / 60:.0f} min of one processor"
        f"{_one_run(record)} ({_processors(record)}; {used}).",
        TABLES[name](record),
    ]
    return "\n\n".join(lines)


def _processors(record: Record) -> str:
    """What the runs were made on; a study may go on from machine to machine."""
    written_on = record["machine"]["processor"]
    runs = [run for group in record["groups"] for run in group["runs"]]
    found = Counter(run.get("processor") or written_on for run in runs)
    if len(found) == 1:
        return str(next(iter(found)))
    return "; ".join(
        f"{name}: {count} run{'s' * (count > 1)}"
        for name, count in sorted(found.items())
    )


def _one_run(record: Record) -> str:
    """The processor time of one run, where runs took minutes."""
    runs = [run["cpu_seconds"] for group in record["groups"] for run in group["runs"]]
    if median(runs) < 30:
        return ""
    return f", {median(runs) / 60:.1f} min in the median run"


def page(folder: Path = RESULTS) -> str:
    """The whole page."""
    records = {p.stem: json.loads(p.read_text("utf-8")) for p in folder.glob("*.json")}
    head = (
        "# Results\n\nWritten by `python -m studies.tables` from `studies/results/`. "
        "`±` is the half width of a 95 % t-interval over seeds (standard error for "
        "the MCC of `cliff_synthetic` and `balls`, as in their paper). `IQM` is the "
        "interquartile mean and `P(ahead)` the probability that a run of the first row "
        "is ahead of one of the second, both with 95 % intervals by stratified "
        "bootstrap. A claim is confirmed where the interval of the paired difference "
        "lies above 0 and its mean, not its whole interval, reaches what is `asked`. "
        "`about N seeds, for it` or `against it`: the number at which the interval "
        "would just decide if mean and spread stayed, an even chance. What the figures "
        "mean is in BUILD_NOTES.md."
    )
    found = {name: section(records[name]) for name in TABLES if name in records}
    if {"leaderboard_short", "leaderboard_confirmation"} <= set(found):
        both = records["leaderboard_short"], records["leaderboard_confirmation"]
        found["leaderboard_confirmation"] += f"\n\n{pooled_claims(*both)}"
    return "\n\n".join([head, claims_overview(records), *found.values()]) + "\n"


def readme_table(record: Record) -> str:
    """The leaderboard's rows by InfoM, in the few columns that README has.

    Args:
        record: Record of the long regime.
    """
    ordered = by_modularity(record["groups"])
    rows = score_table(ordered, _README, {"min of one core a run": _minutes_a_run})
    seconds = [run["cpu_seconds"] for group in ordered for run in group["runs"]]
    hours = f"{sum(seconds) / 3600:.1f} hours of one core"
    return f"{rows}\n\nAll {len(seconds)} runs took {hours}."


def _minutes_a_run(group: Record) -> str:
    seconds = [run["cpu_seconds"] for run in group["runs"]]
    return f"{sum(seconds) / len(seconds) / 60:.0f}"


def readme(text: str, folder: Path = RESULTS) -> str:
    """README's text with the table of the record there is now.

    Args:
        text: README as it stands.
        folder: Folder of the records.

    Raises:
        ValueError: If README has no place for the table, or several.
    """
    record = json.loads((folder / f"{LONG.name}.json").read_text("utf-8"))
    table_text = readme_table(record)
    written, places = _WRITTEN.subn(lambda _: table_text, text)
    if places != 1:
        raise ValueError(f"README has {places} places for the leaderboard's table.")
    return written


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme(README.read_text("utf-8")), encoding="utf-8")
    print(f"Written: {PAGE} and the table of {README}")


if __name__ == "__main__":
    main()
