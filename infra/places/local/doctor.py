"""What this machine has of what the runs of target `local` need. Changes nothing."""

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
"""The environment, the CLI and their download; 2.9 GB were counted."""
NETWORK_PROBE = ("-m", "training.machine.isolation")
"""Arguments of a Python of its own: what tries it must have no threads."""


def findings(settings: Settings) -> Iterator[Finding]:
    """CPUs were checked with the settings; the memory is what the workers are said to need."""
    recipe = settings.recipe
    cpus = recipe.workers * recipe.worker_cpus
    yield Finding("CPUs", str(os.cpu_count() or 1), f"{cpus:g} for the workers", True)
    memory, needed = psutil.virtual_memory().total, recipe.workers * settings.worker_memory_bytes
    fix = "pulumi config set workers 1    (or a smaller workerMemory, if a run's peak memory shows that it is enough)"
    yield Finding("memory", f"{memory / GIB:.1f} GiB", f"{needed / GIB:.1f} GiB for the workers", memory >= needed, fix)
    yield network()
    free = shutil.disk_usage(PROJECT).free
    yield Finding("disk", f"{free / 1e9:.0f} GB free", f"{DISK_BYTES / 1e9:.0f} GB", free >= DISK_BYTES, "Make room")


def network() -> Finding:
    """Whether the ports of a run are its own. A run does without, and says so: it is no fault of the machine."""
    command = [sys.executable, *NETWORK_PROBE]
    tried = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    reason = tried.stdout.strip()
    reach = f"other machines reach a run's ports: {reason}" if reason else "a run's own: no other machine reaches it"
    return Finding("network", reach, "a run's own, or a firewall", True)
