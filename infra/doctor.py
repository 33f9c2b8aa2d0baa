"""Findings about a machine: what is present, the minimum that a place needs, and the fix. Changes nothing."""

import re
import shutil
from dataclasses import dataclass

from infra.bundle import dotted
from infra.programs import ProgramError, run

MINIMUM_DOCKER = (20, 10)
GIB = 2**30


@dataclass(frozen=True)
class Finding:
    """A requirement of a stack, and whether it is met."""

    name: str
    present: str
    needed: str
    ok: bool
    fix: str = ""


def docker() -> Finding:
    """Return the finding about Docker: whether it is installed, running, usable by this user, and recent enough."""
    needed = f"Docker {dotted(MINIMUM_DOCKER)} or newer, running"
    if not shutil.which("docker"):
        return Finding("docker", "not installed", needed, False, "Install it: https://docs.docker.com/engine/install/")
    try:
        version = run("docker", "version", "--format", "{{.Server.Version}}", quiet=True, seconds=30).strip()
    except ProgramError as failure:
        return _refused_docker(str(failure), needed)
    fix = "Update it: https://docs.docker.com/engine/install/"
    return Finding("docker", version, needed, parsed(version) >= MINIMUM_DOCKER, fix)


def _refused_docker(message: str, needed: str) -> Finding:
    if "permission denied" in message.lower():
        fix = "Join the group docker, then log in again:  sudo usermod -aG docker $USER"
        return Finding("docker", "its socket refuses this user", needed, False, fix)
    fix = "Start it:  sudo systemctl start docker    (or open Docker Desktop)"
    return Finding("docker", "its daemon does not answer", needed, False, fix)


def parsed(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
