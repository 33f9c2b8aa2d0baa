"""Ctrl-C, SIGTERM and kill -9 under `rwi up`: what pulumi hears, what it leaves, and what the next `rwi up` does."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.limits import LONGEST_SECONDS, wait_for
from tests.program.rwi_project import Project, processes_in, project, terminal

__all__ = ["project"]
pytestmark = pytest.mark.slow

FIRST_TIME = "If you would like to terminate immediately"
ACKNOWLEDGED = "Stopping: "
AT_ONCE = 5
"""Seconds in which an answer is on the screen, also of a machine with much to do."""
A_SECOND_SIGNAL_WOULD_END_IT = 1.5
"""Seconds, from the first: only so much time shows that there is none."""


def _pulumi_pid(project: Project) -> int:
    pids = [pid for pid, command in processes_in(project.folder).items() if command.startswith("pulumi up")]
    assert len(pids) == 1, processes_in(project.folder)
    return pids[0]


def _wait_until_first_runs(project: Project) -> None:
    wait_for(lambda: "first-began" in project.marks(), "the first resource began")


def test_one_ctrl_c_lets_the_running_create_finish_and_keeps_it(project: Project) -> None:
    """The press reaches pulumi once: it waits for the create, starts no other, and leaves neither lock nor process."""
    with terminal(UP, project.folder, project.environment) as shown:
        _wait_until_first_runs(project)
        shown.press_ctrl_c()
        wait_for(lambda: ACKNOWLEDGED in shown.output, "the press is acknowledged, with what is kept")
        time.sleep(A_SECOND_SIGNAL_WOULD_END_IT)
        project.end_sleep()
        status = shown.process.wait(timeout=LONGEST_SECONDS)

    assert status != 0
    assert "1 of 2" in shown.output
    assert FIRST_TIME not in shown.output  # of orphaned resources, which runs are not
    assert "`./rwi up --set seconds=300`" in shown.output
    assert shown.output.count("creating") == 0  # pulumi's own display is not drawn beside
    assert project.marks() == {"first-began", "first-ended"}
    assert project.locks() == []
    assert not project.deployment().get("pending_operations")
    assert processes_in(project.folder) == {}


def test_two_ctrl_c_end_it_and_the_next_up_goes_on(project: Project) -> None:
    """The second press ends pulumi at once; nothing of it lives on, and `rwi up` clears what stayed in the state."""
    with terminal(UP, project.folder, project.environment) as shown:
        _wait_until_first_runs(project)
        shown.press_ctrl_c()
        wait_for(lambda: ACKNOWLEDGED in shown.output, "the press is acknowledged")
        time.sleep(A_SECOND_SIGNAL_WOULD_END_IT)  # until pulumi has heard of it
        shown.press_ctrl_c()
        shown.process.wait(timeout=LONGEST_SECONDS)
        wait_for(lambda: not processes_in(project.folder), "no process is left")

    assert "first-ended" not in project.marks()
    assert "0 of 2" in shown.output
    assert "first was ended" in shown.output

    again = project.rwi("up")

    assert again.returncode == 0, again.stdout + again.stderr
    assert project.marks() == {"first-began", "first-ended", "second-began", "second-ended"}


UP = ["./rwi", "up", "--set", "seconds=300"]


@pytest.mark.parametrize(
    ("number", "trap"), [(signal.SIGINT, "- INT"), (signal.SIGTERM, "- TERM"), (signal.SIGTERM, "'' INT HUP")]
)
def test_a_signal_to_rwi_alone_reaches_pulumi(
    project: Project, number: signal.Signals, trap: str, tmp_path: Path
) -> None:
    """A supervisor that ends `rwi` ends the update in the orderly way; also that of `nohup ./rwi up &`."""
    command = ["sh", "-c", f'trap {trap}; exec "$@"', "sh", *UP]
    shown = tmp_path / "shown.txt"
    with shown.open("w") as output:
        process = subprocess.Popen(
            command, cwd=project.folder, env=project.environment, stdout=output, stderr=output, start_new_session=True
        )
    _wait_until_first_runs(project)
    os.killpg(process.pid, number) if number == signal.SIGINT else os.kill(process.pid, number)
    wait_for(lambda: FIRST_TIME in shown.read_text(), "pulumi waits for the create, and says so")
    time.sleep(A_SECOND_SIGNAL_WOULD_END_IT)
    project.end_sleep()
    process.wait(timeout=LONGEST_SECONDS)
    wait_for(lambda: not processes_in(project.folder), "no process is left")

    assert "1 of 2" in shown.read_text()
    assert shown.read_text().count(ACKNOWLEDGED) == 1
    assert project.marks() == {"first-began", "first-ended"}
    assert project.locks() == []
    assert not project.deployment().get("pending_operations")


def test_nothing_is_left_of_pulumi_killed_and_the_next_up_goes_on(project: Project, tmp_path: Path) -> None:
    """After kill -9 no process lives on and the terminal is as before; `rwi up` clears lock and pending create.

    No provider is asked for that: on a cluster's stack it must work without the cluster.
    """
    assert project.rwi("up").returncode == 0
    modes = tmp_path / "modes"
    up = shlex.join(UP)
    script = f"stty -a >{modes}.before; {up}; echo $? >{modes}.status; stty -a >{modes}.after"
    with terminal(["bash", "-c", script], project.folder, project.environment) as shown:
        (project.folder / "marks/first-began").unlink()
        _wait_until_first_runs(project)
        os.kill(_pulumi_pid(project), signal.SIGKILL)
        shown.process.wait(timeout=LONGEST_SECONDS)

    assert Path(f"{modes}.status").read_text().strip() != "0"
    assert Path(f"{modes}.after").read_text() == Path(f"{modes}.before").read_text()
    assert processes_in(project.folder) == {}
    assert len(project.locks()) == 1
    assert project.deployment()["pending_operations"]

    again = project.rwi("up")

    assert again.returncode == 0, again.stdout + again.stderr
    assert "removing the lock" in again.stderr
    assert "dropping 1 resource(s)" in again.stderr
    assert project.locks() == []
    assert not project.deployment().get("pending_operations")
    assert not {mark for mark in project.marks() if mark.endswith("-read")}


def test_the_lock_of_a_running_update_is_left_alone(project: Project) -> None:
    """A second `rwi up` beside a running one is refused, says which it is, and the first goes on to its end."""
    command = UP
    first = subprocess.Popen(command, cwd=project.folder, env=project.environment)
    _wait_until_first_runs(project)
    running = _pulumi_pid(project)
    second = project.rwi("up")
    outputs = project.rwi("outputs")
    project.end_sleep()
    status = first.wait(timeout=LONGEST_SECONDS)

    assert second.returncode != 0
    assert {f"kill -INT {running}", "./rwi status --watch"} <= set(re.findall(r"kill.*\d|\./rwi .*", second.stderr))
    assert "./rwi status --watch" in outputs.stderr  # and not `./rwi up`, which would be refused
    assert str(running) in outputs.stderr
    assert "dropping" not in second.stderr
    assert status == 0
    assert project.marks() >= {"first-ended", "second-ended"}
