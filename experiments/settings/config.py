"""The settings of one run: resolved and checked before anything is written."""

import dataclasses
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from experiments.settings.choices import (
    CHOICES,
    PROFILES,
    SCORES,
    EvaluationSample,
    GapLoss,
    Jit,
    Metrics,
    Precision,
    Protocol,
    PsnrVariant,
    ScoredAs,
    Selection,
    Strategy,
)
from experiments.settings.extensions import load_extensions
from experiments.settings.hyperparameters import (
    check_known,
    check_switches,
    check_values,
    resolve_schedules,
)
from experiments.settings.published import row_of_profile
from experiments.settings.recipes import recipe
from models import METHODS, Method
from models.networks.choice import FAMILIES, NetworkName
from qlayers import datasets
from qlayers.datasets import DatasetInfo

# Before a name is looked up.
load_extensions()

# Latents where nothing is known about the factors.
_NUM_LATENTS = 10

# May change between two starts. Other threads round differently: a run that goes on
# with them says so. `RunConfig.deciding` has the exception.
OPERATIONAL = ("checkpoint_seconds", "threads", "data_dir", "steps_per_call")

_COUNTS = (
    "batch_size",
    "image_size",
    "num_latents",
    "log_every",
    "evaluate_every",
    "evaluation_size",
    "reconstruction_size",
    "steps_per_call",
)


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides the result of a run, and a few things that do not.

    Attributes:
        method: Name in `models.METHODS`.
        dataset: Name in `qlayers.datasets.names()`.
        seed: Seed of the weights, the noise and the data stream.
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
        label_validation: Share of the labels that is kept for validation.
        train_fraction: Share of the images that training sees, a fixed random part.
        evaluate_every: Steps between evaluations; a multiple of `log_every`.
        evaluation_size: Images of an evaluation.
        test_size: Further images of the final evaluation, which trees and SAP are
            tested on. With 0 they are tested on a part of the others.
        reconstruction_size: Images among them that are reconstructed, for the PSNR.
        log_every: Steps between rows of the history.
        select: How the reported checkpoint is chosen: best InfoM (MCC for continuous
            factors), smallest straight-through gap, smallest supervised loss on
            labels kept for validation, or the last.
        psnr_threshold: Least PSNR of a checkpoint that may be chosen, or None.
        psnr_variant: PSNR that is compared with the threshold; `"uint8_overflow"` is
            that of Tripod's code.
        metrics: Final metrics, see `qlayers.metrics.evaluate`.
        scores: Further final metrics by name, see `SCORES`.
        scored_as: What is scored: what the quantizer says, indices of codes, or samples
            of a Gaussian posterior in place of its means.
        evaluation_sample: Which images are scored: `"random"` ones, the same for every
            run, or `"split"`, the first ones of the prepared files, as QLAE's and
            Tripod's codes take them, which also choose the checkpoint by them.
        gap_loss: Loss that the straight-through gap is the difference of: the `"elbo"`
            of Friede et al.'s text, or the `"total"` of their code, which holds the
            total correlation.
        dci_resamples: Half samples behind the intervals of boosted DCI; 0 gives none.
        protocol: Protocol of InfoMEC.
        strategy: `tf.distribute` strategy.
        jit: XLA compilation; `"auto"`: see `experiments.settings.xla`.
        mixed_precision: Dtype of the networks' computations.
        deterministic: Whether operations that may vary between runs are refused.
        dataset_options: Further arguments of `qlayers.datasets.load`.
        data_dir: Where prepared datasets are.
        checkpoint_seconds: Longest training time between checkpoints.
        threads: Threads of TensorFlow, which change the last bits; 0 takes all cores.
        steps_per_call: Steps in one compiled call, at most: more of them leave Python
            out between steps and change nothing else.
    """

    method: str
    dataset: str
    seed: int
    profile: str
    steps: int
    batch_size: int
    image_size: int
    num_latents: int
    network: NetworkName
    width: float
    encoder_options: Mapping[str, Any]
    decoder_options: Mapping[str, Any]
    hyperparameters: Mapping[str, Any]
    num_labels: int
    evaluate_every: int
    evaluation_size: int
    log_every: int
    psnr_threshold: float | None
    select: Selection
    metrics: Metrics = "standard"
    protocol: Protocol = "paper"
    strategy: Strategy = "none"
    jit: Jit = "auto"
    mixed_precision: Precision = "none"
    deterministic: bool = False
    dataset_options: Mapping[str, Any] = field(default_factory=dict)
    data_dir: str | None = None
    checkpoint_seconds: float = 4.0
    threads: int = 0
    steps_per_call: int = 1
    reconstruction_size: int = 1_000
    test_size: int = 0
    label_validation: float = 0.0
    train_fraction: float = 1.0
    psnr_variant: PsnrVariant = "exact"
    scores: Sequence[str] = field(default_factory=list)
    dci_resamples: int = 0
    scored_as: ScoredAs = "auto"
    evaluation_sample: EvaluationSample = "random"
    gap_loss: GapLoss = "elbo"

    def to_dict(self) -> dict[str, Any]:
        """Plain types, for `config.json`."""
        return dataclasses.asdict(self)

    def deciding(self) -> dict[str, Any]:
        """Settings that decide the result: all but `OPERATIONAL` ones.

        Where own images lie is such a setting too: another folder has other images.
        """
        values = self.to_dict()
        for name in OPERATIONAL:
            if name != "data_dir" or not self.dataset_info.own_images:
                del values[name]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunConfig":
        """The config that `to_dict` described.

        Settings that are younger than the run have the value it was run with, which is
        their default.
        """
        if not isinstance(values, Mapping):
            raise ValueError(f"A config is a mapping, received {values!r:.50}.")
        entries = dataclasses.fields(cls)
        missing = [
            entry.name
            for entry in entries
            if entry.name not in values and not _has_default(entry)
        ]
        if missing:
            raise ValueError(f"The config lacks {', '.join(missing)}.")
        names = [entry.name for entry in entries if entry.name in values]
        for name in names:
            _check_kind(name, values[name])
        return cls(**{name: values[name] for name in names})

    @property
    def method_record(self) -> Method:
        """What is known about the method."""
        return METHODS[self.method]

    @property
    def dataset_info(self) -> DatasetInfo:
        """What is known about the dataset before it is loaded."""
        return datasets.info(self.dataset)

    @property
    def continuous_factors(self) -> bool:
        """Whether the dataset's factors are real numbers."""
        return self.dataset_info.continuous

    @property
    def has_decoder(self) -> bool:
        """Whether the model reconstructs images."""
        return FAMILIES[self.network].decoder is not None


def _check_kind(name: str, value: Any) -> None:
    """Raises a ValueError for a value that is not of its field's kind."""
    hint = get_type_hints(RunConfig)[name]
    kinds: list[Any] = []
    for part in get_args(hint) if isinstance(hint, UnionType) else (hint,):
        origin = get_origin(part)
        kinds.append(str if origin is Literal else origin or part)
    if float in kinds:
        kinds.append(int)
    right = isinstance(value, tuple(kinds))
    if not right or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"`{name}` cannot be {value!r:.50}.")


def _has_default(entry: dataclasses.Field[Any]) -> bool:
    unset = dataclasses.MISSING
    return entry.default is not unset or entry.default_factory is not unset


def resolve(
    method: str,
    dataset: str = "mini_shapes3d",
    profile: str = "paper",
    *,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    hyperparameters: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> RunConfig:
    """Fills in the recipe and checks that the whole can be run.

    Args:
        method: Name of the method.
        dataset: Name of the dataset.
        profile: `"paper"`, `"cpu"`, or the address of a published row.
        seed: Seed of the run.
        settings: Fields of `RunConfig` to set instead of the recipe's.
        hyperparameters: Hyperparameters to set instead of the recipe's.
        options: By `"encoder_options"`, `"decoder_options"` or `"dataset_options"`,
            options to set beside the recipe's others.

    Example:

    ```python
    config = resolve("qlae", profile="cpu", settings={"steps": 100})
    ```
    """
    _check_name("method", method, METHODS)
    _check_name("dataset", dataset, datasets.names())
    if row_of_profile(profile) is None:
        _check_name("profile", profile, PROFILES)
    values, chosen = recipe(method, dataset, profile)
    given = dict(settings or {})
    if "network" in given and given["network"] != values["network"]:
        # Options of other networks mean nothing to these.
        values["encoder_options"] = values["decoder_options"] = {}
    if given.get("select") == "last":
        values["psnr_threshold"] = None  # the recipe's, which has nothing to choose
    values.update(given)
    for name, added in (options or {}).items():
        values[name] = {**values.get(name, {}), **added}
    check_known(method, hyperparameters or {})
    check_switches(method, hyperparameters or {})
    chosen.update(hyperparameters or {})
    values["network"] = values["network"] or METHODS[method].network
    if not values["num_latents"]:
        # Own images tell their factors, if they have any, only when they are read.
        values["num_latents"] = 2 * datasets.info(dataset).num_factors or _NUM_LATENTS
    if datasets.info(dataset).own_images and values.get("data_dir"):
        # The same folder, from wherever the run is continued.
        values["data_dir"] = os.path.realpath(os.path.expanduser(values["data_dir"]))
    _check_count("steps", values["steps"])
    values["hyperparameters"] = _complete(method, chosen, values["steps"])
    values["scores"] = list(values["scores"])
    config = RunConfig(
        method=method, dataset=dataset, profile=profile, seed=seed, **values
    )
    _check(config)
    return config


def _complete(method: str, chosen: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """All hyperparameters: those chosen, and the defaults of the others."""
    defaults = {
        name: value
        for name, value in METHODS[method].hyperparameters().items()
        # None, where it was not asked for, stands for the method's own choice.
        if value is not None and name != "seed"
    }
    return resolve_schedules({**defaults, **chosen}, steps)


def _check(config: RunConfig) -> None:
    for name in _COUNTS:
        _check_count(name, getattr(config, name))
    for name, allowed in CHOICES.items():
        _check_name(name, getattr(config, name), allowed)
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
    _check_scoring(config)
    _check_batch(config)
    _check_networks(config)
    _check_options(config)
    _check_labels(config)
    _check_selection(config)


def _check_scoring(config: RunConfig) -> None:
    if config.scored_as == "codes" and not config.method_record.quantized:
        raise ValueError(
            f"`scored_as=codes` needs a quantizer, which {config.method} does not have."
        )
    if config.scored_as == "samples" and not config.method_record.gaussian:
        raise ValueError(
            "`scored_as=samples` needs a Gaussian posterior, which "
            f"{config.method} does not have. Methods with one: "
            f"{_names(lambda m: m.gaussian)}."
        )
    if config.evaluation_sample == "split" and not config.dataset_info.files:
        raise ValueError(
            "`evaluation_sample=split` needs a dataset from prepared files, which "
            f"{config.dataset} is not."
        )
    for name in config.scores:
        _check_name("score", name, SCORES)
    if config.dci_resamples < 0 or config.dci_resamples == 1:
        raise ValueError(
            "`dci_resamples` is 0 or at least 2: a spread needs two. Received "
            f"{config.dci_resamples}."
        )
    if config.test_size < 0:
        raise ValueError(f"`test_size` must not be negative: {config.test_size}.")
    if not 0 < config.train_fraction <= 1:
        raise ValueError(
            "`train_fraction` must be above 0 and at most 1, received "
            f"{config.train_fraction!r}."
        )
    if config.train_fraction < 1 and config.continuous_factors:
        raise ValueError(
            f"`train_fraction` needs countable images; {config.dataset} has continuous "
            "factors."
        )


def _check_batch(config: RunConfig) -> None:
    method = config.method_record
    pieces = method.pieces({**config.hyperparameters, **method.fixed})
    if config.batch_size % pieces:
        raise ValueError(
            f"A batch of {config.method} is cut into {pieces} parts; `batch_size` must "
            f"be a multiple of {pieces}, received {config.batch_size}."
        )


def _check_networks(config: RunConfig) -> None:
    images, method = config.dataset_info.images, config.method_record
    if not images and method.needs_decoder:
        raise ValueError(
            f"{config.method} needs a decoder; {config.dataset} is for the methods "
            f"that train an encoder alone: {_names(lambda m: not m.needs_decoder)}."
        )
    if images != config.has_decoder:
        alone = ", ".join(name for name in datasets.names() if not _has_images(name))
        raise ValueError(
            f"Dataset {config.dataset!r} has {'images' if images else 'points'}, "
            f"which the networks {config.network!r} do not take. "
            + (f"`mlp` is for {alone} alone." if images else "Use `network=mlp`.")
        )
    method.check_network(config.network)


def _has_images(dataset: str) -> bool:
    return datasets.info(dataset).images


def _names(fits: Callable[[Method], bool]) -> str:
    return ", ".join(name for name, method in METHODS.items() if fits(method))


def _check_options(config: RunConfig) -> None:
    """Names that the networks' functions do not have, before they are called."""
    for part, function in zip(
        ("encoder", "decoder"), FAMILIES[config.network], strict=True
    ):
        given = getattr(config, f"{part}_options")
        known = list(inspect.signature(function).parameters) if function else []
        # The first two are the image's shape and the number of latents.
        known = [name for name in known[2:] if name not in ("width", "name")]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ValueError(
                f"The {part} {config.network!r} has no option {', '.join(unknown)}. It "
                f"has: {', '.join(known) or 'none'}."
            )


def _check_labels(config: RunConfig) -> None:
    kept = config.num_labels * config.label_validation
    if config.label_validation and not (
        0 < config.label_validation < 1 and 1 <= kept <= config.num_labels - 1
    ):
        raise ValueError(
            "`label_validation` is the share of the labels that is kept for "
            "validation; it must keep at least one and leave one. Received "
            f"{config.label_validation!r} of {config.num_labels} labels."
        )
    if config.select == "label_validation" and not config.label_validation:
        raise ValueError(
            "`select=label_validation` needs labels that are kept for it: set "
            "`label_validation`, for example 0.1."
        )
    weight = config.hyperparameters.get("supervision_weight", 0.0)
    if bool(weight) != bool(config.num_labels):
        raise ValueError(
            "Supervision needs both `num_labels` and `supervision_weight` (methods "
            f"{_names(lambda m: m.supervised)}); received "
            f"num_labels={config.num_labels}, supervision_weight={weight}."
        )
    if config.num_labels and config.continuous_factors:
        raise ValueError(
            f"Supervision needs factors with countable values; {config.dataset} has "
            "continuous ones."
        )
    factors = config.dataset_info.num_factors
    if config.num_labels and config.num_latents < factors:
        raise ValueError(
            f"Supervision ties each of the {factors} factors of {config.dataset} to a "
            f"latent of its own; received num_latents={config.num_latents}."
        )


def _check_selection(config: RunConfig) -> None:
    gap = config.select == "straight_through_gap"
    if gap and not config.method_record.quantized:
        raise ValueError(
            f"`select=straight_through_gap` needs a quantizer, which {config.method} "
            f"does not have. Methods with one: {_names(lambda m: m.quantized)}."
        )
    threshold = config.psnr_threshold
    if threshold is not None and config.select == "last":
        raise ValueError(
            "`psnr_threshold` is for choosing among checkpoints, and `select=last` "
            "reports the last whatever its PSNR: choose another `select`, such as "
            "infom, or leave the threshold out."
        )
    if threshold is not None and not math.isfinite(threshold):
        raise ValueError(f"`psnr_threshold` must be finite, received {threshold}.")
    if threshold is not None and not config.has_decoder:
        raise ValueError("`psnr_threshold` needs a model with a decoder.")


def _check_name(name: str, value: Any, allowed: Any) -> None:
    if value not in allowed:
        known = ", ".join(sorted(allowed))
        raise ValueError(f"Unknown {name} {value!r}. Known: {known}.")


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer, received {value!r}.")
