"""The processes of a plain script on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import process, watch
from .settings import VARIABLE, Settings, taken

GRACE_SECONDS = 5.0
PLANNED_STEPS = 8


def rank() -> int:
    """Run the script as the process that the variable says."""
    return process.main(taken(), sys.argv[1:])


def plan() -> int:
    """Run some steps of the script alone, whose files are thrown away, and write the plan."""
    file, command = sys.argv[1], sys.argv[2:]
    folder = tempfile.mkdtemp(prefix="spread-")
    try:
        settings = Settings(out=folder, private=os.path.join(folder, "files"), steps=PLANNED_STEPS, watches=True)
        code = _start(settings, command).wait()
        written = Path(folder, "facts-rank0.json")
        if written.exists() and not code:
            shutil.copyfile(written, file)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def ranks() -> int:
    """Run the script as processes of this machine; return the first failure's exit code. All end with the first."""
    count, plan_file, command = int(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    folder = tempfile.mkdtemp(prefix="spread-")
    store = f"127.0.0.1:{free_port()}"
    started = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        for number in range(count):
            private = os.path.join(folder, str(number)) if number else ""
            settings = Settings(rank=number, world=count, store=store, plan=plan_file, private=private, trace=folder)
            started.append(_start(settings, command))
        while None in (states := [each.poll() for each in started]) and not any(states):
            time.sleep(0.05)
    finally:
        _end(started)
        if any(each.returncode for each in started) and (why := watch.apart(folder, count)):
            sys.stderr.write(f"ranks of the script branched apart: {why}\n")
        shutil.rmtree(folder, ignore_errors=True)
    codes = [each.returncode for each in started if each.returncode]
    return codes[0] if codes and codes[0] > 0 else int(bool(codes))


def _start(settings: Settings, command: list[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, VARIABLE: settings.text()}
    environment.setdefault("PYTHONHASHSEED", "0")  # the order of a set of strings is one on all ranks
    return subprocess.Popen(
        [sys.executable, os.path.dirname(os.path.abspath(__file__)), "rank", *command], env=environment
    )


def free_port() -> int:
    """Return a port that nothing listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _end(started: list[subprocess.Popen[bytes]]) -> None:
    for each in started:
        if each.poll() is None:
            each.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for each in started:
        try:
            each.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.kill()
            each.wait()
