"""mini_shapes3d: factors, colours, resemblance, NumPy against TensorFlow."""

import colorsys

import numpy as np
import pytest
import tensorflow as tf

from qlayers import datasets
from qlayers.datasets.mini_shapes3d import _fixed_point_buffers


@pytest.fixture(scope="module")
def dataset():
    return datasets.load("mini_shapes3d", image_size=32)


def test_has_the_factors_of_shapes3d(dataset):
    assert dataset.factor_names == (
        "floor_hue",
        "wall_hue",
        "object_hue",
        "scale",
        "shape",
        "orientation",
    )
    assert dataset.factor_sizes == (10, 10, 10, 8, 4, 15)
    assert dataset.num_images == 480_000
    assert dataset.image_shape == (32, 32, 3)


def test_tensorflow_renders_the_same_bytes(dataset):
    sources, images = dataset.sample(300, seed=3, dtype="uint8")
    render = tf.function(dataset.images_of_tensor)
    np.testing.assert_array_equal(render(tf.constant(sources)).numpy(), images)


def test_pixels_are_the_rounded_sum_of_lit_colours(dataset):
    """Recomputes one image in exact integers."""
    source = [3, 6, 9, 5, 2, 11]
    light = _fixed_point_buffers(32)[(5 * 4 + 2) * 15 + 11].astype(int)
    colours = [
        [round(255 * c) for c in colorsys.hsv_to_rgb(hue / 10, 1, 1)]
        for hue in source[:3]
    ]
    colours.append([153, 226, 249])
    expected = np.minimum((light @ np.array(colours) + 2048) // 4096, 255)
    image = dataset.images_of([source], dtype="uint8")[0]
    np.testing.assert_array_equal(image.reshape(-1, 3), expected)


@pytest.mark.parametrize("factor", [0, 1, 2])
def test_a_hue_changes_only_its_own_surface(dataset, factor):
    base = np.array([[0, 3, 6, 4, 0, 2]])
    changed = base.copy()
    changed[0, factor] = 8
    moved = np.any(dataset.images_of(base) != dataset.images_of(changed), axis=-1)
    light = _fixed_point_buffers(32)[(4 * 4 + 0) * 15 + 2].reshape(32, 32, 4)
    covered = light[..., factor] > 0
    assert not np.any(moved[0] & ~covered)
    assert np.mean(moved[0][covered]) > 0.95


def test_all_geometries_differ_visibly():
    geometries = [
        [0, 3, 6, scale, shape, turn]
        for scale in range(8)
        for shape in range(4)
        for turn in range(15)
    ]
    images = datasets.load("mini_shapes3d").images_of(geometries).reshape(480, -1)
    images = images.astype(np.float64)
    squared = np.sum(images**2, axis=1)
    distances = squared[:, None] + squared - 2 * images @ images.T
    np.fill_diagonal(distances, np.inf)
    # At least the equivalent of two pixels that change their colour altogether.
    assert distances.min() > 2


def test_object_grows_with_scale_and_stays_in_the_middle(dataset):
    light = _fixed_point_buffers(64).reshape(8, 4, 15, 64, 64, 4)
    covered = light[..., 2] > 0
    area = covered.sum(axis=(-1, -2))
    assert np.all(np.diff(area, axis=0) > 0)
    columns = np.arange(64) + 0.5
    centre = (covered.sum(axis=-2) * columns).sum(axis=-1) / area
    # Only the cube looks different from the left and from the right.
    assert np.all(np.abs(centre[:, 1:] - 32) < 0.5)


def test_resembles_published_frames(shared_data):
    """Same sources, same camera, same light."""
    path = shared_data / "shapes3d" / "shapes3d_real_25_labelled.npz"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    with np.load(path, allow_pickle=False) as real:
        frames, sources = real["images"] / 255.0, real["latents_classes"]
    dataset = datasets.load("mini_shapes3d")
    errors = np.mean((dataset.images_of(sources) - frames) ** 2)
    assert -10 * np.log10(errors) > 19.0
    # The value of a factor that comes closest to a frame: 4 is the shape, 3 the scale,
    # 5 the orientation. Neighbouring scales and angles differ by less than a pixel.
    for factor, reach in ((4, 0), (3, 1), (5, 2)):
        misses = [
            abs(_closest(dataset, frame, source, factor) - source[factor])
            for frame, source in zip(frames, sources, strict=True)
        ]
        assert max(misses) <= reach
        assert np.mean(misses) < 0.5


def _closest(dataset, frame, source, factor):
    others = np.tile(source, (dataset.factor_sizes[factor], 1))
    others[:, factor] = np.arange(len(others))
    errors = np.mean((dataset.images_of(others) - frame) ** 2, axis=(1, 2, 3))
    return int(np.argmin(errors))


@pytest.mark.parametrize("size", [64, pytest.param(128, marks=pytest.mark.slow)])
def test_any_image_size_shows_the_same_scene(size):
    dataset = datasets.load("mini_shapes3d", image_size=size)
    images = dataset.images_of([[0, 3, 6, 4, 3, 2], [5, 1, 8, 0, 0, 14]])
    assert images.shape == (2, size, size, 3)
    small = images.reshape(2, 32, size // 32, 32, size // 32, 3).mean(axis=(2, 4))
    reference = datasets.load("mini_shapes3d", image_size=32).images_of(
        [[0, 3, 6, 4, 3, 2], [5, 1, 8, 0, 0, 14]]
    )
    assert np.mean(np.abs(small - reference)) < 0.01


def test_buffers_are_shared_within_the_process(dataset):
    again = datasets.load("mini_shapes3d", image_size=32)
    assert again._buffers is dataset._buffers


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([[0, 0, 0]], r"shape \(n, 6\)"),
        ([[0, 0, 0, 8, 0, 0]], "'scale' has values 0 to 7"),
        ([[0, 0, 0, -1, 0, 0]], "'scale' has values 0 to 7"),
        ([[0.0] * 6], "integer"),
    ],
)
def test_bad_sources_are_refused(dataset, sources, message):
    with pytest.raises(ValueError, match=message):
        dataset.images_of(sources)


def test_bad_size_and_name_are_refused():
    with pytest.raises(ValueError, match="image_size"):
        datasets.load("mini_shapes3d", image_size=2)
    with pytest.raises(ValueError, match="mini_shapes3d"):
        datasets.load("maxi_shapes3d")
