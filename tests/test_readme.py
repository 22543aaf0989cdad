"""The code and the commands in README.md run as they stand there."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import keras
import numpy as np
import pytest

from qlayers.testing import check_name, contract_checks
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def blocks_by_section(language):
    """Heading -> code blocks of a language."""
    found = {}
    for section in README.split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        codes = [code for kind, code in _BLOCK.findall(text) if kind == language]
        if codes:
            found[heading] = codes
    return found


def section(heading):
    """Text of a section."""
    return README.split(f"\n## {heading}\n")[1].split("\n## ")[0]


PYTHON = blocks_by_section("python")
COMMANDS = [
    line.split("  #")[0].strip()
    for codes in blocks_by_section("bash").values()
    for code in codes
    for line in code.splitlines()
]
# Those that set up the environment that the tests already run in.
MAKE = [command for command in COMMANDS if command.startswith("make ")]
LAUNCHERS = [command for command in COMMANDS if command not in MAKE]
QUICK = [c for c in LAUNCHERS if "--dry_run" in c or "show_data" in c]


def run_section(heading, folder, monkeypatch, steps=None, **start):
    """Runs the Python blocks of a section one after the other.

    Training takes `steps` of the steps that the text gives it.
    """
    monkeypatch.chdir(folder)
    names = dict(start)
    for code in PYTHON[heading]:
        if steps is not None:
            code, found = re.subn(
                r"steps_per_epoch=\d+", f"steps_per_epoch={steps}", code
            )
            assert found == 1
        exec(compile(code, f"README.md, {heading}", "exec"), names)
    return names


def environment():
    """`python` and `tensorboard` are those of this environment."""
    folder = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": os.pathsep.join([folder, os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(["", str(ROOT)]),
    }


def run_command(command, folder):
    done = subprocess.run(
        command,
        shell=True,
        executable="/bin/bash",
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=1_500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_block_is_run():
    languages = [kind for kind, _ in _BLOCK.findall(README)]
    assert set(languages) == {"python", "bash"}
    assert languages.count("python") == sum(map(len, PYTHON.values()))
    tested = {
        "Ten lines",
        "A tokenizer in twenty lines",
        "Recipes",
        "TensorBoard",
        "Scores on your own arrays",
    }
    assert set(PYTHON) == {*tested, "Add a layer", "Add a method", "Add a dataset"}


def test_ten_lines(tmp_path, monkeypatch):
    lines = [line for line in PYTHON["Ten lines"][0].splitlines() if line.strip()]
    assert len(lines) <= 10
    names = run_section("Ten lines", tmp_path, monkeypatch)
    assert {
        "loss",
        "latent_quantizer_quantize_loss",
        "latent_quantizer_commit_loss",
        "latent_quantizer_perplexity",
        "latent_quantizer_usage",
    } == {re.sub(r"_\d+_", "_", name) for name in names["history"].history}
    model = names["model"]
    _check_that_the_decoder_bends(model.layers[-1])
    x = np.ones((8, 64), "float32")
    model.compile("adamw", "mse")
    assert len(model.fit(x, x, verbose=0).history) > 3


def _check_that_the_decoder_bends(penalty):
    """A penalty on curvature means nothing where there is none."""
    z = np.random.default_rng(0).normal(size=(16, 6)).astype("float32")
    penalty(z, training=True)
    assert float(penalty.losses[0]) > 0.1 * penalty.weight
    middle = penalty.decoder(np.mean(z[:2], axis=0, keepdims=True))
    ends = np.mean(penalty.decoder(z[:2]), axis=0, keepdims=True)
    assert not np.allclose(middle, ends, atol=1e-3)


@pytest.mark.parametrize(
    "own_process", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_tokenizer(own_process, tmp_path, monkeypatch):
    """The second block, in a new process too, finds the codes of the first."""
    blocks = PYTHON["A tokenizer in twenty lines"]
    lines = "".join(blocks).splitlines()
    code = [line for line in lines if line and not line.startswith("import ")]
    assert len(blocks) == 2 and len(code) <= 20
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(blocks[0], names)
    listed, total = _reloaded(blocks[1], tmp_path, own_process)
    tokens = names["tokens_of_image"](np.zeros((1, 32, 32, 3), "float32"))
    image = names["image_of_tokens"](tokens)
    assert listed == str(tokens.numpy().ravel().tolist())
    assert float(total) == pytest.approx(float(np.sum(image)), rel=1e-4)
    assert image.shape == (1, 32, 32, 3)
    whole = names["autoencoder"](np.zeros((1, 32, 32, 3), "float32"))
    np.testing.assert_allclose(image, whole, atol=1e-5)


def _reloaded(code, folder, own_process):
    """Tokens and sum of the image that the block leaves."""
    if own_process:
        show = "print(tokens.numpy().ravel().tolist(), float(keras.ops.sum(image)))"
        (folder / "second.py").write_text(code + show)
        shown = run_command("python second.py", folder).strip().splitlines()[-1]
        return shown.rsplit(" ", 1)
    names = {}
    exec(code, names)
    return str(names["tokens"].numpy().ravel().tolist()), np.sum(names["image"])


@pytest.mark.parametrize("heading", PYTHON)
def test_blocks_are_formatted(heading):
    ruff = [sys.executable, "-m", "ruff"]
    for code in PYTHON[heading]:
        for command in (["format", "--check"], ["check", "--ignore=F821,I001"]):
            done = subprocess.run(
                [*ruff, *command, "--config", str(ROOT / "pyproject.toml"), "-"],
                input=code.rstrip() + "\n",
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("steps", [3, pytest.param(None, marks=pytest.mark.slow)])
def test_training_from_python(steps, tmp_path, monkeypatch):
    run_section("Recipes", tmp_path, monkeypatch, steps=steps)
    encoder = keras.models.load_model("encoder.keras")
    decoder = keras.models.load_model("decoder.keras")
    assert decoder(encoder(np.zeros((1, 32, 32, 3), "float32"))).shape == (1, 32, 32, 3)


def test_callbacks_in_fit(tmp_path, monkeypatch):
    run_section("TensorBoard", tmp_path, monkeypatch)
    assert list(tmp_path.glob("runs/mine/events*"))


def test_scores_on_arrays(tmp_path, monkeypatch, capsys):
    run_section("Scores on your own arrays", tmp_path, monkeypatch)
    assert "modularity" in capsys.readouterr().out


_QUICK_CHECKS = ("config_round_trip", "fit_step_trains", "keras_file_round_trip")


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(c, marks=[pytest.mark.slow] * (check_name(c) not in _QUICK_CHECKS))
        for c in contract_checks()
    ],
    ids=check_name,
)
def test_added_layer(check, tmp_path, monkeypatch):
    file = "qlayers.regularizers.sparsity"  # where the text puts it
    names = run_section("Add a layer", tmp_path, monkeypatch, __name__=file)
    check(names["case"], tmp_path)
    layer = names["Sparsity"](0.5)
    layer(np.array([[1.0, -3.0]], "float32"), training=True)
    assert float(layer.losses[0]) == 0.5 * 2.0


def test_added_dataset(tmp_path, monkeypatch, registries):
    names = run_section("Add a dataset", tmp_path, monkeypatch)
    sources, images = names["sources"], names["images"]
    assert images.shape == (16, 32, 32, 3)
    for (place, standing, grey), image in zip(sources, images, strict=True):
        wanted = np.zeros((32, 32))
        wanted[4 * place : 4 * place + 4] = (grey + 1) / 5
        wanted = wanted.T if standing else wanted
        np.testing.assert_allclose(image, np.stack([wanted] * 3, -1), atol=1e-6)


def test_added_method(tmp_path, monkeypatch, registries):
    model = run_section("Add a method", tmp_path, monkeypatch)["model"]
    assert model.build_arguments["network"] == "style"
    assert model.build_arguments["activity_weight"] == 0.1


@pytest.mark.slow
def test_launchers_know_a_file_with_records(tmp_path):
    """Method and dataset are two files in the folder that the text names."""
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    for heading in ("Add a method", "Add a dataset"):
        assert "`experiments/settings/extensions/`" in section(heading)
        file = tmp_path / "experiments/settings/extensions" / f"{heading[-6:]}.py"
        file.write_text(PYTHON[heading][0])
    small = (
        "--profile=cpu --image_size=32 --network=locatello --width=0.125 --steps=2 "
        "--batch_size=8 --log_every=2 --evaluate_every=2 --evaluation_size=200 "
        "--metrics=fast --set=activity_weight=0.1"
    )
    run = "--method=calm_qlae --dataset=bars --workdir=runs/calm"
    run_command(f"python -m experiments.train {run} {small}", tmp_path)
    run_command("python -m experiments.evaluate --workdir=runs/calm", tmp_path)
    table = run_command("python -m experiments.report --workdir=runs", tmp_path)
    assert "calm_qlae" in table and "bars" in table
    folder = tmp_path / "runs" / "calm"
    rows = [json.loads(row) for row in (folder / "history.jsonl").open()]
    assert any("activity" in name for name in rows[-1])
    results = json.loads((folder / "metrics.json").read_text())["results"]
    assert results["infomec"]["settings"]["discrete_latents"] is True
    assert results["infomec"]["settings"]["discrete_latents"] is True
    assert np.shape(results["infomec"]["nmi"])[0] == 3


def test_tables_name_everything():
    from models import METHODS
    from qlayers import datasets

    section = README.split("\n## Recipes")[1].split("\n## ")[0]
    methods, data = re.findall(r"((?:^\|.*\n)+)", section, re.MULTILINE)
    listed = re.findall(r"`(\w+)`", methods)
    assert sorted(listed) == sorted(METHODS)
    named = re.findall(r"`(\w+)`", "".join(r.split("|")[1] for r in data.splitlines()))
    assert sorted(named) == sorted(datasets.names())


def test_every_layer_is_named():
    import qlayers

    section = README.split("\n## Ten lines")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (?:quantizers|regularizers).*", section, re.MULTILINE)
    named = re.findall(r"`(\w+)`", "".join(rows))
    public = {name: getattr(qlayers, name) for name in qlayers.__all__}
    layers = [
        name
        for name, each in public.items()
        if isinstance(each, type) and issubclass(each, keras.layers.Layer)
    ]
    assert sorted(named) == sorted(layers)


def test_files_that_are_named_exist():
    paths = re.findall(r"`((?:\w+/)+[\w.]*|\w+\.md)`", README)
    assert len(paths) > 10
    for path in paths:
        if not path.startswith("runs/"):
            assert (ROOT / path).exists(), path


def test_make_targets():
    targets = re.findall(r"(?:`|\n)make ([a-z-]+)", README)
    assert {"demo", "test", "venv", "lint", "bench"} <= set(targets)
    for target in targets:
        done = subprocess.run(
            ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_environment_command():
    """`make venv && source ...`: nothing to do where it has been done."""
    command = next(c for c in MAKE if "activate" in c)
    ready = ["make", "--question", ".venv/.installed"]
    if subprocess.run(ready, cwd=ROOT, capture_output=True).returncode:
        pytest.skip("the environment was not made by `make venv`")
    answer = run_command(f"{command} && command -v python", ROOT)
    assert answer.strip().endswith(str(ROOT / ".venv" / "bin" / "python"))


@pytest.mark.parametrize(
    "command", [QUICK[0], *(pytest.param(c, marks=pytest.mark.slow) for c in QUICK[1:])]
)
def test_quick_command(command, tmp_path):
    run_command(command, tmp_path)
    assert ("--dry_run" in command) == (not list(tmp_path.iterdir()))


@pytest.mark.slow
def test_commands_in_their_order(tmp_path):
    """All commands that take longer, in one folder, as a reader types them."""
    for command in LAUNCHERS:
        if command.startswith("tensorboard"):
            _check_server(command, tmp_path)
        elif command not in QUICK:
            run_command(command, tmp_path)
    for run in ("first", "factor", "cliff", "study/mini_shapes3d-qlae-seed1"):
        scores = json.loads((tmp_path / "runs" / run / "metrics.json").read_text())
        assert scores["scores"]
    assert (tmp_path / "runs" / "report.html").exists()


def _check_server(command, folder):
    server = subprocess.Popen(
        [*command.split(), "--port=6123"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = "http://127.0.0.1:6123/data/runs"
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(address, timeout=10) as answer:
                    if "first" in json.load(answer):
                        return
            except OSError:
                pass
            time.sleep(1)
        raise TimeoutError(f"{command} did not list the run")
    finally:
        server.terminate()
        server.wait(60)


@pytest.mark.slow
def test_make_demo():
    """The other command of the first block, `make test`, is what runs this file."""
    assert MAKE[:2] == ["make demo", "make test"]
    answer = run_command(MAKE[0], ROOT)
    assert "InfoM" in answer
