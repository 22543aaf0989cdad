"""Which runs XLA compiles."""

import json

import pytest

from experiments.settings import xla
from experiments.settings.config import resolve
from studies.study import ROOT


@pytest.fixture
def without_avx512(monkeypatch):
    monkeypatch.setattr(xla, "instruction_set", lambda: "AVX2")
    monkeypatch.setattr(xla, "_has_gpu", lambda: False)


def config(method="qlae", **settings):
    settings = {"steps": 8_000, "threads": 2, "evaluate_every": 1_000, **settings}
    return resolve(method, profile="cpu", settings=settings)


def test_a_long_run_on_threads_is_compiled(without_avx512):
    assert xla.uses_xla(config())
    assert not xla.uses_xla(config(jit="off"))


@pytest.mark.parametrize(
    "settings",
    [
        {"threads": 1},
        {"steps": 1_000},
        {"method": "factor_vae"},
        {"network": "dalle", "encoder_options": {}, "decoder_options": {}},
        {"image_size": 64},
        {"strategy": "mirrored"},
        {"deterministic": True},
        {"mixed_precision": "bfloat16"},
    ],
)
def test_what_was_not_measured_to_gain_is_not_compiled(without_avx512, settings):
    found = config(**settings)
    assert not xla.uses_xla(found)


def test_a_gpu_and_the_flag_decide_first(monkeypatch):
    monkeypatch.setattr(xla, "instruction_set", lambda: "AVX-512")
    monkeypatch.setattr(xla, "_has_gpu", lambda: False)
    assert not xla.uses_xla(config())
    assert xla.uses_xla(config(steps=1_000, jit="on"))
    monkeypatch.setattr(xla, "_has_gpu", lambda: True)
    assert xla.uses_xla(config(steps=1_000))
    assert not xla.uses_xla(config(jit="off"))


def ratio_of(row):
    """XLA over the plain way, if that is what a row compares."""
    for first, second, ratio in (
        (row["ours"], row.get("peer"), row.get("ratio")),
        (row.get("peer"), row["ours"], 1 / row.get("ratio", 1.0)),
    ):
        if first == f"{second}, XLA":
            return ratio
    return None


@pytest.mark.parametrize("network, size", xla.STEP_RATIOS)
def test_the_table_is_that_of_the_benchmark(network, size):
    """The mean of a network's rows."""
    records = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    found = [
        ratio_of(row)
        for row in records["AMD EPYC, AVX2"]["train_step"]["rows"]
        if row["case"].startswith(f"{size}x{size}, {network} ")
    ]
    found = [ratio for ratio in found if ratio is not None]
    assert len(found) >= 2
    expected = xla.STEP_RATIOS[network, size]
    assert sum(found) / len(found) == pytest.approx(expected, rel=0.15)
