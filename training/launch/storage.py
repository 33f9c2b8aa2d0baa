"""Where runs keep what outlives them: a folder, or a bucket of S3 or Google Cloud Storage. Arrow's file systems.

Each run has a folder of its own there, `<storage>/<stack>/<measurement>/<run>`. Not here: what is kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

PART = ".part"
"""End of the name of a file that is not yet whole."""


@dataclass(frozen=True)
class Storage:
    """A folder in storage. Every method raises OSError where storage does not do it."""

    system: Any
    """Arrow's file system."""
    folder: str

    @classmethod
    def at(cls, address: str) -> "Storage":
        """That of an address: a path, s3://bucket/prefix or gs://bucket/prefix. Credentials are the environment's."""
        from pyarrow import fs

        if "://" in address:
            return cls(*fs.FileSystem.from_uri(address))
        return cls(fs.LocalFileSystem(), str(Path(address).absolute()))

    def within(self, name: str) -> "Storage":
        """A folder in this one."""
        return Storage(self.system, f"{self.folder}/{name}")

    def put(self, file: Path, name: str) -> None:
        """Keep a file under that name, whole or not at all."""
        from pyarrow import fs

        target = f"{self.folder}/{name}"
        is_local = isinstance(self.system, fs.LocalFileSystem)
        if is_local:
            self.system.create_dir(str(PurePosixPath(target).parent), recursive=True)
        written = target + PART if is_local else target  # an object is there when it is whole, and not before
        fs.copy_files(str(file), written, source_filesystem=fs.LocalFileSystem(), destination_filesystem=self.system)
        if is_local:
            self.system.move(written, target)

    def put_folder(self, folder: Path, name: str) -> None:
        """Keep all files of a folder."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(file, f"{name}/{file.relative_to(folder).as_posix()}")

    def fetch(self, name: str, to: Path) -> None:
        """Bring a file back."""
        from pyarrow import fs

        to.parent.mkdir(parents=True, exist_ok=True)
        source = f"{self.folder}/{name}"
        fs.copy_files(source, str(to), source_filesystem=self.system, destination_filesystem=fs.LocalFileSystem())

    def names(self) -> Iterator[str]:
        """Of all whole files in the folder and below, sorted."""
        from pyarrow import fs

        chosen = fs.FileSelector(self.folder, recursive=True, allow_not_found=True)
        for info in sorted(self.system.get_file_info(chosen), key=lambda each: str(each.path)):
            if info.is_file and not info.path.endswith(PART):
                yield str(PurePosixPath(info.path).relative_to(self.folder))

    def remove(self, name: str) -> None:
        """Delete a file."""
        self.system.delete_file(f"{self.folder}/{name}")

    def remove_folder(self, name: str) -> None:
        """Delete a folder with all that is in it."""
        self.system.delete_dir(f"{self.folder}/{name}")
