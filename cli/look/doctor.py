"""`rwi doctor`: compares what a stack needs with what is installed, and prints the fixes. Changes nothing."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

import psutil

from cli.look import ray_cluster
from cli.setup import pulumi_cli
from cli.setup.project import ToolError, capture
from cli.stack import settings as stack_settings
from cli.stack.environment import path_additions
from cli.stack.lines import for_rwi
from infra.doctor import Finding
from infra.places.place import choose
from infra.settings.settings import Settings
from report import terminal
from report.terminal import columns

PYTHON = (3, 11)
PLUGINS = ("command", "kubernetes")
BUSY_CPUS = 0.25
"""Number of CPUs that is more than an idle system uses in one second."""


def findings(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for each requirement of a stack; each is checked when the iterator reaches it."""
    yield python()
    yield pulumi()
    if settings.cluster is not None:
        yield from map(plugin, PLUGINS)
    yield from choose(settings.target).doctor(settings)


def python() -> Finding:
    """Return a finding about the environment's Python, with the uv command that installs a newer one."""
    ok = sys.version_info[:2] >= PYTHON
    return Finding("Python", platform.python_version(), "3.11 or newer", ok, "uv python install 3.11")


def pulumi() -> Finding:
    """Return a finding about the Pulumi CLI that the commands use."""
    needed = f"{'.'.join(map(str, pulumi_cli.MINIMUM))} or newer"
    program = shutil.which("pulumi", path=os.pathsep.join([*path_additions(), os.environ.get("PATH", "")]))
    version = capture([program, "version"]).stdout.strip() if program else ""
    ok = pulumi_cli.parse_version(version) >= pulumi_cli.MINIMUM
    return Finding("Pulumi CLI", version or "none", needed, ok, "Install it: https://www.pulumi.com/docs/install/")


def plugin(name: str) -> Finding:
    """Return where a provider's program is, on PATH or in Pulumi's cache. A missing program is not an error, because
    Pulumi downloads it."""
    version = metadata.version(f"pulumi-{name}")
    fix = f"pulumi plugin install resource {name} {version}"
    path = shutil.which(f"pulumi-resource-{name}")
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    cached = home / "plugins" / f"resource-{name}-v{version}"
    where = path or (str(cached) if cached.is_dir() else "not here: Pulumi downloads it")
    return Finding(f"plugin {name}", where, f"{version}, or a way to download it", True, fix)


def busy() -> str:
    """Return a warning that other programs use this machine's CPUs now; "" if it is quiet."""
    cpus = os.cpu_count() or 1
    used = psutil.cpu_percent(1.0) / 100 * cpus
    if used < BUSY_CPUS:
        return ""
    return f"busy: programs use {used:.1f} of {cpus} CPUs now. End them first: they change what is measured"


def table(all_findings: list[Finding]) -> str:
    """Return a line for each finding, and below these how to fix each one that fails."""
    rows = [("ok" if finding.ok else "NO", finding.name, finding.present, finding.needed) for finding in all_findings]
    lines = columns(("", "what", "found", "needed"), rows)
    fixes = [f"\n{finding.name}: {finding.fix}" for finding in all_findings if not finding.ok]
    return "\n".join([*lines, *fixes])


def examine(stack: str, overrides: Mapping[str, str]) -> int:
    """Print the table of findings for the stack. Return 1 if something is missing, else 0."""
    try:
        settings = stack_settings.load(stack, overrides)
        settings = ray_cluster.with_token(settings, stack) if settings.ray else settings
    except ToolError:
        terminal.write(table([python(), pulumi()]))
        raise
    all_findings = list(findings(settings))
    terminal.write(for_rwi(table(all_findings), stack, overrides))
    place = choose(settings.target)
    if (place.trains_here or place.holds_machine) and (others := busy()):
        terminal.write(f"\n{others}")
    return 0 if all(finding.ok for finding in all_findings) else 1
