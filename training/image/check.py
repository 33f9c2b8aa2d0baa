"""Checks an image built elsewhere for use in the pods: `python -c` of this text in it, as a pod's user.

Python 3.8 and newer, standard library alone: nothing of this project need be in that image. Its requirements are in
the environment variable ASKED. Prints its versions in one line, or each problem with what to change, and exits with 1.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ASKED = "TRAINING_IMAGE_ASKED"
"""Environment variable with the requirements, a JSON object: `least` and `exact`, versions by package; `modules`, each
with the package that provides it, or "" if that is this project; `programs`; `folders` that have to be writable."""


def main() -> None:
    """Check the image. Print the installed versions as JSON, or exit with a line for each problem."""
    needs = json.loads(os.environ[ASKED])
    installed = {name: version(name) for name in sorted({*needs["least"], *needs["exact"]})}
    problems = [
        *wrong_versions(needs["least"], needs["exact"], installed),
        *missing_modules(needs["modules"]),
        *missing_programs(needs["programs"]),
        *(problem for folder in needs["folders"] for problem in not_writable(Path(folder))),
    ]
    if problems:
        sys.exit("\n".join(problems))
    print(json.dumps(installed))


def version(name: str) -> str | None:
    """Return the installed version of a package; None if it is missing. A package's variant `-cpu` stands for it."""
    if name == "python":
        return platform.python_version()
    for package in (name, f"{name}-cpu"):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


def wrong_versions(least: dict[str, str], exact: dict[str, str], installed: dict[str, str | None]) -> Iterator[str]:
    """Yield a problem for each package that is missing, older than in `least`, or not the version in `exact`. For
    Python only major and minor version are compared."""
    for name, wanted in least.items():
        version = installed[name]
        if version is None:
            yield f"it has no package {name}: pip install '{name}>={wanted}'"
        elif numbers(version) < numbers(wanted):
            yield f"it has {name} {version}: {wanted} or newer is needed"
    for name, wanted in exact.items():
        version = installed[name]
        same = version and numbers(version) == numbers(wanted) if name == "python" else version == wanted
        if not same:
            yield f"it has {name} {version or 'not at all'} instead of {wanted}"


def numbers(text: str) -> list[int]:
    """Return a version's first two numbers."""
    return [int("".join(filter(str.isdigit, part)) or 0) for part in text.split(".")[:2]]


def missing_modules(modules: dict[str, str]) -> Iterator[str]:
    """Yield a problem for each module that this user's Python does not find."""
    for name, package in sorted(modules.items()):
        try:
            is_found = importlib.util.find_spec(name) is not None
        except (ImportError, OSError, ValueError):
            is_found = False
        if not is_found and package:
            yield f"its Python does not find {name}: pip install {shlex.quote(package)}"
        elif not is_found:
            because = f"its Python does not find the module {name}"
            yield f"it was not built from this version of the project for this workload: {because}"


def missing_programs(names: list[str]) -> Iterator[str]:
    """Yield a problem for each program that KubeRay needs to start Ray in a pod, and that is not on PATH."""
    for name in names:
        if not shutil.which(name):
            yield f"it has no program {name} on PATH, by which Ray is started in its pods"


def not_writable(folder: Path) -> Iterator[str]:
    """Yield a problem if the user of the pods may not write to this folder."""
    try:
        (folder / ".check").write_text("", encoding="utf-8")
        (folder / ".check").unlink()
    except OSError as error:
        yield f"user {os.getuid()}, which its pods have, can't write to {folder} ({error.strerror})"


if __name__ == "__main__":
    main()
