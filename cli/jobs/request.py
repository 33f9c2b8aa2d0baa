"""What `rwi jobs submit` is asked for; an invalid value is refused with what is allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cli.setup.project import ToolError, absolute
from training.machine.command_line import quoted
from training.workloads.script import source
from training.workloads.script.commands import VARIABLES_OF
from training.workloads.script.recognise import PLACEHOLDERS, ScriptError, kind_by_imports
from training.workloads.script.source import SourceError, files_of

LONGEST_NAME = 40


@dataclass(frozen=True)
class Typed:
    """A job as it was typed; paths are relative to the project's folder."""

    script: str
    arguments: Sequence[str] = ()
    folder: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    packages: Sequence[str] = ()
    """Packages for pip, or the path of one requirements file."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The checked arguments and options of a call of `rwi jobs submit`."""

    name: str
    """The beginning of the job's name, made from the script's file name."""
    command: tuple[str, ...]
    folder: Path
    """The folder that is sent to the cluster. The job starts in a copy of this folder."""
    variables: Mapping[str, str]
    """The variables that a measured script of this kind gets, and the typed variables, which override them."""
    packages: tuple[str, ...]
    """The packages that pip installs first."""

    def package(self) -> bytes:
        """Return the folder in Ray's package format. Raise ToolError if the folder cannot be packed."""
        try:
            return source.packed_folder(self.folder)
        except SourceError as error:
            raise ToolError(f"--folder {self.folder}: {error}") from None


def read(workers: int, typed: Typed) -> Request:
    """Return the checked request. `workers`: those of the Ray cluster. Raise ToolError for a wrong argument."""
    script = _script(typed.script)
    folder = _folder(typed.folder, script)
    return Request(
        name=re.sub(r"[^A-Za-z0-9_-]+", "-", script.stem)[:LONGEST_NAME].strip("-") or "job",
        command=("python", script.relative_to(folder).as_posix(), *_arguments(typed.arguments, workers)),
        folder=folder,
        variables={**VARIABLES_OF.get(kind_by_imports(script), {}), **typed.variables},
        packages=_packages(typed.packages),
    )


def _script(text: str) -> Path:
    path = absolute(text)
    try:
        kind_by_imports(path)
    except ScriptError as error:
        raise ToolError(f"{text}: {error}") from None
    return path


def _folder(text: str, script: Path) -> Path:
    folder = absolute(text) if text else script.parent
    if not folder.is_dir():
        raise ToolError(
            f"--folder {text}: there is no such folder; without --folder it is the script's, {script.parent}"
        )
    if not script.is_relative_to(folder):
        raise ToolError(f"--folder {text}: {script} is not in it, and what is sent has to hold the script")
    try:
        if script not in files_of(folder):
            raise ToolError(
                f"{script} would not be sent: git ignores it, or it is hidden:"
                f" `git -C {quoted(str(script.parent))} check-ignore --verbose {quoted(script.name)}`"
            )
    except SourceError as error:
        raise ToolError(f"{folder}: {error}; or name a folder below it that is enough: --folder …") from None
    return folder


def _arguments(words: Sequence[str], workers: int) -> list[str]:
    for name in (name for name in PLACEHOLDERS if name != "workers"):
        if any("{" + name + "}" in word for word in words):
            raise ToolError(f"{{{name}}} is replaced in a measurement; in a job's arguments only {{workers}} is")
    return [word.replace("{workers}", str(workers)) for word in words]


def _packages(typed: Sequence[str]) -> tuple[str, ...]:
    """Return the packages, or a requirements file's lines. Raise ToolError for lines that name local files."""
    words = list(typed)
    if len(words) == 1 and words[0].endswith(".txt") and words[0][0] != "-":
        try:
            lines = absolute(words[0]).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ToolError(f"--pip {words[0]} can't be read ({error}): a requirements file, or packages") from None
        words = [word for line in lines if (word := re.sub(r"(^|\s)#.*", "", line).strip())]
    for word in words:
        if word.startswith(("-r", "-c", "-e", "--requirement", "--constraint", "--editable", ".", "/")):
            raise ToolError(
                f"--pip {word!r} names a file of this machine, which the cluster does not have: packages as pip takes"
                " them are allowed, as in  --pip rich==14.1.0 --pip tqdm"
            )
    return tuple(words)
