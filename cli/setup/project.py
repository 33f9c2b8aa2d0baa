"""The project's folders, and the helpers that all tools share: nothing is decided here."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn, TypeVar

from cli.setup import interrupt
from training.machine import command_line, output, retries, told_to_end

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
TOOLS = ROOT / ".tools"
STATE = ROOT / ".state"
STACKS = ROOT / "stacks"

DEFAULT_STACK = command_line.DEFAULT_STACK
SWEEP_PREFIX = "sweep-"
"""Prefix of the name of a sweep's stack; the rest is the name of the stack whose settings the sweep has."""
CLUSTER_TARGETS = ("minikube", "kubernetes")
SMOKE = "smoke"

_STACK_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_ATTEMPTS = 3
_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (*_FULL, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EIO)
"""Error numbers of file systems whose cause a user can fix, such as a full disk."""

T = TypeVar("T")


class ToolError(Exception):
    """An error whose message tells a user what to know or do; only the message is printed."""


def say(message: str) -> None:
    """Print a message for the user on stderr, because stdout is for the output that the user asked for."""
    print(printable(message), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """Return the text without control characters that a terminal would obey. It does what `training.contract.printable`
    does, but runs in any Python."""
    text = re.sub(r"\r\n?", "\n", re.sub(r"\x1b\[[0-9;:]*m", "", text))
    return re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", "\ufffd", text)


def lock_or_wait(lock: int | IO[str], message: str) -> None:
    """Lock an open file for this process alone. If another process holds the lock, print the message and wait."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(message)
        fcntl.flock(lock, fcntl.LOCK_EX)


def capture(
    command: Sequence[str],
    folder: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    timeout_seconds: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and return its output and its status, which the caller checks. Raise TimeoutExpired
    after the time-out, and ToolError if the command prints too much."""
    try:
        return output.capture_text(command, seconds=timeout_seconds, cwd=folder, env=environment)
    except output.FloodError as error:
        raise ToolError(f"{error} and was stopped") from None


def last_line(text: str) -> str:
    """Return the last line of a program's output that is not empty: there is usually the reason of a failure."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def run_main(main: Callable[[], int], interrupted: str = "") -> NoReturn:
    """End the process with `main`'s status. Print only the message of an error, and end on a signal as shells expect.

    Errors of the file system that a user can fix, such as a full disk, are printed so, too. `interrupted` is printed
    after Ctrl-C or SIGTERM; "" for a command that usually ends that way.
    """
    interrupt.back_to_default()
    _open_streams()
    try:
        with told_to_end.raised():
            status = main()
    except ToolError as error:
        say(f"error: {error}")
        status = 1
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        about = f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror}"
        say(f"error: {about}. {'Make room' if error.errno in _FULL else 'Fix that'}, then type the same command again")
        status = 1
    except KeyboardInterrupt as interruption:
        if interrupted:
            with suppress(OSError):  # the terminal may be gone
                say(interrupted)
        status = getattr(interruption, "status", 130)
    sys.exit(status)


def _open_streams() -> None:
    """Open those of stdin, stdout and stderr that are closed at the start of this process. Otherwise the next opened
    file would get the number of one of them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened == number:
                os.set_inheritable(number, True)
            else:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def retry(what: str, action: Callable[[], T], is_final: Callable[[ToolError], bool] = lambda _: False) -> T:
    """Return the result of a network step, which is tried up to three times. Print a line before each retry, and do not
    retry a failure for which `is_final` is true."""

    def pause(attempt: int, error: Exception) -> float | None:
        if attempt == _ATTEMPTS or (isinstance(error, ToolError) and is_final(error)):
            return None
        say(f"{what}: attempt {attempt} of {_ATTEMPTS} failed ({error}); trying again in {attempt} s")
        return attempt

    return retries.retry(action, (ToolError,), pause)


def absolute(text: str) -> Path:
    """Return a path, relative to the project's folder, as an absolute path. Links are not resolved, because the Python
    of an environment is a link to a program elsewhere."""
    return Path(os.path.normpath(ROOT / Path(text).expanduser()))


def checked_stack_name(name: str) -> str:
    """Return the name. Raise ToolError if it is not a valid name of a Pulumi stack, and so not safe in a path."""
    if not _STACK_NAME.fullmatch(name):
        raise ToolError(
            f"stack {name[:120]!r}: up to 100 letters, digits, '_', '.' and '-' are allowed, beginning with a letter,"
            f" a digit or '_': `{command_line.rwi('up', 'minikube')}`"
        )
    return name


def need_tests() -> None:
    """Raise ToolError if the project comes from a wheel, which leaves out the tests and tools of development."""
    if not (ROOT / "tests").is_dir():
        raise ToolError("`check` and `test` are for who changes this project: the wheel has no tests, a clone has them")


def project_name() -> str:
    """Return the name in Pulumi.yaml, which is read without a YAML parser. Raise ToolError if there is none."""
    match = re.search(r"^name:\s*[\"']?([\w.-]+)", (ROOT / "Pulumi.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ToolError("Pulumi.yaml has no line `name: …`")
    return match.group(1)


def project_version() -> str:
    """Return the version in pyproject.toml, which is read without a TOML parser, because Python 3.9 has none."""
    match = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else "unknown"


def stack_name(file: Path) -> str:
    """Return the name of the stack whose settings a file has."""
    return file.name[len("Pulumi.") : -len(".yaml")]


def stack_names() -> list[str]:
    """Return the names of the stacks that have a settings file."""
    return sorted(map(stack_name, STACKS.glob("Pulumi.*.yaml")))


def stack_file(stack: str) -> Path:
    """Return the path of a stack's settings file in git; `smoke` uses that of `local`. Raise ToolError that lists the
    known stacks if there is no such file."""
    path = STACKS / f"Pulumi.{'local' if stack == SMOKE else checked_stack_name(stack)}.yaml"
    if not path.is_file():
        known = stack_names()
        # `pulumi stack rm` deletes the file of its stack, that of `local` too.
        copied = f"cp {shown_file(STACKS / 'Pulumi.local.yaml')}"
        begin = copied if "local" in known else "echo 'config: {}' >"
        raise ToolError(
            f"there is no {shown_file(path)}; there are {', '.join(known) or 'none'}.\n"
            f"For a script of yours: `{command_line.rwi('try SCRIPT --write', stack)}`\n"
            f"For the built-in example with settings of your own: `{begin} {shown_file(path)}`"
        )
    return path


def shown_file(path: Path) -> str:
    """Return the path of a stack's file, quoted, and relative to the folder where the command was typed."""
    return command_line.quoted(command_line.from_there(f"stacks/{path.name}"))


def stack_text(stack: str) -> str:
    """Return the text of a stack's settings. Raise ToolError if the file cannot be read, is not UTF-8,
    or has tabs as indentation, which YAML does not allow."""
    path = stack_file(stack)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{shown_file(path)} is not UTF-8, from byte {error.start + 1} on: save it as UTF-8. If it is Latin-1:"
            f" `iconv -f LATIN1 -t UTF-8 -o {shown_file(path)} {shown_file(path)}`"
        ) from None
    except OSError as error:
        raise ToolError(
            f"{shown_file(path)} can't be read ({error.strerror}): `chmod u+r {shown_file(path)}`"
        ) from None
    for number, line in enumerate(text.splitlines(), start=1):
        if "\t" in line[: len(line) - len(line.lstrip())]:
            raise ToolError(
                f"{shown_file(path)}, line {number}: a tab, and YAML is indented by blanks:"
                f" `sed -i 's/\\t/  /g' {shown_file(path)}`"
            )
    return text


def sets(settings: str, key: str) -> bool:
    """Return whether the text of a stack file sets a key."""
    return bool(re.search(rf"^\s+[\"']?(?:[\w.-]+:)?{key}[\"']?:\s*[\"']?\w", settings, re.MULTILINE))


def target_of(settings: str) -> str:
    """Return the value of the key `target` in the text of a stack file; `local`, the default, if the key is not set."""
    match = re.search(r"^\s+[\"']?(?:[\w.-]+:)?target[\"']?:\s*[\"']?(\w+)", settings, re.MULTILINE)
    return match.group(1) if match else "local"
