"""A real training beside a real program that takes its CPU, and one on a machine that says that nobody was there."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from compare import quiet
from compare.measurement import Run, of_repeats
from compare.run_numbers import other_cpus
from tests.limits import LONGEST_SECONDS
from tests.unit.results import make_context
from training.contract import provenance, result
from training.contract.progress import read_new

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone says whose CPU time is whose")
GUARD = """
import sys
from dataclasses import replace
from infra.places.local import beside, guard
from training.machine import cpu_time, machine_lock
machine_lock.NAME = "\\0" + sys.argv.pop(1)
if sys.argv.pop(1) == "quiet":
    class Quiet(cpu_time.CpuTime):
        def read(self):
            now = super().read()
            return replace(now, programs=now.run + now.stack, stolen=0.0)
    beside.CpuTime = Quiet
sys.exit(guard.main())
"""
"""The guard with the lock of a machine of its own; where it is to be quiet, no program but its own and the run's ever
had a CPU, and all else is as the system says it."""
ARM = """
import runpy, sys
from training.machine import machine_lock
machine_lock.NAME = "\\0" + sys.argv.pop(1)
sys.argv[0] = "training.baseline"
runpy.run_module("training.baseline", run_name="__main__", alter_sys=True)
"""
FLAGS = ("--dataset=digits", "--epochs=2", "--train-images=640", "--warmup-steps=1", "--model=cnn")


def measured(folder: Path, how: str) -> Run:
    """A run of `baseline` as an update makes it."""
    lock, path = f"ray-worth-it/test-{uuid.uuid4().hex}", folder / result.NAME
    arm = [sys.executable, "-c", ARM, lock, f"--result={path}", *FLAGS]
    guard = ["--deadline", "300", "--progress", str(folder), "--count-others", "--", *arm]
    with (folder / "log.txt").open("wb") as log, subprocess.Popen(
        [sys.executable, "-c", GUARD, lock, how, *guard],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=log, stderr=log,
        start_new_session=True,
    ) as running:  # fmt: skip
        code = running.wait(LONGEST_SECONDS)
    assert 0 == code, (folder / "log.txt").read_text()[-3000:]
    return Run("baseline-1", 1, result.read(path))


def observed(run: Run) -> quiet.Quiet:
    """What others took while it went on."""
    return quiet.observe(of_repeats([{"baseline": run}], make_context(arms=("baseline",))))


@pytest.mark.slow
def test_a_program_that_takes_the_run_s_cpu_is_named(tmp_path: Path) -> None:
    """While it goes on, in its result, in the verdict, and by a check that does not pass."""
    cpus = provenance.allowed_cpus()
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in cpus]
    try:
        run = measured(tmp_path, "as it is")
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
    others = observed(run)
    passed, why = others.check
    said = [event["text"] for event in read_new(tmp_path / "progress.jsonl", 0)[0] if event["event"] == "note"]

    assert None is passed
    assert "baseline-1" in why
    assert "baseline-1" in others.remarks["otherPrograms"]
    assert (other_cpus(run) or 0.0) > 0.2 * len(cpus)
    assert any("other programs take" in text for text in said)


@pytest.mark.slow
def test_a_run_that_had_the_machine_to_itself_passes(tmp_path: Path) -> None:
    """However long its threads waited for each other, and for what the tests beside it do."""
    run = measured(tmp_path, "quiet")
    (wait,) = [worker.training_wait for worker in run.result.workers]

    others = observed(run)
    assert (True, "") == others.check
    assert {""} == set(others.remarks.values())
    assert run.result.machine is not None
    assert run.result.machine.other_cpu_seconds == pytest.approx(0, abs=1e-9)
    assert wait is not None
    assert 0.0 < wait.cpu_seconds <= run.result.machine.run_cpu_seconds
    assert 0.0 < wait.seconds < run.result.machine.seconds
