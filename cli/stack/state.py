"""Reads what an interrupted update left in a stack's state: locks of dead processes, pending creates, resources.

Changes nothing: what is to be done about it is `stack`'s to decide, by pulumi's own commands.
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
"""A folder a stack, a file a container in which an update was begun and left its lock."""
_ALL_PROCESSES = "pid:[4026531836]"
"""What Linux calls the processes of the whole machine."""
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
    """While pulumi updates the stack, and where a kill left its lock: keep in which container that was.

    Another one of the same checkout may have this machine's name and processes of its own, which nobody sees from here:
    what is dead here may be alive there. Each container has a file of its own, and none removes another's.
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
    """Return whether, by the records, only this container's updates can have left these locks. A lock that is in no
    record is another's: of a plain `pulumi up` elsewhere, after one of these was removed by hand."""
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
    """Return whether this process sees all of the machine's processes: it is in no container that hides any."""
    return _namespace().endswith(_ALL_PROCESSES) or not Path("/proc/self").exists()


def running(backend: Path, project: str, stack: str) -> int | None:
    """Return the process of this machine that works on the stack just now, by its number here; None where there is
    none."""
    locks = [lock for lock in _locks(backend, project, stack) if _is_of_this_machine(lock)]
    return next((process for lock in locks for process in _processes(lock["pid"])), None)


def unreadable_locks(backend: Path, project: str, stack: str) -> list[Path]:
    """Return files that a full disk cut off: of whom they are is not known."""
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
    """Return the pulumi that lives and wrote this number into its lock, by its number here: that may be another
    program's by now, and a container's processes have numbers of their own there. Several containers may have the same
    one.
    """
    if Path("/proc/self").exists():
        seen = [process for process in Path("/proc").glob("[0-9]*") if pid in _numbers(process) and _is_pulumi(process)]
        return sorted(int(process.name) for process in seen)
    listing = capture(["ps", "-o", "stat=,command=", "-p", str(pid)]).stdout
    return [pid] if "pulumi" in listing and not listing.lstrip().startswith("Z") else []


def _numbers(process: Path) -> set[int]:
    """Return a process's numbers: here, and in each container around it."""
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
    """Return the states that a full disk cut off while they were written, by stack.

    With one, Pulumi can't list stacks, and so every command of the project's other stacks ends, too. Who holds a
    stack's lock is writing.
    """
    not_whole = {_stack(file): file for file in _states(backend, project) if not _written_at(file)}
    return {
        stack: file
        for stack, file in not_whole.items()
        if not _lock_files(backend, project, stack) or has_only_stale_locks(backend, project, stack)
    }


def restore(backend: Path, file: Path) -> bool:
    """Put back the newest whole state before one that was cut off; whether there is one."""
    if before := _newest_copy(backend, file):
        # Renamed, and not copied: there is no room
        attributes = before.with_name(f"{before.name}.attrs")
        if attributes.is_file():  # with `metadata=skip` in the backend's address there are none
            attributes.replace(file.with_name(f"{file.name}.attrs"))
        before.replace(file)
    return bool(before)


def lost(file: Path) -> ToolError:
    """Return what to do about a state that was cut off and has no whole copy."""
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

    A file backend copies the file to `.bak` before it writes it, which fails unseen where there is no room: then `.bak`
    lacks the step before, and a whole update's outputs. After each update it keeps a copy in its backups.
    """
    copy, stack = file.with_name(f"{file.name}.bak"), _stack(file)
    if not copy.is_file():  # backups may be of an earlier stack of that name
        return None
    ending = file.name.removeprefix(stack)
    kept = (backend / "backups" / file.parent.name / stack).glob(f"{stack}.*{ending}")
    times = {each: at for each in (copy, *kept) if (at := _written_at(each))}
    return max(times, key=times.__getitem__, default=None)


def _written_at(file: Path) -> datetime | None:
    """Return when the engine wrote a state, by what it says itself, or else long ago; None of one that is not whole."""
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
    """Return the URNs in `pulumi stack export`'s deployment whose creation was begun and never ended."""
    operations = deployment.get("pending_operations") or []
    return [operation["resource"]["urn"] for operation in operations if operation["type"] == "creating"]


def ray_namespaces(deployment: Mapping[str, Any]) -> list[str]:
    """Return the namespaces of the RayClusters in a deployment, whatever the settings are by now."""
    resources = deployment.get("resources") or []
    return [str(item["inputs"]["metadata"]["namespace"]) for item in resources if item["type"] == _RAY_CLUSTER_TYPE]


def pinned_as(deployment: Mapping[str, Any]) -> str | None:
    """Return the stack's name when its cluster's kubeconfig was written: another one after `pulumi stack rename`."""
    resources = deployment.get("resources") or []
    return next((str(item["inputs"]["stack"]) for item in resources if item["type"].endswith(_PINNED_TYPE)), None)


def root_urn(deployment: Mapping[str, Any]) -> str | None:
    """Return the URN of the stack itself, which no provider looks after."""
    return next((str(item["urn"]) for item in deployment.get("resources") or [] if item["type"] == _ROOT_TYPE), None)


def output(backend: Path, project: str, stack: str, name: str) -> object:
    """Return one of a stack's outputs as the state has it: a secret with its ciphertext. None where there is none, and
    where the engine has to say what there is: in another layout, or of a state that is not whole."""
    files = [file for file in _states(backend, project) if _stack(file) == stack]
    try:
        [file] = files
        resources = json.loads(_content(file))["checkpoint"]["latest"]["resources"]
        return next(item for item in resources if item["type"] == _ROOT_TYPE)["outputs"][name]
    except (OSError, EOFError, ValueError, KeyError, TypeError, StopIteration):
        return None


def stacks_with_resources(backend: Path) -> dict[str, int]:
    """Count the resources of each stack of a file backend that has any, by `project/stack`.

    Raises ToolError for a state that was cut off and has no whole copy.
    """
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
