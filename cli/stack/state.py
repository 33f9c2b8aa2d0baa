"""Reads what an interrupted update left in a stack's state: locks of dead processes, pending creates, resources.

Only `begun` and `restore` write anything. `cli.stack.recovery` decides what is done.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cli.setup.project import ROOT, ToolError, capture

_ROOT_TYPE = "pulumi:pulumi:Stack"
_RAY_CLUSTER_TYPE = "kubernetes:ray.io/v1:RayCluster"
_PINNED_TYPE = "dynamic/cluster:Pinned"
_BEGUN = Path(".state", "updates")
"""Has a folder for each stack, with a file for each container in which an update began and left its lock."""
_ALL_PROCESSES = "pid:[4026531836]"
"""The name that Linux gives to the process namespace of the whole machine."""
_BOOKKEEPING = (_ROOT_TYPE, "pulumi:providers:")


def file_backend(url: str) -> Path | None:
    """Return the folder of a file backend on this machine; None for any other backend."""
    if not url.startswith("file://"):
        return None
    return Path(unquote(url[len("file://") :].partition("?")[0])).expanduser() / ".pulumi"


def has_only_stale_locks(backend: Path, project: str, stack: str) -> bool:
    """Return whether the stack is locked, and every lock is of a process of this machine that certainly ended."""
    locks = _locks(backend, project, stack)
    names = [file.name for file in _lock_files(backend, project, stack)]
    if unreadable_locks(backend, project, stack):
        return False
    if not (_sees_all_processes() or _all_were_begun_here(stack, names)):
        return False
    return bool(locks) and all(_is_of_this_machine(lock) and not _processes(lock["pid"]) for lock in locks)


@contextmanager
def begun(backend: Path | None, project: str, stack: str) -> Iterator[None]:
    """Record in which container pulumi updates the stack, during the update, and after it if a kill left its lock.

    Another container with the same checkout may have this machine's name and processes that are not visible here, so a
    process that seems to have ended may run there. Each container writes its own file, and removes no other.
    """
    here = _namespace()
    file = ROOT / _BEGUN / stack / hashlib.sha256(here.encode()).hexdigest()[:16]
    file.parent.mkdir(parents=True, exist_ok=True)
    before = set(_lock_files(backend, project, stack)) if backend else set()
    file.write_text(here, encoding="utf-8")
    try:
        yield
    finally:
        left = set(_lock_files(backend, project, stack)) - before if backend else set()
        if left:
            file.write_text("\n".join([here, *(lock.name for lock in left)]), encoding="utf-8")
        else:
            file.unlink(missing_ok=True)


def _all_were_begun_here(stack: str, locks: Iterable[str]) -> bool:
    """Return whether, by the records, only updates of this container can have left these locks. A lock without a record
    is another's, such as that of a plain `pulumi up` elsewhere after a lock was removed by hand."""
    records = [file.read_text(encoding="utf-8").partition("\n") for file in (ROOT / _BEGUN / stack).glob("*")]
    here = _namespace()
    recorded = {name for _, _, names in records for name in names.splitlines()}
    return bool(here) and {began for began, _, _ in records} == {here} and (not recorded or recorded >= set(locks))


def _namespace() -> str:
    """Return the identity of this container's process namespace until a reboot; "" if the system has none."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _sees_all_processes() -> bool:
    """Return whether this process sees all of the machine's processes, so that no container hides any."""
    return _namespace().endswith(_ALL_PROCESSES) or not Path("/proc/self").exists()


def running(backend: Path, project: str, stack: str) -> int | None:
    """Return the id, as seen here, of this machine's process that works on the stack now; None if there is none."""
    locks = [lock for lock in _locks(backend, project, stack) if _is_of_this_machine(lock)]
    return next((process for lock in locks for process in _processes(lock["pid"])), None)


def unreadable_locks(backend: Path, project: str, stack: str) -> list[Path]:
    """Return the lock files that are incomplete because the disk was full. Their owners are not known."""
    return [file for file in _lock_files(backend, project, stack) if _lock(file) is None]


def _locks(backend: Path, project: str, stack: str) -> list[Mapping[str, Any]]:
    return [lock for file in _lock_files(backend, project, stack) if (lock := _lock(file))]


def _lock_files(backend: Path, project: str, stack: str) -> list[Path]:
    return sorted((backend / "locks" / "organization" / project / stack).glob("*.json"))


def _lock(file: Path) -> Mapping[str, Any] | None:
    try:
        lock = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}  # whoever had it let it go this moment
    except ValueError:
        return None
    return lock if isinstance(lock, dict) and isinstance(lock.get("pid"), int) else None


def _is_of_this_machine(lock: Mapping[str, Any]) -> bool:
    return lock.get("hostname") == socket.gethostname()


def _processes(pid: int) -> list[int]:
    """Return the ids, as seen from here, of running pulumi processes that may have written this id into a lock. An id
    may belong to another program by now, and several containers may use the same id."""
    if Path("/proc/self").exists():
        seen = [process for process in Path("/proc").glob("[0-9]*") if pid in _numbers(process) and _is_pulumi(process)]
        return sorted(int(process.name) for process in seen)
    listing = capture(["ps", "-o", "stat=,command=", "-p", str(pid)]).stdout
    return [pid] if "pulumi" in listing and not listing.lstrip().startswith("Z") else []


def _numbers(process: Path) -> set[int]:
    """Return a process's ids: the id seen from here, and the ids in its containers."""
    known = {int(process.name)}
    with suppress(OSError):
        lines = (process / "status").read_text(encoding="utf-8", errors="replace").splitlines()
        known |= {int(number) for line in lines if line.startswith("NSpid:") for number in line.split()[1:]}
    return known


def _is_pulumi(process: Path) -> bool:
    try:
        return b"pulumi" in (process / "cmdline").read_bytes()
    except OSError:
        return False


def cut_off(backend: Path, project: str) -> dict[str, Path]:
    """Return by stack the state files that were cut off during a write, because the disk was full.

    With one such file Pulumi cannot list stacks, so every command of the project's other stacks fails, too. A stack
    whose lock is held by a live process is left out, because that process may be writing.
    """
    not_whole = {_stack(file): file for file in _states(backend, project) if not _written_at(file)}
    return {
        stack: file
        for stack, file in not_whole.items()
        if not _lock_files(backend, project, stack) or has_only_stale_locks(backend, project, stack)
    }


def restore(backend: Path, file: Path) -> bool:
    """Replace a state that was cut off by its newest whole copy. Return whether there is a whole copy."""
    if before := _newest_copy(backend, file):
        # Renamed, and not copied: there is no room
        attributes = before.with_name(f"{before.name}.attrs")
        if attributes.is_file():  # with `metadata=skip` in the backend's address there are none
            attributes.replace(file.with_name(f"{file.name}.attrs"))
        before.replace(file)
    return bool(before)


def lost(file: Path) -> ToolError:
    """Return the error that says what to do about a state that was cut off and has no whole copy."""
    away = shlex.join(["mv", str(file), f"{file}.cut-off"])
    return ToolError(
        f"stack {_stack(file)}: its state was cut off while it was written, as a full disk does, and no whole copy is"
        " left; nothing was changed. Make room, then put a copy of your own there, or let Pulumi forget what the"
        f" stack holds (runs and results stay, and what is in a cluster stays there):\n  {away}"
    )


def _states(backend: Path, project: str = "*") -> list[Path]:
    files = sorted((backend / "stacks").glob(f"{project}/*.json*"))
    return [file for file in files if file.name.endswith((".json", ".json.gz"))]


def _stack(file: Path) -> str:
    return file.name.partition(".json")[0]


def _newest_copy(backend: Path, file: Path) -> Path | None:
    """Return the newest whole copy of a stack's state; None if there is none.

    A file backend copies the state to `.bak` before it writes the state. Without room on the disk that copy fails
    silently, and `.bak` lacks the last step and the outputs. After each update the backend also writes a backup.
    """
    copy, stack = file.with_name(f"{file.name}.bak"), _stack(file)
    if not copy.is_file():  # backups may be of an earlier stack of that name
        return None
    ending = file.name.removeprefix(stack)
    kept = (backend / "backups" / file.parent.name / stack).glob(f"{stack}.*{ending}")
    times = {each: at for each in (copy, *kept) if (at := _written_at(each))}
    return max(times, key=times.__getitem__, default=None)


def _written_at(file: Path) -> datetime | None:
    """Return when the engine wrote a state, by the time in the file, or the earliest possible time if the file has no
    time. Return None for a file that is not complete."""
    try:
        checkpoint = json.loads(_content(file))["checkpoint"]
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None
    try:
        return datetime.fromisoformat(checkpoint["latest"]["manifest"]["time"])
    except (KeyError, TypeError, ValueError):
        return datetime.min.replace(tzinfo=timezone.utc)  # noqa: UP017 - `./rwi project clean` runs in Python 3.9, too


def _content(file: Path) -> bytes:
    content = file.read_bytes()
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def pending_creates(deployment: Mapping[str, Any]) -> list[str]:
    """Return the URNs of resources of a deployment (`pulumi stack export`) whose creation has begun, but not ended."""
    operations = deployment.get("pending_operations") or []
    return [operation["resource"]["urn"] for operation in operations if operation["type"] == "creating"]


def ray_namespaces(deployment: Mapping[str, Any]) -> list[str]:
    """Return the namespaces of the RayClusters in a deployment, which may differ from those in the present settings."""
    resources = deployment.get("resources") or []
    return [str(item["inputs"]["metadata"]["namespace"]) for item in resources if item["type"] == _RAY_CLUSTER_TYPE]


def pinned_as(deployment: Mapping[str, Any]) -> str | None:
    """Return the stack's name at the time when its cluster's kubeconfig was written (`pulumi stack rename` may have
    changed it since); None if there is none."""
    resources = deployment.get("resources") or []
    return next((str(item["inputs"]["stack"]) for item in resources if item["type"].endswith(_PINNED_TYPE)), None)


def root_urn(deployment: Mapping[str, Any]) -> str | None:
    """Return the URN of the stack itself, which no provider looks after; None if it is not in the deployment."""
    return next((str(item["urn"]) for item in deployment.get("resources") or [] if item["type"] == _ROOT_TYPE), None)


def output(backend: Path, project: str, stack: str, name: str) -> object:
    """Return one of a stack's outputs from its state; a secret stays encrypted. Return None if there is no such output,
    or only the engine can tell, because the state has another layout or is not whole."""
    files = [file for file in _states(backend, project) if _stack(file) == stack]
    try:
        [file] = files
        resources = json.loads(_content(file))["checkpoint"]["latest"]["resources"]
        return next(item for item in resources if item["type"] == _ROOT_TYPE)["outputs"][name]
    except (OSError, EOFError, ValueError, KeyError, TypeError, StopIteration):
        return None


def stacks_with_resources(backend: Path) -> dict[str, int]:
    """Count the resources of each stack of a file backend that has resources, by `project/stack`. Raise ToolError for a
    state that was cut off and has no whole copy."""
    counts = {f"{file.parent.name}/{_stack(file)}": _resource_count(backend, file) for file in _states(backend)}
    return {stack: count for stack, count in counts.items() if count}


def _resource_count(backend: Path, file: Path) -> int:
    whole = file if _written_at(file) else _newest_copy(backend, file)
    if whole is None:
        raise lost(file)
    latest = json.loads(_content(whole))["checkpoint"].get("latest") or {}
    begun = pending_creates(latest)
    resources = [item for item in latest.get("resources") or [] if not item["type"].startswith(_BOOKKEEPING)]
    return len(resources) + len(begun)
