"""Which latents the pictures of a run show."""

from types import SimpleNamespace

import numpy as np

from experiments.running.pictures import shown_latents

RANGES = np.array([[0.0, -1.0, 2.0], [1.0, 3.0, 2.0]])


def test_inactive_latents_are_left_out():
    """By the run's own protocol, not by their range."""
    infomec = SimpleNamespace(
        active=np.array([True, False, True]),
        modularity_per_latent=np.array([0.2, np.nan, 0.9]),
    )
    found = SimpleNamespace(results={"infomec": infomec})
    assert shown_latents(found, RANGES) == ([0, 2], 2)


def test_without_labels_all_that_vary_are_shown():
    assert shown_latents(SimpleNamespace(results={}), RANGES) == ([0, 1], 1)
