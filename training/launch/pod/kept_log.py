"""Keeps the output of a run's pod in storage, as its log is deleted with the pod. Standard library until it is kept.

The run becomes a child of this process, which hands on all that it prints as it comes, and keeps it when the run has
ended: well, by a failure, or by SIGTERM. Nothing is kept of a container that is ended as a whole, for its memory say.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from training.launch.storage.run_storage import Storage
from training.machine import output

FOLDER = "logs"
"""Folder of the logs, in a run's folder in storage."""


def run(command: Sequence[str], storage: str, name: str) -> int:
    """Run it, and keep what it prints as `logs/NAME` in its folder in storage; its exit code (128 + n: by signal n)."""
    with TemporaryDirectory(prefix="log-") as folder:
        log = Path(folder) / name
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        signal.signal(signal.SIGTERM, lambda number, _frame: _pass_on(child, number, _frame))
        with log.open("wb") as file:
            for _, chunk in output.printed(child):
                for target in (sys.stdout.fileno(), file.fileno()):
                    _write(target, chunk)
        code = child.wait()
        if refusal := _keep(log, storage):
            print(f"warning: the log is not kept in {storage}: {refusal}", file=sys.stderr, flush=True)
    return 128 - code if code < 0 else code


def _pass_on(child: "subprocess.Popen[bytes]", number: int, _: FrameType | None) -> None:
    with suppress(ProcessLookupError):
        child.send_signal(number)


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
