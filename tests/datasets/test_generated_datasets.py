"""circles, balls and grid2d against analytic pictures and densities."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from qlayers import datasets
from qlayers.datasets.cell_grid import (
    CellGrid,
    factorised_cell_grid,
    non_factorised_cell_grid,
    random_separators,
)
from qlayers.datasets.samplers import FixedFactorSampler, ShuffledSampler


def _exact_disc(centre, radius, size, rays=16):
    """Covered share of each pixel, by brute force; row 0 is the top."""
    steps = (np.arange(size * rays) + 0.5) / rays
    inside = (steps[None, :] - centre[0]) ** 2 + (
        steps[:, None] - centre[1]
    ) ** 2 <= radius**2
    return inside.reshape(size, rays, size, rays).mean(axis=(1, 3))


def test_circle_is_a_disc_where_the_sources_say():
    dataset = datasets.load("circles")
    image = dataset.images_of([[0.3, 0.75]])[0, :, :, 0]
    expected = _exact_disc((0.3 * 64, 0.25 * 64), 6.4, 64)
    assert np.abs(image - expected).max() < 0.15
    assert abs(image.sum() - np.pi * 6.4**2) < 2


def test_circles_fill_their_interval_uniformly():
    sources, images = datasets.load("circles").sample(4000, seed=1)
    assert sources.dtype == np.float32
    assert images.shape == (4000, 64, 64, 1)
    for column in sources.T:
        assert stats.kstest(column, "uniform", args=(0.2, 0.6)).pvalue > 1e-3


def test_balls_have_their_colours_places_and_order():
    dataset = datasets.load("balls")
    apart = dataset.images_of([[0.2, 0.8, 0.7, 0.3]], dtype="uint8")[0]
    # Row 0 is the top, y runs upwards; centres are cut down to whole pixels.
    assert tuple(apart[64 - 1 - int(0.8 * 64), int(0.2 * 64)]) == (2, 156, 154)
    assert tuple(apart[64 - 1 - int(0.3 * 64), int(0.7 * 64)]) == (222, 100, 100)
    assert tuple(apart[0, 63]) == (255, 255, 255)
    overlapping = dataset.images_of([[0.5, 0.5, 0.5, 0.5]], dtype="uint8")[0]
    assert tuple(overlapping[31, 32]) == (222, 100, 100)
    shown = np.any(apart != 255, axis=-1).sum()
    assert abs(shown - 2 * np.pi * 10.5**2) < 60


def test_snapped_balls_are_piecewise_constant_and_free_ones_are_not():
    places = [[0.401, 0.5, 0.2, 0.2], [0.404, 0.5, 0.2, 0.2]]
    first, second = datasets.load("balls").images_of(places)
    np.testing.assert_array_equal(first, second)
    first, second = datasets.load("balls", snap=False).images_of(places)
    assert not np.array_equal(first, second)


def test_ball_positions_jump_at_the_separators():
    dataset = datasets.load("balls", num_images=None, data_seed=3)
    sources = dataset.distribution.sample(20_000, seed=(0, 1)).numpy()
    assert sources.min() >= 0.1
    assert sources.max() <= 0.9
    for ball, grid in enumerate(dataset.grids):
        assert [len(s) for s in grid.separators] == [4, 3]
        cells = grid.cells_of(sources[:, 2 * ball : 2 * ball + 2])
        counts = np.histogram2d(*cells.T, bins=grid.probabilities.shape)[0]
        expected = 20_000 * grid.probabilities
        assert stats.chisquare(counts.ravel(), expected.ravel()).pvalue > 1e-3
    across = np.corrcoef(sources[:, 0], sources[:, 2])[0, 1]
    assert abs(across) < 0.03


@pytest.mark.parametrize("make", [factorised_cell_grid, non_factorised_cell_grid])
def test_cell_density_integrates_to_its_probabilities(make):
    grid = make(5)
    density = grid.distribution()
    low, high = ([s[e] for s in grid.separators] for e in (0, -1))
    axes = [
        np.linspace(a, b, 801)[:-1] + (b - a) / 1600
        for a, b in zip(low, high, strict=True)
    ]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    values = np.exp(density.log_prob(points.astype(np.float32)).numpy())
    area = np.prod(np.subtract(high, low)) / 800**2
    assert abs(values.sum() * area - 1) < 5e-3
    cells = grid.cells_of(points)
    for cell in np.ndindex(4, 4):
        mass = values[np.all(cells == cell, axis=1)].sum() * area
        assert abs(mass - grid.probabilities[cell]) < 5e-3


def test_presets_differ_in_their_support():
    assert np.all(factorised_cell_grid(0).probabilities > 0)
    sparse = non_factorised_cell_grid(0).probabilities
    empty = {tuple(cell) for cell in np.argwhere(sparse == 0)}
    assert empty == {(2, 0), (3, 0), (0, 2), (0, 3), (1, 3)}
    for probabilities in (sparse, factorised_cell_grid(0).probabilities):
        assert np.all(np.diag(probabilities) > 1.5 * probabilities.mean())
    spacing = np.concatenate(
        [np.diff(s) for seed in range(200) for s in random_separators((4, 4), seed)]
    )
    assert stats.kstest(spacing, "uniform", args=(0.3, 2.2)).pvalue > 1e-3


def test_moments_match_samples():
    grid = non_factorised_cell_grid(2)
    points = grid.distribution().sample(100_000, seed=(1, 2)).numpy()
    mean, deviation = grid.moments()
    np.testing.assert_allclose(points.mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(points.std(axis=0), deviation, atol=0.03)


@pytest.mark.parametrize("preset", ["cells", "factorised", "non_factorised", "random"])
def test_grid2d_observations_follow_the_formula(preset):
    dataset = datasets.load("grid2d", preset=preset, data_seed=4)
    sources, observed = dataset.sample(500, seed=0)
    assert dataset.num_images == 5000
    assert observed.shape == (500, 2)
    mean, deviation = dataset.grid.moments()
    for z, x in zip(sources[:20], observed[:20], strict=True):
        inner = dataset.inner_mixing @ ((z.astype(float) - mean) / deviation)
        np.testing.assert_allclose(
            x, dataset.outer_mixing @ np.tanh(0.5 * inner), atol=1e-5
        )
    # The mixing can be undone: apply both inverses.
    inner = np.arctanh(np.linalg.solve(dataset.outer_mixing, observed.T.astype(float)))
    recovered = np.linalg.solve(dataset.inner_mixing, 2 * inner).T * deviation + mean
    np.testing.assert_allclose(recovered, sources, atol=0.05)


def test_grid2d_has_the_cells_of_balls():
    assert datasets.load("grid2d").grid.probabilities.shape == (3, 2)
    assert datasets.load("balls").grids[0].probabilities.shape == (3, 2)


@pytest.mark.parametrize("name", ["grid2d", "balls"])
def test_a_full_batch_holds_every_point_once(name):
    """Drawn once, trained on without replacement, in another order at each step."""
    options = {"image_size": 8} if name == "balls" else {}
    dataset = datasets.load(name, num_images=40, **options)
    known = sorted(map(tuple, dataset.evaluation_set()[0]))
    batches = [
        [tuple(point) for point in sources.numpy()]
        for _, sources in dataset.as_tf_dataset(40, seed=0, with_sources=True).take(2)
    ]
    assert [sorted(batch) for batch in batches] == [known, known]
    assert batches[0] != batches[1]


def test_finite_sets_repeat_the_same_points_and_shuffle():
    dataset = datasets.load("grid2d", num_images=50)
    again = datasets.load("grid2d", num_images=50)
    known = {tuple(point) for point in dataset.evaluation_set()[0]}
    assert len(known) == 50
    assert known == {tuple(p) for p in again.evaluation_set()[0]}
    assert {tuple(p) for p in dataset.sample(2000, seed=9)[0]} == known
    stream = dataset.as_tf_dataset(
        25, seed=0, sampler=ShuffledSampler(), with_sources=True
    )
    epoch = [tuple(p) for _, s in stream.take(2) for p in s.numpy()]
    assert sorted(epoch) == sorted(known)
    other = datasets.load("grid2d", num_images=50, data_seed=1)
    assert not np.allclose(other.inner_mixing, dataset.inner_mixing)


@pytest.mark.parametrize("name", ["circles", "balls", "grid2d"])
def test_streams_agree_with_images_of_and_start_anywhere(name):
    dataset = datasets.load(name)
    batches = list(dataset.as_tf_dataset(8, seed=2, with_sources=True).take(3))
    for images, sources in batches:
        np.testing.assert_allclose(images, dataset.images_of(sources.numpy()))
    images, _ = next(iter(dataset.as_tf_dataset(8, seed=2, start=2, with_sources=True)))
    np.testing.assert_array_equal(images, batches[2][0])
    assert images.dtype == tf.float32


def test_fresh_stream_and_sample_draw_the_same_points():
    dataset = datasets.load("circles")
    _, sources = next(iter(dataset.as_tf_dataset(16, seed=5, with_sources=True)))
    np.testing.assert_array_equal(sources, dataset.sample(16, seed=5)[0])


@pytest.mark.parametrize(
    "call",
    [
        lambda: datasets.load("circles", interval=(0.8, 0.2)),
        lambda: datasets.load("circles", diameter=0.0),
        lambda: datasets.load("balls", density="normal"),
        lambda: datasets.load("grid2d", preset="diagonal"),
        lambda: datasets.load("grid2d", num_images=0),
        lambda: datasets.load("grid2d", max_condition=1.0),
        lambda: datasets.load("grid2d").sample(3, dtype="uint8"),
        lambda: datasets.load("circles").images_of([[0.1, 0.2, 0.3]]),
        lambda: datasets.load("circles").images_of([[np.nan, 0.2]]),
        lambda: datasets.load("circles").sample(2, sampler=ShuffledSampler()),
        lambda: datasets.load("balls").sample(2, sampler=FixedFactorSampler(0)),
        lambda: CellGrid((np.arange(3.0), np.arange(3.0)), np.ones((2, 3)) / 6),
    ],
)
def test_bad_arguments_are_explained(call):
    with pytest.raises(ValueError, match=r"[Rr]eceived"):
        call()
