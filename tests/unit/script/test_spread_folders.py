"""Folders of a plain script's ranks in the temporary one: that of a killed process stays until the next, no longer."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from training.contract.provenance import PROJECT
from training.workloads.script.spread import folders

HOLDS = """
import os, sys
from training.workloads.script.spread import folders
with folders.temporary() as folder:
    forks, waits = sys.argv[1:]
    child = forks == "forks" and os.fork() == 0
    if child or forks != "forks":
        print(folder, flush=True)
    if child or waits == "waits":
        sys.stdin.read()
    os._exit(0) if child else os.kill(os.getpid(), 9)
"""
Process = subprocess.Popen[str]


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder, of a process that has none for Ray."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    return tmp_path


def holding(top: Path, *how: str) -> tuple[Process, Path]:
    """A process with a folder, which is killed, also before its fork ends, or waits before that until it is told."""
    command, around = [sys.executable, "-c", HOLDS, *how], {**os.environ, "TMPDIR": str(top)}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=PROJECT, env=around, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    if how[1] != "waits":
        assert -signal.SIGKILL == process.wait()
    return process, folder


def test_the_folder_of_a_killed_process_goes_with_the_next(top: Path) -> None:
    """Not that of one that lives, or of which a fork does, nor what has only the name."""
    started = [holding(top, "", "waits"), holding(top, "forks", ""), holding(top, "", "")]
    (top / "spread-mine").mkdir()
    (top / "spread-link").symlink_to(started[0][1])
    with folders.temporary() as folder:
        names = {path.name for path in top.iterdir()}
    after = {path.name for path in top.iterdir()}
    for process, _ in started:
        process.communicate()

    stay = {"spread-mine", "spread-link", started[0][1].name, started[1][1].name}
    assert stay | {Path(folder).name} == names
    assert stay == after


def test_a_folder_of_another_user_stays(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever's process is gone."""
    process, abandoned = holding(top, "", "")
    process.communicate()
    own, stays = os.getuid(), []
    for user in (own + 1, own):
        monkeypatch.setattr(os, "getuid", lambda user=user: user)
        with folders.temporary():
            stays.append(abandoned.exists())

    assert [True, False] == stays
