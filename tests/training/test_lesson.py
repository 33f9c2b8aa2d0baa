"""The lesson for real, stopped while Ray runs: nothing of it stays."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from training.contract.provenance import PROJECT, allowed_cpus
from training.machine import process_session

WAIT_SECONDS = 120


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A temporary folder with a name so short that Ray's sockets have room in a folder in it."""
    with tempfile.TemporaryDirectory(prefix="", dir="/tmp") as name:
        yield Path(name)


@pytest.mark.slow
@pytest.mark.skipif(len(allowed_cpus()) < 2, reason="the lesson needs two CPUs")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_stops_it_finds_nothing_of_it(number: signal.Signals, temporary: Path) -> None:
    """Neither processes nor files, token included."""
    lesson = subprocess.Popen(
        [sys.executable, "rwi", "bench", "lesson"],
        cwd=PROJECT, env=os.environ | {"TMPDIR": str(temporary)}, start_new_session=True, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        started = _until_ray_runs(lesson.pid)
        token = list(temporary.rglob("ray-token"))
        lesson.send_signal(number)
        _, said = lesson.communicate(timeout=WAIT_SECONDS)
    finally:
        process_session.end_session(lesson.pid)
        lesson.wait()

    assert 1 == len(token)
    assert 130 == lesson.returncode
    assert said.decode().splitlines()[-1].startswith("stopped")
    assert [] == [process for process in started if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    assert [] == list(temporary.iterdir())


def _until_ray_runs(pid: int) -> list[psutil.Process]:
    """All that the lesson has started, once Ray's raylet is among it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        started = psutil.Process(pid).children(recursive=True)
        for process in started:
            with suppress(psutil.Error):
                if process.name() == "raylet":
                    return started
        time.sleep(0.2)
    raise TimeoutError("Ray did not start")
