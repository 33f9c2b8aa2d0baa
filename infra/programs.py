"""Runs other programs, and explains why one failed. The callers decide which programs."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from training.machine.retries import retry

ATTEMPTS = 3


class UserError(Exception):
    """An error that the user has to know or fix; only its message is printed. The root of what infra raises."""


class ProgramError(UserError):
    """A program that could not be run, or failed."""


def say(message: str) -> None:
    """Print one line for the user. On stderr: stdout is kept in the state."""
    print(message, file=sys.stderr, flush=True)


def run(
    *command: str,
    quiet: bool = False,
    seconds: float | None = None,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run the command and return its stdout; prints its output unless `quiet`. Raises ProgramError with the output's
    end."""
    lines: list[str] = []
    try:
        if quiet:
            done = subprocess.run(
                command, cwd=cwd, env=environment, timeout=seconds, capture_output=True, text=True, check=False
            )
            code, output = done.returncode, done.stdout
            lines = (done.stderr or done.stdout).splitlines()
        else:
            code, output = _shown(command, lines, seconds, cwd, environment), ""
    except FileNotFoundError:
        raise ProgramError(f"{command[0]} is not installed, or not on PATH") from None
    except subprocess.TimeoutExpired:
        raise ProgramError(f"`{' '.join(command[:4])} …` took longer than {seconds:.0f} s and was stopped") from None
    if code != 0:
        raise ProgramError(f"`{' '.join(command[:4])} …` ended with code {code}:\n" + "\n".join(lines[-15:]))
    return output


def _shown(
    command: tuple[str, ...],
    lines: list[str],
    seconds: float | None,
    cwd: Path | None,
    environment: Mapping[str, str] | None,
) -> int:
    """Run with the output line by line on stderr, and in `lines`; return the exit code."""
    deadline = time.monotonic() + seconds if seconds else None
    with subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None  # noqa: S101 (it is a pipe)
        for line in process.stdout:
            lines.append(line.rstrip())
            say(line.rstrip())
            if deadline and time.monotonic() > deadline:
                process.kill()
                raise subprocess.TimeoutExpired(command, seconds or 0)
    return process.returncode


def succeeds(*command: str) -> bool:
    """Return whether the command succeeds; its output is not printed."""
    try:
        run(*command, quiet=True)
    except ProgramError:
        return False
    return True


def with_retries(what: str, action: Callable[[], object]) -> None:
    """Try a step over the network three times, and print a line for each failure. Raises the last ProgramError."""

    def pause(attempt: int, failure: Exception) -> float | None:
        if attempt == ATTEMPTS:
            return None
        say(f"{what}: attempt {attempt} of {ATTEMPTS} failed ({str(failure).splitlines()[-1]}); trying again")
        return attempt

    retry(action, (ProgramError,), pause)


def run_main(actions: Mapping[str, Callable[[], object]]) -> NoReturn:
    """Run the action that the command line names; a failure prints its message alone, with exit code 1."""
    chosen = actions.get(sys.argv[1]) if len(sys.argv) == 2 else None
    if chosen is None:
        sys.exit(f"error: one of {', '.join(actions)} is allowed, not {' '.join(sys.argv[1:]) or 'nothing'}")
    try:
        chosen()
    except ProgramError as failure:
        sys.exit(f"error: {failure}")
    sys.exit(0)
