"""What is read of the processor."""

import pytest

from experiments.settings import processor as module
from experiments.settings.processor import instruction_set, processor

LINUX = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx {}bmi2\n\n"


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")

    def write(further):
        file = tmp_path / "cpuinfo"
        file.write_text(LINUX.format(further) * 2)
        return file

    return write


@pytest.mark.parametrize(
    "further, expected",
    [("avx2 ", "AVX2"), ("avx2 avx512f ", "AVX-512"), ("", None)],
)
def test_unlike_processors_of_one_name_are_told_apart(cpuinfo, further, expected):
    file = cpuinfo(further)
    assert instruction_set(file) == expected
    assert processor(file) == (f"AMD EPYC, {expected}" if expected else "AMD EPYC")


def test_other_machines_have_a_name_but_no_such_instructions(cpuinfo, monkeypatch):
    file = cpuinfo("avx2 ")
    assert instruction_set(file.with_name("none")) is None
    monkeypatch.setattr(module.platform, "processor", lambda: "arm")
    monkeypatch.setattr(module.platform, "machine", lambda: "arm64")
    assert instruction_set(file) is None
    assert processor(file.with_name("none")) == "arm"
