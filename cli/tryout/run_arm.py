"""Runs one arm of somebody's script as a local run is run, and returns how it ended. Judges nothing."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from cli.tryout.request import Request
from infra.places.local import guard
from training.contract.provenance import PROJECT
from training.launch import environment
from training.launch.foreign_command import MOST_PRINTED
from training.machine import process_session
from training.workloads.script import plain, ray_start
from training.workloads.script.commands import ArmCommand
from training.workloads.script.environment import observed_by, variables_of
from training.workloads.script.observation_files import read
from training.workloads.script.observations import Observation
from training.workloads.script.ray_start import RayStart

KEPT = 2**16
"""Number of bytes that are kept of the end of an arm's output."""
TRACE_BEFORE_END_SECONDS = 5
TRACE_LINES = 8
POLL_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Changed:
    """Differences from the way in which `rwi try` runs an arm."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """Additional variables for the observer, which watches the script from inside."""
    is_over: Callable[[], bool] = lambda: False
    """Called repeatedly; returns whether the run is to be ended now."""


AS_TRIED = Changed()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an arm ended, and what was observed."""

    arm: str
    code: int
    seconds: float
    seen: list[Observation]
    printed: str
    """The end of the arm's output."""
    printed_bytes: int
    trace: str
    """The stack of the main thread at the time-out; "" if it is not known."""
    end: Mapping[str, Any]
    """What was reported at the run's end, under the keys began, ended, left, processes, network; empty if the run was
    ended from outside."""
    ray_start: RayStart | None = None
    """The observed start of Ray, in the arm that only starts Ray; None in any other arm."""
    not_proved: str = ""
    """What the ranks of a plain script say about work that was in no step of the script's proof."""

    @property
    def hung(self) -> bool:
        """Return whether the time of the arm ran out. A script may end with the same code by itself; one that ended
        with another code shortly before the time ran out did not end with this one."""
        return self.code == guard.DEADLINE and self.end.get("code") != guard.DEADLINE

    @property
    def flooded(self) -> bool:
        """Return whether the arm printed too much."""
        return self.printed_bytes > MOST_PRINTED


def run(arm: ArmCommand, request: Request, folder: Path, where: Path, changed: Changed = AS_TRIED) -> Outcome:
    """Run `arm` in the folder `where`, with its files in a new private folder in `folder`, and return the outcome."""
    own = folder / arm.arm
    own.mkdir(mode=0o700)
    with tempfile.TemporaryDirectory(prefix="try-", dir=environment.short_folder()) as ray_folder:
        plan = own / "plan.json"
        plan.touch(mode=0o600)  # what --env holds may be secret
        hang_seconds = request.limit_seconds - min(TRACE_BEFORE_END_SECONDS, request.limit_seconds // 2)
        variables = variables_of(arm, request.variables, Path(ray_folder))
        variables |= {**observed_by(own, request.steps, hang_seconds), **changed.variables}
        plan.write_text(
            json.dumps(
                {
                    "command": arm.command,
                    "folder": str(where),
                    "variables": variables,
                    "cpus": arm.cpus,
                    "ends": str(own / "end.json"),
                }
            ),
            encoding="utf-8",
        )
        began = time.monotonic()
        code, printed, printed_bytes = _guarded(plan, request.limit_seconds, own, changed.is_over)
        seconds = time.monotonic() - began
        plan.unlink()
    end: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        end = json.loads((own / "end.json").read_text(encoding="utf-8"))
    return Outcome(
        arm=arm.arm, code=code, seconds=seconds, seen=read(own), printed=printed, printed_bytes=printed_bytes,
        trace=_trace(own, where) if code == guard.DEADLINE else "", end=end, ray_start=ray_start.read(own),
        not_proved=plain.not_proved(own),
    )  # fmt: skip


@contextmanager
def guarded(plan: Path, limit_seconds: int, own: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a plan of `foreign_command` under a guard, with the output of this process. Whatever happens, none of its
    processes is left afterwards.

    After `limit_seconds` the guard ends them. In `own`/progress.jsonl it reports that it waits for the machine.
    """
    running = _start(plan, limit_seconds, own, None)
    try:
        yield running
    finally:
        _end(running)


def _guarded(plan: Path, limit_seconds: int, own: Path, is_over: Callable[[], bool]) -> tuple[int, str, int]:
    """Run the plan under a guard. Return the exit code, the end of the output, and the output's bytes."""
    running = _start(plan, limit_seconds, own, subprocess.PIPE)
    assert running.stdin is not None and running.stdout is not None  # noqa: S101, PT018 (both are pipes)
    tail = _Tail(running.stdout, running.stdin)
    try:
        while (code := _waited(running)) is None:
            if is_over():
                running.stdin.close()  # the guard ends everything at end-of-file
    finally:
        _end(running)
        tail.thread.join(process_session.GIVE_UP_SECONDS)
        running.stdout.close()
    return code, tail.text(), tail.count


def _start(plan: Path, limit_seconds: int, own: Path, out: int | None) -> subprocess.Popen[bytes]:
    run = guard.command(limit_seconds, own, "--", sys.executable, "-m", "training.launch.foreign_command", str(plan))
    return subprocess.Popen(
        run, cwd=PROJECT, env=environment.allowed(os.environ), stdin=subprocess.PIPE,
        stdout=out, stderr=subprocess.STDOUT if out else None, start_new_session=True,
    )  # fmt: skip


def _end(running: subprocess.Popen[bytes]) -> None:
    assert running.stdin is not None  # noqa: S101 (it is a pipe)
    with suppress(OSError):
        running.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        running.wait(process_session.GRACE_SECONDS + 4)
    process_session.end_session(running.pid)
    running.wait()


def _waited(running: subprocess.Popen[bytes]) -> int | None:
    try:
        return running.wait(POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


class _Tail:
    """Reads the output of a run while it is printed, keeps the end, and has the run ended if it prints too much."""

    def __init__(self, out: IO[bytes], stop: IO[bytes]) -> None:
        self.count = 0
        self._kept: deque[bytes] = deque()
        self._size = 0
        self.thread = threading.Thread(target=self._read, args=(out, stop), daemon=True)
        self.thread.start()

    def _read(self, out: IO[bytes], stop: IO[bytes]) -> None:
        while part := os.read(out.fileno(), KEPT):
            self.count += len(part)
            self._kept.append(part)
            self._size += len(part)
            while self._size - len(self._kept[0]) > KEPT:
                self._size -= len(self._kept.popleft())
            if self.count > MOST_PRINTED:
                with suppress(OSError):
                    stop.close()  # the guard ends everything at end-of-file

    def text(self) -> str:
        """Return the end of the output as text."""
        return b"".join(self._kept).decode(errors="replace")


def _trace(own: Path, where: Path) -> str:
    """Return the main thread's stack of one process, if possible of one that is in a file of the script's folder."""
    stacks = []
    for path in sorted(own.glob("hang-*.txt")):
        main = path.read_text(encoding="utf-8", errors="replace").rpartition("Thread 0x")[2]
        stacks.append([line for line in main.splitlines() if line.startswith("  File")][:TRACE_LINES])
    in_script = [stack for stack in stacks if any(str(where) in line for line in stack)]
    return "\n".join(next(iter([*in_script, *filter(None, stacks)]), []))
