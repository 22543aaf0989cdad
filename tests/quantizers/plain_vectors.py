"""A vector quantizer as the papers have it, with a known codebook."""

import qlayers


def plain_vector_quantizer(table, num_slots, **options):
    """The layer without what is on by default, with options.

    Args:
        table: Values of the codes, `(num_codes, code_dim)`.
        num_slots: Slots of an input.
        **options: Arguments of the layer.
    """
    num_codes, code_dim = table.shape
    options = {**qlayers.VectorQuantizer.PLAIN, "loss_reduction": "sum", **options}
    layer = qlayers.VectorQuantizer(num_codes, code_dim, seed=0, **options)
    layer.build((None, num_slots * code_dim))
    layer.codebook.assign(table[None])
    return layer
