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
"""The image's name if it needs no registry."""
DOCKERFILE = PROJECT / "training/image/Dockerfile"
BUILD_FILES = (PROJECT / "training/image/strip_symbols.py", PROJECT / "training/image/uv.txt")
"""The script that the Dockerfile runs, and the pin of the uv that it installs."""
ENTRIES = ("training.launch.pod.run", "training.launch.ray.submit", "training.launch.storage.probe")
"""Modules of `training` that a pod starts."""
DATA = "/data"
"""The folder of the image's data set."""
CIFAR10 = "cifar-10-batches-py"
EXTRA = "image"
"""The uv extra with the packages that only pods need."""
CHECKED = ("ray", "tensorflow")
"""Packages whose versions a pod compares with uv.lock before it trains; Python's is compared, too."""


@dataclass(frozen=True)
class Content:
    """The contents of an image, apart from the Dockerfile."""

    workload: str
    """The workload's name."""
    base_image: str
    """The base image with its digest or ID (`infra.image.base`)."""
    dataset: str
    dataset_path: str | None
    """A folder of this machine with the files of CIFAR-10; None if they are downloaded."""
    requirements: str | None = None
    """A file of this machine with packages that a script needs in addition to uv.lock; None if there are none."""

    @property
    def has_cifar10(self) -> bool:
        """Return whether the image holds CIFAR-10: pods reach no network, so they cannot download it."""
        return self.dataset == "cifar10"

    def tag(self, project: Path = PROJECT) -> str:
        """Return 12 hex digits that change with the image's contents."""
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
        """Return the flag by which an entry point finds the image's data set."""
        return [f"--dataset-path={DATA}/{CIFAR10}"] if self.has_cifar10 else []

    def more(self) -> str:
        """Return what is installed in addition to the image's part of uv.lock: what the workload alone needs, as
        locked, and the requirements file; "" if there is neither."""
        named_by_user = pins(Path(self.requirements)) if self.requirements else {}
        own = "".join(line for name, line in locked_lines(self.workload).items() if name not in named_by_user)
        return own + (Path(self.requirements).read_text(encoding="utf-8") if self.requirements else "")

    def _data(self) -> str:
        if not self.has_cifar10:
            return ""
        return provenance.files_hash(Path(self.dataset_path)) if self.dataset_path else "downloaded"


def modules(workload: str, project: Path = PROJECT) -> list[Path]:
    """Return the project's modules that a pod of this workload can import, or loads by their path."""
    arms = {path for arm in ARMS for path in provenance.modules_of_run(arm, workload, project)}
    by_path = {path for folder in named(workload).by_path for path in (project / folder).rglob("*.py")}
    return sorted(arms | by_path | set(provenance.modules_of(ENTRIES, project)))


@cache
def packages(lock: Path = PROJECT / "uv.lock") -> frozenset[str]:
    """Return `name==version` of every package that the image's part of uv.lock names."""
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
    """Return, by name, a line of a requirements file for every package that a workload needs and other images lack.

    Optuna, of a search, with what it requires. A line has the hashes of uv.lock, and the marker of who requires it.
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
    """Return whether the image has this one of several versions of a package: by its Python, on Linux."""
    version = {"python_version": ".".join(python.split(".")[:2]), "python_full_version": f"{python}.0"}
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    markers = package.get("resolution-markers", [])
    return not markers or any(Marker(marker).evaluate({**version, **linux}) for marker in markers)


def _required(package: Mapping[str, Any]) -> Iterator[str]:
    extras = package.get("optional-dependencies", {}).values()
    for dependency in [*package.get("dependencies", []), *(requirement for extra in extras for requirement in extra)]:
        yield dependency["name"]


def installed(requirements: str | None = None, project: Path = PROJECT) -> dict[str, str]:
    """Return versions by package of what a pod can import, and Python's. Raises RequirementsError and OSError."""
    more = pins(Path(requirements)) if requirements else {}
    return fixed(project) | more | {"python": (project / ".python-version").read_text(encoding="utf-8").strip()}


def fixed(project: Path = PROJECT, workload: str = "") -> dict[str, str]:
    """Return versions by package of what the image has in exactly that version; of a workload, what it alone needs,
    too."""
    left_out = set(re.findall(r"--no-emit-package (\S+)", DOCKERFILE.read_text(encoding="utf-8")))
    locked = dict(entry.split("==") for entry in packages(project / "uv.lock"))
    own = {name: line.split()[0].partition("==")[2] for name, line in _lines_of(workload, project).items()}
    return {name: version for name, version in locked.items() if name not in left_out} | own


def _lines_of(workload: str, project: Path) -> Mapping[str, str]:
    return locked_lines(workload, project / "uv.lock") if workload else {}


def expected_versions(project: Path = PROJECT, workload: str = "") -> dict[str, str]:
    """Return the versions that a pod must find installed; of a workload, those of the packages that it alone needs,
    too."""
    own = named(workload).packages if workload else ()
    checked = {*CHECKED, "python", *(name for name in own if name in _lines_of(workload, project))}
    python = (project / ".python-version").read_text(encoding="utf-8").strip()
    return {
        name: version for name, version in {**fixed(project, workload), "python": python}.items() if name in checked
    }


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
