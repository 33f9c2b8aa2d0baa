"""What other programs take beside a run: said while it goes on, added to its result, and never a reason to fail it."""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from infra.places.local import beside, guard
from infra.places.local.beside import Beside, in_words, use
from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from tests.unit.results import make_result
from training.contract import result
from training.contract.progress import Progress, read_new
from training.machine.cpu_time import Reading

ROOT = Path(__file__).resolve().parents[3]
START = Reading(at=100.0, programs=50.0, stolen=1.0, run=10.0, stack=5.0, resolution=0.1, others={7: ("chrome", 3.0)})


def after(seconds: float, *, others: float = 0.0, stolen: float = 0.0, run: float = 1.0) -> Reading:
    """A reading so many seconds later, of a machine on which others took so many CPUs."""
    return replace(
        START,
        at=START.at + seconds,
        programs=START.programs + seconds * (others + run + 0.1),
        stolen=START.stolen + seconds * stolen,
        run=START.run + seconds * run,
        stack=START.stack + seconds * 0.1,
        others={7: ("chrome", 3.0 + seconds * others)},
    )


class Readings:
    """In the place of /proc: one reading after the other."""

    def __init__(self, *readings: Reading) -> None:
        self.readings, self.followed = list(readings), 0

    def read(self) -> Reading:
        """The next, and the last one for ever."""
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]

    def follow(self) -> None:
        """Counted."""
        self.followed += 1


class Unreadable:
    """A system that says nothing."""

    def __init__(self, *_: object) -> None: ...

    def read(self) -> Reading:
        """Fails."""
        raise OSError("no such file")


def notes(folder: Path) -> list[str]:
    """What was said, marked as of a busy machine."""
    return [event["text"] for event in read_new(folder / "progress.jsonl", 0)[0] if event["isBusy"]]


def watching(monkeypatch: pytest.MonkeyPatch, folder: Path, readings: Readings) -> Beside:
    """With a clock that is at each reading when it is looked at."""
    monkeypatch.setattr(beside, "CpuTime", lambda *_: readings)
    return Beside(Progress(folder))


def test_what_is_nobody_else_s_is_not_others() -> None:
    """All programs' time less the run's and the stack's; less than nothing is the ticks' doing, and is 0."""
    used, none = use(START, after(10, others=1.6, stolen=0.3), 2), use(START, after(10, others=-0.05), 2)

    assert [1.6, 0.3] == pytest.approx([used.other_cpus, used.stolen_cpus])
    assert [10.0, 1.0] == pytest.approx([used.run_cpu_seconds, used.stack_cpu_seconds])
    assert 0.0 == none.other_cpu_seconds


def test_others_take_no_more_cpus_than_there_are() -> None:
    """A reading of a very busy machine takes long, and nobody believes 2.3 of 2 CPUs."""
    assert 2.0 == pytest.approx(use(START, after(10, others=2.3), 2).other_cpus)
    assert "2.0 of 2" in in_words(START, after(10, others=2.3), 2)


def test_a_line_names_how_much_and_who(wording: Wording) -> None:
    """So that somebody can end it; what is less than a tenth of a CPU is worth no line."""
    others = in_words(START, after(5, others=1.6), 2)
    assert all(part in others for part in ("1.6 of 2", "chrome 1.6"))
    assert "0.3 of 2" in in_words(START, after(5, stolen=0.3), 2)
    wording("local", others)
    assert "" == in_words(START, after(5, others=0.09), 2)


@pytest.mark.parametrize(
    ("others", "taken", "numbers"),
    [
        (1.6, {"a": 0.5, "b": 0.3, "c": 0.2, "d": 0.1}, [1.6, 0.5, 0.3, 0.2, 0.6]),
        (1.0, {"a": 0.6, "b": 0.4}, [1.0, 0.6, 0.4]),
        (0.5, {"a": 0.7}, [0.5]),
    ],
)
def test_the_numbers_of_the_named_programs_add_up(others: float, taken: dict[str, float], numbers: list[float]) -> None:
    """The rest has a number of its own; where more is counted of programs than of all, they have names alone."""
    now = replace(
        after(10, others=others), others={i: (name, 10 * cpus) for i, (name, cpus) in enumerate(taken.items())}
    )
    text = in_words(replace(START, others={}), now, 2)

    assert numbers == [float(number) for number in re.findall(r"\d+\.\d", text)]
    assert "a" in text


def test_it_is_said_at_most_twice_a_minute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A look every 5 s, a line every 30 s, and the run's own processes in between."""
    readings = Readings(START, *(after(seconds, others=1.6) for seconds in range(5, 70, 5)))
    watched = watching(monkeypatch, tmp_path, readings)
    for tenth in range(10, 600):
        monkeypatch.setattr(time, "monotonic", lambda tenth=tenth: START.at + tenth / 10)
        watched.look()

    assert 2 == len(notes(tmp_path))
    assert 60 <= readings.followed <= 120


def test_a_quiet_machine_is_no_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And its result says how little it was."""
    watched = watching(monkeypatch, tmp_path, Readings(START, after(5, others=0.02), after(10, others=0.02)))
    make_result().write(tmp_path / result.NAME)
    monkeypatch.setattr(time, "monotonic", lambda: START.at + 6)
    watched.look()
    watched.keep(tmp_path / result.NAME)
    kept = result.read(tmp_path / result.NAME).machine

    assert not (tmp_path / "progress.jsonl").exists()
    assert kept is not None
    assert pytest.approx(0.02) == kept.other_cpus


def test_where_nothing_can_be_read_the_result_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run is not lost by it, and nothing becomes 0."""
    monkeypatch.setattr(beside, "CpuTime", Unreadable)
    make_result(reasons={"machine": "nobody looked yet", "ray": "none"}).write(tmp_path / result.NAME)
    watched = Beside(Progress(tmp_path))
    watched.look()
    watched.keep(tmp_path / result.NAME)
    watched.keep(tmp_path / "absent.json")
    found = result.read(tmp_path / result.NAME)

    assert None is found.machine
    assert {"machine", "ray"} == found.reasons.keys()
    assert "nobody looked yet" != found.reasons["machine"]


GUARD = """
import sys
from infra.places.local import beside, guard
from training.machine import machine_lock
machine_lock.NAME = "\\0" + sys.argv.pop(1)
beside.LOOK_SECONDS = beside.FOLLOW_SECONDS = 0.1
sys.exit(guard.main())
"""
RUN = """
import pathlib, psutil, sys, time
from tests.unit.results import make_result
result, spinner = pathlib.Path(sys.argv[1]), psutil.Process(int(sys.argv[2]))
began, progress = spinner.cpu_times().user, result.with_name("progress.jsonl")
while min(time.process_time(), spinner.cpu_times().user - began) < 0.5 or not progress.exists(): pass
make_result(machine=None).write(result)
"""
"""A run that ends when it and another program have had half a second of CPU each, and the guard has said so."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone says whose CPU time is whose")
def test_a_real_program_beside_a_real_guard_is_counted(tmp_path: Path, machine_lock_name: str) -> None:
    """One that spins: it is neither the run's nor the guard's."""
    path = tmp_path / result.NAME
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinner:
        run = (sys.executable, "-c", RUN, str(path), str(spinner.pid))
        own = guard.command(LONGEST_SECONDS, tmp_path, "--count-others", "--", *run)[3:]
        with subprocess.Popen(
            [sys.executable, "-c", GUARD, machine_lock_name, *own],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, start_new_session=True,
        ) as guarded:  # fmt: skip
            assert 0 == guarded.wait(LONGEST_SECONDS)
        spinner.kill()
    used = json.loads(path.read_text())["machine"]

    assert 0.3 < used["otherCpuSeconds"]
    assert 0.3 < used["runCpuSeconds"] <= used["seconds"] + used["resolutionSeconds"]
    assert "other programs" in " ".join(notes(tmp_path))
