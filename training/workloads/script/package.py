"""A folder, or the files of a script, as a package for pods: a zip whose bytes follow from names and contents alone.

Standard library only. Sending it is not its business (`training.launch.ray.jobs_api.JobsApi.upload`).
"""

import io
import os
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from training.workloads.script.recognise import Script
from training.workloads.script.source import SourceError, files_of, hash_of, listed

MOST_BYTES = 900 * 2**10
"""Largest package of a script: it is stored in an object of Kubernetes, which holds 1 MiB."""
MOST_UNPACKED_BYTES = 64 * 2**20
"""Largest folder that is compressed to find out the package's size."""
BEGINNING = (1980, 1, 1, 0, 0, 0)
"""Time of every file in the package: the first that a zip can have, so that a touched file makes no other package."""


@dataclass(frozen=True)
class Package:
    """The files of a script, packed: it, the modules beside it that it imports, and its folder where one is named."""

    content: bytes
    script: str
    """Path of the script in the package."""
    digest: str
    """SHA-256 over names and contents."""


def of_script(script: Script, folder: Path | None) -> Package:
    """The files of a script, at the same places to each other. Raises SourceError for what pods can't be given."""
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


def of_folder(folder: Path) -> bytes:
    """The files that git does not ignore (`source.files_of`), as a zip.

    Raises SourceError for more than `source.MOST_BYTES`, and for a link that has no file of the folder at its end.
    """
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
    """The files as a zip; raises SourceError for one that an object of Kubernetes does not hold."""
    sizes = {name: path.stat().st_size for name, path in files.items()}
    content = _zip(files) if sum(sizes.values()) <= MOST_UNPACKED_BYTES else None
    if content is not None and len(content) <= MOST_BYTES:
        return content
    size = f"{sum(sizes.values()) / 2**20:.0f} MiB" if content is None else f"{len(content) / 2**10:.0f} KiB compressed"
    largest = max(sizes, key=lambda name: sizes[name])
    raise SourceError(
        f"the script and what belongs to it are {size} in {len(sizes)} files, the largest {largest}: pods get at most "
        f"{MOST_BYTES // 2**10} KiB compressed; data goes into the .gitignore of scriptFolder"
    )


def _refuse_links_out(folder: Path) -> None:
    """Refuse links out of the folder, which lead nowhere on the cluster. A link to one of its files is packed as a
    file."""
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
