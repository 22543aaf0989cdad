"""From published file to factor view: content, order, reuse, real frames."""

import itertools
import zipfile

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

from qlayers import datasets
from qlayers.datasets.builders import FactorConfig
from qlayers.datasets.builders.row_checks import label_ranks
from qlayers.datasets.builders.smallnorb_factors import (
    smallnorb_factors_dataset_builder as norb_module,
)
from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.prepared_dataset import PreparedDataset
from qlayers.datasets.readers import DatasetFileError, NpzRows
from qlayers.datasets.record_index import RecordIndex
from qlayers.datasets.resize import resize_bytes
from qlayers.datasets.samplers import ShuffledSampler
from qlayers.datasets.smallnorb import Smallnorb
from qlayers.datasets.spaces import (
    DSPRITES,
    FALCOR3D,
    ISAAC3D,
    MPI3D_COMPLEX,
    SHAPES3D,
    SHAPES3D_VALUES,
    SMALLNORB,
)
from tests.datasets import published_files
from tests.datasets.test_builders import TESTING, TRAINING


def _load(name, tmp_path, file, **options):
    return datasets.load(
        name, data_dir=str(tmp_path / "data"), file=file, allow_partial=True, **options
    )


def _smooth(n, size):
    """Pictures without the finest detail, on which resizing methods agree."""
    rows, columns = np.mgrid[0:size, 0:size] / size
    waves = [
        np.sin(2 * np.pi * (k * rows + (3 - k) * columns) + channel)
        for k in range(n)
        for channel in range(3)
    ]
    stacked = np.stack(waves).reshape(n, 3, size, size).transpose(0, 2, 3, 1)
    return np.rint(127.5 + 120 * stacked).astype(np.uint8)


def test_shapes3d_images_come_back_by_source(tmp_path):
    images = published_files.write_shapes3d(tmp_path / "3dshapes.h5", n=40)
    dataset = _load("shapes3d", tmp_path, tmp_path / "3dshapes.h5")
    assert isinstance(dataset, PreparedDataset)
    assert dataset.factor_sizes == (10, 10, 10, 8, 4, 15)
    assert dataset.num_images == 40
    order = [31, 0, 17, 39]
    sources = np.stack(np.unravel_index(order, dataset.factor_sizes), axis=1)
    np.testing.assert_array_equal(
        dataset.images_of(sources, dtype="uint8"), images[order]
    )
    drawn, shown = dataset.sample(64, seed=0, dtype="uint8")
    index = np.ravel_multi_index(tuple(drawn.T), dataset.factor_sizes)
    np.testing.assert_array_equal(shown, images[index])
    with pytest.raises(ValueError, match="only the first 40"):
        dataset.images_of([[1, 0, 0, 0, 0, 0]])


def test_first_images_of_the_split_are_those_that_tfds_stored_first(tmp_path):
    """TensorFlow's own reader gives the order."""
    images = published_files.write_shapes3d(tmp_path / "3dshapes.h5", n=40)
    dataset = _load("shapes3d", tmp_path, tmp_path / "3dshapes.h5")
    files = sorted(map(str, (tmp_path / "data").rglob("*.tfrecord*")))
    stored = [
        tf.io.decode_png(
            tf.train.Example.FromString(record)
            .features.feature["image"]
            .bytes_list.value[0]
        ).numpy()
        for record in tf.data.TFRecordDataset(files).as_numpy_iterator()
    ]
    sources, first = dataset.split_set(25, dtype="uint8")
    np.testing.assert_array_equal(first, stored[:25])
    index = dataset.space.index_of(sources)
    np.testing.assert_array_equal(images[index], first)
    # It is no corner of the grid, and it holds no image twice.
    assert len(set(index)) == 25 and list(index) != list(range(25))
    assert len(dataset.split_set(100)[0]) == 40
    with pytest.raises(ValueError, match="no split"):
        datasets.load("mini_shapes3d", image_size=16).split_set(3)


def test_prepared_stream_shows_every_image_and_resumes(tmp_path):
    images = published_files.write_npz(tmp_path / "part.npz", n=30)
    dataset = _load("mpi3d", tmp_path, tmp_path / "part.npz")
    stream = dataset.as_tf_dataset(
        10, seed=4, sampler=ShuffledSampler(), with_sources=True, dtype="uint8"
    )
    batches = list(stream.take(3))
    index = np.concatenate([dataset.space.index_of(s.numpy()) for _, s in batches])
    assert sorted(index) == list(range(30))
    shown = np.concatenate([x.numpy() for x, _ in batches])
    np.testing.assert_array_equal(shown, images[index])
    iterator = iter(stream)
    next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "position"))
    restored = iter(stream)
    tf.train.Checkpoint(iterator=restored).restore(path)
    np.testing.assert_array_equal(next(restored)[0], batches[1][0])


def test_second_load_reuses_what_is_prepared(tmp_path):
    file = tmp_path / "part.npz"
    published_files.write_npz(file)
    first = _load("mpi3d", tmp_path, file)
    records = sorted((tmp_path / "data").rglob("*.tfrecord*"))
    written = [record.stat().st_mtime_ns for record in records]
    second = _load("mpi3d", tmp_path, file)
    assert written == [record.stat().st_mtime_ns for record in records]
    sources = first.sample(5)[0]
    np.testing.assert_array_equal(first.images_of(sources), second.images_of(sources))


def test_partial_samples_are_kept_apart_from_each_other(tmp_path):
    for n in (6, 9):
        published_files.write_npz(tmp_path / "part.npz", n=n)
        assert _load("mpi3d", tmp_path, tmp_path / "part.npz").num_images == n
    with pytest.raises(DatasetFileError, match=r"holds 9 images.*460800"):
        datasets.load(
            "mpi3d", data_dir=str(tmp_path / "data"), file=tmp_path / "part.npz"
        )


def test_picture_index_is_made_anew_when_damaged(tmp_path):
    file = tmp_path / "part.npz"
    images = published_files.write_npz(file)
    _load("mpi3d", tmp_path, file)
    (notes,) = (tmp_path / "data").rglob("picture_index.npz")
    for damage in (b"", b"PK\x03\x04 nonsense", notes.read_bytes()[:200]):
        notes.write_bytes(damage)
        dataset = _load("mpi3d", tmp_path, file)
        sources = dataset.space.sources_of(np.arange(6))
        np.testing.assert_array_equal(dataset.images_of(sources, dtype="uint8"), images)


@pytest.mark.parametrize(
    ("name", "folder", "labels", "space"),
    [
        ("falcor3d", "Falcor3D_down128", "train-rec.labels", FALCOR3D),
        ("isaac3d", "Isaac3D_down128", "labels.npy", ISAAC3D),
    ],
)
def test_nvidia_pictures_are_resized_as_pillow_does(
    tmp_path, name, folder, labels, space
):
    file = tmp_path / f"{folder}.zip"
    images = _smooth(7, 128)
    published_files.write_png_archive(file, folder, labels, space.sizes, images)
    dataset = _load(name, tmp_path, file)
    sources = space.sources_of(np.arange(7))
    shown = dataset.images_of(sources, dtype="uint8")
    expected = [
        np.array(Image.fromarray(image).resize((64, 64), Image.Resampling.BICUBIC))
        for image in images
    ]
    assert np.abs(shown.astype(int) - np.array(expected)).max() <= 1
    assert np.abs(shown - _cubic_halving(images)).max() < 0.51
    large = _load(name, tmp_path, file, image_size=128)
    np.testing.assert_array_equal(large.images_of(sources, dtype="uint8"), images)


def test_stored_zip_members_and_small_image_sizes(tmp_path):
    images = _smooth(3, 128)
    file = tmp_path / "Isaac3D_down128.zip"
    published_files.write_png_archive(
        file,
        "Isaac3D_down128",
        "labels.npy",
        ISAAC3D.sizes,
        images,
        compression=zipfile.ZIP_STORED,
    )
    dataset = _load("isaac3d", tmp_path, file, image_size=32)
    assert dataset.image_shape == (32, 32, 3)
    shown = dataset.images_of(ISAAC3D.sources_of(np.arange(3)), dtype="uint8")
    expected = [
        np.array(Image.fromarray(image).resize((32, 32), Image.Resampling.BICUBIC))
        for image in images
    ]
    assert np.abs(shown.astype(int) - np.array(expected)).max() <= 2


def test_cars_are_numbered_by_the_list(tmp_path):
    file = tmp_path / "nips2015-analogy-data.tar.gz"
    cars = published_files.write_cars(file, num_cars=3)
    dataset = _load("cars3d", tmp_path, file)
    assert dataset.factor_names == ("elevation", "azimuth", "object")
    assert dataset.factor_sizes == (4, 24, 3)
    for elevation, azimuth, car in [(0, 0, 0), (3, 23, 2), (1, 7, 1)]:
        shown = dataset.images_of([[elevation, azimuth, car]], dtype="uint8")[0]
        picture = Image.fromarray(cars[car, :, :, :, azimuth, elevation])
        expected = np.array(picture.resize((64, 64), Image.Resampling.BICUBIC))
        assert np.abs(shown.astype(int) - expected).max() <= 1


def test_smallnorb_draws_the_toy_and_reports_four_factors(tmp_path):
    sizes = (2, 3, 2, 2, 2)
    grid = np.array(list(itertools.product(*map(range, sizes))))
    np.random.default_rng(0).shuffle(grid)
    parts = {TRAINING: grid[grid[:, 1] == 1], TESTING: grid[grid[:, 1] != 1]}
    written = published_files.write_smallnorb(tmp_path, parts)
    config = FactorConfig(
        name="tiny",
        space=FactorSpace(SMALLNORB.names, sizes),
        image_shape=(64, 64, 1),
        file=str(tmp_path / "any"),
    )
    builder = norb_module.Builder(config=config, data_dir=str(tmp_path / "data"))
    builder.download_and_prepare()
    records = RecordIndex(
        builder.info.splits["train"].filepaths,
        lambda e: e.features.feature["index"].int64_list.value[0],
    )
    toys = PreparedDataset("smallnorb", builder.space, records, (64, 64, 1))
    for stem, rows in parts.items():
        expected = resize_bytes(written[stem][:, 0, :, :, None], 64)
        np.testing.assert_array_equal(toys.images_of(rows, dtype="uint8"), expected)
    dataset = Smallnorb(toys)
    assert dataset.factor_names == ("category", "elevation", "azimuth", "lighting")
    assert dataset.factor_sizes == (2, 2, 2, 2)
    assert dataset.num_images == 48
    ten = np.array([[1, 0, 1, 0]] * 40)
    shown = {image.tobytes() for image in dataset.images_of(ten, seed=3, dtype="uint8")}
    possible = toys.images_of([[1, toy, 0, 1, 0] for toy in range(3)], dtype="uint8")
    assert shown == {image.tobytes() for image in possible}
    images, sources = next(
        iter(dataset.as_tf_dataset(16, seed=2, with_sources=True, dtype="uint8"))
    )
    np.testing.assert_array_equal(
        images, dataset.images_of(sources.numpy(), seed=2, dtype="uint8")
    )


def _write_sprites(path):
    classes = np.array(list(itertools.product(*map(range, (3, 2, 2, 2, 2)))))
    masks = published_files.pictures(len(classes), 64, 64) % 2
    np.savez(path, imgs=masks, latents_classes=classes)
    return classes, masks


def test_dsprites_sub_grid_and_colours(tmp_path):
    file = tmp_path / "sprites.npz"
    classes, masks = _write_sprites(file)
    grey = _load("dsprites", tmp_path, file)
    assert grey.factor_sizes == (3, 2, 2, 2, 2)
    np.testing.assert_array_equal(
        grey.images_of(classes, dtype="uint8")[..., 0], 255 * masks
    )
    coloured = _load("color_dsprites", tmp_path, file)
    assert coloured.image_shape == (64, 64, 3)
    assert coloured.factor_names == DSPRITES.names
    images = coloured.images_of(classes, seed=1, dtype="uint8")
    assert np.all(images[masks == 0] == 0)
    colours = [
        np.unique(image[mask == 1], axis=0)
        for image, mask in zip(images, masks, strict=True)
    ]
    assert all(len(colour) == 1 for colour in colours)
    assert np.min(colours) >= 127
    assert len(np.unique(np.concatenate(colours), axis=0)) == len(classes)
    again = coloured.images_of(classes, seed=2, dtype="uint8")
    assert not np.array_equal(images, again)
    batch, sources = next(
        iter(coloured.as_tf_dataset(8, seed=6, with_sources=True, dtype="uint8"))
    )
    np.testing.assert_array_equal(
        batch, coloured.images_of(sources.numpy(), seed=6, dtype="uint8")
    )


def test_what_tfds_itself_prepared_is_understood(tmp_path):
    """TFDS's builder `shapes3d` stores labels only; its images are found by them."""
    published_files.write_shapes3d(tmp_path / "3dshapes.h5", n=20)
    own = tfds.builder("shapes3d", data_dir=str(tmp_path / "data"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            tfds.download.DownloadManager,
            "download",
            lambda self, url: tmp_path / "3dshapes.h5",
        )
        own.download_and_prepare()
    dataset = datasets.load(
        "shapes3d", data_dir=str(tmp_path / "data"), allow_partial=True
    )
    again = _load("shapes3d", tmp_path / "other", tmp_path / "3dshapes.h5")
    sources = dataset.space.sources_of(np.arange(15))
    np.testing.assert_array_equal(dataset.images_of(sources), again.images_of(sources))
    assert not list((tmp_path / "data").rglob("shapes3d_factors*"))


def test_what_tfds_prepared_of_dsprites_is_not_black(tmp_path):
    """TFDS's builder keeps the zeros and ones of the published file."""
    name = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5"
    file = tmp_path / "data" / "downloads" / "manual" / name
    file.parent.mkdir(parents=True)
    images = published_files.write_dsprites_hdf5(file, n=6)
    own = tfds.builder("dsprites", data_dir=str(tmp_path / "data"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfds.download.DownloadManager, "download", lambda self, url: file)
        own.download_and_prepare()
    dataset = datasets.load(
        "dsprites", data_dir=str(tmp_path / "data"), allow_partial=True
    )
    sources = dataset.space.sources_of(np.arange(6))
    found = dataset.images_of(sources, dtype="uint8")[..., 0]
    np.testing.assert_array_equal(found, 255 * images)
    assert not list((tmp_path / "data").rglob("dsprites_factors*"))


def test_builders_do_not_shadow_those_of_tfds():
    import qlayers.datasets.builders.dsprites_factors.dsprites_factors_dataset_builder
    import qlayers.datasets.builders.shapes3d_factors.shapes3d_factors_dataset_builder  # noqa: F401

    for name in ("shapes3d", "dsprites", "smallnorb"):
        module = tfds.builder_cls(name).__module__
        assert module.startswith("tensorflow_datasets")
    assert "mpi3d" in tfds.list_builders(with_community_datasets=False)


def _cubic_halving(images):
    """Antialiased bicubic reduction to one half, from the definition, in float64."""
    size = images.shape[1]
    centres = 2 * np.arange(size // 2) + 0.5
    distance = np.abs(np.arange(size)[None, :] - centres[:, None]) / 2
    near = 1.5 * distance**3 - 2.5 * distance**2 + 1
    far = -0.5 * distance**3 + 2.5 * distance**2 - 4 * distance + 2
    weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    weights /= weights.sum(axis=1, keepdims=True)
    rows = np.einsum("ir,nrcx->nicx", weights, images.astype(float), optimize=True)
    halved = np.einsum("nicx,jc->nijx", rows, weights, optimize=True)
    return np.clip(halved, 0, 255)


def _frames(shared_data, *parts):
    path = shared_data.joinpath(*parts)
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    with np.load(path, allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files if key != "metadata"}


def test_order_of_real_shapes3d_frames(shared_data):
    real = _frames(shared_data, "shapes3d", "shapes3d_real_25_labelled.npz")
    ranks = label_ranks(shared_data, real["labels"], SHAPES3D_VALUES)
    np.testing.assert_array_equal(SHAPES3D.index_of(ranks), real["index"])
    # The hue of the floor's lower edge is what the first factor says.
    for image, source in zip(real["images"], ranks, strict=True):
        floor = image[62, 4] / 255.0
        hue = Image.fromarray((floor[None, None] * 255).astype(np.uint8)).convert("HSV")
        shown = np.array(hue)[0, 0, 0] / 255
        distance = abs((shown - source[0] / 10 + 0.5) % 1 - 0.5)
        assert distance < 0.05


def test_order_of_real_mpi3d_frames(shared_data):
    real = _frames(shared_data, "mpi3d", "mpi3d_complex_gif_labelled.npz")
    assert tuple(real["factor_sizes"]) == MPI3D_COMPLEX.sizes
    np.testing.assert_array_equal(
        MPI3D_COMPLEX.sources_of(real["index"]), real["labels"]
    )
    # Backgrounds of one colour look alike, those of different colours do not.
    corners = real["images"][:, :8, :8].mean(axis=(1, 2))
    means = np.array(
        [corners[real["labels"][:, 4] == c].mean(axis=0) for c in range(3)]
    )
    within = np.linalg.norm(corners - means[real["labels"][:, 4]], axis=1).mean()
    between = np.linalg.norm(means[:, None] - means, axis=-1)[np.triu_indices(3, 1)]
    assert within < between.min()


@pytest.mark.parametrize(
    ("name", "space"), [("isaac3d", ISAAC3D), ("falcor3d", FALCOR3D)]
)
def test_order_and_resize_of_real_nvidia_frames(shared_data, tmp_path, name, space):
    real = _frames(shared_data, name, f"{name}_real_samples_128.npz")
    assert tuple(real["factor_sizes"]) == space.sizes
    exact = real["index"] >= 0
    assert exact.sum() >= 10
    sources = space.sources_of(real["index"][exact])
    known = real["labels"][exact]
    np.testing.assert_array_equal(np.where(known < 0, sources, known), sources)
    strip = real["strip_factor"][exact]
    shown = sources[np.arange(len(strip)), strip]
    np.testing.assert_array_equal(shown, real["strip_value"][exact])
    resized = resize_bytes(real["images"], 64)
    # Half a level for the rounding to bytes, and a little for float32.
    assert np.abs(resized - _cubic_halving(real["images"])).max() < 0.51


def test_real_dsprites_sub_grid_is_complete_and_in_order(shared_data):
    path = shared_data / "dsprites" / "dsprites_downsampled.npz"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    classes = NpzRows(path, "latents_classes").read(1 << 24)
    sizes = (3, 6, 10, 16, 16)
    space = FactorSpace(DSPRITES.names, sizes)
    np.testing.assert_array_equal(space.index_of(classes), np.arange(46_080))
    whole = DSPRITES.index_of(classes * [1, 1, 4, 2, 2])
    np.testing.assert_array_equal(
        whole, NpzRows(path, "original_dataset_indices").read(1 << 24)
    )


@pytest.mark.slow
def test_real_dsprites_sub_grid_prepared_and_read_back(shared_data, tmp_path):
    path = shared_data / "dsprites" / "dsprites_downsampled.npz"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    dataset = _load("dsprites", tmp_path, path)
    assert dataset.num_images == 46_080
    first = 0
    for masks in NpzRows(path, "imgs").chunks(4096):
        sources = dataset.space.sources_of(np.arange(first, first + len(masks)))
        shown = dataset.images_of(sources, dtype="uint8")[..., 0]
        np.testing.assert_array_equal(shown, 255 * masks)
        first += len(masks)
