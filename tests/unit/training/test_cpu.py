"""Which processor a machine has, from what Linux writes of it."""

from pathlib import Path

import pytest

from training.machine import cpu
from training.workloads.script.observe import in_pod

MILAN = """\
processor\t: 0
model\t\t: 1
cpu family\t: 25
model name\t: AMD EPYC
flags\t\t: fpu avx2
bugs\t\t:

model\t\t: 1
"""
GENOA = MILAN.replace("model\t\t: 1\n", "model\t\t: 17\n").replace("avx2", "avx2 avx512_bf16")
ARM = "processor\t: 0\nFeatures\t: fp asimd bf16\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that Linux writes."""
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(cpu, "CPUINFO", path)
    cpu.model.cache_clear()
    return path


@pytest.mark.parametrize(
    ("text", "name", "lacks"),
    [
        (MILAN, "AMD EPYC (family 25, model 1)", True),
        (GENOA, "AMD EPYC (family 25, model 17)", False),
        (ARM, "", False),
    ],
)
def test_generations_of_one_name_are_told_apart(machine: Path, text: str, name: str, lacks: bool) -> None:
    """A hypervisor calls them alike, and one computes twice as fast: they are not one machine."""
    machine.write_text(text)

    assert lacks == cpu.lacks_bfloat16()
    assert name in cpu.model()


def test_where_linux_says_nothing_nothing_is_refused(machine: Path) -> None:
    """Another system."""
    assert not machine.exists()
    assert not cpu.lacks_bfloat16()
    assert cpu.model()


def test_a_pod_says_the_same() -> None:
    """The observer is loaded into the script's Python, without the project: what it writes is compared with this."""
    cpu.model.cache_clear()

    assert in_pod._cpu_model() == cpu.model()
