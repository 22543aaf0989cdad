"""A last, smaller batch counts for what it holds."""

import numpy as np
import pytest

import models


@pytest.mark.parametrize("method", ["qlae", "factor_d_vae", "ql_infowgan_gp"])
def test_the_reconstruction_does_not_depend_on_the_batch_size(method):
    images = np.random.default_rng(0).random((9, 16, 16, 3), "float32")
    images[8] = 0.0
    model = models.build(method, (16, 16, 3), num_latents=3, width=0.125)
    model.compile()
    found = [
        model.evaluate(images, batch_size=size, verbose=0, return_dict=True)
        for size in (9, 8)
    ]
    for name in ("loss", "reconstruction"):
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-5), name
