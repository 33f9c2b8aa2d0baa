"""What a lifecycle happens to: a project on a small disk of its own, its clock, and what belongs to others.

It starts commands and changes what surrounds them. Which steps come, and what has to hold after each, is in `machine`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.limits import LONGEST_SECONDS, wait_for
from tests.program.engine import ROOT, Project
from training.contract.arms import ARMS

HERE = Path(__file__).parent
DISK_BYTES = 96 * 2**20
"""The copy of the project takes a third of it."""
HOST = "pulumi-language-python"
"""It looks every five minutes whether its engine, which was killed, still lives."""
FOREIGN = "import time; time.sleep(100_000)"
LOOKS_LIKE_OURS = ("-m", "training.ray", "infra.places.local.guard", "pulumi", "up")


@dataclass(frozen=True)
class Outcome:
    """A command that has ended, and what it showed."""

    words: tuple[str, ...]
    code: int
    text: str


class Group:
    """The processes of a group."""

    def __init__(self, number: int) -> None:
        self._number = number

    def send_signal(self, number: int) -> None:
        """Send it to each; raises ProcessLookupError where none is left."""
        os.killpg(self._number, number)


class Running:
    """A command that goes on; its output is outside of the disk that may be full."""

    def __init__(self, words: Sequence[str], folder: Path, environment: dict[str, str], shown: Path) -> None:
        self._words, self._shown = tuple(words), shown
        with shown.open("w") as output:
            self.process = subprocess.Popen(
                words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip

    @property
    def group(self) -> "Group":
        """It and what it has started, as a terminal sends a signal to them."""
        return Group(self.process.pid)

    def end(self) -> Outcome:
        """Wait for its end."""
        code = self.process.wait(LONGEST_SECONDS)
        return Outcome(self._words, code, self._shown.read_text(errors="replace"))


class World:
    """One project in its surroundings."""

    def __init__(self, cli: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rwi"))
        self._disk = self._folder / "d"
        self._disk.mkdir()
        self.has_own_disk = _succeeds("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(self._disk))
        self._read_only = set[Path]()
        self._project = Project(self._disk, cli, stub=True)
        self.folder = self._project.folder
        self.code = 0
        self._count = 0
        self._complete(cli)
        self._write_arms()
        self._ledger, self._clock = self._folder / "ledger", self._folder / "clock"
        self._ledger.touch()
        self.environment = self._project.environment | {
            "TRAINING_TEST_LEDGER": str(self._ledger),
            "RWI_SETUP": "no",
            **self._shifted_clock(),
        }
        self._foreign_files = self._plant()
        self._foreign = subprocess.Popen(
            [sys.executable, "-c", FOREIGN, *LOOKS_LIKE_OURS], cwd=self.folder, start_new_session=True
        )

    def _complete(self, cli: Path) -> None:
        for name in ("cli", "report", "policy"):
            shutil.copytree(ROOT / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "rwi", self.folder)
        (self.folder / ".tools").mkdir()
        (self.folder / ".tools/cli-in-use.json").write_text(json.dumps({"folder": str(cli.parent)}))

    def _write_arms(self) -> None:
        shutil.copy(ROOT / "tests/program/stub_entry.py", self.folder / "training")
        text = (HERE / "arm.py").read_text(encoding="utf-8").replace("tests.program", "training")
        for arm in ARMS:
            code = re.sub(r"^CODE = .*$", f"CODE = {self.code}", text, count=1, flags=re.M)
            (self.folder / "training" / f"{arm}.py").write_text(code, encoding="utf-8")

    def _shifted_clock(self) -> dict[str, str]:
        """Nothing where no compiler is: then its clock does not jump."""
        library = self._folder / "clock.so"
        compiler = shutil.which("cc")
        if not compiler or not _succeeds(compiler, "-shared", "-fPIC", "-O", "-o", str(library), str(HERE / "clock.c")):
            return {}
        return {"LD_PRELOAD": str(library), "TRAINING_TEST_CLOCK": str(self._clock)}

    def _plant(self) -> dict[Path, tuple[str, int]]:
        files = [self.folder.parent / "letter.txt", self.folder / "notes.txt", self.folder / ".state/mine.txt"]
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{file.name} of somebody else")
        return {file: (file.read_text(), file.stat().st_mtime_ns) for file in files}

    # Commands.

    def start(self, *words: str) -> Running:
        """Begin a command in the project's folder."""
        self._count += 1
        return Running(words, self.folder, self.environment, self._folder / f"shown-{self._count}.txt")

    def run(self, *words: str) -> Outcome:
        """Run it to its end."""
        return self.start(*words).end()

    def json(self, *words: str) -> Any:
        """What a command that has to succeed says in JSON."""
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
            timeout=LONGEST_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def processes(self) -> list[psutil.Process]:
        """What lives of all commands, the oldest first."""
        found = []
        for process in self._project.processes():
            with suppress(psutil.Error):
                found.append((process.create_time(), process.pid, process))
        return [process for _, _, process in sorted(found, key=lambda each: each[:2])]

    def command_of(self, process: psutil.Process | Group) -> str:
        """Its command line; "" where it has ended."""
        if isinstance(process, Group):
            return "the group of the command"
        with suppress(psutil.Error):
            return " ".join(process.cmdline())
        return ""

    def ledger(self) -> list[dict[str, Any]]:
        """What the arms have noted; the last line may be of one that was killed meanwhile."""
        return [json.loads(line) for line in self._ledger.read_text().splitlines() if line.endswith("}")]

    # What surrounds them.

    def change_code(self) -> None:
        """As if somebody had changed a line of each arm."""
        self.code += 1
        self._write_arms()

    def set_clock(self, seconds: int) -> None:
        """Let it be so far off from now on."""
        self._clock.write_text(str(seconds))

    def fill(self, left_bytes: int) -> None:
        """Leave so much of the disk."""
        filler = self._disk / "filler"
        with filler.open("wb") as file, suppress(OSError):
            while True:
                file.write(bytes(2**20))
                file.flush()
        free = shutil.disk_usage(self._disk).free
        if left_bytes > free:
            os.truncate(filler, max(0, filler.stat().st_size - left_bytes + free))
        else:
            with filler.open("ab", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(4096))
            os.truncate(filler, max(0, filler.stat().st_size - left_bytes))

    def make_room(self) -> None:
        """Undo it."""
        (self._disk / "filler").unlink(missing_ok=True)

    def damage(self, name: str, how: str) -> None:
        """Do that to a folder of the project."""
        folder = self.folder / name
        if how == "deleted":
            shutil.rmtree(folder, ignore_errors=True)
        elif how == "cut off":
            for file in folder.rglob("*.*"):
                if file.is_file() and not file.is_symlink():
                    os.truncate(file, file.stat().st_size // 2)
        elif how == "a file":
            shutil.rmtree(folder, ignore_errors=True)
            folder.write_text("somebody's file")
        elif how == "read-only":
            folder.mkdir(exist_ok=True)
            if _succeeds("mount", "--bind", str(folder), str(folder)):
                self._read_only.add(folder)
                assert _succeeds("mount", "-o", "remount,bind,ro", str(folder))

    def repair(self, name: str) -> None:
        """Undo what keeps anything from being written there."""
        folder = self.folder / name
        if folder in self._read_only:
            assert _succeeds("umount", "--lazy", str(folder))
            self._read_only.discard(folder)
        if folder.is_file():
            folder.unlink()

    def touched(self) -> list[str]:
        """What of others is not as it was."""
        found = [str(file) for file, was in self._foreign_files.items() if _seen(file) != was]
        return [*found, *(["the process of somebody else"] if self._foreign.poll() is not None else [])]

    def locks(self) -> list[str]:
        """Lock files of the backend."""
        return [file.name for file in (self._disk / "state/.pulumi/locks").rglob("*.json")]

    def close(self) -> None:
        """End and remove all of it."""
        self._foreign.kill()
        self._foreign.wait()
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()
        wait_for(lambda: not self.processes(), "all processes of the lifecycle have ended")
        for folder in self._read_only:
            _succeeds("umount", "--lazy", str(folder))
        if self.has_own_disk:
            _succeeds("umount", "--lazy", str(self._disk))
        shutil.rmtree(self._folder, ignore_errors=True)


def _seen(file: Path) -> tuple[str, int] | None:
    try:
        return file.read_text(), file.stat().st_mtime_ns
    except OSError:
        return None


def _succeeds(*words: str) -> bool:
    return subprocess.run(words, capture_output=True, check=False).returncode == 0
