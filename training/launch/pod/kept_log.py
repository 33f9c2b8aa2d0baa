"""Keeps the output of a run's pod in storage, as its log is deleted with the pod. Standard library until it is kept.

The run becomes a child of this process, which hands on all that it prints as it comes, and keeps it when the run has
ended: well, by a failure, or by SIGTERM. Nothing is kept of a container that is ended as a whole, for its memory say.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from training.launch.storage.run_storage import Storage

FOLDER = "logs"
"""Folder of the logs, in a run's folder in storage."""
_CHUNK = 65536
_SILENCE_SECONDS = 1.0
"""Time for which the run's leftover processes may hold its output open, without output, after the run's own end."""


def run(command: Sequence[str], storage: str, name: str) -> int:
    """Run it, and keep what it prints as `logs/NAME` in its folder in storage; its exit code (128 + n: by signal n)."""
    with TemporaryDirectory(prefix="log-") as folder:
        log = Path(folder) / name
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        signal.signal(signal.SIGTERM, lambda number, _frame: _pass_on(child, number, _frame))
        with log.open("wb") as file:
            _hand_on(child, file.fileno())
        code = child.wait()
        if refusal := _keep(log, storage):
            print(f"warning: the log is not kept in {storage}: {refusal}", file=sys.stderr, flush=True)
    return 128 - code if code < 0 else code


def _pass_on(child: "subprocess.Popen[bytes]", number: int, _: FrameType | None) -> None:
    with suppress(ProcessLookupError):
        child.send_signal(number)


def _hand_on(child: "subprocess.Popen[bytes]", file: int) -> None:
    """Copy the output to this process's and into the file, until everything that holds it has ended, or is silent."""
    assert child.stdout is not None  # noqa: S101 (it is a pipe)
    source, ended_at = child.stdout.fileno(), None
    while True:
        if select.select([source], [], [], 0.1)[0]:
            chunk = os.read(source, _CHUNK)
            if not chunk:
                return
            for target in (sys.stdout.fileno(), file):
                _write(target, chunk)
            ended_at = None
        elif child.poll() is not None:
            ended_at = ended_at or time.monotonic()
            if time.monotonic() - ended_at > _SILENCE_SECONDS:
                return


def _write(target: int, chunk: bytes) -> None:
    """All of it; where nobody reads any more, or the disk is full, the run goes on."""
    with suppress(OSError):
        while chunk:
            chunk = chunk[os.write(target, chunk) :]


def _keep(log: Path, storage: str) -> str:
    """Keep the log in storage; return the reason if that failed, else ""."""
    try:
        Storage.at(storage).put(log, f"{FOLDER}/{log.name}")
    except (OSError, ImportError) as error:
        return str(error).splitlines()[0]
    return ""
