"""What `rwi try` finds out about other programs: as a run's own count of them, around all arms."""

import re
import sys

import pytest

from cli.tryout import others
from cli.tryout.others import Others
from tests.unit.places.test_beside import START, Readings, Unreadable, after

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says whose its CPU time is")


@linux
@pytest.mark.parametrize(("cpus", "said"), [(0.9, ["0.9"]), (0.05, [])])
def test_what_others_took_is_said_where_it_is_noticeable(
    cpus: float, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the threshold of `machineQuiet`; and arms that end meanwhile are followed."""
    readings = Readings(START, after(10, others=cpus))
    monkeypatch.setattr(others, "CpuTime", lambda *_: readings)
    monkeypatch.setattr(others, "FOLLOW_SECONDS", 0.001)
    with Others() as counted:
        while not readings.followed:
            pass

    assert said == re.findall(r"take (\d\.\d) of", counted.in_words())
    assert bool(said) == ("chrome" in counted.in_words())


@linux
def test_a_machine_that_does_not_say_it_fails_no_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that hides other programs."""
    monkeypatch.setattr(others, "CpuTime", Unreadable)
    with Others() as counted:
        pass

    assert counted.in_words() == ""


@linux
def test_all_processes_are_read_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that begins and ends between two readings would be another program's: a worker of Ray's can."""
    readings = Readings(*(after(seconds) for seconds in range(5)))
    monkeypatch.setattr(others, "CpuTime", lambda *_: readings)
    monkeypatch.setattr(others, "FOLLOW_SECONDS", 0.001)
    with Others(look_seconds=0.0):
        while len(readings.readings) > 1:
            pass

    assert 0 == readings.followed
