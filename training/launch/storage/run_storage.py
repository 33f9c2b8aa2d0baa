"""Storage for what outlives a run: a folder, or a bucket of S3 or Google Cloud Storage, by Arrow's file systems.

Each run has a folder of its own there, `<storage>/<stack>/<measurement>/<run>`. What is kept is not decided here.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

PART = ".ray-worth-it-part"
"""End of the name of a file that is not yet complete; no script writes such a name."""


CREDENTIALS_FILE = "/storage-credentials/credentials"
"""File in pods with credentials that are made for a run. The kubelet brings it to existing pods within a minute."""
CREDENTIALS_SECONDS = 180.0
UNTIL = "# until "
"""Beginning of the first line of CREDENTIALS_FILE, followed by the time at which the credentials end."""


def await_credentials() -> None:
    """Wait, in a pod whose credentials come as a file, until they are valid. Raises OSError if they stay expired."""
    file = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", ""))
    deadline = time.monotonic() + CREDENTIALS_SECONDS
    while str(file) == CREDENTIALS_FILE and not _are_valid(file):
        if time.monotonic() > deadline:
            raise OSError(f"the credentials in {file} have expired, or there are none: `pulumi up` makes new ones")
        time.sleep(1)


def _are_valid(file: Path) -> bool:
    try:
        first = file.read_text(encoding="utf-8").partition("\n")[0]
    except FileNotFoundError:
        return False
    return not first.startswith(UNTIL) or datetime.fromisoformat(first.removeprefix(UNTIL)) > datetime.now(UTC)


def _is_path(name: str) -> bool:
    """Return whether the name can be the path of a file below a folder, without empty parts, `.` and `..`."""
    return "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def _part(name: str) -> str:
    """Return the temporary name of an incomplete file: short, as the file's own name may have the maximum length."""
    return f"{hashlib.sha256(name.encode()).hexdigest()[:16]}{PART}"


@dataclass(frozen=True)
class Storage:
    """A folder in storage. Every method raises OSError if the storage refuses."""

    system: Any
    """Arrow's file system."""
    folder: str

    @classmethod
    def at(cls, address: str) -> "Storage":
        """Return the storage at a path, or at s3:// or gs://bucket/prefix with the environment's credentials."""
        from pyarrow import fs

        if "://" in address:
            await_credentials()
            return cls(*fs.FileSystem.from_uri(address))
        return cls(fs.LocalFileSystem(), str(Path(address).absolute()))

    def within(self, name: str) -> "Storage":
        """Return the storage for a folder within this one."""
        return Storage(self.system, f"{self.folder}/{name}")

    def make(self) -> None:
        """Make the folder, as Ray Train does before it keeps anything there."""
        self.system.create_dir(self.folder, recursive=True)

    def put(self, file: Path, name: str) -> None:
        """Copy a local file into the folder under this name: completely or not at all."""
        from pyarrow import fs

        target = written = f"{self.folder}/{name}"
        is_local = isinstance(self.system, fs.LocalFileSystem)
        if is_local:  # an object is there when it is whole, and not before
            self.system.create_dir(str(PurePosixPath(target).parent), recursive=True)
            written = str(PurePosixPath(target).with_name(_part(name)))
        fs.copy_files(str(file), written, source_filesystem=fs.LocalFileSystem(), destination_filesystem=self.system)
        if is_local:
            self.system.move(written, target)

    def fetch(self, name: str, to: Path) -> None:
        """Copy a file of the storage to the local path `to`: completely or not at all."""
        from pyarrow import fs

        to.parent.mkdir(parents=True, exist_ok=True)
        source, part = f"{self.folder}/{name}", to.with_name(_part(name))
        try:
            fs.copy_files(source, str(part), source_filesystem=self.system, destination_filesystem=fs.LocalFileSystem())
            part.replace(to)
        finally:
            part.unlink(missing_ok=True)

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        with self.system.open_input_file(f"{self.folder}/{name}") as file:
            return bytes(file.readall())

    def names(self) -> Iterator[str]:
        """Yield the names of all complete files in the folder and below, sorted."""
        return (name for name, _ in self.sizes())

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Yield the names of all complete files in the folder and below it, with their sizes in bytes."""
        return ((name, info.size) for name, info in self._files() if _is_path(name))

    def times(self) -> Iterator[tuple[str, int]]:
        """Yield the names of all complete files in the folder and below it, with the time of writing in nanoseconds
        since the Unix epoch; 0 if the storage has no such time."""
        return ((name, info.mtime_ns or 0) for name, info in self._files() if _is_path(name))

    def names_of_no_path(self) -> Iterator[str]:
        """Yield the names of objects in a bucket that cannot be files below a folder, such as a/../b or a//b. No other
        method yields them.

        Whoever may write into the bucket may choose such names, and a copy of these objects would be written outside of
        its folder.
        """
        return (name for name, _ in self._files() if not _is_path(name))

    def _files(self) -> Iterator[tuple[str, Any]]:
        from pyarrow import fs

        chosen = fs.FileSelector(self.folder, recursive=True, allow_not_found=True)
        for info in sorted(self.system.get_file_info(chosen), key=lambda each: str(each.path)):
            if info.is_file and not info.path.endswith(PART):
                yield info.path.removeprefix(f"{self.folder.rstrip('/')}/"), info

    def is_empty(self) -> bool:
        """Return whether the folder is empty or does not exist. Folders in it are not searched."""
        from pyarrow import fs

        return not self.system.get_file_info(fs.FileSelector(self.folder, allow_not_found=True))

    def remove(self, name: str) -> None:
        """Delete a file of the folder."""
        self.system.delete_file(f"{self.folder}/{name}")

    def remove_all(self) -> None:
        """Delete the folder, and all in it."""
        self.system.delete_dir(self.folder)
