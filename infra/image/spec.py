"""The contents of the training image, and the tag derived from them. Pure: builds nothing, imports no Pulumi.

The tag is a hash of the content, so an image that has it need not be built again, and a change of anything else (docs,
tests, the program) keeps the tag: pods and measurements stay as they are.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from packaging.markers import Marker

from infra.image.requirements import pins
from training.contract import provenance
from training.contract.arms import ARMS
from training.contract.provenance import PROJECT
from training.contract.workload import named

NAME = "ray-worth-it/training"
"""The image's name if no registry is needed."""
DOCKERFILE = PROJECT / "training/image/Dockerfile"
BUILD_FILES = (PROJECT / "training/image/strip_symbols.py", PROJECT / "training/image/uv.txt")
"""The script that the Dockerfile runs, and the file that pins the uv which the Dockerfile installs."""
ENTRIES = ("training.launch.pod.run", "training.launch.ray.submit", "training.launch.storage.probe")
"""Modules of `training` that a pod starts."""
DATA = "/data"
"""The folder of the image's data set."""
CIFAR10 = "cifar-10-batches-py"
EXTRA = "image"
"""The uv extra with the packages that only pods need."""
CHECKED = ("ray", "tensorflow")
"""The packages whose versions a pod compares with uv.lock before it trains. The version of Python is compared, too."""


@dataclass(frozen=True)
class Content:
    """The contents of an image, apart from the Dockerfile."""

    workload: str
    """The workload's name."""
    base_image: str
    """The base image's name with its digest or its ID (`infra.image.base`)."""
    dataset: str
    dataset_path: str | None
    """A folder of this machine with the files of CIFAR-10; None if these files are downloaded."""
    requirements: str | None = None
    """A file of this machine with packages that a script needs in addition to uv.lock; None without such a file."""

    @property
    def has_cifar10(self) -> bool:
        """Return whether the image contains CIFAR-10. Pods have no network access, so they cannot download it."""
        return self.dataset == "cifar10"

    def tag(self, project: Path = PROJECT) -> str:
        """Return the image's tag: 12 hex digits, which change if the image's contents change."""
        parts = {
            "base": self.base_image,
            "dockerfile": [path.read_text(encoding="utf-8") for path in (DOCKERFILE, *BUILD_FILES)],
            "modules": {str(path.relative_to(project)): _digest(path) for path in modules(self.workload, project)},
            "packages": sorted(packages(project / "uv.lock")),
            "data": self._data(),
            "requirements": self.more(),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]

    def dataset_flag(self) -> list[str]:
        """Return the flag that tells an entry point where the image's data set is; empty if it has none."""
        return [f"--dataset-path={DATA}/{CIFAR10}"] if self.has_cifar10 else []

    def more(self) -> str:
        """Return the requirements that are installed in addition to the part of uv.lock that all images have: the
        locked packages that only this workload needs, and the user's requirements file. Empty if there are neither."""
        named_by_user = pins(Path(self.requirements)) if self.requirements else {}
        own = "".join(line for name, line in locked_lines(self.workload).items() if name not in named_by_user)
        return own + (Path(self.requirements).read_text(encoding="utf-8") if self.requirements else "")

    def _data(self) -> str:
        if not self.has_cifar10:
            return ""
        return provenance.files_hash(Path(self.dataset_path)) if self.dataset_path else "downloaded"


def modules(workload: str, project: Path = PROJECT) -> list[Path]:
    """Return the project's modules that a pod of this workload can import, or load by the path of their file."""
    arms = {path for arm in ARMS for path in provenance.modules_of_run(arm, workload, project)}
    by_path = {path for folder in named(workload).by_path for path in (project / folder).rglob("*.py")}
    return sorted(arms | by_path | set(provenance.modules_of(ENTRIES, project)))


@cache
def packages(lock: Path = PROJECT / "uv.lock") -> frozenset[str]:
    """Return `name==version` for every package in the part of uv.lock that all images have."""
    locked = _locked(lock)
    root = next(p for p in locked.values() if "virtual" in p.get("source", {}))
    todo = [d["name"] for d in (*root["dependencies"], *root["optional-dependencies"][EXTRA])]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in seen and name in locked:
            seen.add(name)
            todo += _required(locked[name])
    return frozenset(f"{name}=={locked[name]['version']}" for name in seen)


@cache
def locked_lines(workload: str, lock: Path = PROJECT / "uv.lock") -> Mapping[str, str]:
    """Return a line of a requirements file, by package, for every package that only this workload needs.

    For a search, these are Optuna and what Optuna requires. A line has the hashes of uv.lock, and the marker of the
    package that requires it.
    """
    locked, in_image = _locked(lock), names_of(packages(lock))
    markers: dict[str, set[str]] = {}
    todo = [{"name": name} for name in named(workload).packages]
    while todo:
        wanted = todo.pop()
        name = wanted["name"]
        if name in locked and name not in in_image:
            todo += [] if name in markers else locked[name].get("dependencies", [])
            markers.setdefault(name, set()).add(wanted.get("marker", ""))
    return {name: _line(locked[name], markers[name]) for name in sorted(markers)}


def names_of(locked: Iterable[str]) -> set[str]:
    """Return the names in `name==version`."""
    return {each.partition("==")[0] for each in locked}


def _line(package: Mapping[str, Any], markers: set[str]) -> str:
    marker = "" if "" in markers else f" ; {' or '.join(f'({each})' for each in sorted(markers))}"
    files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
    hashes = "".join(f" \\\n    --hash={each}" for each in sorted({file["hash"] for file in files}))
    return f"{package['name']}=={package['version']}{marker}{hashes}\n"


def _locked(lock: Path) -> dict[str, Mapping[str, Any]]:
    """Return the packages of uv.lock by name, each in the version for the image's Python."""
    python = lock.with_name(".python-version").read_text(encoding="utf-8").strip()
    return {p["name"]: p for p in provenance.locked_packages(lock) if _is_for(python, p)}


def _is_for(python: str, package: Mapping[str, Any]) -> bool:
    """Return whether this version of a package is the one that uv.lock has for the image's Python, on Linux."""
    version = {"python_version": ".".join(python.split(".")[:2]), "python_full_version": f"{python}.0"}
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    markers = package.get("resolution-markers", [])
    return not markers or any(Marker(marker).evaluate({**version, **linux}) for marker in markers)


def _required(package: Mapping[str, Any]) -> Iterator[str]:
    extras = package.get("optional-dependencies", {}).values()
    for dependency in [*package.get("dependencies", []), *(requirement for extra in extras for requirement in extra)]:
        yield dependency["name"]


def installed(requirements: str | None = None, project: Path = PROJECT) -> dict[str, str]:
    """Return the versions of the packages that a pod can import, by name, and of Python. Raise RequirementsError or
    OSError if the requirements cannot be used."""
    more = pins(Path(requirements)) if requirements else {}
    return fixed(project) | more | {"python": (project / ".python-version").read_text(encoding="utf-8").strip()}


def fixed(project: Path = PROJECT, workload: str = "") -> dict[str, str]:
    """Return the packages that the image has in exactly the locked version, by name, with that version. With
    `workload`, the packages that only this workload needs are included."""
    left_out = set(re.findall(r"--no-emit-package (\S+)", DOCKERFILE.read_text(encoding="utf-8")))
    locked = dict(entry.split("==") for entry in packages(project / "uv.lock"))
    own = {name: line.split()[0].partition("==")[2] for name, line in _lines_of(workload, project).items()}
    return {name: version for name, version in locked.items() if name not in left_out} | own


def _lines_of(workload: str, project: Path) -> Mapping[str, str]:
    return locked_lines(workload, project / "uv.lock") if workload else {}


def expected_versions(project: Path = PROJECT, workload: str = "") -> dict[str, str]:
    """Return the versions that a pod must find installed, by package. With `workload`, the packages that only this
    workload needs are included."""
    own = named(workload).packages if workload else ()
    checked = {*CHECKED, "python", *(name for name in own if name in _lines_of(workload, project))}
    python = (project / ".python-version").read_text(encoding="utf-8").strip()
    return {
        name: version for name, version in {**fixed(project, workload), "python": python}.items() if name in checked
    }


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
