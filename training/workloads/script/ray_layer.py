"""Makes Ray as a layer over a script's environment that has none: an environment of the project's own, with the same
Python, whose `.pth` names the folders of theirs. Nothing is installed in theirs.

Their folders come first on its path: what they have is what a script imports there, in their version. The layer has
what Ray needs and they lack, in versions that fit theirs; where there are none, there is no layer.
"""

import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Any

from training.contract.codec import write_whole
from training.contract.provenance import PROJECT, locked_packages, package_name
from training.contract.recipe import canonical
from training.machine import machine_lock, output
from training.workloads.script import python_environment, ray_start
from training.workloads.script.python_environment import PythonError
from training.workloads.script.recognise import Script

FOLDER = PROJECT / ".state" / "layers"
KINDS = ("plain", "torchrun", "tf-config")
"""Kinds of scripts that Ray can train although the script does not import Ray."""
EXTRA = "train"
OF_TRAIN = ("fsspec", "pandas", "pyarrow", "pydantic", "requests")
"""Packages that `import ray.train` needs, and that a Ray without this extra may lack."""
MARK = "+layer"
"""Suffix of Ray's version where Ray is in a layer; results show it, too."""
LONGEST_SECONDS = 900.0
"""Time limit in seconds of each step of making a layer; one of the steps downloads."""
MOST_SHOWN = 500
"""Most characters that are shown of a step's last output."""
MADE = "made.json"
"""Name of the file that is written last: a layer without that file was interrupted, and is made again."""
MODULE = "ray_worth_it_layer"
PATH_FILE = """
import os, site, sys

before = list(sys.path)
ours = [path for path in before if path.startswith(os.path.join(sys.prefix, ""))]
for folder in {folders!r}:
    site.addsitedir(folder)  # whose own .pth files count, as those of editable installations
theirs = [path for path in sys.path if path not in before]
sys.path[:] = [path for path in before if path not in ours] + theirs + ours
"""
"""The module that the layer's `.pth` imports each time the layer's Python starts."""
TRY_IMPORT = "import ray.train, importlib.metadata; print(importlib.metadata.version('ray'))"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Ray over one environment as that environment is now; another package, or another Ray, makes another layer."""

    theirs: str
    """Python of the user's environment, which lacks Ray."""
    ray: str
    """Version of Ray, that of the project's own environment."""
    folder: Path

    @property
    def python(self) -> str:
        """Return the path of the layer's interpreter, which exists once the layer is made."""
        return str(self.folder / "bin" / "python")

    @property
    def is_made(self) -> bool:
        """Return whether the layer is complete."""
        return (self.folder / MADE).is_file() and Path(self.python).exists()  # a link to a Python, which may have gone

    @property
    def version(self) -> str:
        """Return Ray's version with the mark that Ray is in a layer."""
        return f"{self.ray}{MARK}"

    @property
    def words(self) -> str:
        """Return a description of the layer, as the end of a sentence."""
        return f"Ray {self.ray} as a layer over the script's environment, where nothing is installed"


def over(script: Script, python: str) -> Layer | None:
    """Return the layer with which Ray trains a script whose environment lacks Ray; None if the script imports Ray, or
    is not of KINDS. Nothing is made. Raise PythonError where it is known, without a network, that no layer is
    possible."""
    if script.kind not in KINDS or script.needs_ray:
        return None
    ray, installed = rays_version(), python_environment.packages(python)
    version = python_environment.versions(python)["python"]
    if conflict := _conflict(version, installed):
        raise _refused(script, python, conflict)
    folders = python_environment.folders(python)
    decides = {"python": [python, version, PATH_FILE], "ray": ray, "folders": folders, "packages": installed}
    key = hashlib.sha256(canonical(decides).encode()).hexdigest()[:12]
    return Layer(theirs=python, ray=ray, folder=FOLDER / key)


def rays_version() -> str:
    """Return the version of Ray in the project's environment, or, if it has none, in uv.lock."""
    return metadata.version("ray") if util.find_spec("ray") else _locked()["ray"]


def _locked() -> dict[str, str]:
    return {package["name"]: package["version"] for package in locked_packages()}


def why_not_theirs(script: Script, python: str) -> str:
    """Return why the Ray in a script's environment can't train a script that does not import Ray; "" if it can. No
    layer over that environment can help, because the environment's own packages come first."""
    if script.kind not in KINDS or script.needs_ray:  # whoever imports Ray is asked for it by what it imports
        return ""
    installed = python_environment.packages(python)
    if old := python_environment.too_old(script, installed, "ray"):
        name, why = old
        return f"its environment has no Ray that is new enough: it has {name} {installed[name]}, and {why}"
    lacking = [name for name in OF_TRAIN if name not in installed]
    is_missing = "is missing" if len(lacking) == 1 else "are missing"
    if lacking and not (script.kind == "plain" and ray_start.trainer_of(script) == ray_start.TASKS):
        return f"its environment has no Ray Train: next to its Ray {', '.join(lacking)} {is_missing}"
    return ""


def line_that_installs(script: Script, python: str) -> str:
    """Return the command that installs Ray in the script's environment, instead of a layer."""
    return python_environment.line_that_gives(script, [f"ray[{EXTRA}]=={rays_version()}"], python)


def make(layer: Layer, script: Script, say: Callable[[str], None]) -> None:
    """Make the layer unless it exists; if another process makes a layer, or measures, wait until that process ends.
    `say` is told what takes a while. Raise PythonError with the reason why the layer can't be made."""
    if layer.is_made:
        return
    with machine_lock.take(say) or nullcontext(), _alone():
        if layer.is_made:
            return
        say(f"makes {layer.words}")
        shutil.rmtree(layer.folder, ignore_errors=True)
        try:
            _make(layer)
        except (_FailedError, OSError) as error:
            shutil.rmtree(layer.folder, ignore_errors=True)
            raise _refused(script, layer.theirs, str(error)) from None
        _remove_others(layer)


def brings(layer: Layer, script: Script) -> list[str]:
    """Return the modules that the script would import, that its own environment lacks, and that the layer adds."""
    added = {package_name(line.partition("==")[0]) for line in _made_of(layer.folder).get("added", ())}
    named = {name.partition(".")[0] for name in script.modules}
    return sorted(name for name in named if package_name(python_environment.NAME_OF.get(name, name)) in added)


class _FailedError(Exception):
    """A step of making a layer failed; the message is one line of what the step printed."""


def _refused(script: Script, python: str, why: str) -> PythonError:
    return PythonError(
        f"its environment has no Ray, and Ray {rays_version()} can't be a layer over it: {why}",
        line_that_installs(script, python),
    )


def _conflict(python: str, installed: Mapping[str, str]) -> str:
    """Return which of Ray's requirements an environment has in a version that does not fit; "" if all fit."""
    from packaging.requirements import Requirement  # of the project's own environment, and not of every pod's
    from packaging.specifiers import SpecifierSet

    if not util.find_spec("ray"):
        return ""  # uv finds it as it resolves them
    if (supported := metadata.metadata("ray")["Requires-Python"]) and not SpecifierSet(supported).contains(python):
        return f"Ray needs Python {supported}, and it has {python}"
    environment = {"extra": EXTRA, "python_version": ".".join(python.split(".")[:2]), "python_full_version": python}
    for requirement in map(Requirement, metadata.requires("ray") or ()):
        has = installed.get(package_name(requirement.name))
        wanted = requirement.marker is None or requirement.marker.evaluate(environment)
        if wanted and has and not requirement.specifier.contains(has, prereleases=True):
            return f"Ray needs {requirement.name}{requirement.specifier}, and it has {requirement.name} {has}"
    return ""


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of all layers until this process ends; the machine's own can't be seen from every network."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(layer: Layer) -> None:
    theirs = python_environment.packages(layer.theirs)
    _uv("venv", "--quiet", "--python", shutil.which(layer.theirs) or layer.theirs, str(layer.folder))
    _write_path_file(layer)
    wanted = _wanted(layer, theirs)
    lacking = [line for line in wanted if package_name(line.partition("==")[0]) not in theirs]
    write_whole(layer.folder / "lacking.txt", "\n".join(lacking) + "\n")
    install = ("pip", "install", "--quiet", "--no-build", "--no-deps", "--compile-bytecode", "--python", layer.python)
    _uv(*install, "-r", str(layer.folder / "lacking.txt"))
    _check(layer, theirs)
    write_whole(layer.folder / MADE, canonical({"theirs": layer.theirs, "ray": layer.ray, "added": sorted(lacking)}))


def _write_path_file(layer: Layer) -> None:
    """Have the layer's Python search the folders of the script's environment before its own folders."""
    (packages,) = layer.folder.glob("lib/python*/site-packages")
    text = PATH_FILE.format(folders=python_environment.folders(layer.theirs))
    (packages / f"{MODULE}.py").write_text(text, encoding="utf-8")
    (packages / f"{MODULE}.pth").write_text(f"import {MODULE}\n", encoding="utf-8")


def _wanted(layer: Layer, theirs: Mapping[str, str]) -> list[str]:
    """Return `name==version` of Ray and all that Ray needs. Raise _FailedError if no versions fit. Packages of the
    script's environment keep their version; others have that of the project's own environment, if possible."""
    try:
        ours = _locked() | python_environment.packages(sys.executable)
        return _resolved(layer, {**ours, **theirs}, theirs)
    except _FailedError:
        fitting = dict(line.split("==") for line in _resolved(layer, theirs, {}))
        theirs_then = dict(line.split("==") for line in _lines(theirs).split())
        changed = [name for name, version in fitting.items() if theirs_then.get(name, version) != version]
        if not changed:
            raise
    others = ", ".join(f"{name} {fitting[name]} where it has {theirs[name]}" for name in sorted(changed))
    raise _FailedError(f"what Ray needs takes {others}")


def _resolved(layer: Layer, preferred: Mapping[str, str], only: Mapping[str, str]) -> list[str]:
    """Return `name==version` of Ray and all that Ray needs, for the layer's Python; packages that would have to be
    built are not used."""
    names = ("ray.txt", "only.txt", "wanted.txt")
    requested, constraints, wanted = (layer.folder / name for name in names)
    requested.write_text(f"ray[{EXTRA}]=={layer.ray}\n", encoding="utf-8")
    constraints.write_text(_lines(only), encoding="utf-8")
    wanted.write_text(_lines(preferred), encoding="utf-8")  # uv keeps what stands in its output, where it can
    how = ("--quiet", "--no-build", "--no-header", "--no-annotate", "--python", layer.python)
    _uv("pip", "compile", *how, "--constraint", str(constraints), str(requested), "-o", str(wanted))
    return [line for line in wanted.read_text(encoding="utf-8").splitlines() if "==" in line]


def _lines(versions: Mapping[str, str]) -> str:
    """Return versions as lines of a requirements file. Invalid versions are left out, and so is the part of a version
    that only its own index knows, such as `+cpu`."""
    from packaging.version import InvalidVersion, Version

    lines = []
    for name, version in versions.items():
        with suppress(InvalidVersion):
            lines.append(f"{name}=={Version(version).public}\n")
    return "".join(lines)


def _check(layer: Layer, theirs: Mapping[str, str]) -> None:
    """Raise _FailedError unless the layer's Python imports Ray and the script's packages in their versions."""
    seen = python_environment.packages(layer.python)
    if other := [name for name, version in theirs.items() if seen.get(name) != version]:
        raise _FailedError(f"{', '.join(sorted(other)[:3])} would be another version in it")
    _run([layer.python, "-B", "-c", TRY_IMPORT])


def _uv(*arguments: str) -> None:
    _run([python_environment.uv(), *arguments])


def _run(command: list[str]) -> None:
    """Run a step in the project's folder, where a relative path of uv is valid. Raise _FailedError if it fails."""
    own = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
    try:
        done = output.capture_text(command, seconds=LONGEST_SECONDS, cwd=PROJECT, env=own)
    except (OSError, subprocess.SubprocessError) as error:
        raise _FailedError(f"`{shlex.join(command[:3])} …`: {error}") from None
    if done.returncode:
        raise _FailedError(_one_line(done.stderr or done.stdout))


def _one_line(text: str) -> str:
    """Return the last words of uv's or Python's output in one line, without the signs of uv's tree."""
    words = " ".join(re.sub("×|╰─▶|│", " ", text).split())
    words = words.removeprefix("error: ").replace(" cause: ", ": ").rstrip(".")
    return words if len(words) <= MOST_SHOWN else f"… {words[-MOST_SHOWN:]}"


def _remove_others(layer: Layer) -> None:
    """Remove layers over earlier states of the same environment, and what is left of layers that were interrupted."""
    for folder in FOLDER.iterdir():
        if folder.is_dir() and folder != layer.folder and _made_of(folder).get("theirs") in (None, layer.theirs):
            shutil.rmtree(folder, ignore_errors=True)


def _made_of(folder: Path) -> dict[str, Any]:
    """Return what is recorded about a layer that is complete; {} for an incomplete one."""
    try:
        known: dict[str, Any] = json.loads((folder / MADE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known
