"""Checks this machine for a Minikube stack: what is present, the minimum, and the fix. Changes nothing.

`up` runs these checks before it starts anything, and stops at the first that fails; `./rwi doctor` prints all of them.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil

from infra.bundle import dotted
from infra.doctor import GIB, Finding, docker, parsed
from infra.places.minikube.spec import Cluster
from infra.programs import ProgramError, run
from training.machine import gpus as machine_gpus

MINIMUM_MINIKUBE = (1, 37)
DISK_BYTES = 12 * 10**9
"""The free disk in bytes that a stack needs: for the nodes' images, and the training image here and on each node."""


def findings(cluster: Cluster) -> Iterator[Finding]:
    """Yield the findings about a Minikube stack. Each is checked only when the caller asks for the next finding."""
    yield docker()
    yield minikube()
    yield cpus(cluster)
    yield memory(cluster)
    yield disk()
    if cluster.gpus:
        yield gpus(cluster)


def refuse(cluster: Cluster) -> None:
    """Raise ProgramError at the first finding that is not ok."""
    for finding in findings(cluster):
        if not finding.ok:
            raise ProgramError(f"{finding.name}: {finding.present}; needed is {finding.needed}.\n{finding.fix}")


def minikube() -> Finding:
    """Return the finding about Minikube: whether it is installed, and its version."""
    needed = f"minikube {dotted(MINIMUM_MINIKUBE)} or newer"
    if not shutil.which("minikube"):
        return Finding(
            "minikube", "not installed", needed, False, "Install it: https://minikube.sigs.k8s.io/docs/start/"
        )
    version = run("minikube", "version", "--short", quiet=True, seconds=30).strip().lstrip("v")
    fix = "Update it: https://minikube.sigs.k8s.io/docs/start/"
    return Finding("minikube", version, needed, parsed(version) >= MINIMUM_MINIKUBE, fix)


def cpus(cluster: Cluster) -> Finding:
    """Return the finding about a node's CPUs: Minikube refuses one with more CPUs than the machine has."""
    present, needed = os.cpu_count() or 1, cluster.cpus
    fix = f"pulumi config set minikubeCpus {present}"
    return Finding("CPUs", str(present), f"{needed} for a node", present >= needed, fix)


def memory(cluster: Cluster) -> Finding:
    """Return the finding about the memory of a node. Whether all nodes together fit is checked with the settings."""
    present, needed = psutil.virtual_memory().total, cluster.memory_mib * 2**20
    fix = f"pulumi config set minikubeMemory {int(present * 0.4 / GIB) or 2}Gi"
    return Finding("memory", f"{present / GIB:.1f} GiB", f"{needed / GIB:.1f} GiB for a node", present >= needed, fix)


def gpus(cluster: Cluster) -> Finding:
    """Return the finding about this machine's GPUs, all of which the node offers."""
    present, why = machine_gpus.why_too_few(cluster.gpus)
    number = f"pulumi config set minikubeGpus {present}" if present else "pulumi config rm minikubeGpus"
    return Finding("GPUs", why or str(present), f"{cluster.gpus} for the node", present == cluster.gpus, number)


def disk() -> Finding:
    """Return the finding about the disk with Docker's images, or of this folder if Docker runs in another machine."""
    root = _docker_root()
    free = shutil.disk_usage(root if root.is_dir() else Path.cwd()).free
    fix = "Make room:  docker system prune    (removes what no container uses)"
    return Finding("disk", f"{free / 1e9:.0f} GB free", f"{DISK_BYTES / 1e9:.0f} GB", free >= DISK_BYTES, fix)


def _docker_root() -> Path:
    try:
        return Path(run("docker", "info", "--format", "{{.DockerRootDir}}", quiet=True, seconds=30).strip())
    except ProgramError:
        return Path.cwd()  # that Docker does not answer is another finding
