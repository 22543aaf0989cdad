"""The method that finds the number of latents and of their values itself."""

from typing import Any

import qlayers
from models.assembly import assemble
from models.method import Method
from models.methods.qlae_paper import PAPER_BETA_2
from models.networks.choice import Networks
from models.optimizers import adam_maker, make_adam
from models.reconstruction import Reconstruction, ReconstructionKind, Reduction
from models.self_sizing_model import SelfSizingModel
from qlayers.schedules import Schedulable


def self_sizing(
    networks: Networks,
    num_latents: int,
    *,
    num_values: int = 16,
    start_values: int | None = 4,
    quantize_weight: Schedulable = 1e-2,
    commit_weight: Schedulable = 1e-2,
    weight_decay: float = 0.1,
    target: float | None = None,
    tolerance: float = 1.0,
    warmup_steps: int = 50_000,
    adapt_every: int = 100,
    max_edits: int = 12,
    adaptation_size: int = 256,
    reconstruction: ReconstructionKind = "bce",
    reduction: Reduction = "mean",
    **optimizer: Any,
) -> SelfSizingModel:
    """QLAE that starts with few values, refines them, then drops what is not needed.

    Args:
        networks: Makes encoder and decoder.
        num_latents: Number of latents at the start.
        num_values: Values that a latent can have at most.
        start_values: Values of each latent at the start; None starts with all. With
            few, factors come apart sooner.
        quantize_weight: Weight of the quantization loss.
        commit_weight: Weight of the commitment loss.
        weight_decay: Decay of everything but biases and codebooks.
        target: The largest mean squared error that is accepted; by default
            `tolerance` times that at the end of the warm-up.
        tolerance: See `target`.
        warmup_steps: Steps before anything is dropped, a quarter of the training:
            values are split in their second half, latents end in the two quarters
            after them, then values merge.
        adapt_every: Steps between two looks.
        max_edits: Edits at a look, at most.
        adaptation_size: Images that a look takes.
        reconstruction: `"bce"` or `"mse"`; see `Reconstruction`.
        reduction: `"mean"` or `"sum"` over pixels.
        **optimizer: `learning_rate`, `beta_1`, `beta_2`, `clip_value`; see
            `models.optimizers.make_adam`. `beta_2` is 0.99, as for QLAE.
    """
    quantizer = qlayers.SelfSizingQuantizer(
        num_values,
        start_values,
        quantize_weight=quantize_weight,
        commit_weight=commit_weight,
        name="quantizer",
    )
    parts = assemble(networks, num_latents, quantizer=quantizer)
    return SelfSizingModel(
        parts,
        adaptation={
            "target": target,
            "tolerance": tolerance,
            "warmup_steps": warmup_steps,
            "every_n_steps": adapt_every,
            "max_edits": max_edits,
        },
        adaptation_size=adaptation_size,
        reconstruction=Reconstruction(reconstruction, reduction),
        make_optimizer=adam_maker(
            weight_decay=weight_decay, **{"beta_2": PAPER_BETA_2, **optimizer}
        ),
        name="self_sizing",
    )


METHODS = (Method("self_sizing", self_sizing, quantized=True, hands_on=(make_adam,)),)
