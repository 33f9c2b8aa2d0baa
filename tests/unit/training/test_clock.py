"""Durations: by the monotonic clock on one host, whatever becomes of the wall clock."""

import sys
import time
from pathlib import Path

import pytest

from training.contract.clock import Phases, Stamp, process_start


def test_on_one_host_seconds_are_the_monotonic_clock_s() -> None:
    """The wall clock was set back by a hundred seconds meanwhile."""
    assert 5.0 == Stamp(10.0, 1000.0, "boot").seconds_until(Stamp(15.0, 905.0, "boot"))


@pytest.mark.parametrize(("here", "there"), [("boot", "another"), ("", "")])
def test_between_hosts_seconds_are_the_wall_clocks(here: str, there: str) -> None:
    """Monotonic clocks begin at each boot; hosts without a name for it are not taken for one."""
    assert 7.0 == Stamp(10.0, 1000.0, here).seconds_until(Stamp(500.0, 1007.0, there))


def test_a_phase_is_not_shortened_by_a_wall_clock_that_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a stamp: it has the monotonic clock's moment."""
    monkeypatch.setattr(time, "time", lambda: 0.0)
    ticks = iter([100.0, 103.5])
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks))
    phases = Phases()

    with phases.measure("data"):
        pass

    assert {"data": 3.5} == phases.seconds
    monkeypatch.setattr(time, "monotonic", lambda: 42.0)
    assert 42.0 == Stamp.now().monotonic


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_a_busy_machine_moves_no_start_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the file may take a second there. The clocks stand still in all else, and boot was at 0 on both."""
    clock, read = [1_000.0], Path.read_text

    def read_slowly(path: Path) -> str:
        clock[0] += 1
        return read(path)

    monkeypatch.setattr(time, "clock_gettime", lambda _: clock[0])
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    at_once = process_start().monotonic
    monkeypatch.setattr(Path, "read_text", read_slowly)

    assert at_once == process_start().monotonic
