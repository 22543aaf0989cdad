"""Images from 0 to 255 that are not bytes are refused, with what to do."""

import numpy as np
import pytest
import tensorflow as tf

from tests.models.tiny import tiny_images, tiny_model

MESSAGE = "divide by 255"


def test_floats_from_0_to_255_are_refused():
    model = tiny_model("ae")
    model.compile()
    images = tiny_images()
    unit = images.astype("float32") / 255 if images.dtype == np.uint8 else images
    wrong = unit * 255.0
    for use in (model.encode, model.reconstruct, model):
        with pytest.raises(ValueError, match=MESSAGE):
            use(wrong)
    with pytest.raises(tf.errors.InvalidArgumentError, match=MESSAGE):
        model.fit(wrong, batch_size=len(wrong), verbose=0)
    assert np.isfinite(model.fit(unit, verbose=0).history["loss"]).all()
    assert np.isfinite(model.encode((unit * 255).astype("uint8"))).all()
