"""What a paper printed in one row of one table, and how it got there."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Paper = Literal["qlae", "tripod", "factor_qvae", "friede", "cliff"]
Variant = Literal["text", "code"]
IntervalKind = Literal["95 %", "standard error", "quartiles", "not stated", "none"]
DciEstimator = Literal["random_forest", "gradient_boosting"]
Protocol = Literal["paper", "standalone", "tripod", "qlae_code", "factor_qvae"]
Selection = Literal["infom", "straight_through_gap", "label_validation", "last"]
Representation = Literal["values", "codes", "means", "samples", "latents"]

# Where `sets` of a `Difference` may point besides hyperparameters.
_TRAINING = ("steps", "batch_size", "num_latents", "evaluate_every", "network")
_LABELS = ("num_labels", "label_validation", "train_fraction")
_PLAIN = (*_TRAINING, *_LABELS, "image_size", "log_every")
_OPTIONS = ("encoder_options", "decoder_options", "dataset_options")
_OPTIMIZER = ("learning_rate", "beta_1", "beta_2", "weight_decay", "clip_value")
_SCORING = ("protocol", "psnr_variant", "scored_as", "evaluation_sample", "gap_loss")


@dataclass(frozen=True)
class Cell:
    """One printed number.

    Attributes:
        value: The number, in the unit of the score; None where only an interval is
            printed.
        low: Lower end of the interval.
        high: Upper end of the interval.
        kind: What the interval is.

    Example:

    ```python
    str(Cell(0.91, 0.89, 0.93, "95 %"))  # "0.91 ± 0.02"
    ```
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    kind: IntervalKind = "none"

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:g}"
        if self.kind == "quartiles":
            ends = f"[{self.low:g}, {self.high:g}]"
            return ends if self.value is None else f"{self.value:g} {ends}"
        half = round((self.high - self.low) / 2, 6)
        suffix = " (s.e.)" if self.kind == "standard error" else ""
        return f"{self.value:g} ± {half:g}{suffix}"


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """Adam or AdamW.

    Attributes:
        learning_rate: A number, or a schedule as text; see
            `hyperparameters.resolve_schedules`.
        beta_1: Decay of the first moment.
        beta_2: Decay of the second moment.
        weight_decay: Decoupled weight decay, a number or a schedule as text.
        clip_value: Largest element of a gradient; None does not clip.
    """

    learning_rate: float | str
    beta_1: float = 0.9
    beta_2: float = 0.999
    weight_decay: float | str = 0.0
    clip_value: float | None = None

    def settings(self) -> dict[str, Any]:
        """The values as hyperparameters; no clipping is left out."""
        found = dataclasses.asdict(self)
        if self.clip_value is None:
            del found["clip_value"]
        return found


@dataclass(frozen=True, kw_only=True)
class Training:
    """Networks, loss, optimizer and size of a training.

    Attributes:
        network: Name of the networks in `models.networks.choice.FAMILIES`.
        steps: Training steps. A step of an InfoGAN is one of its generator.
        batch_size: Images in a step, over all batches that the step takes.
        optimizer: Optimizer of the autoencoder, or of both sides of a GAN.
        reconstruction: Reconstruction loss; None if the method has none to choose.
        reduction: How that loss is reduced over pixels.
        num_latents: Number of latents; None is twice the number of factors.
        hyperparameters: What else the method takes, by name.
        encoder_options: Further arguments of the encoder.
        decoder_options: Further arguments of the decoder.
        num_labels: Labelled images.
        label_validation: Share of them that is kept for validation.
        train_fraction: Share of the dataset's images that training sees.
        image_size: Side of the images.
        evaluate_every: Steps between evaluations.
        log_every: Steps between rows of the history.
    """

    network: str
    steps: int
    batch_size: int
    optimizer: Optimizer
    reconstruction: Literal["bce", "mse"] | None = "bce"
    reduction: Literal["mean", "sum"] = "mean"
    num_latents: int | None = None
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    encoder_options: Mapping[str, Any] = field(default_factory=dict)
    decoder_options: Mapping[str, Any] = field(default_factory=dict)
    num_labels: int = 0
    label_validation: float = 0.0
    train_fraction: float = 1.0
    image_size: int = 64
    evaluate_every: int = 5_000
    log_every: int = 100

    def with_settings(self, settings: Mapping[str, Any]) -> "Training":
        """A copy with some settings changed, each named as on the command line."""
        own = {name: settings[name] for name in _TRAINING if name in settings}
        adam = {name: settings[name] for name in _OPTIMIZER if name in settings}
        rest = {
            name: value
            for name, value in settings.items()
            if name not in (*own, *adam, *_OPTIONS, *_SCORING)
        }
        for name in ("encoder_options", "decoder_options"):
            own[name] = {**getattr(self, name), **settings.get(name, {})}
        for name in ("reconstruction", "reduction", *_PLAIN):
            if name in rest:
                own[name] = rest.pop(name)
        return dataclasses.replace(
            self,
            optimizer=dataclasses.replace(self.optimizer, **adam),
            hyperparameters={**self.hyperparameters, **rest},
            **own,
        )

    def all_hyperparameters(self) -> dict[str, Any]:
        """Optimizer, loss and hyperparameters under the names that methods take."""
        loss: dict[str, Any] = {}
        if self.reconstruction is not None:
            loss = {"reconstruction": self.reconstruction, "reduction": self.reduction}
        return {**self.optimizer.settings(), **loss, **self.hyperparameters}


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How a table's numbers were taken.

    Attributes:
        estimators: For each metric of the table, how it is estimated.
        representation: What is scored.
        samples: Images scored.
        reconstructions: Images that PSNR and mean squared error are taken on.
        test_samples: Further images that trees are tested on; 0 takes some of the
            others.
        protocol: Protocol of InfoMEC here; None if the table has no InfoMEC.
        select: Rule that chooses the reported checkpoint.
        psnr_threshold: Least PSNR of a checkpoint that may be chosen.
        psnr_variant: PSNR that the threshold is for.
        metrics: Set of metrics.
        scores: Metrics of the table that the set does not contain.
        dci_resamples: Half samples behind the intervals of boosted DCI.
        scored_as: How a run gets `representation`: `"auto"` if its method does so
            anyway.
        evaluation_sample: Which images are scored.
        gap_loss: Loss behind the straight-through gap.
    """

    estimators: Mapping[str, str]
    representation: Representation
    samples: int = 10_000
    reconstructions: int = 10_000
    test_samples: int = 0
    protocol: Protocol | None = None
    select: Selection = "last"
    psnr_threshold: float | None = None
    psnr_variant: Literal["exact", "uint8_overflow"] = "exact"
    metrics: Literal["fast", "standard", "all"] = "standard"
    scores: tuple[str, ...] = ()
    dci_resamples: int = 0
    scored_as: Literal["auto", "codes", "samples"] = "auto"
    evaluation_sample: Literal["random", "split"] = "random"
    gap_loss: Literal["elbo", "total"] = "elbo"

    def with_settings(self, settings: Mapping[str, Any]) -> "Scoring":
        """A copy with the settings changed that concern scoring."""
        own = {name: settings[name] for name in _SCORING if name in settings}
        return dataclasses.replace(self, **own)


@dataclass(frozen=True)
class Difference:
    """A point in which the authors' public code differs from their text.

    Attributes:
        name: Short name.
        text: What the text says.
        code: What the code does.
        sets: Settings that `--variant=code` changes; empty if it cannot be done here.
    """

    name: str
    text: str
    code: str
    sets: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Gap:
    """A point in which a run here differs from the row, or that the paper leaves open.

    Attributes:
        name: Short name.
        text: What differs and why, or what was chosen here.
    """

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """One row of a paper's table for one dataset.

    Attributes:
        paper: Short name of the paper.
        table: Table or section, such as `"table1"`.
        row: Name of the row, such as `"qlae/shapes3d"`.
        title: The model's name as printed.
        method: Name of the method here; None if there is none.
        dataset: Name of the dataset; None for averages over datasets.
        training: How the model was trained; None if it cannot be trained here.
        scoring: How it was scored.
        cells: Printed numbers by score; none if the paper describes the row in words.
        statistic: What the printed values are, over the seeds.
        seeds: Number of runs behind a cell; None if not stated.
        dataset_options: Variant of the dataset.
        grid: Hyperparameters that the authors varied or chose from: a cell stands for
            any of these values, because it sums over them or the choice is unknown.
        searched: Hyperparameters that the authors chose from, where the choice is
            known: it is the row's own value.
        code: Differences of the authors' public code.
        differs: Points in which a run here differs.
        left_open: Points that neither text nor code settles.
        missing: Why the row cannot be run here; None if it can.

    Example:

    ```python
    row = find("qlae:table1:qlae/shapes3d")
    row.cells["infomec/modularity"].value  # 0.91
    ```
    """

    paper: Paper
    table: str
    row: str
    title: str
    method: str | None
    dataset: str | None
    training: Training | None
    scoring: Scoring
    cells: Mapping[str, Cell]
    statistic: Literal["mean", "median"] = "mean"
    seeds: int | None = None
    dataset_options: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    searched: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    code: tuple[Difference, ...] = ()
    differs: tuple[Gap, ...] = ()
    left_open: tuple[Gap, ...] = ()
    missing: str | None = None

    @property
    def address(self) -> str:
        """The row's name on the command line: `paper:table:row`."""
        return f"{self.paper}:{self.table}:{self.row}"

    @property
    def runs(self) -> bool:
        """Whether the row can be trained here."""
        return self.missing is None

    @property
    def status(self) -> str:
        """`"runs"`, `"differs in ..."` or `"not here, because ..."`."""
        if self.missing is not None:
            return f"not here, because {self.missing}"
        left_open = ", ".join(gap.name for gap in self.left_open)
        suffix = f"; left open: {left_open}" if left_open else ""
        if not self.differs:
            return f"runs{suffix}"
        return f"differs in {', '.join(gap.name for gap in self.differs)}{suffix}"

    def recipe(self, variant: Variant = "text") -> dict[str, Any]:
        """Settings and hyperparameters in one mapping, by their names in a recipe.

        Args:
            variant: `"code"` takes what the authors' public code ran where it differs.
        """
        if self.training is None:
            raise ValueError(f"{self.address} is {self.status}.")
        training, dataset_options = self.training, dict(self.dataset_options)
        if variant == "code":
            for difference in self.code:
                training = training.with_settings(difference.sets)
                dataset_options.update(difference.sets.get("dataset_options", {}))
        return {
            **training_recipe(training),
            **scoring_recipe(self.scoring_of(variant)),
            "dataset_options": dataset_options,
        }

    def scoring_of(self, variant: Variant = "text") -> Scoring:
        """How the row is scored.

        Args:
            variant: See `recipe`.
        """
        scoring = self.scoring
        if variant == "code":
            for difference in self.code:
                scoring = scoring.with_settings(difference.sets)
        return scoring


def training_recipe(training: Training) -> dict[str, Any]:
    """A training as recipe values."""
    return {
        **{name: getattr(training, name) for name in _PLAIN},
        "encoder_options": dict(training.encoder_options),
        "decoder_options": dict(training.decoder_options),
        **training.all_hyperparameters(),
    }


def scoring_recipe(scoring: Scoring) -> dict[str, Any]:
    """A scoring as recipe values."""
    return {
        "evaluation_size": scoring.samples,
        "test_size": scoring.test_samples,
        "reconstruction_size": scoring.reconstructions,
        "psnr_threshold": scoring.psnr_threshold,
        "psnr_variant": scoring.psnr_variant,
        "select": scoring.select,
        "protocol": scoring.protocol or "paper",
        "metrics": scoring.metrics,
        "scores": list(scoring.scores),
        "dci_resamples": scoring.dci_resamples,
        "scored_as": scoring.scored_as,
        "evaluation_sample": scoring.evaluation_sample,
        "gap_loss": scoring.gap_loss,
    }
