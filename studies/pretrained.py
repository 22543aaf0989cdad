"""Trains the models that `models.load_pretrained` knows by name, and their cards.

    python -m studies.pretrained [--quick] [--names=qlae-mini_shapes3d-32,...]
        [--output=models/pretrained_models]

QLAE and AE are seed 0 of their rows in `studies.leaderboard` (`ROWS`): its folder of
runs is used, and a run that is not there is trained. The others are the `cpu` recipe of
their method on mini_shapes3d with 2,500 steps, seed 0 and the key weight that the short
regime chose. A model is stored in half precision if no score moves by more than 0.005,
scored again as stored, and written with its card, `card.json` for programs and
`README.md` for readers. The same command again goes on where it stopped. FactorQVAE and
D-VAE are not among them: rounded to half precision their scores move by more than that,
and unrounded they take more than 1 MB.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import models
from experiments.reporting.summary import FinishedRun
from experiments.running.evaluation import evaluate_model, final_sample
from experiments.running.setup import load_dataset
from experiments.settings.config import RunConfig, resolve
from experiments.settings.processor import processor
from experiments.settings.scores import COLUMNS
from experiments.storage.files import read_json
from experiments.storage.provenance import provenance
from experiments.sweeps.plan import Trial
from qlayers.files import write_text
from studies.leaderboard_plan import LONG, final_settings, plan_entry
from studies.store_weights import trained_model
from studies.study import Study

DATASET = "mini_shapes3d"
IMAGE_SIZE = 32
# Method -> label of its row in the leaderboard's long regime.
ROWS = {"qlae": "QLAE, ten values", "ae": "AE"}
# Method -> hyperparameters beside the recipe's, for the others.
SHORT: dict[str, dict[str, Any]] = {
    "tripod": {"nhp_weight": 1e-4},
    "beta_vae": {"beta": 1.0},
    "vq_vae": {"weight_decay": 1e-3},
    "beta_tcvae": {"beta": 10.0},
    "bio_ae": {"activity_weight": 1e-2},
    "qlae_global": {"weight_decay": 0.3},
    "tripod_naive": {"hessian_weight": 1e-4},
    "cliff": {"cliff_weight": 1.0},
    "hfs": {"hfs_weight": 1.0},
}
METHODS = (*ROWS, *SHORT)
SETTINGS: dict[str, Any] = {
    "steps": 2_500,
    "evaluate_every": 2_500,
    "select": "last",
    "psnr_threshold": None,
    "threads": 1,
    # The same scores for all.
    "test_size": 0,
    "scores": [],
}
QUICK: dict[str, Any] = {
    "steps": 2,
    "evaluate_every": 2,
    "log_every": 2,
    "width": 0.125,
    "evaluation_size": 200,
    "metrics": "fast",
}
Precision = Literal["half", "single"]
# What half precision may cost in any score.
TOLERANCE = 5e-3
# PSNR counts in tens of dB. The importances of forests jump with single samples, so DCI
# counts half.
_UNITS = {"psnr/psnr": 10.0, "dci/": 2.0}
SHOWN = (
    "infomec/modularity",
    "infomec/explicitness",
    "infomec/compactness",
    "dci/disentanglement",
    "dci/completeness",
    "dci/informativeness",
    "psnr/psnr",
)
_LICENCE = "Apache-2.0, as the project; the images are rendered by qlayers itself"


def name_of(method: str) -> str:
    """Name of a model, as `load_pretrained` takes it."""
    return f"{method}-{DATASET}-{IMAGE_SIZE}"


def plan(method: str, quick: bool = False) -> Trial:
    """A run of 2,500 steps that makes a model."""
    settings = {**SETTINGS, **(QUICK if quick else {})}
    config = resolve(
        method, DATASET, "cpu", settings=settings, hyperparameters=SHORT.get(method)
    )
    return Trial(method, config)


def plan_row(method: str, tuned: Mapping[str, Any]) -> Trial:
    """The first run of a method's row in the leaderboard.

    Args:
        method: One of `ROWS`.
        tuned: What the leaderboard's record says of the weights it chose, by label.
    """
    label = ROWS[method]
    (entry,) = (e for e in LONG.entries if e.label == label)
    chosen = tuned[label]["chosen"]
    (trial,) = plan_entry(entry, [0], final_settings(entry, LONG), chosen, "final")
    return trial


def train(study: Study, method: str) -> FinishedRun:
    """The finished run of a method's model.

    Args:
        study: This study.
        method: One of `METHODS`.
    """
    if study.quick or method not in ROWS:
        (run,) = study.run([plan(method, study.quick)])
        return run
    record = read_json(study.results / f"{LONG.name}.json")
    rows = study.named(study.name, LONG.name, study.command)
    (run,) = rows.run([plan_row(method, record["findings"]["tuning"])])
    return run


def publish(run: FinishedRun, folder: Path) -> dict[str, Any]:
    """Stores a run's model for `load_pretrained` and writes its card.

    Args:
        run: A finished run.
        folder: Where to write.

    Returns:
        The card.
    """
    config = run.config
    dataset = load_dataset(config)
    model = trained_model(run.path)
    sample = final_sample(config, dataset)

    def scores_as_stored(precision: Precision) -> dict[str, float]:
        models.save_pretrained(model, folder, precision=precision)
        stored = models.load_pretrained(folder)
        found = evaluate_model(config, stored, sample, metrics=config.metrics)
        return {name: found.scores[name] for name in SHOWN if name in found.scores}

    precision: Precision = "half"
    scores = scores_as_stored(precision)
    if largest_change(run.metrics["scores"], scores) > TOLERANCE:
        precision = "single"
        scores = scores_as_stored(precision)
    card = card_of(config, scores, dataset.factor_names)
    card["largest_change_by_rounding"] = largest_change(run.metrics["scores"], scores)
    written = models.save_pretrained(model, folder, card, precision=precision)
    write_text(folder / "README.md", card_page(written))
    return written


def largest_change(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """How far the scores of `after` moved at most, each in its unit."""
    return max(
        abs(value - before[name]) / unit_of(name) for name, value in after.items()
    )


def unit_of(score: str) -> float:
    """What a difference of a score is divided by before it is compared."""
    return next((u for name, u in _UNITS.items() if score.startswith(name)), 1.0)


def card_of(
    config: RunConfig,
    scores: Mapping[str, float],
    factors: Sequence[str],
) -> dict[str, Any]:
    """What a reader should know about a model, without the file's own facts."""
    found = provenance()
    name = name_of(config.method)
    paper = config.method_record.paper
    return {
        "name": name,
        "method": config.method,
        "paper": paper.title if paper else None,
        "dataset": config.dataset,
        "image_size": config.image_size,
        "factors": list(factors),
        "data": "mini_shapes3d, the factor space of Shapes3D rendered by qlayers; not "
        "the DeepMind data",
        "recipe": {
            "profile": config.profile,
            "seed": config.seed,
            "steps": config.steps,
            "batch_size": config.batch_size,
            "num_latents": config.num_latents,
            "network": config.network,
            "width": config.width,
            "hyperparameters": dict(config.hyperparameters),
        },
        "scores": dict(scores),
        "scored_on": {
            "images": config.evaluation_size,
            "protocol": config.protocol,
            "scored_as": config.scored_as,
            "psnr_images": config.reconstruction_size,
        },
        "licence": _LICENCE,
        "command": f"python -m studies.pretrained --names={name}",
        "processor": processor(),
        "onednn": found["onednn"],
        "packages": found["packages"],
    }


def card_page(card: Mapping[str, Any]) -> str:
    """The card as Markdown."""
    recipe = card["recipe"]
    weights = ", ".join(
        f"{name} {value}"
        for name, value in recipe["hyperparameters"].items()
        if not isinstance(value, dict)
    )
    rows = [
        f"| {COLUMNS[name]} | {value:.3f} |" for name, value in card["scores"].items()
    ]
    lines = [
        f"# {card['name']}",
        "",
        "```python",
        "import models",
        "",
        f'model = models.load_pretrained("{card["name"]}")',
        "```",
        "",
        f"- method: `{card['method']}`" + (f", {card['paper']}" * bool(card["paper"])),
        f"- data: {card['data']}; {card['image_size']}x{card['image_size']}; "
        f"{', '.join(card['factors'])}",
        f"- recipe: profile `{recipe['profile']}`, {recipe['steps']:,} steps of "
        f"{recipe['batch_size']} images, seed {recipe['seed']}, "
        f"{recipe['num_latents']} latents, networks `{recipe['network']}` of width "
        f"{recipe['width']}; {weights}",
        f"- made by `{card['command']}` on {card['processor']}",
        f"- file: {card['bytes']:,} bytes, {card['precision']} precision (scores move "
        f"by at most {card['largest_change_by_rounding']:.4f}), `{card['checksum']}`",
        f"- licence: {card['licence']}",
        "",
        f"Scores of the stored file on {card['scored_on']['images']:,} images "
        f"(protocol `{card['scored_on']['protocol']}`), one seed:",
        "",
        "| score | |",
        "|---|---|",
        *rows,
        "",
        "A small network on a small budget: for trying things out, not a result of the "
        "paper.",
        "",
    ]
    return "\n".join(lines)


def _add_options(parser: argparse.ArgumentParser) -> None:
    known = {name_of(method): method for method in METHODS}

    def methods(text: str) -> list[str]:
        unknown = [name for name in text.split(",") if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"unknown: {', '.join(unknown)}; known: {', '.join(known)}"
            )
        return [known[name] for name in text.split(",")]

    parser.add_argument("--names", type=methods, help="default: all")
    parser.add_argument("--output", type=Path, help="default: models/pretrained_models")


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains what is not trained and writes all models that were asked for."""
    study = Study.from_arguments(
        "pretrained", "Models by name.", arguments, _add_options
    )
    default = study.workdir / "models" if study.quick else models.pretrained.SHIPPED
    output = study.options.output or default
    for method in study.options.names or METHODS:
        run = train(study, method)
        card = publish(run, output / name_of(method))
        text = ", ".join(f"{COLUMNS[n]} {v:.3f}" for n, v in card["scores"].items())
        print(f"{card['name']}: {card['bytes']:,} bytes, {text}", flush=True)


if __name__ == "__main__":
    main()
