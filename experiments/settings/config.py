"""The settings of one run: resolved and checked before anything is written."""

import dataclasses
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.settings.hyperparameters import (
    check_known,
    check_values,
    known_hyperparameters,
    resolve_schedules,
)
from experiments.settings.recipes import CONTINUOUS, NUM_FACTORS, PROFILES, recipe
from models import METHODS
from models.build import paper_network
from models.networks.choice import FAMILIES

SELECTIONS = ("infom", "straight_through_gap", "last")
STRATEGIES = ("none", "mirrored", "multiworker")
PRECISIONS = ("none", "float16", "bfloat16")
JIT = ("auto", "on", "off")

# Methods whose latents are codes, with how their papers score them (`evaluation.py`).
CODES = ("vq_vae", "qvae", "dvae", "factor_qvae", "factor_dvae_learned")
VALUES = ("qlae", "qlae_global", "tripod", "tripod_naive", "ql_infowgan_gp")
RELAXED = ("d_vae", "factor_d_vae")
QUANTIZED = (*CODES, *VALUES, *RELAXED)
_SUPERVISED = ("supervised_vae", "factor_vae", *RELAXED)
_NO_DECODER = ("cliff", "hfs", "ioss")

# Changing these between two starts does not change the result.
OPERATIONAL = ("checkpoint_seconds", "threads", "data_dir")


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides the result of a run, and a few things that do not.

    Attributes:
        method: Name in `models.METHODS`.
        dataset: Name in `qlayers.datasets.names()`.
        seed: Of the weights, the noise and the data stream.
        profile: Recipe that the other values come from.
        steps: Training steps.
        batch_size: Images in a step.
        image_size: Side of the images.
        num_latents: Number of latents.
        network: Name of the networks.
        width: Multiplies their channels.
        encoder_options: Further arguments of the encoder.
        decoder_options: Further arguments of the decoder.
        hyperparameters: Arguments of the method; schedules in serialized form.
        num_labels: Labelled images, for supervised methods.
        evaluate_every: Steps between evaluations; a multiple of `log_every`.
        evaluation_size: Images of an evaluation.
        log_every: Steps between rows of the history.
        select: How the reported checkpoint is chosen: best InfoM (MCC for continuous
            factors), smallest straight-through gap, or the last.
        psnr_threshold: Least PSNR of a checkpoint that may be chosen, or None.
        metrics: Final metrics, see `qlayers.metrics.evaluate`.
        protocol: Of InfoMEC.
        strategy: `tf.distribute` strategy.
        jit: XLA compilation; `"auto"` is on for GPUs.
        mixed_precision: Dtype of the networks' computations.
        deterministic: Whether operations that may vary between runs are refused.
        dataset_options: Further arguments of `qlayers.datasets.load`.
        data_dir: Where prepared datasets are.
        checkpoint_seconds: Longest training time between checkpoints.
        threads: Of TensorFlow; 0 takes all cores.
    """

    method: str
    dataset: str
    seed: int
    profile: str
    steps: int
    batch_size: int
    image_size: int
    num_latents: int
    network: str
    width: float
    encoder_options: Mapping[str, Any]
    decoder_options: Mapping[str, Any]
    hyperparameters: Mapping[str, Any]
    num_labels: int
    evaluate_every: int
    evaluation_size: int
    log_every: int
    psnr_threshold: float | None
    select: str
    metrics: str = "standard"
    protocol: str = "paper"
    strategy: str = "none"
    jit: str = "auto"
    mixed_precision: str = "none"
    deterministic: bool = False
    dataset_options: Mapping[str, Any] = field(default_factory=dict)
    data_dir: str | None = None
    checkpoint_seconds: float = 4.0
    threads: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain types, for `config.json`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunConfig":
        """The config that `to_dict` described."""
        names = [entry.name for entry in dataclasses.fields(cls)]
        missing = [name for name in names if name not in values]
        if missing:
            raise ValueError(f"The config lacks {', '.join(missing)}.")
        return cls(**{name: values[name] for name in names})

    @property
    def continuous_factors(self) -> bool:
        """Whether the dataset's factors are real numbers."""
        return self.dataset in CONTINUOUS

    @property
    def has_decoder(self) -> bool:
        """Whether the model reconstructs images."""
        return self.network != "mlp"


def resolve(
    method: str,
    dataset: str = "mini_shapes3d",
    profile: str = "paper",
    *,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    hyperparameters: Mapping[str, Any] | None = None,
) -> RunConfig:
    """Fills in the recipe and checks that the whole can be run.

    Args:
        method: Name of the method.
        dataset: Name of the dataset.
        profile: `"paper"` or `"cpu"`.
        seed: Of the run.
        settings: Fields of `RunConfig` to set instead of the recipe's.
        hyperparameters: Hyperparameters to set instead of the recipe's.

    Example:

    ```python
    config = resolve("qlae", profile="cpu", settings={"steps": 100})
    ```
    """
    _check_name("method", method, METHODS)
    _check_name("dataset", dataset, NUM_FACTORS)
    _check_name("profile", profile, PROFILES)
    values, chosen = recipe(method, dataset, profile)
    given = dict(settings or {})
    if "network" in given and given["network"] != values["network"]:
        # Options of other networks mean nothing to these.
        values["encoder_options"] = values["decoder_options"] = {}
    values.update(given)
    check_known(method, hyperparameters or {})
    chosen.update(hyperparameters or {})
    values["network"] = values["network"] or paper_network(method)
    values["num_latents"] = values["num_latents"] or 2 * NUM_FACTORS[dataset]
    _check_count("steps", values["steps"])
    values["hyperparameters"] = _complete(method, chosen, values["steps"])
    config = RunConfig(
        method=method, dataset=dataset, profile=profile, seed=seed, **values
    )
    _check(config)
    return config


def _complete(method: str, chosen: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """All hyperparameters: those chosen, and the defaults of the others."""
    defaults = {
        name: value
        for name, value in known_hyperparameters(method).items()
        # None, where it was not asked for, stands for the method's own choice.
        if value is not None and name != "seed"
    }
    return resolve_schedules({**defaults, **chosen}, steps)


def _check(config: RunConfig) -> None:
    for name in ("batch_size", "image_size", "num_latents", "log_every"):
        _check_count(name, getattr(config, name))
    for name in ("evaluate_every", "evaluation_size"):
        _check_count(name, getattr(config, name))
    for name, allowed in (
        ("select", SELECTIONS),
        ("strategy", STRATEGIES),
        ("mixed_precision", PRECISIONS),
        ("jit", JIT),
        ("metrics", ("fast", "standard", "all")),
        ("protocol", ("paper", "standalone", "tripod")),
    ):
        _check_name(name, getattr(config, name), allowed)
    _check_name("network", config.network, FAMILIES)
    if config.seed < 0:
        raise ValueError(f"`seed` must not be negative, received {config.seed}.")
    for name in ("width", "checkpoint_seconds"):
        value = getattr(config, name)
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"`{name}` must be positive, received {value!r}.")
    if config.evaluate_every % config.log_every:
        raise ValueError(
            f"`evaluate_every` must be a multiple of `log_every`; received "
            f"{config.evaluate_every} and {config.log_every}."
        )
    check_values(config.hyperparameters)
    _check_batch(config)
    _check_networks(config)
    _check_options(config)
    _check_labels(config)
    _check_selection(config)


def _check_batch(config: RunConfig) -> None:
    pieces = 1
    if config.hyperparameters.get("two_batches") or config.method in (
        "factor_qvae",
        "factor_dvae_learned",
    ):
        pieces = 2
    pieces = config.hyperparameters.get("encoder_steps", pieces)
    if config.batch_size % pieces:
        raise ValueError(
            f"A batch of {config.method} is cut into {pieces} parts; `batch_size` must "
            f"be a multiple of {pieces}, received {config.batch_size}."
        )


def _check_networks(config: RunConfig) -> None:
    vectors = config.dataset == "grid2d"
    if vectors and config.method not in _NO_DECODER:
        raise ValueError(
            f"{config.method} needs a decoder; grid2d is for the methods that train "
            f"an encoder alone: {', '.join(_NO_DECODER)}."
        )
    if vectors != (config.network == "mlp"):
        raise ValueError(
            f"Dataset {config.dataset!r} has {'vectors' if vectors else 'images'}, "
            f"which the networks {config.network!r} do not take. "
            + ("Use `network=mlp`." if vectors else "`mlp` is for grid2d alone.")
        )
    if config.method == "additive" and config.network != "resnet_additive":
        raise ValueError("The method 'additive' needs `network=resnet_additive`.")


def _check_options(config: RunConfig) -> None:
    """Names that the networks' functions do not have, before they are called."""
    for part, function in zip(
        ("encoder", "decoder"), FAMILIES[config.network], strict=True
    ):
        given = getattr(config, f"{part}_options")
        known = [] if function is None else list(inspect.signature(function).parameters)
        # The first two are the image's shape and the number of latents.
        known = [name for name in known[2:] if name not in ("width", "name")]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ValueError(
                f"The {part} {config.network!r} has no option {', '.join(unknown)}. It "
                f"has: {', '.join(known) or 'none'}."
            )


def _check_labels(config: RunConfig) -> None:
    weight = config.hyperparameters.get("supervision_weight", 0.0)
    if bool(weight) != bool(config.num_labels):
        raise ValueError(
            "Supervision needs both `num_labels` and `supervision_weight` (methods "
            f"{', '.join(_SUPERVISED)}); received num_labels={config.num_labels}, "
            f"supervision_weight={weight}."
        )
    if config.num_labels and config.continuous_factors:
        raise ValueError(
            f"Supervision needs factors with countable values; {config.dataset} has "
            "continuous ones."
        )
    factors = NUM_FACTORS[config.dataset]
    if config.num_labels and config.num_latents < factors:
        raise ValueError(
            f"Supervision ties each of the {factors} factors of {config.dataset} to a "
            f"latent of its own; received num_latents={config.num_latents}."
        )


def _check_selection(config: RunConfig) -> None:
    if config.select == "straight_through_gap" and config.method not in QUANTIZED:
        raise ValueError(
            f"`select=straight_through_gap` needs a quantizer, which {config.method} "
            f"does not have. Methods with one: {', '.join(QUANTIZED)}."
        )
    if config.psnr_threshold is not None and not config.has_decoder:
        raise ValueError("`psnr_threshold` needs a model with a decoder.")


def _check_name(name: str, value: Any, allowed: Any) -> None:
    if value not in allowed:
        known = ", ".join(sorted(allowed))
        raise ValueError(f"Unknown {name} {value!r}. Known: {known}.")


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer, received {value!r}.")
