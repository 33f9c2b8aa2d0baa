"""Project: names that are safe in paths, Pulumi.yaml and stack files read without a YAML parser, retries."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from cli.setup import interrupt, project
from cli.setup.project import ToolError
from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from tests.stacks import OF_BUCKETS, OF_EXAMPLES, STACKS

GOOD = ["local", "my.stack-2", "A_b"]


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "$(x)", "a\n", "é"])
def test_any_other_stack_name_is_refused_with_what_is_allowed(name: str) -> None:
    """It would become part of a path: letters, digits, '_', '.' and '-' are taken."""
    assert [project.checked_stack_name(good) for good in GOOD] == GOOD
    with pytest.raises(ToolError, match="letters, digits"):
        project.checked_stack_name(name)


@pytest.mark.parametrize(
    ("settings", "target"),
    [
        ("config: {}\n", "local"),
        ("config:\n  ray-worth-it:target: minikube\n", "minikube"),
        ('config:\n  "ray-worth-it:target": "kubernetes"  # ours\n', "kubernetes"),
        ("config:\n  target: kubernetes\n", "kubernetes"),
        ("config:\n  # target: minikube\n  ray-worth-it:workers: 2\n", "local"),
        ("config:\n  ray-worth-it:targetOfSomething: minikube\n", "local"),
    ],
)
def test_the_target_of_a_stack_file(settings: str, target: str) -> None:
    """As Pulumi writes it, quoted or without the project's name; a comment and another key are not it."""
    assert project.target_of(settings) == target


def test_every_stack_file_in_git_has_its_name_as_target() -> None:
    """`ci` is Minikube on a small machine; the others are named after their target, or train an example here."""
    targets = {stack: project.target_of(project.stack_text(stack)) for stack in STACKS}

    of_places = {"local": "local", "minikube": "minikube", "kubernetes": "kubernetes", "ci": "minikube", "ray": "ray"}
    assert targets == of_places | dict.fromkeys((*OF_EXAMPLES, *OF_BUCKETS), "local")


def test_smoke_has_the_settings_of_local() -> None:
    """It needs no file of its own."""
    assert project.stack_file("smoke") == project.stack_file("local")


def test_the_project_name_is_that_of_the_project_file() -> None:
    """The folder of the file backend is named after it."""
    assert project.project_name() == "ray-worth-it"


def test_a_network_step_is_tried_three_times_with_a_line_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """The third failure is raised; the two before are told."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    fail = Mock(side_effect=ToolError("connection reset"))

    with pytest.raises(ToolError, match="connection reset"):
        project.retry("uv", fail)

    assert fail.call_count == 3
    told = capsys.readouterr().err
    assert [(1, 3, 1), (2, 3, 2)] == [tuple(map(int, re.findall(r"\d+", line))) for line in told.splitlines()]
    wording("setup", told)


def test_a_final_failure_is_not_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Offline costs one attempt."""
    with pytest.raises(ToolError):
        project.retry("uv", Mock(side_effect=ToolError("no such host")), is_final=lambda error: "no such" in str(error))

    assert capsys.readouterr().err == ""


def status_after(error: BaseException, interrupted: str = "") -> object:
    """The exit status of a command that ends so."""
    with pytest.raises(SystemExit) as ended:
        project.run_main(Mock(side_effect=error), interrupted)
    return ended.value.code


def test_an_error_is_shown_as_its_message_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback for what the user has to do."""
    assert status_after(ToolError("do this")) == 1
    assert capsys.readouterr().err == "error: do this\n"


@pytest.mark.parametrize(
    "refused",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EROFS, "Read-only file system", "/project/.state/set.json"),
        NotADirectoryError(errno.ENOTDIR, "Not a directory", "/project/results/local"),
    ],
    ids=lambda error: errno.errorcode[error.errno],
)
def test_a_file_system_that_refuses_is_no_traceback(
    refused: OSError, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """Whatever a command was about to write, or to read: what happened to which file, and what to do."""
    assert 1 == status_after(refused)
    wording("setup", capsys.readouterr().err)


def test_another_error_of_the_system_is_a_defect_and_looks_like_one() -> None:
    """Its traceback is what somebody needs who reports it."""
    with pytest.raises(OSError, match="Bad file descriptor"):
        project.run_main(Mock(side_effect=OSError(errno.EBADF, "Bad file descriptor")))


@pytest.mark.parametrize("text", ["", "what is kept"])
def test_ctrl_c_is_answered_where_it_ends_something(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the status that a shell expects, and no traceback; by nothing where it is how the command ends anyway."""
    assert status_after(KeyboardInterrupt(), text) == 130
    assert capsys.readouterr().err == (f"{text}\n" if text else "")


@pytest.mark.parametrize("when", ["imports", "main"])
def test_ctrl_c_while_modules_are_imported_ends_with_a_line(when: str, tmp_path: Path) -> None:
    """Before the command has begun no traceback says it; afterwards it is the command's."""
    for part in ("cli/setup", "training/machine"):
        shutil.copytree(project.ROOT / part, tmp_path / part)
    for name in ("rwi", "training/image/uv.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(project.ROOT / name, tmp_path / name)
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    press = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    main = (
        f"from cli.setup.project import run_main\ndef press():\n    {press}\ndef main(_):\n    run_main(press, 'mine')"
    )
    (tmp_path / "cli/door.py").write_text(press if when == "imports" else main, encoding="utf-8")

    command = [tmp_path / ".venv/bin/python", tmp_path / "rwi"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (130, interrupt.TEXT if when == "imports" else "mine\n") == (done.returncode, done.stderr)


def test_a_stack_file_that_pulumi_deleted_is_made_by_the_line_that_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pulumi stack rm` deletes that of `local`, from which others are copied."""
    monkeypatch.setattr(project, "STACKS", tmp_path / "stacks")
    (tmp_path / "stacks").mkdir()
    for stack in ("local", "mine"):
        with pytest.raises(ToolError) as refused:
            project.stack_file(stack)
        assert "./rwi try" in str(refused.value)
        line = str(refused.value).rpartition(": `")[2].rstrip("`")
        subprocess.run(["sh", "-euc", line], cwd=tmp_path, check=True)

    assert project.stack_text("local") == project.stack_text("mine") == "config: {}\n"


ENDS = """
import signal, subprocess, sys, time
from cli.setup.project import run_main
def main():
    child = "import signal, sys; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, sys.stdin.isatty())"
    subprocess.run([sys.executable, "-c", child], check=True)
    sys.stdin.isatty()
    while True:
        time.sleep(0.05)
run_main(main, "mine")
"""
"""A command that waits, and says of what it starts whether SIGINT is ignored there.

It wakes up often: Python runs a handler only between system calls, so a signal that arrives just before a long one is
answered when that ends.
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_command_without_a_terminal_ends_when_it_is_told_to(number: signal.Signals) -> None:
    """With SIGINT ignored, as a shell's background job has it, and stdin closed; what it starts reacts to SIGINT."""
    with subprocess.Popen(
        ["sh", "-c", "trap '' INT; exec \"$@\" <&-", "sh", sys.executable, "-c", ENDS], cwd=project.ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        said = running.stdout.readline()
        os.kill(running.pid, number)
        _, errors = running.communicate(timeout=LONGEST_SECONDS)

    assert ("False False\n", "mine\n", 128 + number) == (said, errors, running.returncode)


def test_under_nohup_a_closed_terminal_ends_nothing() -> None:
    """A second SIGTERM is no second request: a supervisor tells make and the command, and make tells it again."""
    with subprocess.Popen(
        ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", sys.executable, "-c", ENDS], cwd=project.ROOT,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        running.stdout.readline()
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGTERM):
            os.kill(running.pid, number)
        _, errors = running.communicate(timeout=LONGEST_SECONDS)

    assert ("mine\n", 128 + signal.SIGTERM) == (errors, running.returncode)
