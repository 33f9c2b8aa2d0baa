"""`make doctor`: what a stack needs, each found against its minimum, with the fix. Changes nothing."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import psutil

from infra.places.cluster import kube
from infra.places.cluster.kube import KubeError
from infra.places.cluster.measurement import minikube_cluster
from infra.places.kubernetes import inspection, kubeconfig
from infra.places.minikube import doctor
from infra.places.minikube.doctor import GIB, Finding
from infra.settings.settings import Settings
from report import terminal
from report.text_table import columns
from tools.setup import pulumi_cli
from tools.setup.project import ROOT, ToolError, capture, run_main
from tools.stack import settings as stack_settings
from tools.stack.environment import path_additions

PYTHON = (3, 11)
LOCAL_DISK_BYTES = 4 * 10**9
"""The environment, the CLI and their download; 2.9 GB were counted."""
PLUGINS = ("command", "kubernetes")


def findings(settings: Settings) -> Iterator[Finding]:
    """What a stack needs, one after another; each is looked at when it is asked for."""
    yield python()
    yield pulumi()
    if settings.cluster is None:
        yield from _local(settings)
        return
    yield from map(plugin, PLUGINS)
    if settings.target == "minikube":
        yield from doctor.findings(minikube_cluster(settings.stack, settings.cluster))
        yield from (Finding("fit", "see below", "all pods fit", False, text) for text in settings.refused_at_up)
        return
    if settings.cluster.image_registry:
        yield doctor.docker()
    yield from _existing(settings)


def python() -> Finding:
    """That of the environment, which uv brings where it is missing."""
    ok = sys.version_info[:2] >= PYTHON
    return Finding("Python", platform.python_version(), "3.11 or newer", ok, "uv python install 3.11")


def pulumi() -> Finding:
    """The CLI that make uses."""
    needed = f"{'.'.join(map(str, pulumi_cli.MINIMUM))} or newer"
    program = shutil.which("pulumi", path=os.pathsep.join([*path_additions(), os.environ.get("PATH", "")]))
    found = capture([program, "version"]).stdout.strip() if program else ""
    ok = pulumi_cli.parse_version(found) >= pulumi_cli.MINIMUM
    return Finding("Pulumi CLI", found or "none", needed, ok, "Install it: https://www.pulumi.com/docs/install/")


def plugin(name: str) -> Finding:
    """A provider's program: on PATH, in Pulumi's cache, or yet to be downloaded, which is no fault by itself."""
    version = metadata.version(f"pulumi-{name}")
    fix = f"pulumi plugin install resource {name} {version}"
    path = shutil.which(f"pulumi-resource-{name}")
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    cached = home / "plugins" / f"resource-{name}-v{version}"
    found = path or (str(cached) if cached.is_dir() else "not here: Pulumi downloads it")
    return Finding(f"plugin {name}", found, f"{version}, or a way to download it", True, fix)


def _local(settings: Settings) -> Iterator[Finding]:
    """CPUs were checked with the settings; the memory is what the workers are said to need."""
    recipe = settings.recipe
    cpus = recipe.workers * recipe.worker_cpus
    yield Finding("CPUs", str(os.cpu_count() or 1), f"{cpus:g} for the workers", True)
    memory, needed = psutil.virtual_memory().total, recipe.workers * settings.worker_memory_bytes
    fix = "pulumi config set workers 1    (or a smaller workerMemory, if a run's peak memory shows that it is enough)"
    yield Finding("memory", f"{memory / GIB:.1f} GiB", f"{needed / GIB:.1f} GiB for the workers", memory >= needed, fix)
    yield network()
    free = shutil.disk_usage(ROOT).free
    ok = free >= LOCAL_DISK_BYTES
    yield Finding("disk", f"{free / 1e9:.0f} GB free", f"{LOCAL_DISK_BYTES / 1e9:.0f} GB", ok, "Make room")


def network() -> Finding:
    """Whether the ports of a run are its own. A run does without, and says so: it is no fault of the machine."""
    command = [
        sys.executable,
        "-m",
        "training.machine.isolation",
    ]  # its own process: what tries it must have no threads
    reason = capture(command).stdout.strip()
    found = f"other machines reach a run's ports: {reason}" if reason else "a run's own: no other machine reaches it"
    return Finding("network", found, "a run's own, or a firewall", True)


def _existing(settings: Settings) -> Iterator[Finding]:
    """The cluster of target `kubernetes`, asked the same as at `up`."""
    assert settings.cluster is not None  # noqa: S101 (the target has it)
    needed = "a cluster that answers"
    try:
        selected = kubeconfig.select(settings.cluster.kubeconfig, settings.cluster.kube_context or "")
        found = inspection.findings(kube.connect(selected.content), settings)
    except KubeError as error:
        yield Finding("cluster", "see below", needed, False, str(error))
        return
    yield Finding("cluster", str(selected), needed, True)
    for one in found:
        lifted = one.liftable and settings.allow_oversubscription
        yield Finding("cluster", "see below", "room for the measurement, and nobody else's place", lifted, str(one))


def table(found: list[Finding]) -> str:
    """A line for each, and below them the fix of each that is not as it must be."""
    rows = [("ok" if one.ok else "NO", one.name, one.found, one.needed) for one in found]
    lines = columns(("", "what", "found", "needed"), rows)
    fixes = [f"\n{one.name}: {one.fix}" for one in found if not one.ok]
    return "\n".join([*lines, *fixes])


def main() -> int:
    """Print the table of the stack of STACK; 1 when something is missing."""
    stack, overrides = stack_settings.asked("doctor", __doc__)
    try:
        settings = stack_settings.load(stack, overrides)
    except ToolError:
        terminal.write(table([python(), pulumi()]))
        raise
    found = list(findings(settings))
    terminal.write(table(found))
    return 0 if all(one.ok for one in found) else 1


if __name__ == "__main__":
    run_main(main)
