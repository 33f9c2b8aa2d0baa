"""This machine's GPUs, as NVIDIA's library names them."""

import pytest

from tests import nvml
from training.machine import gpus
from training.machine.gpus import Gpu, NoGpusError


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs."""
    monkeypatch.setattr(gpus, "LIBRARY", str(nvml.library()))


@pytest.mark.usefixtures("two")
def test_gpus_have_the_driver_s_order() -> None:
    """By which an arm has the first ones."""
    assert [Gpu(nvml.uuid(1), nvml.NAME), Gpu(nvml.uuid(2), nvml.NAME)] == gpus.list_all()
    assert (nvml.uuid(1),) == gpus.first(1)
    assert (2, "") == gpus.why_too_few(2)


@pytest.mark.usefixtures("two")
def test_too_few_are_refused_with_their_number() -> None:
    """A run would otherwise have ranks that share one."""
    here, why = gpus.why_too_few(3)

    assert (2, True) == (here, nvml.NAME in why)
    with pytest.raises(NoGpusError, match="names 2"):
        gpus.first(3)


def test_without_gpus_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on CPUs loads no library."""
    monkeypatch.setattr(gpus, "LIBRARY", "/no/such.so")

    assert () == gpus.first(0)


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("code", ["9", "999"])
def test_a_driver_that_does_not_answer_is_no_gpu(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """As after an update of the driver without a restart."""
    monkeypatch.setenv("STAND_IN_INIT", code)

    here, why = gpus.why_too_few(1)
    assert (0, code) == (here, why.rpartition(" ")[2])


def test_no_library_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes with the driver."""
    monkeypatch.setattr(gpus, "LIBRARY", "/no/such.so")
    here, why = gpus.why_too_few(1)

    assert (0, True) == (here, "/no/such.so" in why)
