"""Reads the variables of `make submit`; an invalid one is refused with what is allowed."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cli.setup.project import ROOT, ToolError
from training.workloads.script import package, recipe
from training.workloads.script.commands import VARIABLES_OF
from training.workloads.script.recognise import PLACEHOLDERS, ScriptError, kind_by_imports
from training.workloads.script.source import SourceError, files_of

USAGE = 'STACK=minikube make submit SCRIPT=../mine/train.py ARGS="--epochs 1 --num-workers {workers}"'
LONGEST_NAME = 40


@dataclass(frozen=True, kw_only=True)
class Request:
    """The parsed variables of `make submit`."""

    name: str
    """The beginning of the job's name."""
    command: tuple[str, ...]
    folder: Path
    """The folder that is sent: the job starts in a copy of it."""
    variables: Mapping[str, str]
    """The variables of a measured script of this kind, and those of ENV, which win."""
    packages: tuple[str, ...]
    """The packages that pip installs first."""

    def package(self) -> bytes:
        """Return the folder as a package of Ray. Raises ToolError."""
        try:
            return package.of_folder(self.folder)
        except SourceError as error:
            raise ToolError(f"FOLDER={self.folder}: {error}") from None


def read(workers: int, environment: Mapping[str, str] = os.environ) -> Request:
    """The request; `workers` are the Ray cluster's. Raises ToolError."""
    script = _script(environment)
    folder = _folder(environment, script)
    return Request(
        name=re.sub(r"[^A-Za-z0-9_-]+", "-", script.stem)[:LONGEST_NAME].strip("-") or "job",
        command=("python", script.relative_to(folder).as_posix(), *_arguments(environment, workers)),
        folder=folder,
        variables={**VARIABLES_OF.get(kind_by_imports(script), {}), **_variables(environment)},
        packages=_packages(environment),
    )


def _script(environment: Mapping[str, str]) -> Path:
    text = environment.get("SCRIPT", "")
    if not text:
        raise ToolError(f"SCRIPT is missing: the file that is to run, as in\n  {USAGE}")
    path = _path(text)
    try:
        kind_by_imports(path)
    except ScriptError as error:
        raise ToolError(f"SCRIPT={text}: {error}") from None
    return path


def _folder(environment: Mapping[str, str], script: Path) -> Path:
    text = environment.get("FOLDER", "")
    folder = _path(text) if text else script.parent
    if not folder.is_dir():
        raise ToolError(f"FOLDER={text}: there is no such folder; without FOLDER it is the script's, {script.parent}")
    if not script.is_relative_to(folder):
        raise ToolError(f"FOLDER={text}: {script} is not in it, and what is sent has to hold the script")
    try:
        if script not in files_of(folder):
            raise ToolError(
                f"{script} would not be sent: git ignores it, or it is hidden (`git check-ignore --verbose {script}`)"
            )
    except SourceError as error:
        raise ToolError(f"FOLDER={folder}: {error}; or name a folder below it that is enough: FOLDER=…") from None
    return folder


def _path(text: str) -> Path:
    """Relative to the project's folder."""
    return Path(os.path.normpath(ROOT / Path(text).expanduser()))


def _arguments(environment: Mapping[str, str], workers: int) -> list[str]:
    words = _words("ARGS", environment.get("ARGS", ""))
    for name in (name for name in PLACEHOLDERS if name != "workers"):
        if any("{" + name + "}" in word for word in words):
            raise ToolError(f"ARGS has {{{name}}}, which a measurement replaces: here only {{workers}} is replaced")
    return [word.replace("{workers}", str(workers)) for word in words]


def _words(name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ToolError(f"{name}={text}: {error}; quote it as in a shell") from None


def _variables(environment: Mapping[str, str]) -> Mapping[str, str]:
    text = environment.get("ENV", "")
    try:
        return recipe.variables(text)
    except ValueError as error:
        raise ToolError(f"ENV={text}: {error}") from None


def _packages(environment: Mapping[str, str]) -> tuple[str, ...]:
    """PIP's words, or the lines of the requirements file that it names."""
    text = environment.get("PIP", "")
    words = _words("PIP", text)
    if len(words) == 1 and words[0].endswith(".txt"):
        try:
            lines = _path(words[0]).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ToolError(f"PIP={text} can't be read ({error}): a requirements file, or packages") from None
        words = [word for line in lines if (word := re.sub(r"(^|\s)#.*", "", line).strip())]
    for word in words:
        if word.startswith(("-r", "-c", "-e", "--requirement", "--constraint", "--editable", ".", "/")):
            raise ToolError(
                f"PIP={text}: {word!r} names a file of this machine, which the cluster does not have: packages as pip"
                ' takes them are allowed, as in PIP="rich==14.1.0 tqdm"'
            )
    return tuple(words)
