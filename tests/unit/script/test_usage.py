"""How long a rank of a script waited for a CPU: what the observer reads, and what comes into the result."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.results import make_result
from training.contract.cpu_use import CpuWait
from training.launch import entry, usage
from training.machine import cgroup
from training.workloads.script.observe import usage as observed_usage

SECOND = 10**9


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc/self, and a pressure file of its cgroup."""
    (tmp_path / "task" / "1").mkdir(parents=True)
    (tmp_path / "statm").write_text("100 50 0 0 0 0 0\n")
    monkeypatch.setattr(observed_usage, "PROCESS", tmp_path)
    monkeypatch.setattr(observed_usage, "PRESSURE", tmp_path / "cpu.pressure")
    monkeypatch.delenv(observed_usage.NODE, raising=False)
    return tmp_path


def has(process: Path, had: int, waited: int, pressure: float = 0.0) -> None:
    """What its one thread had and waited for so far."""
    (process / "task" / "1" / "schedstat").write_text(f"{had * SECOND} {waited * SECOND} 9\n")
    some = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={pressure * 1e6:.0f}"
    (process / "cpu.pressure").write_text(f"{some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")


@pytest.mark.parametrize(
    ("steps", "after", "training"),
    [
        ([(0.0, 5, 1), (2.0, 6, 2), (4.0, 8, 4)], (20, 9), [3.0, 3.0, None]),
        # Of less than a second: there is no sample, and it is counted to its end.
        ([(0.0, 5, 1), (0.1, 6, 3)], (6, 3), [1.0, 2.0, None]),
        # The pod may have had another run before.
        ([(0.0, 5, 1, 100.0), (2.0, 7, 2, 100.5)], (7, 2, 100.5), [2.0, 1.0, 0.5]),
    ],
    ids=["", "short", "in a pod"],
)
def test_waiting_is_counted_from_the_first_step_to_the_last(
    process: Path, monkeypatch: pytest.MonkeyPatch, steps: list[Any], after: Any, training: list[Any]
) -> None:
    """Imports before it and a test after it are the run's, and not the training's; in a pod its pressure is read, too,
    of the training alone."""
    if training[2] is not None:
        monkeypatch.setenv(observed_usage.NODE, "node")
    watched = observed_usage.Usage()
    for now, *counted in steps:
        has(process, *counted)
        watched.step(now)
    has(process, *after)
    waits = watched.waits()

    assert waits is not None
    assert training == waits["training"][1:]
    assert [*after[:2], None] == waits["run"][1:]


def test_a_system_that_does_not_count_it_gives_nothing(process: Path) -> None:
    """And nobody takes it for 0; no step is no training either."""
    watched = observed_usage.Usage()

    assert None is watched.waits()
    watched.step(0.0)
    assert None is watched.waits()


def test_a_rank_of_the_cnn_reads_the_same(process: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the start of sampling to its end."""
    queue = usage.RunQueue(process / "task")
    monkeypatch.setattr(usage, "RunQueue", lambda: queue)
    monkeypatch.setattr(usage, "INTERVAL_SECONDS", 0.01)
    watched = usage.Usage()
    has(process, 5, 1)
    watched.start()
    has(process, 7, 4)
    watched.stop()
    has(process, 9, 5)
    training, run = watched.training_wait, watched.run_wait()

    assert training is not None
    assert run is not None
    assert (2.0, 3.0, None) == (training.cpu_seconds, training.waited_seconds, training.pressure_seconds)
    assert (9.0, 5.0) == (run.cpu_seconds, run.waited_seconds)
    assert training.seconds < run.seconds


@pytest.mark.parametrize(
    ("files", "seconds"),
    [
        ({"cpu.pressure": "some avg10=1.00 avg60=0.00 avg300=0.00 total=2500000\nfull total=1\n"}, 2.5),
        ({"cpu.cfs_quota_us": "-1"}, None),
        ({}, None),
    ],
    ids=["version 2", "version 1", "none"],
)
def test_the_pressure_of_a_cgroup(files: dict[str, str], seconds: float | None, tmp_path: Path) -> None:
    """Version 1 has none."""
    (tmp_path / "membership").write_text("0::/pod\n")
    (tmp_path / "pod").mkdir()
    for name, text in files.items():
        (tmp_path / "pod" / name).write_text(text)

    assert seconds == cgroup.pressure_seconds(tmp_path, tmp_path / "membership")


def test_what_is_not_known_of_others_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wrote the result; one that says it itself is kept."""
    wait = CpuWait(seconds=1.0, cpu_seconds=1.0, waited_seconds=0.0)
    by_hand = reasons_of(training_wait=None)
    monkeypatch.setenv(entry.POD, "1")
    in_pod = reasons_of(training_wait=wait)

    assert {"machine", "workers.trainingWait"} <= by_hand.keys()
    assert {"machine", "workers.trainingWait.pressureSeconds"} <= in_pod.keys()
    assert "workers.trainingWait" not in in_pod
    assert by_hand["machine"] != in_pod["machine"]


def reasons_of(**changes: Any) -> dict[str, str]:
    """The reasons of a result whose one rank has these fields."""
    made = make_result("baseline", machine=None)
    workers = [replace(worker, **changes) for worker in made.workers]
    return entry.with_reasons(replace(made, workers=workers)).reasons
