"""Checks this machine for the runs of target `local`. Changes nothing."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import psutil

from infra.doctor import GIB, Finding
from infra.settings.settings import Settings
from training.contract.provenance import PROJECT

DISK_BYTES = 4 * 10**9
"""The free disk space needed for the environment, the CLI and their download; they measured 2.9 GB."""
NETWORK_PROBE = ("-m", "training.machine.isolation")
"""Arguments of a separate Python: the process that tries it must have no threads."""


def findings(settings: Settings) -> Iterator[Finding]:
    """Yield the findings. CPUs were checked with the settings; the memory is the workers' `workerMemory`."""
    recipe = settings.recipe
    cpus = recipe.workers * recipe.worker_cpus
    yield Finding("CPUs", str(os.cpu_count() or 1), f"{cpus:g} for the workers", True)
    memory, needed = psutil.virtual_memory().total, recipe.workers * settings.run.worker_memory.bytes
    fix = "pulumi config set workers 1    (or a smaller workerMemory, if a run's peak memory shows that it is enough)"
    yield Finding("memory", f"{memory / GIB:.1f} GiB", f"{needed / GIB:.1f} GiB for the workers", memory >= needed, fix)
    yield network()
    free = shutil.disk_usage(PROJECT).free
    yield Finding("disk", f"{free / 1e9:.0f} GB free", f"{DISK_BYTES / 1e9:.0f} GB", free >= DISK_BYTES, "Make room")


def network() -> Finding:
    """Report whether a run's ports are isolated. Never a failure: a run works without, and says so."""
    command = [sys.executable, *NETWORK_PROBE]
    tried = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    reason = tried.stdout.strip()
    reach = f"other machines reach a run's ports: {reason}" if reason else "a run's own: no other machine reaches it"
    return Finding("network", reach, "a run's own, or a firewall", True)
