"""A folder as the package that Ray unpacks beside a job: a zip whose bytes follow from names and contents alone.

Standard library only. Sending it is not its business (`training.launch.submit.JobsApi.upload`).
"""

import io
import stat
import zipfile
from pathlib import Path

from training.workloads.script.source import SourceError, files_of, listed

BEGINNING = (1980, 1, 1, 0, 0, 0)
"""Every file's time: the first that a zip can have. A touched file is no other package."""


def of_folder(folder: Path) -> bytes:
    """The files that git does not ignore (`source.files_of`), as a zip.

    Raises SourceError for more than `source.MOST_BYTES`, and for a link that has no file of the folder at its end.
    """
    _refuse_links_out(folder)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files_of(folder):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), BEGINNING)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644) << 16
            archive.writestr(entry, path.read_bytes())
    return packed.getvalue()


def _refuse_links_out(folder: Path) -> None:
    """On the cluster there is nothing at the end of such a link; a link to a file of the folder is packed as a file."""
    top = folder.resolve()
    for link in (path for path in listed(folder) if path.is_symlink()):
        end = link.resolve()
        if not end.is_relative_to(top):
            why = f"leads out of it, to {end}: put what is there into the folder"
        elif not end.exists():
            why = f"leads to {end}, which is not there: remove it"
        elif end.is_dir():
            why = f"is one to the folder {end.relative_to(top)}, and a package has no links: put that folder there"
        else:
            continue
        raise SourceError(f"{folder} can't be sent to a cluster: the link {link.relative_to(folder)} {why},"
                          " or the link into .gitignore")  # fmt: skip
