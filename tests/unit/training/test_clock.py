"""Durations: by the monotonic clock on one host, whatever becomes of the wall clock."""

import time

import pytest

from training.contract.clock import Phases, Stamp


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
