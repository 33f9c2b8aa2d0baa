"""Whatever is killed while a run is made: nothing of it lives on, and the next `up` makes exactly what is missing."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.stack.screen import HINT_WAITING
from tests.limits import LONGEST_SECONDS, wait_for
from tests.program.conftest import NewProject
from tests.program.engine import ROOT, Project
from tests.program.rwi_project import terminal

Up = subprocess.Popen[str]
UNDERSTOOD = "If you would like to terminate immediately"
MISSING = {"native-1": "create", "ray-1": "create"}
pytestmark = pytest.mark.slow


def send_interrupt_twice(project: Project, up: Up) -> None:
    """Ctrl-C twice: Pulumi has to have understood the first one."""
    os.killpg(up.pid, signal.SIGINT)  # as a terminal does: to the language host too
    wait_for(lambda: UNDERSTOOD in project.shown(), "pulumi says what a second one does")
    os.killpg(up.pid, signal.SIGINT)


def kill_pulumi(project: Project, up: Up) -> None:
    """As the system does when memory runs out."""
    up.kill()


def kill(module: str) -> Callable[[Project, Up], None]:
    """Kill the processes that run `module`."""

    def kill_module(project: Project, up: Up) -> None:
        victims = project.processes(module)
        assert victims
        for process in victims:
            process.kill()

    return kill_module


@pytest.mark.parametrize(
    "interrupt",
    [
        pytest.param(send_interrupt_twice, id="ctrl-c-twice"),
        pytest.param(kill_pulumi, id="kill-pulumi"),
        pytest.param(kill("pulumi.dynamic"), id="kill-provider"),
        pytest.param(kill("infra.places.local.guard"), id="kill-guard"),
        pytest.param(kill("training.native"), id="kill-training"),
    ],
)
def test_nothing_outlives_an_interrupted_run(project: Project, interrupt: Callable[[Project, Up], None]) -> None:
    """The run ignores SIGTERM and has a child in another process group; after 10 s it is gone, and the provider too.

    The two commands that the docs give leave the same state, whatever was killed: then exactly the missing runs are
    made, which is seen of the engine's own death.
    """
    project.create_stack(repeats="1")
    project.control("native-1", "hang")
    with project.running_up() as up:
        wait_for(lambda: len(project.processes("training.native")) == 1, "the run has begun")
        wait_for(lambda: any("SIG_IGN" in str(c) for c in project.survivors()), "its child has begun")

        interrupt(project, up)

        wait_for(lambda: not project.survivors(), "nothing lives on")
        assert 0 != up.wait(LONGEST_SECONDS)

    project.control("native-1", "")
    project.pulumi("cancel", "--yes")
    if project.state().get("pending_operations"):
        project.pulumi("refresh", "--yes", "--skip-preview", "--clear-pending-creates")
    assert [] == locks(project)
    assert not project.state().get("pending_operations")
    assert ["baseline-1"] == list(project.ids())
    if interrupt is kill_pulumi:
        project.up()
        assert "speedup" in project.outputs()
    else:
        assert MISSING == project.preview()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_the_run_finish(project: Project, number: signal.Signals) -> None:
    """It is kept, no other is begun, and neither lock nor pending operation stays."""
    project.create_stack(repeats="1")
    project.control("native-1", "wait")
    with project.running_up() as up:
        wait_for(lambda: project.processes("training.native"), "the run has begun")

        os.killpg(up.pid, number)
        wait_for(lambda: UNDERSTOOD in project.shown(), "pulumi has understood")
        project.control("native-1", "")

        assert 0 != up.wait(LONGEST_SECONDS)
        wait_for(lambda: not project.survivors(), "nothing lives on")

    assert [] == locks(project)
    assert not project.state().get("pending_operations")
    assert {"ray-1": "create"} == project.preview()


def test_two_measurements_on_one_machine_do_not_overlap(new_project: NewProject) -> None:
    """The second waits and says so; it begins when the first run has ended."""
    first, second = new_project(), new_project()
    for each in (first, second):
        each.measure_on(f"machine of {first.mark}")
    first.control("baseline-1", "wait")
    for each in (first, second):
        each.create_stack(repeats="1", nativeArm="false")
    with first.running_up() as one:
        wait_for(lambda: first.processes("training.baseline"), "the first run has begun")
        with second.running_up() as two:
            wait_for(lambda: "baseline-1: waits" in second.shown(), "the second says why it waits")
            assert [] == second.processes("training.baseline")

            first.control("baseline-1", "")

            assert 0 == one.wait(LONGEST_SECONDS)
            assert 0 == two.wait(LONGEST_SECONDS)


HOLD = """
from training.machine import machine_lock
machine_lock.hold(print)
print("has it", flush=True)
input()
"""


def test_one_ctrl_c_ends_a_run_that_only_waits(project: Project, cli: Path) -> None:
    """Nothing of it is lost: no process, lock or pending operation stays, and the next `up` begins it."""
    for name in ("cli", "report"):
        shutil.copytree(ROOT / name, project.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "rwi", project.folder)
    (project.folder / ".tools").mkdir()
    (project.folder / ".tools/cli-in-use.json").write_text(json.dumps({"folder": str(cli.parent)}))
    project.create_stack(repeats="1")
    environment = project.environment | {"RWI_SETUP": "no"}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=project.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "has it\n"
        with terminal(["./rwi", "up"], project.folder, environment) as shown:
            wait_for(lambda: HINT_WAITING in shown.output or shown.process.poll() is not None, "it waits, and says so")
            shown.press_ctrl_c()
            status = shown.process.wait(LONGEST_SECONDS)
        print(shown.output)
        left = project.survivors()
        holder.kill()

    assert 0 != status
    assert "0 of 3" in shown.output
    assert "interrupted" in shown.output
    assert not {"failed:", "lost"} & set(shown.output.split())
    assert [] == left
    assert [] == locks(project)
    assert not project.state().get("pending_operations")
    assert {"baseline-1": "create", **MISSING} == project.preview()


def locks(project: Project) -> list[str]:
    """Lock files of the backend."""
    folder = project.folder.parent / "state/.pulumi/locks"
    return [name for _, _, names in os.walk(folder) for name in names]
