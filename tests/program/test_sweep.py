"""`cli.sweep` over the real engine: one stack, several settings, interrupted and gone on with. No training."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.limits import LONGEST_SECONDS, wait_for
from tests.program.engine import ROOT, Project

QUICK = "repeats=1 nativeArm=false epochs=1 allowOversubscription=true"


@pytest.fixture
def sweeping(project: Project, cli: Path) -> Project:
    """The project with what a sweep needs beside the program, on a backend of its own."""
    for name in ("cli", "report"):
        shutil.copytree(ROOT / name, project.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (project.folder / ".tools").mkdir()
    (project.folder / ".tools/cli-in-use.json").write_text(json.dumps({"folder": str(cli.parent)}))
    shutil.copy(ROOT / "rwi", project.folder)
    project.environment["RWI_SETUP"] = "no"
    return project


def command(*axes: str) -> list[str]:
    """A sweep over these axes."""
    return ["./rwi", "sweep", *axes, *(word for value in QUICK.split() for word in ("--set", value))]


def sweep(project: Project, *axes: str, code: int = 0) -> str:
    """Run a sweep to its end, with this exit status; gives stdout and stderr."""
    done = subprocess.run(
        command(*axes),
        cwd=project.folder,
        env=project.environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    assert code == done.returncode, done.stdout
    return done.stdout


def points(project: Project) -> list[dict[str, Any]]:
    """The points of the one sweep there is."""
    (file,) = (project.folder / "results/sweep-local/sweeps").glob("*/sweep.json")
    found: list[dict[str, Any]] = json.loads(file.read_text())["points"]
    return found


def stacks(project: Project) -> list[str]:
    """The stacks that the backend has."""
    return [entry["name"] for entry in json.loads(project.pulumi("stack", "ls", "--json"))]


def test_a_sweep_measures_reports_and_leaves_no_stack(sweeping: Project) -> None:
    """A point that fails is said and leaves the others; the same command then tries that one alone."""
    committed = (sweeping.folder / "stacks/Pulumi.local.yaml").read_text()
    sweeping.control("wide-1", "fail")  # an arm that one worker does not have
    shown = sweep(sweeping, "workers=1 2", "learningRate=0.002", code=1)

    assert [True, False] == [point["result"] is not None for point in points(sweeping)]
    assert "workers=2 learningRate=0.002 failed:" in shown
    assert "the stub was" in shown
    assert [] == stacks(sweeping)
    assert committed == (sweeping.folder / "stacks/Pulumi.local.yaml").read_text()
    assert {path.name for path in (ROOT / "stacks").iterdir()} == {
        path.name for path in (sweeping.folder / "stacks").iterdir()
    }
    (page,) = (sweeping.folder / "results/sweep-local/sweeps").glob("*/report.html")
    assert "<svg" in page.read_text()
    (measured,) = (path for path in (sweeping.folder / "results/sweep-local").glob("2*") if path.is_dir())
    assert 0.002 == json.loads((measured / "comparison.json").read_text())["recipe"]["learningRate"]

    again = sweep(sweeping, "workers=1 2", "learningRate=0.002", code=1)

    assert "goes on, 1 of 2" in again  # not prose: numbers
    assert "setting 1 of" not in again
    assert "setting 2 of" in again


@pytest.mark.slow
def test_an_interrupted_sweep_goes_on(sweeping: Project) -> None:
    """Ctrl-C lets the run finish, keeps it and the stack; the same command makes what is missing, then destroys."""
    sweeping.control("ray-1", "wait")
    with (sweeping.folder / "out.txt").open("w") as out:
        started = subprocess.Popen(
            command("workers=1 2"), cwd=sweeping.folder, env=sweeping.environment, stdout=out, stderr=out,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    runs = sweeping.folder / "runs/sweep-local"
    wait_for(lambda: list(runs.glob("ray-1-*/progress.jsonl")), "the ray run waits")
    os.kill(started.pid, signal.SIGINT)
    sweeping.control("ray-1", "")
    code = started.wait(timeout=LONGEST_SECONDS)
    first = (sweeping.folder / "out.txt").read_text()

    assert 130 == code, first
    assert "same command goes" in first
    assert ["sweep-local"] == stacks(sweeping)
    assert [] == sweeping.survivors()

    again = sweep(sweeping, "workers=1 2")

    assert all(point["result"] for point in points(sweeping))
    assert 2 == len(list(runs.glob("baseline-1-*"))), again
    assert [] == stacks(sweeping)


@pytest.mark.slow
def test_a_state_that_a_full_disk_cut_off_is_put_back(sweeping: Project) -> None:
    """As before `rwi up`: without it pulumi refuses every command on the stack."""
    sweep(sweeping, "workers=1", "--keep")
    file = sweeping.folder.parent / "state/.pulumi/stacks/ray-worth-it/sweep-local.json"
    file.write_text(file.read_text()[:1000])

    shown = sweep(sweeping, "workers=1")

    assert "stack sweep-local: " in shown
    assert "was cut off" in shown
    assert 1 == len(list((sweeping.folder / "runs/sweep-local").glob("baseline-1-*"))), shown
    assert [] == stacks(sweeping)
