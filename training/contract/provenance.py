"""Records the inputs of a run: hashes of code, dependencies and data, the host's facts. Standard library only.

The program computes these at preview; a run computes them again and records them, so a result can be checked.
"""

import ast
import hashlib
import os
import platform
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from training.contract.result import Software
from training.contract.workload import Workload
from training.machine import cpu
from training.machine.cgroup import cpu_quota

PROJECT = Path(__file__).resolve().parents[2]
_OURS = re.compile(r"training(\.\w+)+")
NODE = "TRAINING_NODE"
"""Environment variable with the name of the Kubernetes node of a pod; not set outside of pods."""
LAUNCHING = ("ray",)
"""Packages on which the runs of every workload depend, besides the workload's own packages."""
MEASURING = ("psutil",)
"""Packages that every rank uses for measuring, and whose installed versions it reports, besides the workload's own."""


@dataclass(frozen=True)
class Host:
    """Facts about the machine, as a run sees them."""

    cpu_model: str
    cpus_allowed: int
    memory_bytes: int
    cpu_quota: float | None = None
    """CPUs that a cgroup's quota allows; None if there is no quota."""

    def fingerprint(self) -> str:
        """Return one line that changes with the machine; memory in whole GiB, because kernels report it unevenly."""
        quota = f" (quota {self.cpu_quota:g})" if self.cpu_quota else ""
        return f"{self.cpu_model} | {self.cpus_allowed} CPUs{quota} | {round(self.memory_bytes / 2**30)} GiB"


def host() -> Host:
    """Return the facts of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Host(cpu.model(), len(allowed_cpus()), memory, cpu_quota())


def node() -> str:
    """Return the name of this machine; in a pod, the name of its Kubernetes node."""
    return os.environ.get(NODE) or platform.node()


def pod() -> str | None:
    """Return the name of the pod that this process is in; None outside of pods."""
    return platform.node() if NODE in os.environ else None


def allowed_cpus() -> list[int]:
    """Return the CPUs that this process may use; on systems without affinity, all of them."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def software(arm: str, workload: Workload, steering: dict[str, str]) -> Software:
    """Return the versions and settings of the software in this process of `arm`. Call it before the process does
    anything.

    `steering`: the process's environment variables that steer frameworks.
    """
    return Software(
        code_hash=code_hash(arm, workload.name),
        versions=installed_versions(workload),
        platform=" ".join((platform.system(), platform.machine(), *platform.libc_ver())).strip(),
        kernel=platform.release(),
        environment=steering,
    )


def installed_versions(workload: Workload) -> dict[str, str]:
    """Return the installed versions of this Python and of a workload's packages, without those that are absent."""
    versions = {"python": platform.python_version()}
    for package in (*LAUNCHING, *MEASURING, *workload.packages, *workload.libraries):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def package_name(name: str) -> str:
    """Return a package's name as uv.lock writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def code_hash(arm: str, workload: str, project: Path = PROJECT) -> str:
    """Return the SHA-256 over names and contents of the project's modules that a run of `arm` can import."""
    total = hashlib.sha256()
    for path in modules_of_run(arm, workload, project):
        total.update(f"{path.relative_to(project)}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()


def modules_of_run(arm: str, workload: str, project: Path = PROJECT) -> list[Path]:
    """Return the files of the package `training` that a run of `arm` loads when it trains `workload`. The workload's
    module is found by its name."""
    return modules_of([f"training.{arm}", f"training.workloads.{workload}.workload"], project)


def modules_of(modules: Iterable[str], project: Path = PROJECT) -> list[Path]:
    """Return the files of the package `training` that `modules` load, directly or indirectly: by an import anywhere in
    a file, and by a module's name in a string.

    Python loads a package before a module in it. So the result has the package's `__init__` and its data (`*.csv.gz`).
    """
    files: set[Path] = set()
    names: set[str] = set()
    pending = list(modules)
    while pending:
        name = pending.pop()
        if name in names:
            continue
        names.add(name)
        path = project / name.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if file not in files and file.is_file():
            files |= {file, *file.parent.glob("*.csv.gz")}
            package = ".".join(file.parent.relative_to(project).parts)
            pending += [*_named(file.read_bytes(), package), *([name.rpartition(".")[0]] if "." in name else [])]
    return sorted(files)


@cache
def _named(source: bytes, package: str) -> list[str]:
    """Return the project's modules that a file may load: those that it imports, or whose name is a string in it.

    Cached, because a plan reads most files several times: for each arm and for the image.
    """
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.append(node.value)  # what is started as `python -m training.…`
    return [name for name in names if _OURS.fullmatch(name)]


def locked_packages(lock: Path = PROJECT / "uv.lock") -> Sequence[Mapping[str, Any]]:
    """Return the entries of all packages in uv.lock. A package may be there in several versions."""
    packages: list[dict[str, Any]] = tomllib.loads(lock.read_text(encoding="utf-8"))["package"]
    return packages


@cache
def dependencies_hash(packages_of_workload: tuple[str, ...], lock: Path = PROJECT / "uv.lock") -> str:
    """Return the SHA-256 over a workload's packages, `LAUNCHING` and all they require, with versions, as in uv.lock."""
    packages = {p["name"]: p for p in locked_packages(lock)}
    seen: set[str] = set()
    todo = [name for name in (*LAUNCHING, *packages_of_workload) if name in packages]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        package = packages[name]
        extras = [d for group in package.get("optional-dependencies", {}).values() for d in group]
        todo += [d["name"] for d in package.get("dependencies", []) + extras if d["name"] in packages]
    lines = [f"{name}=={packages[name]['version']}" for name in sorted(seen)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def files_hash(folder: Path) -> str:
    """Return the SHA-256 over the files of a folder: over names and contents of the files directly in it, and over
    names, sizes and times of the files below.

    The contents of those below are not read, because there may be a million images in folders by class.
    """
    total = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.is_file()):
        with path.open("rb") as content:
            total.update(f"{path.name}\0".encode() + hashlib.file_digest(content, "sha256").digest())
    for inside, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        for path in (Path(inside, name) for name in sorted(names) if Path(inside) != folder):
            about = path.stat()
            total.update(f"{path.relative_to(folder)}\0{about.st_size}\0{about.st_mtime_ns}\0".encode())
    return total.hexdigest()
