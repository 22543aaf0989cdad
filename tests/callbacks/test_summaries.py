"""What the TensorBoard callbacks write, read back from the event files."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import qlayers
from qlayers.callbacks import (
    CodeStatistics,
    ImageSummaries,
    ProjectorFiles,
    ScoreSummaries,
    TrainingScalars,
    write_hyperparameter_columns,
    write_hyperparameters,
)
from qlayers.callbacks.code_statistics import code_frequencies, perplexity_of
from qlayers.metrics import dci, infomec
from qlayers.pixels import figure_pixels, image_grid, to_bytes


def events(folder):
    """All `(step, tag, value)` of the event files in a folder."""
    found = []
    for path in sorted(folder.glob("events*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                found.append((event.step, value.tag, value))
    return found


def scalars(folder):
    return {
        (step, tag): float(tf.make_ndarray(value.tensor))
        for step, tag, value in events(folder)
        if value.metadata.plugin_data.plugin_name == "scalars"
        or (
            value.tensor.dtype == tf.float32.as_datatype_enum
            and not value.tensor.tensor_shape.dim
        )
    }


def pictures(folder, tag):
    """Decoded pictures of a tag."""
    return [
        tf.io.decode_png(tf.make_ndarray(value.tensor)[2]).numpy()
        for _, name, value in events(folder)
        if name == tag
    ]


@pytest.fixture
def model():
    inputs = keras.Input((4,))
    temperature = keras.optimizers.schedules.ExponentialDecay(1.0, 10, 0.5)
    quantizer = qlayers.GumbelQuantizer(
        6, temperature=temperature, kl_weight=0.1, name="codes", seed=0
    )
    outputs = keras.layers.Dense(4)(quantizer(keras.layers.Dense(3)(inputs)))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.25), loss="mse")
    return model


def fit(model, callbacks, steps=20):
    x = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
    data = tf.data.Dataset.from_tensors((x, x)).repeat()
    return model.fit(
        data, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=callbacks
    )


def test_training_scalars(model, tmp_path):
    history = fit(model, [TrainingScalars(tmp_path, 10, batch_size=8)])
    found = scalars(tmp_path)
    assert {step for step, _ in found} == {10, 20}
    last = history.history
    for name in ("loss", "codes_kl"):
        assert found[20, f"train/{name}"] == pytest.approx(last[name][0], rel=1e-5)
    assert found[10, "settings/learning_rate"] == 0.25
    # After t training calls the schedule is at t.
    assert found[10, "settings/codes_temperature"] == pytest.approx(0.5)
    assert found[20, "settings/codes_temperature"] == pytest.approx(0.25)
    speed = found[20, "speed/steps_per_second"]
    assert found[20, "speed/images_per_second"] == pytest.approx(8 * speed, rel=1e-5)


def test_steps_go_on_after_a_second_fit(model, tmp_path):
    callback = TrainingScalars(tmp_path, 5)
    fit(model, [callback], steps=5)
    fit(model, [callback], steps=5)
    assert {step for step, _ in scalars(tmp_path)} == {5, 10}


def test_pictures_survive_an_integer_update_freq(model, tmp_path):
    board = keras.callbacks.TensorBoard(tmp_path / "keras", update_freq=7)
    images = np.random.default_rng(0).random((4, 8, 8, 3))
    watch = ImageSummaries(tmp_path / "ours", images, lambda x: x, every_n_steps=5)
    fit(model, [board, watch], steps=15)
    assert len(pictures(tmp_path / "ours", "reconstructions")) == 3


def test_callbacks_leave_the_running_means_alone(model, tmp_path):
    keras.utils.set_random_seed(0)
    start = [np.array(v) for v in model.variables]
    plain = fit(model, []).history
    for variable, value in zip(model.variables, start, strict=True):
        variable.assign(value)
    x = np.full((50, 4), 3.0, "float32")
    quantizer = model.get_layer("codes")
    head = keras.Model(model.inputs, quantizer.input)

    def codes(inputs):
        model(inputs)  # updates the trackers of the layers
        return np.asarray(quantizer.codes(head(inputs)))

    watched = fit(model, [CodeStatistics(tmp_path, x, codes, [6] * 3, 5)]).history
    assert watched == plain


def test_code_statistics(tmp_path):
    codes = np.array([[0, 2], [0, 1], [0, 2], [0, 0]])
    callback = CodeStatistics(tmp_path, codes, lambda x: x, [4, 3])
    callback.record(30)
    callback.close()
    found = scalars(tmp_path)
    assert found[30, "codes/usage_latent_0"] == 0.25
    assert found[30, "codes/usage_latent_1"] == 1.0
    assert found[30, "codes/perplexity_latent_0"] == pytest.approx(1.0)
    entropy = -(0.5 * np.log(0.5) + 2 * 0.25 * np.log(0.25))
    assert found[30, "codes/perplexity_latent_1"] == pytest.approx(np.exp(entropy))
    bars = {
        tag: tf.make_ndarray(value.tensor)
        for _, tag, value in events(tmp_path)
        if value.metadata.plugin_data.plugin_name == "histograms"
    }
    # Left edge, right edge and count of each code, of unused ones too.
    np.testing.assert_array_equal(
        bars["codes/latent_1"], [[-0.5, 0.5, 1], [0.5, 1.5, 1], [1.5, 2.5, 2]]
    )
    np.testing.assert_array_equal(bars["codes/latent_0"][:, 2], [4, 0, 0, 0])


def test_frequencies_against_counts():
    codes = np.random.default_rng(0).integers(0, 5, (1000, 3))
    for j, row in enumerate(code_frequencies(codes, [5, 6, 7])):
        np.testing.assert_allclose(
            row[:5], [(codes[:, j] == k).mean() for k in range(5)]
        )
        assert row[5:].sum() == 0
    assert perplexity_of(np.full(8, 1 / 8)) == pytest.approx(8)
    with pytest.raises(ValueError, match="shape"):
        code_frequencies(codes, [5, 5])


def test_score_summaries(tmp_path):
    # Every combination equally often: exactly independent.
    sources = np.tile(np.stack(np.divmod(np.arange(16), 4), axis=1), (25, 1))
    results = {
        "infomec": infomec(sources, sources, discrete_latents=True),
        "dci": dci(sources, sources, verbose=False),
    }
    callback = ScoreSummaries(tmp_path, lambda: results, ["a", "b"])
    callback.record(7)
    callback.close()
    found = scalars(tmp_path)
    assert found[7, "metrics/infomec/modularity"] == pytest.approx(1.0, abs=1e-3)
    # The same result again is no news; another one is.
    callback.record(8)
    results["infomec"] = infomec(sources, sources, discrete_latents=True)
    callback.record(9)
    callback.close()
    found = scalars(tmp_path)
    assert {step for step, tag in found if "infomec" in tag} == {7, 9}
    assert {step for step, tag in found if "dci" in tag} == {7}
    for tag, count in (("nmi", 2), ("importance", 1)):
        picture, *more = pictures(tmp_path, tag)
        assert len(more) == count - 1
        assert picture.shape[2] == 3
        assert len(np.unique(picture)) > 10


def test_projector_files(tmp_path):
    from google.protobuf import text_format
    from PIL import Image
    from tensorboard.plugins.projector import ProjectorConfig

    images = np.zeros((5, 8, 8, 3))
    images[3, ..., 0] = 1.0
    sources = np.arange(10).reshape(5, 2)
    latents = {1: np.arange(15.0).reshape(5, 3)}
    callback = ProjectorFiles(
        tmp_path, images, sources, lambda x: latents[1], ["hue\t1", "size"], keep=2
    )
    for step in (10, 20, 30):
        latents[1] = latents[1] + 1
        callback.record(step)
    callback.close()
    config = text_format.Parse(
        (tmp_path / "projector_config.pbtxt").read_text(), ProjectorConfig()
    )
    names = [entry.tensor_path for entry in config.embeddings]
    assert names == ["latents-000000030.tsv", "latents-000000020.tsv"]
    shown = [entry.tensor_name for entry in config.embeddings]
    assert shown == sorted(shown) == ["1-step-30", "2-step-20"]
    np.testing.assert_allclose(np.loadtxt(tmp_path / names[0]), latents[1])
    rows = (tmp_path / "metadata.tsv").read_text().splitlines()
    assert rows[0] == "hue 1\tsize"
    assert rows[3:5] == ["4\t5", "6\t7"]
    sheet = np.asarray(Image.open(tmp_path / "sprite.png"))
    side = config.embeddings[0].sprite.single_image_dim[0]
    assert sheet.shape == (3 * side, 3 * side, 3)
    # Point 3 is the first of the second row.
    np.testing.assert_array_equal(sheet[side, 0], [255, 0, 0])
    np.testing.assert_array_equal(sheet[0, side], [0, 0, 0])


def test_projector_single_column_has_no_header(tmp_path):
    images = np.zeros((3, 8, 8, 1))
    callback = ProjectorFiles(
        tmp_path, images, np.arange(3)[:, None], lambda x: np.eye(3), ["only"]
    )
    callback.record(1)
    callback.close()
    assert (tmp_path / "metadata.tsv").read_text() == "0\n1\n2\n"


def test_hyperparameters(tmp_path):
    from tensorboard.plugins.hparams import plugin_data_pb2

    values = {"beta": 3.0, "method": "vae", "off": None, "units": [1, 2]}
    write_hyperparameters(tmp_path / "0", values, {"mig/mig": 0.5}, 100)
    assert scalars(tmp_path / "0")[100, "final/mig/mig"] == 0.5
    (start,) = [
        value.metadata.plugin_data.content
        for _, tag, value in events(tmp_path / "0")
        if tag == "_hparams_/session_start_info"
    ]
    data = plugin_data_pb2.HParamsPluginData.FromString(start).session_start_info
    assert dict(data.hparams)["beta"].number_value == 3.0
    assert "off" not in data.hparams
    assert data.hparams["units"].string_value == "[1, 2]"


def hparams_page(folder):
    """What TensorBoard's own HParams plugin tells its page: columns and rows."""
    from tensorboard.backend.event_processing.data_provider import (
        MultiplexerDataProvider,
    )
    from tensorboard.backend.event_processing.plugin_event_multiplexer import (
        EventMultiplexer,
    )
    from tensorboard.context import RequestContext
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.hparams import (
        api_pb2,
        backend_context,
        get_experiment,
        list_session_groups,
    )

    events = EventMultiplexer().AddRunsFromDirectory(str(folder)).Reload()
    provider = MultiplexerDataProvider(events, str(folder))
    context = backend_context.Context(TBContext(data_provider=provider))
    asked = (RequestContext(), context, "")
    columns = get_experiment.Handler(
        *asked, api_pb2.GetExperimentRequest(include_metrics=True)
    ).run()
    rows = list_session_groups.Handler(
        *asked,
        api_pb2.ListSessionGroupsRequest(
            start_index=0,
            slice_size=100,
            include_metrics=True,
            allowed_statuses=[api_pb2.STATUS_UNKNOWN],
        ),
    ).run()
    return columns, rows.session_groups


@pytest.mark.parametrize("with_columns", [True, False])
def test_hparams_page_names_each_run_once_and_shows_the_method(tmp_path, with_columns):
    kept = {"beta": 3.0, "alpha": "x", "Seed": 0, "flag": True}
    rows = [{"Method": method, **kept} for method in ("vae", "ae", "ae")]
    if with_columns:
        write_hyperparameter_columns(tmp_path, rows, ["mig/mig"])
    for name, row in zip("abc", rows, strict=True):  # b and c do not differ
        for _ in range(2):  # as a run that is scored again
            write_hyperparameters(tmp_path / name, row, {"mig/mig": 0.5}, 100)
    columns, groups = hparams_page(tmp_path)
    names = sorted(group.name for group in groups)
    assert names == [f"{tmp_path.name}/{name}" for name in "abc"]
    assert all(len(group.sessions) == 1 for group in groups)
    infos = {info.name: info for info in columns.hparam_infos}
    assert set(infos) == set(rows[0])
    # The page shows the first five, those that differ before the others.
    shown = sorted(columns.hparam_infos, key=lambda info: not info.differs)
    assert shown[0].name == "Method"
    assert set(infos["Method"].domain_discrete) == {"ae", "vae"}
    assert infos["beta"].domain_interval.min_value == 3.0
    assert [m.name.tag for m in columns.metric_infos] == ["final/mig/mig"]


def test_grids():
    rows = np.zeros((2, 3, 4, 5, 3), np.uint8)
    rows[1, 2] = 9
    grid = image_grid(rows, gap=1)
    assert grid.shape == (10, 18, 3)
    assert (grid[6:, 13:] == 9).all()
    assert (grid[0] == 255).all()
    np.testing.assert_array_equal(
        to_bytes([[[[0.0]], [[1.0]]]]).max(axis=-1), [[[0], [255]]]
    )
    with pytest.raises(ValueError, match="rows, columns"):
        image_grid(np.zeros((2, 4, 4, 3)))


def test_figure_pixels():
    from matplotlib.figure import Figure

    pixels = figure_pixels(Figure(figsize=(2, 1), facecolor="red"), dpi=50)
    assert pixels.shape == (50, 100, 3)
    np.testing.assert_array_equal(pixels[25, 50], [255, 0, 0])


@pytest.mark.parametrize("every", [0, -1, 2.5])
def test_bad_period(every, tmp_path):
    with pytest.raises(ValueError, match="positive integer"):
        TrainingScalars(tmp_path, every)


def test_projector_refuses_points_without_factors(tmp_path):
    with pytest.raises(ValueError, match="same points"):
        ProjectorFiles(tmp_path, np.zeros((3, 8, 8, 3)), np.zeros((2, 1)), None, ["a"])
