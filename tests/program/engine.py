"""A copy of the project in a temporary folder, with a Pulumi backend of its own, and what tests do with it."""

import atexit
import compileall
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from tests.limits import LONGEST_SECONDS
from training.contract.arms import ARMS

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "__main__.py",
    "Pulumi.yaml",
    ".python-version",
    "pyproject.toml",
    "uv.lock",
    "compare",
    "infra",
    "training",
    "stacks",
    "examples",
)
RUN = re.compile("(training|ray):Run::")
"""In the URN of a run."""
MARK = "TRAINING_TEST_MARK"
"""An environment variable that every process started by a test inherits, and by which it is found again."""


def cli_here() -> Path | None:
    """The Pulumi CLI: the one on PATH, or the one that the bootstrap made."""
    found = shutil.which("pulumi") or shutil.which("pulumi", path=str(ROOT / ".tools/pulumi/bin"))
    return Path(found) if found else None


@cache
def _compiled() -> Path:
    """What a project is copied from, its modules compiled: every copy, and every command in it, would do that anew."""
    folder = Path(tempfile.mkdtemp(prefix="rwi-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(".venv"))
        else:
            shutil.copy2(ROOT / name, folder / name)
    compileall.compile_dir(folder, quiet=1)
    return folder


class Project:
    """One copy; `up` and its like are the CLI's commands, run to their end."""

    def __init__(self, folder: Path, cli: Path, *, stub: bool, seconds: float = LONGEST_SECONDS) -> None:
        self.seconds = seconds
        self.folder = folder / "p"
        self.folder.mkdir()
        shutil.copytree(_compiled(), self.folder, dirs_exist_ok=True)
        (self.folder / ".venv").symlink_to(sys.prefix)
        (self.folder / "control").mkdir()
        for arm in ARMS if stub else ():
            shutil.copy(Path(__file__).with_name("stub_entry.py"), self.folder / "training" / f"{arm}.py")
        if stub:
            (self.folder / "training/launch/warm_up.py").write_text("")
        for name in ("state", "home", "t"):
            (folder / name).mkdir()
        self.mark = uuid.uuid4().hex
        self.measure_on(f"machine of {self.mark}")
        self.environment = {
            **os.environ,
            "PATH": f"{sys.prefix}/bin:{cli.parent}:{os.environ['PATH']}",
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_ERROR_OUTPUT_STRING": "true",
            "TMPDIR": str(folder / "t"),
            MARK: self.mark,
        }

    def measure_on(self, machine: str) -> None:
        """Take the lock of an imagined machine: a measurement of this one neither waits for a test nor holds it up."""
        module = self.folder / "training/machine/machine_lock.py"
        named = f'NAME = "\\0ray-worth-it/{machine}"'
        module.write_text(re.sub(r'^NAME = ".*"$', lambda _: named, module.read_text(), count=1, flags=re.MULTILINE))

    def pulumi(self, *arguments: str, ok: bool = True) -> str:
        """Run a command; gives stdout and stderr together. With `ok` it has to succeed, else to fail."""
        done = self._run(*arguments, stderr=subprocess.STDOUT)
        assert ok == (done.returncode == 0), done.stdout
        return done.stdout

    def _json(self, *arguments: str) -> Any:
        done = self._run(*arguments, stderr=subprocess.PIPE)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def _run(self, *arguments: str, stderr: int) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            timeout=self.seconds,
            check=False,
        )

    def create_stack(self, **config: str) -> None:
        """A stack `local` with these settings; without the wide arm, unless they say otherwise."""
        self.pulumi("stack", "init", "local")
        self.configure(**{"wideArm": "false"} | config)

    def configure(self, **config: str) -> None:
        """Set settings of the stack."""
        self.pulumi("config", "set-all", *(word for k, v in config.items() for word in ("--plaintext", f"{k}={v}")))

    def up(self, *arguments: str, ok: bool = True) -> str:
        """`pulumi up`, without the preview before it."""
        return self.pulumi("up", "--yes", "--skip-preview", *arguments, ok=ok)

    def preview(self) -> dict[str, str]:
        """What the next `up` does with each run that it does not leave as it is: create, replace, delete."""
        planned = {
            step["urn"].rpartition("::")[2]: step["op"] for step in self.preview_steps() if RUN.search(step["urn"])
        }
        return dict(sorted(planned.items()))

    def preview_steps(self) -> list[dict[str, Any]]:
        """What the next `up` does, step by step, as `pulumi preview --json` has it."""
        steps: list[dict[str, Any]] = self._json("preview", "--json")["steps"]
        return steps

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs."""
        found: dict[str, Any] = self._json("stack", "output", "--json", "--show-secrets")
        return found

    def comparison(self) -> dict[str, Any]:
        """The output of that name."""
        return dict(json.loads(self.outputs()["comparison"]))

    def state(self) -> dict[str, Any]:
        """The deployment as the backend keeps it."""
        deployment: dict[str, Any] = self._json("stack", "export")["deployment"]
        return deployment

    def ids(self) -> dict[str, str]:
        """The folder of each run that the state has."""
        return {
            entry["urn"].rpartition("::")[2]: entry["id"]
            for entry in self.state().get("resources", [])
            if RUN.search(entry["urn"])
        }

    def control(self, run: str, behaviour: str) -> None:
        """Tell the stub what to do in this run from now on; "" for nothing special."""
        (self.folder / "control" / run).write_text(behaviour)

    @contextmanager
    def running_up(self) -> Iterator["subprocess.Popen[str]"]:
        """`pulumi up` in the background, its output in `up.txt`; what it leaves is killed at the end."""
        with (self.folder / "up.txt").open("w") as output:
            started = subprocess.Popen(
                ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive"],
                cwd=self.folder,
                env=self.environment,
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            yield started
        finally:
            print(self.shown())  # pytest shows it when the test fails
            if started.poll() is None:
                started.kill()
                started.wait()
            for process in self.processes():
                process.kill()

    def shown(self) -> str:
        """What `running_up` has printed so far."""
        return (self.folder / "up.txt").read_text()

    def processes(self, module: str = "") -> list[psutil.Process]:
        """Living processes that this project's commands started; with `module`, those that run it by `python -m`."""
        return [process for process, command in self._living() if not module or module == _module_of(command)]

    def survivors(self) -> list[list[str]]:
        """Command lines of what still lives of runs and of the provider.

        Pulumi itself takes 10 seconds after a second Ctrl-C; its language host looks for it every 5 minutes only.
        """
        others = ("pulumi-language-python", "pulumi up")
        return [words for _, words in self._living() if not any(other in " ".join(words) for other in others)]

    def _living(self) -> Iterator[tuple[psutil.Process, list[str]]]:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self.mark:
                    yield process, process.cmdline()


def _module_of(command: list[str]) -> str:
    return command[command.index("-m") + 1] if "-m" in command[1:3] else ""
