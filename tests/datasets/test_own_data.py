"""Own images: arrays, folders, tables with gaps, pictures that are broken."""

import io

import numpy as np
import pytest
from PIL import Image

from qlayers import datasets
from qlayers.datasets.factor_columns import code_columns
from qlayers.datasets.readers import DatasetFileError
from qlayers.datasets.samplers import (
    CorrelatedSampler,
    FixedFactorSampler,
    ShuffledSampler,
)
from qlayers.metrics import beta_vae_score, factor_vae_score
from tests.datasets.published_files import pictures
from tests.datasets.test_fuzz import damaged

KINDS = ["cat", "dog", "cow", "dog", "cat", "dog"]
AGES = [1, 30, 2, 2, 1, 30]


def _numbered(n=6, size=8):
    """Every image shows its number."""
    return np.broadcast_to(
        np.arange(n, dtype=np.uint8)[:, None, None, None], (n, size, size, 3)
    ).copy()


def _table_dataset():
    sources = np.array([KINDS, AGES], dtype=object).T
    return datasets.from_arrays(_numbered(), sources, names=["kind", "age"])


def _shown(images):
    return images[:, 0, 0, 0].tolist()


def test_words_and_numbers_become_factors():
    dataset = _table_dataset()
    assert dataset.factor_names == ("kind", "age")
    assert dataset.factor_sizes == (3, 3)
    assert dataset.space.values == (("cat", "cow", "dog"), ("1", "2", "30"))
    assert dataset.num_images == 6
    sources, images = dataset.evaluation_set(dtype="uint8")
    assert sorted(_shown(images)) == list(range(6))
    for source, number in zip(sources, _shown(images), strict=True):
        assert dataset.space.value_name("kind", source[0]) == KINDS[number]
        assert int(dataset.space.value_name("age", source[1])) == AGES[number]


def test_sources_and_images_of_a_stream_belong_together():
    dataset = _table_dataset()
    whole, numbered = dataset.evaluation_set(dtype="uint8")
    known = dict(zip(_shown(numbered), whole.tolist(), strict=True))
    stream = dataset.as_tf_dataset(
        4, seed=3, sampler=ShuffledSampler(), with_sources=True, dtype="uint8"
    )
    batches = list(stream.take(3))
    for images, sources in batches:
        assert [known[n] for n in _shown(images.numpy())] == sources.numpy().tolist()
    seen = [n for images, _ in batches for n in _shown(images.numpy())]
    assert sorted(seen[:6]) == sorted(seen[6:]) == list(range(6))


def test_images_by_their_sources():
    dataset = _table_dataset()
    # Images 1 and 5 are both dogs of 30 years; over many seeds both are shown.
    seen = {_shown(dataset.images_of([[2, 2]], s, dtype="uint8"))[0] for s in range(40)}
    assert seen == {1, 5}
    assert dataset.has_images_of([[2, 2], [1, 1], [1, 0]]).tolist() == [
        True,
        True,
        False,
    ]
    with pytest.raises(ValueError, match=r"no image with the sources \[1, 0\]"):
        dataset.images_of([[1, 0]])
    sources, images = dataset.sample(
        30, sampler=FixedFactorSampler("kind", 2), dtype="uint8"
    )
    assert set(sources[:, 0]) == {2}
    assert set(_shown(images)) == {1, 3, 5}
    with pytest.raises(ValueError, match="the combinations it has"):
        dataset.sample(3, sampler=CorrelatedSampler({("kind", "age"): 0.2}))


def test_many_factors_do_not_collide():
    """More combinations than 64 bits can count."""
    sources = np.random.default_rng(0).integers(0, 50, (40, 14))
    dataset = datasets.from_arrays(_numbered(40), sources)
    ranks, images = dataset.evaluation_set(dtype="uint8")
    assert _shown(dataset.images_of(ranks, dtype="uint8")) == _shown(images)


def test_measurements_are_binned():
    ages = np.random.default_rng(0).gamma(3.0, 10.0, 500)
    ranks, space = code_columns([ages], ["age"])
    assert space.sizes == (10,)
    assert np.bincount(ranks[:, 0]).tolist() == [50] * 10
    order = np.argsort(ages)
    assert np.all(np.diff(ranks[order, 0]) >= 0)
    low, high = space.values[0][3].split(" to ")
    inside = ages[ranks[:, 0] == 3]
    assert float(low) == pytest.approx(inside.min(), rel=1e-5)
    assert float(high) == pytest.approx(inside.max(), rel=1e-5)


def test_a_word_among_measurements_is_refused():
    generator = np.random.default_rng(0)
    column = [f"{value:.4f}" for value in generator.normal(size=200)]
    assert code_columns([column], ["weight"])[1].sizes == (10,)
    column[7] = "NA"
    with pytest.raises(ValueError, match=r"has \d+ different numbers, and 'NA'"):
        code_columns([column], ["weight"])
    few = [*"12345" * 40, "other"]  # a list of cases, one of them a word
    assert code_columns([few], ["kind"])[1].sizes == (6,)


def test_words_that_do_not_repeat_are_no_factor():
    names = [f"image {i}" for i in range(200)]
    with pytest.raises(ValueError, match="200 different words in 200 images"):
        code_columns([names], ["name"])
    species = [f"species {i % 80}" for i in range(200)]
    assert code_columns([species], ["species"])[1].sizes == (80,)


@pytest.mark.parametrize(
    ("labels", "count"),
    [
        ([["cat"], ["dog"], [np.nan], ["cat"]], 1),
        ([["cat"], [None], [np.nan], ["cat"]], 2),
        (np.array([["cat"], ["dog"], [None], ["cat"]], object), 1),
        (np.array([[1], [2], ["NaT"], [1]], "m8[s]"), 1),
    ],
)
def test_missing_labels_are_refused(labels, count):
    with pytest.raises(ValueError, match=rf"'kind' lacks {count} of 4 labels"):
        datasets.from_arrays(_numbered(4), labels, names=["kind"])


def test_fingerprints_tell_images_and_labels_apart():
    images, labels = _numbered(4), [["a"], ["b"], ["a"], ["b"]]
    first = datasets.from_arrays(images, labels).fingerprint
    assert datasets.from_arrays(images.copy(), labels).fingerprint == first
    changed = images.copy()
    changed[2, 0, 0, 0] += 1
    others = [
        datasets.from_arrays(changed, labels),
        datasets.from_arrays(images, labels[::-1]),
        datasets.from_arrays(images),
    ]
    assert len({first, *(dataset.fingerprint for dataset in others)}) == 4
    assert datasets.load("mini_shapes3d", image_size=16).fingerprint is None


def test_images_without_labels():
    images = np.random.default_rng(0).random((5, 8, 8)).astype(np.float32)
    dataset = datasets.from_arrays(images)
    assert dataset.factor_names == dataset.factor_sizes == ()
    sources, shown = dataset.sample(7)
    assert sources.shape == (7, 0)
    assert shown.shape == (7, 8, 8, 1)
    batch = next(iter(dataset.as_tf_dataset(3)))
    assert batch.shape == (3, 8, 8, 1)
    _, whole = dataset.evaluation_set()
    expected = sorted(np.rint(images * 255).astype(int).sum(axis=(1, 2)).tolist())
    assert sorted(np.rint(whole * 255).sum(axis=(1, 2, 3)).tolist()) == expected
    with pytest.raises(ValueError, match="no labels"):
        dataset.images_of(np.zeros((1, 0), int))
    with pytest.raises(ValueError, match="Images without labels have no such score"):
        factor_vae_score(dataset, lambda x: x.reshape(len(x), -1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"images": np.zeros((3, 8))}, "shape"),
        ({"images": np.zeros((3, 8, 8, 4), np.uint8)}, "1 or 3"),
        ({"images": np.full((3, 8, 8), 7.0)}, r"in \[0, 1\]"),
        ({"images": np.zeros((3, 8, 8), int)}, "uint8 or real"),
        ({"images": np.zeros((3, 8, 8)), "sources": [[1], [2]]}, r"\(3, factors\)"),
        ({"images": np.zeros((3, 8, 8)), "names": ["a"]}, "need `sources`"),
        (
            {"images": np.zeros((2, 8, 8)), "sources": [[1], [2]], "names": ["a", "b"]},
            "1 columns",
        ),
        ({"images": np.zeros((2, 8, 8)), "sources": [[1], [np.nan]]}, "lacks 1 of 2"),
        ({"images": np.zeros((2, 8, 8)), "sources": [[1], [np.inf]]}, "not finite"),
    ],
)
def test_bad_arrays(arguments, message):
    with pytest.raises(ValueError, match=message):
        datasets.from_arrays(**arguments)


def test_sampled_scores_on_a_table_with_gaps():
    """A perfect encoder scores 1 although a third of the combinations is missing."""
    grid = np.stack(np.unravel_index(np.arange(60), (3, 4, 5)), axis=1)
    kept = np.random.default_rng(1).permutation(60)[:40]
    images = np.zeros((40, 4, 4, 3), np.uint8)
    images[:, 0, 0] = grid[kept] * 50
    dataset = datasets.from_arrays(images, grid[kept], names=["a", "b", "c"])
    seen = []

    def encode(shown):
        seen.append(np.rint(shown[:, 0, 0] * 5.1).astype(int))
        return shown[:, 0, 0]

    settings = {"num_train": 300, "num_eval": 100, "batch_size": 16, "verbose": False}
    assert factor_vae_score(dataset, encode, **settings).score == 1.0
    assert beta_vae_score(dataset, encode, **settings).score > 0.9
    drawn = {tuple(row) for row in np.concatenate(seen)}
    assert drawn <= {tuple(row) for row in grid[kept]}


def test_factors_that_no_two_images_share_are_not_scored():
    sources = np.stack([np.arange(20), np.arange(20) % 4], axis=1)
    dataset = datasets.from_arrays(_numbered(20), sources, names=["id", "kind"])
    assert dataset.shared_factors == (1,)
    first, second = dataset.draw_sharing(1, 50, 2, np.random.default_rng(0))
    np.testing.assert_array_equal(first[:, 1], second[:, 1])
    assert np.any(first[:, 0] != second[:, 0])
    alone = datasets.from_arrays(_numbered(20), sources[:, :1])
    with pytest.raises(ValueError, match="which several images share"):
        beta_vae_score(alone, lambda x: x[:, 0, 0])


@pytest.fixture
def photos(tmp_path):
    """Four pictures of other formats, shapes and modes, and a table with gaps."""
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    Image.new("RGB", (40, 20), (255, 0, 0)).save(folder / "red.png")
    Image.new("L", (10, 30), 128).save(folder / "grey.bmp")
    Image.new("RGBA", (16, 16), (0, 0, 255, 0)).save(folder / "glass.png")
    Image.new("RGB", (33, 33), (0, 255, 0)).save(folder / "more" / "green.gif")
    (folder / "notes.txt").write_text("no picture")
    (folder / "labels.csv").write_text(
        "file,colour,weight\nred.png,red,1.5\ngrey.bmp,grey,2\n\n"
        'more/green.gif,"green, dark",2\n'
    )
    return folder


def test_folder_with_a_table(photos):
    dataset = datasets.from_folder(photos, image_size=16)
    assert dataset.factor_names == ("colour", "weight")
    assert dataset.space.values == (("green, dark", "grey", "red"), ("1.5", "2"))
    assert dataset.num_images == 3
    assert dataset.image_shape == (16, 16, 3)
    image = dataset.images_of([[2, 0]], dtype="uint8")[0]
    assert np.all(image == (255, 0, 0))
    image = dataset.images_of([[0, 1]], dtype="uint8")[0]
    assert np.all(image == (0, 255, 0))


def test_folder_without_a_table(photos):
    dataset = datasets.from_folder(photos, table=None, image_size=16)
    assert dataset.num_images == 4
    assert dataset.factor_names == ()
    (photos / "labels.csv").unlink()
    assert datasets.from_folder(photos, image_size=16).num_images == 4
    with pytest.raises(DatasetFileError, match=r"other\.csv: there is no such file"):
        datasets.from_folder(photos, table="other.csv")
    loaded = datasets.load("folder", data_dir=str(photos), image_size=16, fit="pad")
    # The picture of 40x20 has black borders above and below.
    red = next(
        i
        for i in loaded.evaluation_set(dtype="uint8")[1]
        if i[8, 8, 0] == 255 and i[8, 8, 1] == 0
    )
    assert np.all(red[0] == 0)
    assert np.all(red[8] == (255, 0, 0))
    # What is transparent is white.
    glass = [i for i in loaded.evaluation_set(dtype="uint8")[1] if i.min() == 255]
    assert len(glass) == 1
    with pytest.raises(ValueError, match="needs `data_dir`"):
        datasets.load("folder")


def test_shapes_become_square_by_the_named_rule(tmp_path):
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 255
    Image.fromarray(wide).save(tmp_path / "wide.png")

    def load(fit):
        return datasets.from_folder(tmp_path, image_size=30, fit=fit).evaluation_set(
            dtype="uint8"
        )[1][0]

    assert load("crop")[:, 2:-2].min() > 240
    stretched = load("stretch")
    assert stretched[:, :8].max() < 20
    assert stretched[:, 12:18].min() > 240
    padded = load("pad")
    assert padded[:9].max() == 0
    assert padded[12:18, 12:18].min() > 240
    with pytest.raises(ValueError, match="`fit` must be one of"):
        load("squeeze")


@pytest.mark.parametrize("channels", [1, 3])
def test_grey_values_of_many_bits_keep_their_order(tmp_path, channels):
    """Pillow's own conversion makes all values above 255 white."""
    ramp = np.linspace(0, 1, 8)
    ramp = np.repeat(ramp[None], 8, axis=0)
    sixteen = np.rint(65_535 * ramp)
    made = {
        "a.png": np.rint(255 * ramp).astype(np.uint8),
        "b.png": sixteen.astype(np.uint16),
        "c.tif": sixteen.astype(np.uint16),
        "d.tif": sixteen.astype(np.int32),
        "e.tif": ramp.astype(np.float32),
    }
    for name, pixels in made.items():
        Image.fromarray(pixels).save(tmp_path / name)
    dataset = datasets.from_folder(tmp_path, image_size=8, channels=channels)
    for image in dataset._images[1:]:
        np.testing.assert_array_equal(image, dataset._images[0])


def test_transparent_grey_is_white_with_any_bits(tmp_path):
    eight = np.array([[0, 80], [160, 255]], np.uint8)
    Image.fromarray(eight).save(tmp_path / "a.png", transparency=0)
    sixteen = eight.astype(np.uint16) * 257
    Image.fromarray(sixteen).save(tmp_path / "b.png", transparency=0)
    first, second = datasets.from_folder(tmp_path, image_size=4)._images
    np.testing.assert_array_equal(first, second)
    assert first[0, 0].min() > 200


def test_grey_values_without_a_known_scale_are_refused(tmp_path):
    pixels = np.linspace(-500, 1500, 64).reshape(8, 8).astype(np.float32)
    Image.fromarray(pixels).save(tmp_path / "ct.tif")
    with pytest.raises(DatasetFileError, match="grey values from -500 to 1500"):
        datasets.from_folder(tmp_path, image_size=8)


def test_broken_pictures_are_named_and_skipped_or_refused(photos, capfd):
    for name, content in (("empty.png", b""), ("cut.jpg", _cut_jpeg())):
        (photos / name).write_bytes(content)
    with (photos / "labels.csv").open("a") as table:
        table.write("cut.jpg,red,2\nabsent.png,red,2\n")
    with pytest.raises(DatasetFileError, match=r"cut\.jpg: cannot be read"):
        datasets.from_folder(photos)
    dataset = datasets.from_folder(photos, on_bad_image="skip", image_size=16)
    assert dataset.num_images == 3
    assert [name.rsplit("/", 1)[1] for name in dataset.skipped] == [
        "cut.jpg",
        "absent.png",
    ]
    said = capfd.readouterr().err
    assert "Left out 2 of 5 pictures" in said
    assert "cut.jpg" in said
    # Labels stay with their pictures.
    np.testing.assert_array_equal(
        dataset.images_of([[2, 0]], dtype="uint8")[0, 0, 0], (255, 0, 0)
    )
    with pytest.raises(DatasetFileError, match=r"(cut\.jpg|empty\.png): cannot"):
        datasets.from_folder(photos, table=None)
    with pytest.raises(ValueError, match="'error' or 'skip'"):
        datasets.from_folder(photos, on_bad_image="ignore")


def _cut_jpeg():
    stream = io.BytesIO()
    Image.fromarray(pictures(1, 64, 64, 3)[0]).save(stream, "JPEG")
    return stream.getvalue()[:500]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "first line must name the columns"),
        ("picture,colour\nred.png,red\n", "one of them 'file'"),
        ("file,colour,colour\nred.png,red,red\n", "first line"),
        ("file,colour\n", "lists no pictures"),
        ("file,colour\nred.png,red,extra\n", "line 2 has a missing or an extra cell"),
        ("file,colour\nred.png,\n", "line 2"),
        ("file,colour\n../secret.png,red\n", "outside of"),
        ("file,colour\n/etc/passwd,red\n", "outside of"),
    ],
)
def test_bad_tables(photos, text, message):
    (photos / "labels.csv").write_text(text)
    with pytest.raises(DatasetFileError, match=message) as caught:
        datasets.from_folder(photos)
    assert "labels.csv" in str(caught.value)
    (photos / "labels.csv").write_bytes(b"\xff\xfe\x00file")
    with pytest.raises(DatasetFileError, match=r"labels\.csv"):
        datasets.from_folder(photos)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_damaged_pictures(tmp_path, kind):
    """Hundreds of broken pictures: every one is read or left out by its name."""
    stream = io.BytesIO()
    Image.fromarray(pictures(1, 24, 20, 3)[0]).save(stream, kind)
    generator = np.random.default_rng(3)
    Image.new("RGB", (8, 8)).save(tmp_path / "sound.png")
    for number in range(150):
        broken = damaged(stream.getvalue(), generator)
        (tmp_path / f"{number}.{kind.lower()}").write_bytes(broken)
    dataset = datasets.from_folder(tmp_path, on_bad_image="skip", image_size=8)
    assert dataset.num_images + len(dataset.skipped) == 151
    assert len(dataset.skipped) > 20
