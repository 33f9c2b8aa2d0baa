"""What the bench of a GPU says of parts that fail, hang or have no time left: the machine is lent for minutes."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import bench.gpu.__main__ as gpu
from bench.gpu.__main__ import Bench, in_words
from tests.limits import LONGEST_SECONDS


def bench(seconds: float) -> Bench:
    """One that is to be over in so many seconds."""
    return Bench(python="", device="cpu", gpu={}, folder=Path(), until=time.monotonic() + seconds)


@pytest.mark.parametrize("error", [SystemExit("its end"), FileNotFoundError("nvidia-smi"), ZeroDivisionError("none")])
def test_a_part_that_fails_is_said_and_keeps_what_it_said(error: BaseException) -> None:
    """The others can be measured all the same."""

    def part() -> Iterator[str]:
        yield "a figure"
        raise error

    figure, why = in_words("which_gpu", part(), bench(60))

    assert "a figure" == figure
    assert "which_gpu" in why
    assert str(error) in why


def test_a_part_begins_only_while_there_is_time() -> None:
    """Its first run would be ended at once."""
    assert "not begun" in "".join(in_words("profiled", iter(["a figure"]), bench(0)))


def test_what_hangs_is_ended_in_time_whatever_it_does_with_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed where it does not end: no run outlives the whole."""
    monkeypatch.setattr(gpu, "KILL_SECONDS", 1)
    command = bench(1).in_time(["sh", "-c", "trap '' TERM; while true; do sleep 0.1; done"])

    assert 0 != subprocess.run(command, check=False, timeout=LONGEST_SECONDS).returncode
