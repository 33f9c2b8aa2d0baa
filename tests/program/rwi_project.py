"""A throw-away project for the tests of `rwi`: the real command line, and a program of two resources that sleep.

No training and no Ray: what is tested is how pulumi is called, interrupted and cleaned up after.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.limits import LONGEST_SECONDS
from training.machine import process_session

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import os
import pathlib
import time

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, ResourceProvider

FOLDER = pathlib.Path(__file__).parent
MARKS = FOLDER / "marks"


class Sleeper(ResourceProvider):
    def create(self, props):
        MARKS.mkdir(exist_ok=True)
        (MARKS / f"{props['label']}-began").write_text(str(os.getpid()))
        began = time.monotonic()
        while time.monotonic() - began < float(props["seconds"]) and not (FOLDER / "enough").exists():
            time.sleep(0.05)
        (MARKS / f"{props['label']}-ended").write_text("")
        return CreateResult(props["label"], dict(props))

    def read(self, id_, props):
        (MARKS / f"{props['label']}-read").write_text("")
        return ReadResult(id_, props)

    def diff(self, id_, olds, news):
        changed = [key for key in ("seconds", "workers") if olds.get(key) != news.get(key)]
        return DiffResult(changes=bool(changed), replaces=changed, delete_before_replace=True)


class Sleep(Resource, module="training", name="Run"):
    def __init__(self, name, seconds, opts=None):
        inputs = {"label": name, "seconds": seconds, "workers": config.require("workers")}
        super().__init__(Sleeper(), name, inputs, opts)


config = pulumi.Config()
first = Sleep("first", config.require("seconds"))
Sleep("second", "0", pulumi.ResourceOptions(depends_on=[first]))
pulumi.export("comparison", f'{{"workers": {config.require("workers")}}}')
"""

PROJECT = """\
name: throwaway
stackConfigDir: stacks
runtime:
  name: python
  options:
    virtualenv: .venv
config:
  workers:
    default: "2"
  seconds:
    default: "0"
"""

SETTINGS = """
def load(_stack, _overrides):
    '''The settings of this program are its own: there are no rules for them.'''
"""

EXPECTED = """
class Expected:
    '''Nothing is known of what sleeps.'''

    def __init__(self, _settings, _overrides):
        pass

    def seconds_of_arms(self):
        return {}

    def text(self):
        return "expected: unknown"
"""

REPORT = """
import pathlib
import sys

print("report", *sys.argv[1:], sys.stdin.read())
sys.exit(pathlib.Path(f"fails-{sys.argv[1]}").exists())
"""


@dataclass
class Project:
    """The throw-away project's folder and the environment its commands run in."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def rwi(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return self.run(["./rwi", *words])

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run any command in the project's folder."""
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )

    def shell(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run what a user pastes into a shell, whose PATH knows no pulumi."""
        path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
        command = ["bash", "-euc", script]
        environment = {**self.environment, "PATH": path}
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )

    def deployment(self) -> dict[str, object]:
        """The stack's state as it lies in the file backend."""
        file = self.folder / ".state/backend/.pulumi/stacks/throwaway/local.json"
        return dict(json.loads(file.read_text(encoding="utf-8"))["checkpoint"]["latest"] or {})

    def locks(self) -> list[Path]:
        """The locks in the file backend."""
        return list((self.folder / ".state/backend/.pulumi/locks").rglob("*.json"))

    def end_sleep(self) -> None:
        """Let the resources that sleep end, whatever seconds they have left."""
        (self.folder / "enough").touch()

    def marks(self) -> set[str]:
        """What the sleeping resources have begun and ended."""
        return {mark.name for mark in (self.folder / "marks").glob("*")}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A fresh throw-away project."""
    return made(tmp_path)


def made(tmp_path: Path) -> Project:
    """One in a folder, on a path with a blank, with the CLI of the tests."""
    cli = shutil.which("pulumi")
    if cli is None:
        pytest.skip("no pulumi on PATH: run through `./rwi test`")
    folder = tmp_path / "a project"
    for name in ("cli", "report", "compare", "training"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "rwi", folder)
    for name, text in {
        "Pulumi.yaml": PROJECT,
        "__main__.py": PROGRAM,
        "report/__main__.py": REPORT,
        "stacks/Pulumi.local.yaml": "config: {}\n",
        "cli/stack/settings.py": SETTINGS,
        "cli/stack/expected.py": EXPECTED,
        "training/image/uv.txt": (ROOT / "training/image/uv.txt").read_text(encoding="utf-8"),
        ".tools/cli-in-use.json": json.dumps({"folder": str(Path(cli).parent)}),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / ".venv").symlink_to(Path(sys.executable).parent.parent)
    return Project(folder, _environment(tmp_path))


def _environment(tmp_path: Path) -> dict[str, str]:
    """That of the tests, and a home of its own, so that nobody's login or state is touched."""
    return {**os.environ, "PULUMI_HOME": str(tmp_path / "pulumi-home"), "RWI_SETUP": "no"}


@dataclass
class Terminal:
    """A command on a terminal of its own, as a person would have started it."""

    process: subprocess.Popen[bytes]
    master: int
    _output: bytearray = field(default_factory=bytearray)

    def press_ctrl_c(self) -> None:
        """What the key sends: the terminal, or a program that made it raw, makes a signal of it."""
        os.write(self.master, b"\x03")

    @property
    def output(self) -> str:
        """All that was shown so far, control sequences included."""
        return self._output.decode(errors="replace")

    def read(self) -> None:
        """Collect what is shown until the terminal is closed."""
        while True:
            try:
                chunk = os.read(self.master, 65536)
            except OSError:
                return
            if not chunk:
                return
            self._output.extend(chunk)


@contextmanager
def terminal(command: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """Start the command as leader of a session whose terminal has 40 lines of 160 columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        pass_fds=[slave],
        preexec_fn=lambda: os.login_tty(slave),  # noqa: PLW1509 - the only way; the reader's thread starts later
    )
    os.close(slave)
    shown = Terminal(process, master)
    reader = threading.Thread(target=shown.read, daemon=True)
    reader.start()
    try:
        yield shown
    finally:
        process_session.end_session(process.pid)
        process.wait()
        reader.join()
        os.close(master)


def processes_in(folder: Path) -> dict[int, str]:
    """The live processes whose command line or working folder is in this folder: what a run may have left."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            where = str((entry / "cwd").readlink())
        except OSError:
            continue
        if command and str(folder) in (where, *command.split(" ")):
            found[int(entry.name)] = command
    return found
