"""Damaged checkpoints are put aside, and the one before is used."""

import io
import json
import zipfile

import keras
import numpy as np
import pytest

from experiments.storage.checkpoints import (
    CheckpointStore,
    Snapshot,
    read_snapshot,
    take_snapshot,
    write_snapshot,
)
from experiments.storage.step_table import StepTable
from qlayers.callbacks import CheckpointSelection
from qlayers.files import DamagedFileError, KerasFile


def small_snapshot(step: int = 3) -> Snapshot:
    generator = np.random.default_rng(step)
    arrays = [generator.normal(size=(3, 4)).astype("float32"), np.arange(5)]
    return Snapshot(step, [*arrays, np.float32(0.5) * np.ones(())], {"best": 0.25})


def same(ours: Snapshot, theirs: Snapshot) -> bool:
    pairs = zip(ours.arrays, theirs.arrays, strict=True)
    equal = all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)
    return equal and (ours.step, ours.state) == (theirs.step, theirs.state)


def assert_read_or_refused(tmp_path, cases: int) -> None:
    """A flipped bit leads to the same numbers or to the documented error."""
    path = tmp_path / "step-000000003.npz"
    wanted = small_snapshot()
    write_snapshot(path, wanted)
    assert same(read_snapshot(path), wanted)
    sound = path.read_bytes()
    generator = np.random.default_rng(11)
    refused = 0
    for case in range(cases):
        content = bytearray(sound)
        for place in generator.integers(0, 8 * len(sound), 1 + case % 3):
            content[place // 8] ^= 1 << (place % 8)
        if case % 7 == 0:
            del content[int(generator.integers(len(sound))) :]
        path.write_bytes(content)
        try:
            found = read_snapshot(path)
        except DamagedFileError as error:
            assert str(path) in str(error)
            refused += 1
        else:
            assert same(found, wanted)
    assert refused > 0.5 * cases


def test_damaged_checkpoints_are_refused_or_harmless(tmp_path):
    assert_read_or_refused(tmp_path, 600)


@pytest.mark.slow
def test_thousands_of_damaged_checkpoints(tmp_path):
    assert_read_or_refused(tmp_path, 12_000)


def without(path, name):
    """Leaves one entry out of an archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(stream, "w") as new:
        for info in old.infolist():
            if info.filename != name:
                new.writestr(info, old.read(info))
    path.write_bytes(stream.getvalue())


def with_state(path, state):
    with np.load(path) as file:
        entries = dict(file)
    entries["state"] = np.frombuffer(json.dumps(state).encode(), np.uint8)
    np.savez(path, **entries)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: without(path, "v00002.npy"),
        lambda path: without(path, "v00000.npy"),
        lambda path: without(path, "state.npy"),
        lambda path: with_state(path, [1, 2]),
        lambda path: with_state(path, {"step": "three", "variables": 3}),
        lambda path: with_state(path, {"step": 3, "variables": 1e9}),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"PK\3\4" + bytes(100)),
    ],
)
def test_a_file_that_lacks_something_is_put_aside(tmp_path, damage):
    said = []
    store = CheckpointStore(tmp_path, report=said.append)
    for step in (3, 5):
        write_snapshot(store.path_of(step), small_snapshot(step))
    damage(store.path_of(5))
    assert same(store.latest(), small_snapshot(3))
    assert "step-000000005.npz is damaged" in said[0]
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".npz", ".damaged"]


def tiny_model() -> keras.Model:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def test_values_that_are_not_finite_and_other_shapes_are_put_aside(tmp_path):
    model = tiny_model()
    store = CheckpointStore(tmp_path, keep=3, report=lambda text: None)
    good = take_snapshot(model, 1)
    bad = take_snapshot(model, 2)
    bad.arrays[0][0, 0] = np.nan
    misfit = take_snapshot(model, 3)
    misfit.arrays[0] = np.zeros((4, 2), "float32")
    for snapshot in (good, bad, misfit):
        write_snapshot(store.path_of(snapshot.step), snapshot)
    assert same(store.latest(model), good)
    assert [path.name for path in store.files()] == ["step-000000001.npz"]


def test_checkpoints_of_other_code_are_not_taken_for_damaged(tmp_path):
    """None fits: the model has changed, and nothing is thrown away."""
    store = CheckpointStore(tmp_path, report=lambda text: None)
    for step in (3, 5):
        write_snapshot(store.path_of(step), small_snapshot(step))
    with pytest.raises(ValueError, match="step 5 does not fit this model"):
        store.latest(tiny_model())
    assert len(store.files()) == 2


def test_a_wrong_bit_in_the_best_weights_is_noticed(tmp_path):
    model, other = tiny_model(), tiny_model()
    rule = CheckpointSelection(tmp_path / "best.weights.h5", "score")
    rule.save(model, 4, {"score": 0.5})
    for variable in other.variables:
        variable.assign(variable + 1.0)
    assert rule.load(other)["step"] == 4
    for ours, theirs in zip(other.weights, model.weights, strict=True):
        np.testing.assert_array_equal(np.array(ours), np.array(theirs))
    content = bytearray((tmp_path / "best.weights.h5").read_bytes())
    kernel = np.array(model.weights[0]).tobytes()
    content[bytes(content).index(kernel)] ^= 1
    (tmp_path / "best.weights.h5").write_bytes(content)
    # Keras itself loads it, with a number that is none of the model's.
    other.load_weights(KerasFile("best.weights.h5", bytes(content)))
    with pytest.raises(DamagedFileError, match="checksum"):
        rule.load(other)


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"value": "high"}', "\udcff"])
def test_a_damaged_record_of_the_best_weights_is_named(tmp_path, text):
    rule = CheckpointSelection(tmp_path / "best.weights.h5", "score")
    rule.save(tiny_model(), 4, {"score": 0.5})
    rule.record.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DamagedFileError, match=r"best\.weights\.h5\.json is damaged"):
        rule.best()


@pytest.mark.parametrize(
    "line", [b"3", b"[1]", b'{"loss": 1}', b'{"step": "x"}', b"\xff\xfe", b"{"]
)
def test_rows_behind_a_damaged_one_are_left_out(tmp_path, line):
    table = StepTable(tmp_path / "history.jsonl")
    table.append({"step": 2})
    with open(table.path, "ab") as file:
        file.write(line + b"\n")
    table.append({"step": 6})
    assert table.read() == [{"step": 2}]
    table.cut_after(6)
    table.append({"step": 4})
    assert table.read() == [{"step": 2}, {"step": 4}]
