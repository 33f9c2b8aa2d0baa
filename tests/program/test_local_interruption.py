"""Whatever is killed while a run is made: nothing of it lives on, and the next `up` makes exactly what is missing."""

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.program.conftest import NewProject
from tests.program.engine import Project, wait_for

Up = subprocess.Popen[str]
UNDERSTOOD = "If you would like to terminate immediately"
MISSING = {"native-1": "create", "ray-1": "create"}
pytestmark = pytest.mark.slow


def send_interrupt_twice(project: Project, up: Up) -> None:
    """Ctrl-C twice: Pulumi has to have understood the first one."""
    os.killpg(up.pid, signal.SIGINT)  # as a terminal does: to the language host too
    wait_for("pulumi says what a second one does", lambda: UNDERSTOOD in project.shown())
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
        wait_for("the run has begun", lambda: len(project.processes("training.native")) == 1)
        wait_for("its child has begun", lambda: any("SIG_IGN" in str(c) for c in project.survivors()))

        interrupt(project, up)

        wait_for("nothing lives on", lambda: not project.survivors(), 10)
        assert 0 != up.wait(60)

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
        wait_for("the run has begun", lambda: project.processes("training.native"))

        os.killpg(up.pid, number)
        wait_for("pulumi has understood", lambda: UNDERSTOOD in project.shown())
        project.control("native-1", "")

        assert 0 != up.wait(60)
        wait_for("nothing lives on", lambda: not project.survivors(), 10)

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
        wait_for("the first run has begun", lambda: first.processes("training.baseline"))
        with second.running_up() as two:
            wait_for(
                "the second says why it waits",
                lambda: "baseline-1: waits" in (second.folder / "up.txt").read_text(),
                60,
            )
            assert [] == second.processes("training.baseline")

            first.control("baseline-1", "")

            assert 0 == one.wait(120)
            assert 0 == two.wait(120)


def locks(project: Project) -> list[str]:
    """Lock files of the backend."""
    folder = project.folder.parent / "state/.pulumi/locks"
    return [name for _, _, names in os.walk(folder) for name in names]
