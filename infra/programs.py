"""Runs other programs, and explains why one failed. The callers decide which programs."""

import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from training.machine import output
from training.machine.retries import retry

ATTEMPTS = 3
LAST_LINES = 15
"""The number of lines of a program's output that its error message shows."""


class UserError(Exception):
    """The base class of errors that the user has to know or fix. Only the message of such an error is printed."""


class ProgramError(UserError):
    """Raised if a program could not be run, or failed."""


def say(message: str) -> None:
    """Print one line for the user on stderr, because Pulumi keeps stdout in the state."""
    print(message, file=sys.stderr, flush=True)


def run(
    *command: str,
    quiet: bool = False,
    seconds: float | None = None,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run the command. With `quiet` return its stdout; otherwise print its output and return an empty text. Raise
    ProgramError with the end of the output if the command fails."""
    run_it = output.capture_text if quiet else _shown
    try:
        done = run_it(command, seconds=seconds, cwd=cwd, env=environment)
    except FileNotFoundError:
        raise ProgramError(f"{command[0]} is not installed, or not on PATH") from None
    except subprocess.TimeoutExpired:
        raise ProgramError(f"`{' '.join(command[:4])} …` took longer than {seconds:.0f} s and was stopped") from None
    except output.FloodError as error:
        raise ProgramError(f"{error} and was stopped") from None
    if done.returncode != 0:
        last = "\n".join(output.last_lines(done.stderr or done.stdout, LAST_LINES))
        raise ProgramError(f"`{' '.join(command[:4])} …` ended with code {done.returncode}:\n{last}")
    return done.stdout


def _shown(command: Sequence[str], *, seconds: float | None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command and print its output line by line on stderr. The result's `stderr` holds the last lines."""
    last = deque[str](maxlen=LAST_LINES)
    with output.started(command, stderr=subprocess.STDOUT, **options) as process:
        for line in output.texts(chunk for _, chunk in output.printed(process, seconds)):
            last.append(line.rstrip())
            say(line.rstrip())
    return subprocess.CompletedProcess(command, process.returncode, "", "\n".join(last))


def succeeds(*command: str) -> bool:
    """Run the command without printing its output, and return whether it succeeded."""
    try:
        run(*command, quiet=True)
    except ProgramError:
        return False
    return True


def with_retries(what: str, action: Callable[[], object]) -> None:
    """Try an action up to three times, and print a line for each failure. Raise the last ProgramError if all fail."""

    def pause(attempt: int, failure: Exception) -> float | None:
        if attempt == ATTEMPTS:
            return None
        say(f"{what}: attempt {attempt} of {ATTEMPTS} failed ({str(failure).splitlines()[-1]}); trying again")
        return attempt

    retry(action, (ProgramError,), pause)


def run_main(actions: Mapping[str, Callable[[], object]]) -> NoReturn:
    """Run the action that the command line names, and exit; if it fails, with only its message, and code 1."""
    chosen = actions.get(sys.argv[1]) if len(sys.argv) == 2 else None
    if chosen is None:
        sys.exit(f"error: one of {', '.join(actions)} is allowed, not {' '.join(sys.argv[1:]) or 'nothing'}")
    try:
        chosen()
    except ProgramError as failure:
        sys.exit(f"error: {failure}")
    sys.exit(0)
