"""Running other programs: what is shown of them, and what ends one that hangs or prints without end."""

import os
import re
import signal
import time
from contextlib import suppress

import pytest

from infra import programs
from infra.programs import ProgramError
from tests.golden import Wording
from training.machine import output

LONG_SECONDS = 60
"""What hangs goes on for so long."""
SOON_SECONDS = 40
"""Whoever does not wait for that is back by then, on any machine."""


@pytest.mark.parametrize("quiet", [False, True], ids=["shown", "quiet"])
def test_a_silent_program_ends_with_its_deadline(quiet: bool, wording: Wording) -> None:
    """As `minikube start` that hangs."""
    began = time.monotonic()

    with pytest.raises(ProgramError) as ended:
        programs.run("sleep", str(LONG_SECONDS), quiet=quiet, seconds=0.6)

    assert time.monotonic() - began < SOON_SECONDS
    wording("cluster", str(ended.value))


@pytest.mark.parametrize("quiet", [False, True], ids=["shown", "quiet"])
def test_what_a_program_leaves_is_not_waited_for(
    quiet: bool, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it holds the output open."""
    monkeypatch.setattr(output, "LEFT_SECONDS", 0.1)
    began = time.monotonic()

    printed = programs.run("sh", "-c", f"sleep {LONG_SECONDS} & echo $!", quiet=quiet) or capfd.readouterr().err

    seconds = time.monotonic() - began
    with suppress(ProcessLookupError):
        os.kill(int(printed), signal.SIGKILL)
    assert seconds < SOON_SECONDS


def test_what_is_shown_has_lines_as_a_terminal_has_them(capfd: pytest.CaptureFixture[str]) -> None:
    """Of a progress bar, too; one without an end is cut, and what follows it is shown."""
    programs.run("sh", "-c", r"printf '10 %%\r20 %%\r\n\na\n'; head -c 9000000 /dev/zero | tr '\0' y; printf '\nb'")

    *lines, cut, last = capfd.readouterr().err.splitlines()
    assert ["10 %", "20 %", "", "a"] == lines
    assert "y" * output.LONGEST_LINE + output.CUT.decode().rstrip() == cut
    assert "b" == last


@pytest.mark.parametrize("quiet", [False, True], ids=["shown", "quiet"])
def test_a_failure_is_told_by_its_last_lines(quiet: bool) -> None:
    """Each of a length that can be read."""
    with pytest.raises(ProgramError) as failed:
        programs.run("sh", "-c", "seq 100; head -c 9000 /dev/zero | tr '\\0' y; echo; exit 7", quiet=quiet)

    first, *lines, last = str(failed.value).splitlines()
    assert re.search(r"\b7\b", first)
    assert [str(number) for number in range(87, 101)] == lines
    assert len(last) < output.LONGEST_SHOWN + 10


def test_a_program_whose_output_is_wanted_may_not_print_without_end(
    monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """It is stopped."""
    monkeypatch.setattr(output, "MOST_CAPTURED", 2**20)

    with pytest.raises(ProgramError) as ended:
        programs.run("sh", "-c", "yes | head -c 9000000", quiet=True)

    wording("cluster", str(ended.value))
