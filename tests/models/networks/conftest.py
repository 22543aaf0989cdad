"""Networks are drawn at random: the same ones in every run."""

import keras
import pytest


@pytest.fixture(autouse=True)
def _fixed_seed():
    keras.utils.set_random_seed(0)
