"""The files that belong to a script: their hash, as a change of one is another training, and the package that pods get.

A package is a zip whose bytes follow from names and contents alone. Standard library only. Sending it is not its
business (`training.launch.ray.jobs_api.JobsApi.upload`).
"""

import hashlib
import io
import os
import re
import stat
import subprocess
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from training.machine import output
from training.workloads.script.recognise import Script

MOST_BYTES = 256 * 2**20
"""Most bytes of a script's folder, because a larger one has data in it."""
LEFT_OUT = ("__pycache__", "node_modules")
_UNREADABLE = re.compile(rb"could not open directory '(.*?)/?': Permission denied")
MOST_PACKED_BYTES = 900 * 2**10
"""Most bytes of a script's package, which is stored in an object of Kubernetes that holds 1 MiB."""
MOST_UNPACKED_BYTES = 64 * 2**20
"""Most bytes of a folder that is compressed to find out the package's size."""
BEGINNING = (1980, 1, 1, 0, 0, 0)
"""Time of every file in the package, the earliest in a zip, so that touching a file does not change the package."""


class SourceError(ValueError):
    """A folder that can't be hashed or packed; the message says why."""


def digest(script: Script, folder: Path | None) -> str:
    """Return the SHA-256 over names and contents of the script, of the modules beside it that it imports, and of
    `folder`. Raise SourceError if a file can't be hashed."""
    top = script.path.parent
    files = {os.path.relpath(path, top): path for path in [*script.files, *(files_of(folder) if folder else ())]}
    return hash_of(files.items())


def hash_of(files: Iterable[tuple[str, Path]]) -> str:
    """Return the SHA-256 over the names and contents of the files, and over which of them are executable."""
    total = hashlib.sha256()
    for name, path in sorted(files):
        mode = "x" if path.stat().st_mode & stat.S_IXUSR else ""
        with path.open("rb") as content:
            total.update(f"{name}\0{mode}\0".encode() + hashlib.file_digest(content, "sha256").digest())
    return total.hexdigest()


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder that git does not ignore; outside a repository, those that are not hidden. Raise
    SourceError if they have more than `MOST_BYTES` together, or if one can't be read."""
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
    """Return the files of a folder that git does not ignore, and links to folders; without a repository, those that are
    not hidden. Raise SourceError if one of them can't be read, because the training would lack it."""
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
    """Return the files that git tracks or does not ignore; None if there is no git or no repository. Raise SourceError
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


@dataclass(frozen=True)
class Package:
    """The packed files of a script: it, the modules beside it that it imports, and its folder if one is named."""

    content: bytes
    script: str
    """Path of the script in the package."""
    digest: str
    """SHA-256 over names and contents."""


def package_of(script: Script, folder: Path | None) -> Package:
    """Return the package of a script's files, in the same folders. Raise SourceError if pods can't be given them."""
    if folder:
        _refuse_links_out(folder)
    top = Path(os.path.commonpath([script.path.parent, *([folder] if folder else [])]))
    files = {path.relative_to(top).as_posix(): path for path in {*script.files, *(files_of(folder) if folder else ())}}
    return Package(_small(files), script.path.relative_to(top).as_posix(), hash_of(files.items()))


def unpack(content: bytes, into: Path) -> None:
    """Write the files of a package, which this project made, into a folder."""
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        packed.extractall(into)
        for entry in packed.infolist():
            (into / entry.filename).chmod(entry.external_attr >> 16)


def packed_folder(folder: Path) -> bytes:
    """Return a zip of the files of a folder that git does not ignore (`files_of`). Raise SourceError for more than
    `MOST_BYTES`, and for a link that does not lead to a file of the folder."""
    _refuse_links_out(folder)
    return _zip({path.relative_to(folder).as_posix(): path for path in files_of(folder)})


def _zip(files: Mapping[str, Path]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            entry = zipfile.ZipInfo(name, BEGINNING)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644) << 16
            archive.writestr(entry, path.read_bytes())
    return packed.getvalue()


def _small(files: Mapping[str, Path]) -> bytes:
    """Return the files as a zip. Raise SourceError if the zip is too large for an object of Kubernetes."""
    sizes = {name: path.stat().st_size for name, path in files.items()}
    content = _zip(files) if sum(sizes.values()) <= MOST_UNPACKED_BYTES else None
    if content is not None and len(content) <= MOST_PACKED_BYTES:
        return content
    size = f"{sum(sizes.values()) / 2**20:.0f} MiB" if content is None else f"{len(content) / 2**10:.0f} KiB compressed"
    largest = max(sizes, key=lambda name: sizes[name])
    raise SourceError(
        f"the script and what belongs to it are {size} in {len(sizes)} files, the largest {largest}: pods get at most "
        f"{MOST_PACKED_BYTES // 2**10} KiB compressed; data goes into the .gitignore of scriptFolder"
    )


def _refuse_links_out(folder: Path) -> None:
    """Raise SourceError for a link that leads out of the folder, to nothing, or to another folder, because it would
    lead nowhere on the cluster. A link to one of the folder's files is packed as a file."""
    top = folder.resolve()
    for link in (path for path in listed(folder) if path.is_symlink()):
        end = link.resolve()
        if not end.is_relative_to(top):
            why = f"leads out of it, to {end}: copy what is there into the folder"
        elif not end.exists():
            why = f"leads to {end}, which does not exist: remove it"
        elif end.is_dir():
            why = (
                f"leads to the folder {end.relative_to(top)}, and a package has no links: put that folder in its place"
            )
        else:
            continue
        raise SourceError(f"{folder} can't be sent to a cluster: the link {link.relative_to(folder)} {why},"
                          " or add the link to .gitignore")  # fmt: skip
