"""Reads what an interrupted update left in a stack's state: locks of dead processes, pending creates, resources.

Changes nothing: what is to be done about it is `stack`'s to decide, by pulumi's own commands.
"""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tools.setup.project import capture

_ROOT_TYPE = "pulumi:pulumi:Stack"
_RAY_CLUSTER_TYPE = "kubernetes:ray.io/v1:RayCluster"
_BOOKKEEPING = (_ROOT_TYPE, "pulumi:providers:")


def file_backend(url: str) -> Path | None:
    """The folder of a file backend on this machine; None for any other backend."""
    if not url.startswith("file://"):
        return None
    return Path(unquote(url[len("file://") :].partition("?")[0])).expanduser() / ".pulumi"


def has_only_stale_locks(backend: Path, project: str, stack: str) -> bool:
    """Whether the stack is locked, and every lock by a process of this machine that is no more."""
    locks = _locks(backend, project, stack)
    return bool(locks) and all(_is_of_this_machine(lock) and not _is_running_pulumi(lock["pid"]) for lock in locks)


def running(backend: Path, project: str, stack: str) -> int | None:
    """The process of this machine that works on the stack just now; None where there is none."""
    locks = [lock for lock in _locks(backend, project, stack) if _is_of_this_machine(lock)]
    return next((int(lock["pid"]) for lock in locks if _is_running_pulumi(lock["pid"])), None)


def _locks(backend: Path, project: str, stack: str) -> list[Mapping[str, Any]]:
    files = (backend / "locks" / "organization" / project / stack).glob("*.json")
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def _is_of_this_machine(lock: Mapping[str, Any]) -> bool:
    return lock.get("hostname") == socket.gethostname()


def _is_running_pulumi(pid: int) -> bool:
    """Whether this process lives and is pulumi: its number may have gone to another program by now."""
    command = Path(f"/proc/{pid}/cmdline")
    if Path("/proc/self").exists():
        return command.exists() and b"pulumi" in command.read_bytes()
    listing = capture(["ps", "-o", "stat=,command=", "-p", str(pid)]).stdout
    return "pulumi" in listing and not listing.lstrip().startswith("Z")


def restore_cut_off(backend: Path, project: str, stack: str) -> bool:
    """Put back the state before the last, where a full disk cut that off while it was written; whether it was so.

    A file backend empties the file that it writes, and has the one before it as `.bak`. Who holds the lock is writing.
    """
    if _locks(backend, project, stack) and not has_only_stale_locks(backend, project, stack):
        return False
    for ending in (".json", ".json.gz"):
        file = backend / "stacks" / project / f"{stack}{ending}"
        before = file.with_name(f"{file.name}.bak")
        if file.is_file() and before.is_file() and not _is_whole(file) and _is_whole(before):
            # Renamed, and not copied: there is no room
            attributes = before.with_name(f"{before.name}.attrs")
            if attributes.is_file():  # with `metadata=skip` in the backend's address there are none
                attributes.replace(file.with_name(f"{file.name}.attrs"))
            before.replace(file)
            return True
    return False


def _is_whole(file: Path) -> bool:
    try:
        return "checkpoint" in json.loads(_content(file))
    except (OSError, EOFError, ValueError):
        return False


def _content(file: Path) -> bytes:
    content = file.read_bytes()
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def pending_creates(deployment: Mapping[str, Any]) -> list[str]:
    """The URNs in `pulumi stack export`'s deployment whose creation was begun and never ended."""
    operations = deployment.get("pending_operations") or []
    return [operation["resource"]["urn"] for operation in operations if operation["type"] == "creating"]


def ray_namespaces(deployment: Mapping[str, Any]) -> list[str]:
    """Of the RayClusters in such a deployment, whatever the settings say by now."""
    resources = deployment.get("resources") or []
    return [str(item["inputs"]["metadata"]["namespace"]) for item in resources if item["type"] == _RAY_CLUSTER_TYPE]


def root_urn(deployment: Mapping[str, Any]) -> str | None:
    """The URN of the stack itself, which no provider looks after."""
    return next((str(item["urn"]) for item in deployment.get("resources") or [] if item["type"] == _ROOT_TYPE), None)


def stacks_with_resources(backend: Path) -> dict[str, int]:
    """How many resources each stack of a file backend holds, for those that hold any: `project/stack` to a number."""
    counts: dict[str, int] = {}
    for file in sorted((backend / "stacks").glob("*/*.json*")):
        if file.name.endswith((".json", ".json.gz")):
            stack = f"{file.parent.name}/{file.name.partition('.json')[0]}"
            counts[stack] = _resource_count(file)
    return {stack: count for stack, count in counts.items() if count}


def _resource_count(file: Path) -> int:
    latest = json.loads(_content(file))["checkpoint"].get("latest") or {}
    begun = pending_creates(latest)
    held = [item for item in latest.get("resources") or [] if not item["type"].startswith(_BOOKKEEPING)]
    return len(held) + len(begun)
