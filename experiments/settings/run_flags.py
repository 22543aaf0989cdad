"""The flags that describe a run, and the config they make."""

from collections.abc import Iterable
from typing import Any, get_args

from absl import flags

from experiments.settings.choices import CHOICES, PROFILES, SCORES
from experiments.settings.hyperparameters import parse_assignment, parse_value
from experiments.settings.names import (
    dataset_names,
    method_names,
    methods_by_paper,
)
from experiments.settings.published import (
    PublishedRow,
    find,
    profile_of,
    published_rows,
)
from experiments.settings.published.record import Variant

_HYPERPARAMETERS = {
    "learning_rate": "Learning rate, or a schedule: cosine(1e-3,1e-5).",
    "weight_decay": "Decoupled weight decay.",
    "beta": "Weight of the divergence (beta-VAE, beta-TCVAE, Cliff's).",
    "num_values": "Values in a codebook, or categories.",
    "kl_weight": "Weight of the divergence of discrete posteriors.",
    "tc_weight": "Weight of the total correlation.",
    "klm_weight": "Weight of the kernel multiinformation (Tripod).",
    "nhp_weight": "Weight of the normalized Hessian penalty (Tripod).",
}
# Settings that the recipe has unless they are given, by the kind of their flag.
_INTEGERS = {
    "steps": "Training steps.",
    "batch_size": "Images in a step, over all replicas.",
    "image_size": "Side of the images.",
    "num_latents": "Number of latents.",
    "num_labels": "Labelled images, for supervised methods.",
    "evaluate_every": "Steps between evaluations.",
    "evaluation_size": "Images of an evaluation.",
    "reconstruction_size": "Images of an evaluation that the PSNR sees.",
    "dci_resamples": "Half samples behind the intervals of boosted DCI.",
    "test_size": "Further images that trees and SAP are tested on.",
    "log_every": "Steps between rows of the history.",
}
_NUMBERS = {
    "width": "Multiplies the networks' channels.",
    "psnr_threshold": "Least PSNR in dB of a reported checkpoint; 0 for none.",
    "label_validation": "Share of the labels that is kept for validation.",
    "train_fraction": "Share of the images that training sees, a fixed random part.",
}
_ENUMS = {
    "network": "Networks.",
    "psnr_variant": "PSNR that the threshold is for: uint8_overflow is that of "
    "Tripod's code.",
    "scored_as": "What is scored: auto is what the method's paper scores.",
    "evaluation_sample": "Which images are scored: random ones, or the first of the "
    "prepared files.",
    "gap_loss": "Loss behind the straight-through gap; total adds the total "
    "correlation.",
    "select": "How the reported checkpoint is chosen.",
    "metrics": "Final metrics; fast leaves out DCI, all adds what takes minutes.",
    "protocol": "InfoMEC's protocol.",
}
# Options of networks and dataset, with an example.
_OPTIONS = {
    "encoder": "preserving_layers=0",
    "decoder": "preserving_layers=0",
    "dataset": "variant=toy",
}
_FOLDER = ("labels", "on_bad_image")
# How a run is carried out, whatever its recipe.
_CONDUCT = (
    "strategy",
    "jit",
    "mixed_precision",
    "deterministic",
    "data_dir",
    "checkpoint_seconds",
    "threads",
    "steps_per_call",
)


def define_run_flags(with_names: bool = True) -> None:
    """Defines the flags of `experiments.train`; sweeps share most of them.

    Args:
        with_names: Whether to define method, dataset and seed as single values.
    """
    if with_names:
        _define_names()
    flags.DEFINE_enum(
        "profile",
        "paper",
        sorted(PROFILES),
        "Recipe to start from: the papers' settings, or small images and networks that "
        "two cores train in minutes.",
    )
    _define_recipe_flags()
    define_scores_flag()
    _define_conduct_flags()
    _define_folder_flags()


def _define_names() -> None:
    flags.DEFINE_enum(
        "method", "qlae", method_names(), f"What to train.{described_methods()}"
    )
    flags.DEFINE_enum("dataset", "mini_shapes3d", dataset_names(), "What to train on.")
    flags.DEFINE_integer("seed", 0, "Seed of weights, noise and data order.")


def _define_recipe_flags() -> None:
    for name, text in _INTEGERS.items():
        flags.DEFINE_integer(name, None, _or_recipes(text))
    for name, text in _NUMBERS.items():
        flags.DEFINE_float(name, None, _or_recipes(text))
    for name, text in _ENUMS.items():
        flags.DEFINE_enum(name, None, CHOICES[name], _or_recipes(text))
    for name, text in _HYPERPARAMETERS.items():
        flags.DEFINE_string(name, None, _or_recipes(text))
    flags.DEFINE_multi_string(
        "set",
        [],
        "Any hyperparameter of the method: --set=commit_weight=0.1 (--dry_run lists "
        "them). Schedules are text: --set='commit_weight=linear(0, 1)'.",
    )
    for name, example in _OPTIONS.items():
        text = f"Option of the {name}, beside the recipe's: --{name}_option={example}"
        flags.DEFINE_multi_string(f"{name}_option", [], text)


def _or_recipes(text: str) -> str:
    return f"{text} Default: the recipe's."


def _define_conduct_flags() -> None:
    flags.DEFINE_enum(
        "strategy", "none", CHOICES["strategy"], "tf.distribute strategy."
    )
    flags.DEFINE_enum(
        "jit",
        "auto",
        CHOICES["jit"],
        "XLA: auto is on for GPUs, and for long runs on CPUs where it was measured to "
        "be faster.",
    )
    flags.DEFINE_enum(
        "mixed_precision", "none", CHOICES["mixed_precision"], "Dtype of the networks."
    )
    flags.DEFINE_bool("deterministic", False, "Refuse operations that may vary.")
    flags.DEFINE_string(
        "data_dir",
        None,
        "Where prepared datasets are. Default: TFDS's. For --dataset=folder: the "
        "folder of images.",
    )
    flags.DEFINE_float(
        "checkpoint_seconds", 4.0, "Longest training time between checkpoints."
    )
    flags.DEFINE_integer("threads", 0, "Threads of TensorFlow; 0 for all cores.")
    flags.DEFINE_integer(
        "steps_per_call",
        1,
        "Steps in one compiled call, at most: more leave Python out between steps of "
        "small networks, with the same result.",
    )


def _define_folder_flags() -> None:
    flags.DEFINE_string(
        "labels",
        None,
        "For --dataset=folder: a CSV file with a column `file` and one column a "
        "factor. Default: labels.csv in the folder, if there is one.",
    )
    flags.DEFINE_enum(
        "on_bad_image",
        None,
        ["error", "skip"],
        "For --dataset=folder: what to do with pictures that cannot be read. Default: "
        "error.",
    )


def define_scores_flag() -> None:
    """Defines the flag that asks for single scores."""
    flags.DEFINE_list(
        "scores",
        None,
        f"Further final scores, any of {', '.join(SCORES)}. Default: the recipe's.",
    )


def define_reproduce_flags() -> None:
    """Defines the flags that take a published row as the recipe."""
    flags.DEFINE_string(
        "reproduce",
        None,
        "Address of a published row, such as qlae:table1:qlae/shapes3d: sets method, "
        "dataset and recipe. 'list' prints all rows.",
    )
    flags.DEFINE_enum(
        "variant",
        "text",
        get_args(Variant),
        "With --reproduce: what the paper's text says, or what the authors' public "
        "code ran where it differs.",
    )


def recipe_from_flags(values: Any) -> tuple[str, str, str]:
    """Method, dataset and profile: those of --reproduce, or of their own flags.

    Args:
        values: absl's `FLAGS`.
    """
    row, profile = row_from_flags(values, "method")
    if row is None:
        return values.method, values.dataset, profile
    assert row.method is not None and row.dataset is not None
    # Another dataset is allowed if the row's settings suit it.
    dataset = values.dataset if values["dataset"].present else row.dataset
    return row.method, dataset, profile


def row_from_flags(values: Any, method_flag: str) -> tuple[PublishedRow | None, str]:
    """The row of --reproduce, or None, and the profile.

    Args:
        values: absl's `FLAGS`.
        method_flag: Name of the flag that names methods, which the row sets.
    """
    if values.reproduce is None:
        if values["variant"].present:
            raise ValueError("--variant needs --reproduce.")
        return None, values.profile
    row = find(values.reproduce)
    if row.missing is not None:
        raise ValueError(f"{row.address} is {row.status}.")
    for name, same in ((method_flag, row.method), ("profile", None)):
        if values[name].present and getattr(values, name) not in (same, [same]):
            raise ValueError(f"--reproduce sets the {name}: leave out --{name}.")
    return row, profile_of(row.address, values.variant)


def list_of_rows() -> str:
    """All published rows, a line each."""
    width = max(len(row.address) for row in published_rows())
    return "\n".join(
        f"{row.address:<{width}}  {row.status}" for row in published_rows()
    )


def described_methods() -> str:
    """Names of the methods, sorted by their papers."""
    papers = methods_by_paper()
    return "".join(f"\n  {title}: {', '.join(of)}." for title, of in papers.items())


def settings_from_flags(values: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and hyperparameters that were given on the command line.

    Args:
        values: absl's `FLAGS`.
    """
    settings = _given(values, (*_INTEGERS, *_NUMBERS, *_ENUMS, "scores"))
    if settings.get("psnr_threshold") == 0:
        settings["psnr_threshold"] = None
    settings |= {name: getattr(values, name) for name in _CONDUCT}
    hyperparameters = dict(map(parse_assignment, values.set))
    texts = _given(values, _HYPERPARAMETERS)
    return settings, hyperparameters | {n: parse_value(t) for n, t in texts.items()}


def options_from_flags(values: Any) -> dict[str, dict[str, Any]]:
    """Options of networks and dataset that were given beside the recipe's.

    Args:
        values: absl's `FLAGS`.
    """
    found = {}
    for name in _OPTIONS:
        assignments = getattr(values, f"{name}_option")
        found[f"{name}_options"] = dict(map(parse_assignment, assignments))
    found["dataset_options"] |= _given(values, _FOLDER)
    return found


def _given(values: Any, names: Iterable[str]) -> dict[str, Any]:
    """Values of those flags that are not left to the recipe."""
    found = {name: getattr(values, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}
