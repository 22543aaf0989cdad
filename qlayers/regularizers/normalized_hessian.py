"""The normalized Hessian penalty."""

import keras

from qlayers.regularizers.hessian_base import BaseHessianPenalty


@keras.saving.register_keras_serializable(package="qlayers")
class NormalizedHessianPenalty(BaseHessianPenalty):
    """Wraps a decoder; asks that no latent change the effect of another, at any scale.

    Called on latents it returns `decoder(z)` and in training adds `weight` times the
    mean over samples of

        sum_k Var_v[v' H_k v] / sum_k Var_w[w' H_k w],
        v_j = ±sigma_j at random,  w_j ~ N(0, sigma_j^2),

    an estimate of the share that the mixed derivatives have in all second derivatives
    of the regularized outputs `k`, in units of the latents' standard deviations
    `sigma`. Neither rescaling a latent nor rescaling the outputs changes it. The
    variances come from second differences of decodings that are all made in one call;
    gradients flow through everything, `sigma` included. With two perturbations the
    value is noisy and on average far above the share it estimates, which is fine for
    training; `directions="coordinates"` estimates one share for the batch, between 0
    and 1, with a steadier gradient. A linear decoder has no second derivatives: its
    share, 0 / 0, counts as 0, up to a few thousandths that rounding makes of random
    directions. A decoder in half precision rounds small
    differences away: give it the dtype policy float32. Tracked as
    `<name>_hessian_penalty`.

    Args:
        decoder: Keras layer or model that maps `(batch, n)` to one or more tensors. It
            belongs to this layer: use the layer, not the decoder, in the model.
        weight: Weight of the penalty, a number or a schedule; 0 switches it off.
        num_perturbations: Number of random directions of each kind, at least 2.
        epsilon: Step of the finite differences, in units of `sigma`.
        outputs: Names of inner layers whose outputs are regularized; the decoder is
            then evaluated no further than the last of them. Default: the decoder's
            outputs.
        aggregate: `"joint"` divides once, as Algorithm 1 (the default);
            `"per_output"` divides for each output and adds up the ratios, as the public
            code.
        batch_fraction: Part of the batch, chosen at random, that is perturbed.
        step_interval: Compute the penalty only at every so many steps, with as many
            times the weight.
        directions: `"random"`, the paper's, or `"coordinates"`: mixed derivatives one
            by one, at no more decodings, with far less noise in the gradient, also on
            a `batch_fraction` of 0.375; see
            `qlayers.functional.hessian_penalty`.
        **kwargs: `seed` and `at_inference` of the regularizers and those of
            `keras.layers.Layer`.

    Call arguments:
        z: Latents, `(batch, n)`, quantized or not.
        continuous: The latents before quantization, from which `sigma` is taken.
            Default: `z`.

    Example:

    ```python
    penalty = qlayers.NormalizedHessianPenalty(decoder, 1e-2, outputs=["block0"])
    outputs = penalty(z, continuous=keras.ops.tanh(h))
    ```

    Reference:
        Hsu et al. 2024, Tripod, section 3.3, equations 16 and 17, Algorithm 1.
    """

    may_read = ("continuous",)
    is_normalized = True
