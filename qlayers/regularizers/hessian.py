"""The Hessian penalty."""

import keras

from qlayers.regularizers.hessian_base import BaseHessianPenalty


@keras.saving.register_keras_serializable(package="qlayers")
class HessianPenalty(BaseHessianPenalty):
    """Wraps a decoder; asks that no latent change the effect of another.

    Called on latents it returns `decoder(z)` and in training adds `weight` times an
    estimate of

        Var_v[v' H v] = 2 sum_{i != j} H[i, j]^2,    v_j = ±1 at random,

    the squared off-diagonal entries of the decoder's Hessians, from second differences
    of decodings that are all made in one call. The penalty falls when activations
    shrink or latents grow; `NormalizedHessianPenalty` does not. Tracked as
    `<name>_hessian_penalty`.

    Args:
        decoder: Keras layer or model that maps `(batch, n)` to one or more tensors. It
            belongs to this layer: use the layer, not the decoder, in the model.
        weight: Weight of the penalty, a number or a schedule; 0 switches it off.
        num_perturbations: Number of random directions, at least 2.
        epsilon: Step of the finite differences.
        outputs: Names of inner layers whose outputs are regularized; the decoder is
            then evaluated no further than the last of them. Default: the decoder's
            outputs.
        aggregate: `"max"` over the entries of each output, as Peebles et al. (the
            default), or `"mean"`, as Tripod's public code; several outputs are added
            up.
        batch_fraction: Part of the batch, chosen at random, that is perturbed.
        step_interval: Compute the penalty only at every so many steps, with as many
            times the weight.
        directions: `"random"`, the paper's, or `"coordinates"`: mixed derivatives one
            by one, at no more decodings, with far less noise in the gradient; see
            `qlayers.functional.hessian_penalty`.
        **kwargs: `seed` and `at_inference` of the regularizers and those of
            `keras.layers.Layer`.

    Example:

    ```python
    outputs = qlayers.HessianPenalty(decoder, weight=0.1)(z)
    ```

    Reference:
        Peebles et al. 2020, The Hessian Penalty: A Weak Prior for Unsupervised
        Disentanglement; Hsu et al. 2024, Tripod, equations 8 and 9.
    """

    is_normalized = False
