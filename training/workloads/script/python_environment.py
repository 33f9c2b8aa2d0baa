"""Lists what is installed in a script's environment: asked of its own Python, which imports none of it.

Also returns the command lines that install what is missing; nothing is installed here.
"""

import difflib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from training.contract.provenance import PROJECT, package_name
from training.launch import environment
from training.machine import command_line, output
from training.workloads.script.recognise import FRAMEWORKS, Script

PACKAGES = (
    "ray", "torch", "tensorflow", "tensorflow-cpu", "tf-keras", "keras", "lightning", "accelerate", "transformers",
    "xgboost", "xgboost-cpu", "lightgbm", "gymnasium",
)  # fmt: skip
PIP = "pip"
LEAST_PYTHON = (3, 9)
LEAST = {"ray": (2, 51), "torch": (2, 1)}
"""Oldest versions that can be observed: older Ray has no Train V2 by default, older PyTorch no hook after a step."""
REQUIREMENTS = "requirements.txt"
CLOSE = 0.8
"""How alike the name of an environment is to one that may have been meant, from 0 to 1."""
NAME_OF = {
    "PIL": "pillow", "cv2": "opencv-python-headless", "skimage": "scikit-image", "sklearn": "scikit-learn",
    "tf_keras": "tf-keras", "yaml": "pyyaml",
}  # fmt: skip
"""Names of packages, by the name of their module, where the two names differ."""
PACKAGE_OF = {"ray": "ray[train]>=2.54", "gymnasium": "ray[rllib]>=2.54", **NAME_OF}
"""Requirements to install, by the name of a module, where they differ from that name."""
PROBE = """
import json, os, platform, site, sys
from importlib import metadata, util
sys.path = [path for path in sys.path if path]
versions = {"python": platform.python_version()}
for name in %r:
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
own = sys.prefix != sys.base_prefix or os.path.isdir(os.path.join(sys.prefix, "conda-meta"))
packages = {}
for found in metadata.distributions():
    try:
        packages.setdefault(found.metadata["Name"], found.version)
    except Exception:  # a folder that a removal left
        pass
folders = {*site.getsitepackages(), site.getusersitepackages()}
print(json.dumps({
    "versions": versions, "modules": [name for name in %r if util.find_spec(name)], "own": own,
    "packages": {name: number for name, number in packages.items() if name and number},
    "folders": [path for path in sys.path if path in folders],
}))
"""


class PythonError(ValueError):
    """The script's Python can't be used: the message says why, and gives the command line that fixes it, or "" if there
    is none. `interpreter` is another Python to name in the settings, if any: one that this line makes, or one that is
    there."""

    def __init__(self, why: str, fix: str = "", interpreter: str = "") -> None:
        named = f", and name {interpreter} as its Python" if interpreter else ""
        super().__init__(f"{why}: {fix}{named}" if fix else why)
        self.why, self.fix, self.interpreter = why, fix, interpreter


def checked(python: str, script: Script | None) -> dict[str, str]:
    """Return the versions of packages, by name. Raise PythonError if what the script takes is missing or too old."""
    if script and "/" in python and not Path(python).exists():
        folder = Path(python).parent.parent
        if (beside := Path(python).with_name("python")).exists():
            raise PythonError(f"there is no {near(python)}; there is {near(beside)}", interpreter=near(beside))
        environments = [path.parent.parent.name for path in folder.parent.glob("*/bin/python")]
        close = difflib.get_close_matches(folder.name, environments, 1, CLOSE)
        is_there = f" (there is {near(folder.with_name(close[0]) / 'bin' / 'python')})" if close else ""
        raise PythonError(f"there is no {near(python)}{is_there}", line_that_makes(script, folder))
    installed = versions(python)
    if script:
        check(script, installed, python)
    return installed


def versions(python: str) -> dict[str, str]:
    """Return versions of packages, by name, and Python's. Raise PythonError if `python` can't be observed."""
    installed: dict[str, str] = _probed(python)["versions"]
    return installed


def modules(python: str) -> frozenset[str]:
    """Return which modules of frameworks this Python can import, and `pip` if it has pip; raise as `versions` does."""
    return frozenset(_probed(python)["modules"])


def packages(python: str) -> dict[str, str]:
    """Return the versions of all packages of this Python, by their names in uv.lock; raise as `versions` does."""
    return {package_name(name): version for name, version in _probed(python)["packages"].items()}


def folders(python: str) -> tuple[str, ...]:
    """Return this Python's folders of packages, in the order of its search. Raise PythonError as `versions` does."""
    return tuple(_probed(python)["folders"])


def is_environment(python: str) -> bool:
    """Return whether this Python belongs to an environment, and not to the system, where nothing is to be installed."""
    return bool(_probed(python)["own"])


@cache
def _probed(python: str) -> dict[str, Any]:
    try:
        probe = [python, "-B", "-c", PROBE % (PACKAGES, (*FRAMEWORKS, PIP))]
        done = output.capture_text(probe, seconds=30, env=environment.allowed(os.environ))
    except (OSError, subprocess.SubprocessError) as error:
        raise PythonError(
            f"{python} can't be run ({error}): name the interpreter of the script's environment, as "
            "../mine/.venv/bin/python"
        ) from None
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])  # an environment may print at each start
    except (ValueError, IndexError):
        raise PythonError(f"{python} is no Python: {(done.stdout + done.stderr).strip()[-200:]}") from None
    version = answer["versions"]["python"]
    if _numbers(version) < LEAST_PYTHON:
        raise PythonError(f"{python} is Python {version}: 3.9 is the oldest that can be observed")
    return answer


def of_image(installed: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of Python and of PACKAGES that an image with these installed packages has."""
    return {name: installed[name] for name in ("python", *PACKAGES) if name in installed}


def lacking(script: Script, installed: Mapping[str, str]) -> set[str]:
    """Return the modules that the script imports at once, and an image with these packages does not have."""
    names = {module: NAME_OF.get(module, module) for module in script.loads}
    return {module for module, name in names.items() if {name, f"{name}-cpu"}.isdisjoint(installed)}


def in_no_package(modules: Iterable[str], installed: Mapping[str, str]) -> set[str]:
    """Return the modules that no package in `installed` brings, as far as that is known. The name of a package is its
    module's, or the one in NAME_OF, or the package is also installed here, and its metadata name its modules."""
    brought_by = _packages_by_module()
    return {
        module
        for module in modules
        if not {package_name(name) for name in (module, NAME_OF.get(module, module), *brought_by.get(module, ()))}
        & set(installed)
    }


@cache
def _packages_by_module() -> Mapping[str, list[str]]:
    return packages_distributions()


def check(script: Script, installed: Mapping[str, str], python: str) -> None:
    """Raise PythonError, with the line that installs what the script imports, if that is missing or too old."""
    missing = {name for name in script.loads if name not in modules(python)}
    if script.needs_ray and "ray" not in installed:
        missing.add("ray")
    if missing:
        raise _missing(script, missing, python)
    if old := too_old(script, installed):
        name, why = old
        raise PythonError(
            f"{name} {installed[name]} is in the script's environment, and {why}",
            line_that_installs([name], python, upgrade=True),
        )


def too_old(script: Script, installed: Mapping[str, str], *more: str) -> tuple[str, str] | None:
    """Return a package of the script, or of `more`, that is too old to be observed, and why; None if there is none."""
    for name, least in LEAST.items():
        if name in installed and name in (*script.frameworks, *more) and _numbers(installed[name]) < least:
            return name, f"{'.'.join(map(str, least))} is the oldest that can be observed"
    return None


def _missing(script: Script, missing: set[str], python: str) -> PythonError:
    what = f"{script.path.name} imports {' and '.join(sorted(missing))}"
    if python != sys.executable and is_environment(python):
        return PythonError(f"{what}, which its environment lacks", line_that_installs(missing, python))
    folder = script.path.parent / ".venv"
    whose = "the project's own environment" if python == sys.executable else f"{python}, the system's Python,"
    return PythonError(
        f"{what}, which {whose} lacks, and nothing is installed there",
        line_that_makes(script, folder),
        near(folder / "bin" / "python"),
    )


def line_that_gives(script: Script, names: Iterable[str], python: str) -> str:
    """Return the command that installs these packages for the script: into its environment, or, if the script has the
    system's Python, into a new environment."""
    if is_environment(python):
        return line_that_installs(names, python)
    return line_that_makes(script, script.path.parent / ".venv", names)


def _numbers(version: str) -> tuple[int, int]:
    major, minor = ([*version.split("."), "0"])[:2]
    return int(major), int("".join(character for character in minor if character.isdecimal()) or 0)


def line_that_makes(script: Script, folder: Path, more: Iterable[str] = ()) -> str:
    """Return the command that creates the environment `folder` with the frameworks that the script imports, or with its
    requirements file, and with `more`. Only a script that imports Ray needs it there. Arms on this machine have no GPU,
    so PyTorch is installed without its packages for GPUs, which are gigabytes."""
    beside = script.path.parent / REQUIREMENTS
    names = {*(script.frameworks or script.imports), *more}
    requirements = beside.read_text(encoding="utf-8", errors="replace") if beside.is_file() else ""
    what = ["-r", near(beside), *_packages(more)] if requirements else _packages(names)
    backend = ["--torch-backend", "cpu"] if "torch" in names or "torch" in requirements else []
    interpreter = near(folder / "bin" / "python")
    make_environment = [uv(), "venv", "--python", "3.11", near(folder)]
    if not what:
        return shlex.join(make_environment)
    install = [uv(), "pip", "install", "--python", interpreter, *backend, *what]
    return f"{shlex.join(make_environment)} && {shlex.join(install)}"


def line_that_installs(names: Iterable[str], python: str, *, upgrade: bool = False) -> str:
    """Return the command that installs packages into an environment: by uv if uv made it, because it has no pip."""
    tool = (
        [near(python), "-m", "pip", "install"]
        if PIP in modules(python)
        else [uv(), "pip", "install", "--python", near(python)]
    )
    return shlex.join([*tool, *(["--upgrade"] if upgrade else []), *_packages(names)])


def near(path: str | Path) -> str:
    """Return a path as the user would type it: in the project's folder the shorter form, elsewhere the whole path."""
    if os.environ.get(command_line.FROM, str(PROJECT)) != str(PROJECT):
        return str(path)
    return min(os.path.relpath(path, PROJECT), str(path), key=len)


def _packages(names: Iterable[str]) -> list[str]:
    return [PACKAGE_OF.get(name, name) for name in sorted(names)]


def uv() -> str:
    """Return `uv` if it is on PATH, else the path of the uv that `rwi` installed, if any."""
    own = sorted((PROJECT / ".tools" / "uv").glob("*/uv"))
    return near(own[-1]) if own and not shutil.which("uv") else "uv"
