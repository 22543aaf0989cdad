"""How a row of a paper was trained and scored."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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

_RECIPE_NAMES = {
    "samples": "evaluation_size",
    "reconstructions": "reconstruction_size",
    "test_samples": "test_size",
}


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

    def recipe(self) -> dict[str, Any]:
        """Settings and hyperparameters as recipe values."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "encoder_options": dict(self.encoder_options),
            "decoder_options": dict(self.decoder_options),
            **self.all_hyperparameters(),
        }


def locatello_vae(steps: int, evaluate_every: int, variant: str) -> Training:
    """The VAE of Locatello et al. 2019, which two of the papers train.

    Args:
        steps: Training steps.
        evaluate_every: Steps between evaluations.
        variant: Kernels of the encoder; see `models.networks.locatello`.
    """
    return Training(
        network="locatello",
        steps=steps,
        batch_size=64,
        num_latents=10,
        evaluate_every=evaluate_every,
        optimizer=Optimizer(learning_rate=1e-4),
        reduction="sum",
        encoder_options={"variant": variant},
    )


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

    def recipe(self) -> dict[str, Any]:
        """The values under the names of a recipe."""
        found = {
            _RECIPE_NAMES.get(field.name, field.name): getattr(self, field.name)
            for field in dataclasses.fields(self)
        }
        del found["estimators"], found["representation"]
        found.update(protocol=self.protocol or "paper", scores=list(self.scores))
        return found
