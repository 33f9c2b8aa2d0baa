"""The files that belong to a script, and their hash: a change of one is another training. Standard library only."""

import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from training.machine import output
from training.workloads.script.recognise import Script

MOST_BYTES = 256 * 2**20
"""Largest folder of a script: a larger one has data in it."""
LEFT_OUT = ("__pycache__", "node_modules")
_UNREADABLE = re.compile(rb"could not open directory '(.*?)/?': Permission denied")


class SourceError(ValueError):
    """A folder that can't be hashed; the message says why."""


def digest(script: Script, folder: Path | None) -> str:
    """SHA-256 over names and contents of the script and the modules beside it that it imports, and of `folder`.

    Raises SourceError.
    """
    top = script.path.parent
    files = {os.path.relpath(path, top): path for path in [*script.files, *(files_of(folder) if folder else ())]}
    return hash_of(files.items())


def hash_of(files: Iterable[tuple[str, Path]]) -> str:
    """SHA-256 over names, contents, and which can be executed."""
    total = hashlib.sha256()
    for name, path in sorted(files):
        mode = "x" if path.stat().st_mode & stat.S_IXUSR else ""
        with path.open("rb") as content:
            total.update(f"{name}\0{mode}\0".encode() + hashlib.file_digest(content, "sha256").digest())
    return total.hexdigest()


def files_of(folder: Path) -> list[Path]:
    """The files of a folder that git does not ignore; outside a repository those that are not hidden.

    Raises SourceError where they are more than `MOST_BYTES` together, or one can't be read.
    """
    files = [path for path in listed(folder) if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    if size > MOST_BYTES:
        largest = max(files, key=lambda path: path.stat().st_size)
        raise SourceError(
            f"{folder} holds {size / 2**20:.0f} MiB in {len(files)} files, the largest {largest.relative_to(folder)}: "
            f"at most {MOST_BYTES // 2**20} MiB are allowed; data and checkpoints go into its .gitignore"
        )
    return files


def listed(folder: Path) -> list[Path]:
    """Return the files of a folder that git does not ignore, and links to folders; without a repository, those not
    hidden. Raises SourceError for a file or folder among them that can't be read: the training would lack it."""
    by_git = _by_git(folder)
    paths = sorted(set(_visible(folder) if by_git is None else by_git))
    for path in paths:
        try:
            if path.is_file():
                path.open("rb").close()
        except PermissionError:
            raise _unreadable(path) from None
    return paths


def _by_git(folder: Path) -> list[Path] | None:
    """Return the files that are tracked or not ignored; None if there is no git or no repository. Raises SourceError
    for a folder that git leaves out with a warning."""
    command = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = output.capture(command, seconds=60, env=os.environ | {"LC_ALL": "C"})
    except (OSError, subprocess.SubprocessError):
        return None
    if listing.returncode:
        return None
    if left_out := _UNREADABLE.search(listing.stderr):
        raise _unreadable(folder / os.fsdecode(left_out[1]))
    return [folder / os.fsdecode(name) for name in listing.stdout.split(b"\0") if name]


def _visible(folder: Path) -> Iterator[Path]:
    for top, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not _is_left_out(Path(top, name))]
        yield from (path for name in folders if (path := Path(top, name)).is_symlink())
        yield from (Path(top, name) for name in names if not name.startswith("."))


def _refuse(error: OSError) -> None:
    if isinstance(error, PermissionError):
        raise _unreadable(Path(error.filename)) from None


def _unreadable(path: Path) -> SourceError:
    return SourceError(f"{path} can't be read: let this user read it, or move it out of the folder")


def _is_left_out(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name in LEFT_OUT or os.path.isfile(folder / "pyvenv.cfg")  # noqa: PTH113 (Path's raises for a folder without permission)
