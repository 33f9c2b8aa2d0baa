"""A project for the language host of newer CLIs, which starts `uv` by itself; and a `uv` that notes when that was.

No such host is a Go module of its own, so none can be built here: TRY_LANGUAGE_HOST names a folder with one, and with
its shims, as an installed Pulumi of 3.221 or newer has it.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.setup import uv
from tests.program.engine import ROOT, Project

HOST = os.environ.get("TRY_LANGUAGE_HOST", "")
needs_host = pytest.mark.skipif(
    not HOST, reason="TRY_LANGUAGE_HOST names no folder with pulumi-language-python of Pulumi 3.221 or newer"
)
PYTHON = str(Path(sys.executable).resolve())
"""That uv takes, as for the environment of these tests."""
_NOTES = """\
#!{python}
import json, pathlib, subprocess, sys, time
began = time.time()
code = subprocess.run([{uv!r}, *sys.argv[1:]]).returncode
with pathlib.Path(__file__).with_name("calls.jsonl").open("a") as file:
    file.write(json.dumps(dict(words=sys.argv[1:], began=began, ended=time.time())) + "\\n")
sys.exit(code)
"""


@dataclass(frozen=True)
class Call:
    """One start of uv."""

    words: list[str]
    began: float
    ended: float


def program() -> Path:
    """The uv that set this project up; skips the test where nobody knows it."""
    ours, found = uv.folder_for_path(), shutil.which("uv")
    if not ours and not found:
        pytest.skip("no uv on PATH or in .tools: `./rwi check` brings it")
    return Path(ours, "uv") if ours else Path(str(found))


def install(folder: Path) -> Path:
    """An environment as `pulumi install` makes it; skips the test where uv has not what that needs in its cache.

    The host brings the environment that it uses up to date, and makes its Python's link anew: none that others use.
    """
    environment = folder / ".venv"
    given = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(environment), "UV_OFFLINE": "1", "UV_PYTHON": PYTHON}
    command = [str(program()), "sync", "--frozen", "--quiet"]
    if subprocess.run(command, cwd=ROOT, env=given, check=False).returncode:
        pytest.skip("uv's cache has not all that uv.lock names: `./rwi check` fills it")
    return environment


def with_host(project: Project, cli: Path, environment: Path, *, uv_on_path: bool = True) -> Path:
    """Put that host beside the CLI, and nothing else of a user's on PATH; the folder in which uv leaves its notes."""
    (project.folder / ".venv").unlink()
    (project.folder / ".venv").symlink_to(environment)
    project.environment["UV_PYTHON"] = PYTHON
    programs, noted = project.folder.parent / "cli", project.folder.parent / "uv"
    programs.mkdir()
    for source in [
        *Path(HOST).resolve().iterdir(),
        cli.resolve(),
        cli.resolve().with_name("pulumi-analyzer-policy-python"),
    ]:
        shutil.copy2(source, programs)
    noted.mkdir()
    (noted / "uv").write_text(_NOTES.format(python=sys.executable, uv=str(program())))
    (noted / "uv").chmod(0o755)
    path = [str(programs), *([str(noted)] if uv_on_path else []), "/usr/bin", "/bin"]
    project.environment["PATH"] = os.pathsep.join(path)
    return noted


def calls(noted: Path) -> list[Call]:
    """What uv was started for, in order."""
    file = noted / "calls.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [Call(**json.loads(line)) for line in lines]


def with_rwi(project: Project) -> None:
    """What `rwi` needs beside the program: its code, and the CLI and uv as a set-up left them."""
    for name in ("cli", "report", "policy"):
        shutil.copytree(ROOT / name, project.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "rwi", project.folder)
    project.environment["RWI_SETUP"] = "no"
    ours = project.folder / ".tools/uv" / uv.UV_VERSION
    ours.mkdir(parents=True)
    (ours / "uv").symlink_to(program())
    folder = project.environment["PATH"].split(os.pathsep)[0]
    (project.folder / ".tools/cli-in-use.json").write_text(json.dumps({"folder": folder}))
