"""What surrounds the tests: `make_plain` makes it the same wherever they are started, and this command starts pytest in
six surroundings that tests have failed in:

    python -m tests.surroundings [--only NAME] [pytest's arguments]

What pytest and the tests start inherits what `make_plain` sets, pytest-xdist's workers too.
"""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_OF_OTHERS = ("AWS_", "AZURE_", "GOOGLE_", "MAKE", "MFLAGS", "MLFLOW_", "PULUMI_", "PYTHON", "RAY_", "RWI")
"""How variables begin that steer what is tested, and that no test has set: somebody's credentials among them."""
_SINGLE = frozenset((
    "BASH_ENV", "CDPATH", "COLUMNS", "CONDA_PREFIX", "CUDA_VISIBLE_DEVICES", "DOCKER_BUILDKIT", "FORCE_COLOR",
    "KUBECONFIG", "LINES", "LOCAL_RANK", "NO_COLOR", "RANK", "TF_CONFIG", "TF_USE_LEGACY_KERAS", "VIRTUAL_ENV",
    "WORLD_SIZE",
))  # fmt: skip
_KEPT = frozenset({"PULUMI_HOME"})
"""It has the plugins with which tests/cluster makes a real cluster."""
_SET = {"LANG": "C.UTF-8", "TZ": "UTC", "TERM": "xterm"}
_LANGUAGE = "LC_"


def make_plain() -> bool:
    """Give this process default signals, modes, locale, time zone, streams and home, and none of others' variables.

    Returns:
        Whether this Python was started with what can't be changed any more: without assertions, or with another
        encoding than UTF-8. Then it has to be started once more.
    """
    _make_signals_plain()
    os.umask(0o022)
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:  # of the streams that are closed, the first
        os.set_inheritable(opened, True)
    os.close(opened)
    before = dict(os.environ)
    for name in _steering(before):
        del os.environ[name]
    os.environ.update(_SET)
    time.tzset()
    # Hundreds of processes of the tests would compile the project's modules again, and each of pytest's all test files.
    sys.dont_write_bytecode = False
    starts_again = before != dict(os.environ) and (bool(sys.flags.optimize) or sys.getfilesystemencoding() != "utf-8")
    if not starts_again and not _may_write_in(before.get("HOME", "")):
        os.environ["HOME"] = tempfile.mkdtemp(prefix="home-")
        atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)
    return starts_again


def _make_signals_plain() -> None:
    """A shell's background job has SIGINT ignored, nohup SIGHUP, and what they start ignores it, too."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    of_python = {signal.SIGPIPE, signal.SIGXFSZ}  # it ignores these itself, and gives them back to what it starts
    for number in signal.valid_signals() - of_python:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _steering(variables: Mapping[str, str]) -> list[str]:
    return [
        name for name in variables if name.startswith((*_OF_OTHERS, _LANGUAGE)) or name in _SINGLE if name not in _KEPT
    ]


def _may_write_in(home: str) -> bool:
    """By doing it: of a file system that is mounted read-only, modes do not tell."""
    with suppress(OSError), tempfile.TemporaryFile(dir=home):
        return Path(home).is_absolute()
    return False


@dataclass(frozen=True)
class Surroundings:
    """How pytest is started."""

    what: str
    variables: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    """Variables that it has not; a part of a folder's path: PATH has none of these folders."""
    umask: int = 0o022
    ignored: tuple[int, ...] = ()
    closes_stdin: bool = False
    has_terminal: bool = True
    """Whether it may have that of this command."""

    def run(self, arguments: list[str], folder: Path = ROOT) -> int:
        """Run pytest in them, in this folder; its exit code."""
        folders = os.environ["PATH"].split(os.pathsep)
        path = os.pathsep.join(each for each in folders if not any(part in each for part in self.without))
        variables = {name: value for name, value in os.environ.items() if name not in self.without}
        with subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments], cwd=folder, env=variables | {"PATH": path, **self.variables},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, umask=self.umask,
            start_new_session=not self.has_terminal,
            preexec_fn=self._enter,  # noqa: PLW1509 - this process has no threads
        ) as running:  # fmt: skip
            assert running.stdout is not None
            for line in running.stdout:
                print(line, end="", flush=True)
            return running.wait()

    def _enter(self) -> None:
        for number in self.ignored:
            signal.signal(number, signal.SIG_IGN)
        if self.closes_stdin:
            os.close(0)


SIX = {
    "background": Surroundings(
        "a background job under nohup", ignored=(signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM)
    ),
    "private": Surroundings("files for nobody else", umask=0o077),
    "elsewhere": Surroundings(
        "another language and time zone",
        {"LANG": "de_DE", "LC_ALL": "POSIX", "TZ": "Asia/Kathmandu", "COLUMNS": "40", "TERM": "dumb"},
    ),
    "homeless": Surroundings(
        "a home that nobody can make, and no pyenv", {"HOME": "/proc/nowhere"}, without=("PYENV_ROOT", "pyenv")
    ),
    "detached": Surroundings("no terminal, and stdin closed", closes_stdin=True, has_terminal=False),
    "steered": Surroundings(
        "somebody's variables",
        {
            "PYTHONPATH": "/proc/nowhere", "PYTHONOPTIMIZE": "1", "PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "7",
            "KUBECONFIG": "/proc/nowhere", "RAY_ADDRESS": "192.0.2.1:6379",
            "PULUMI_BACKEND_URL": "file:///proc/nowhere", "AWS_PROFILE": "other", "TF_CONFIG": "{", "WORLD_SIZE": "7",
        },
    ),
}  # fmt: skip


def main() -> int:
    """Run pytest in each; 1 where a test failed in one, which is named."""
    parser = argparse.ArgumentParser(prog="python -m tests.surroundings", description=__doc__)
    parser.add_argument("--only", choices=SIX, action="append", help="in these; else in all")
    options, arguments = parser.parse_known_args()
    failed = []
    for name in options.only or SIX:
        print(f"== {name}: {SIX[name].what}", flush=True)
        if SIX[name].run(arguments):
            failed.append(name)
    print(f"failed in: {', '.join(failed)}" if failed else f"passed in: {', '.join(options.only or SIX)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
