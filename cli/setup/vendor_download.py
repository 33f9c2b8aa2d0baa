"""Pulumi's own archive of its CLI, for machines that have none: fetched, compared with its checksum, unpacked. The
vendor's install script is not used: nothing of it could be verified."""

from __future__ import annotations

import hashlib
import platform
import shutil
import sys
import tarfile
from pathlib import Path

from cli.setup.project import ToolError

VERSION = "3.221.0"
RELEASES = "https://get.pulumi.com/releases/sdk"
DIGESTS = {
    "linux-x64": "fe736f91b4153f94f859870e34dda01e648552c25f702c8a42282acf3a5db9ad",
    "linux-arm64": "baaf077a8b851da4fd1f6434860b56fec43f877709fe5a22ed3bbd335af57a37",
    "darwin-x64": "6c275ff21c2a2790dc4ac9536be745f0fa65b9eab32e5dc896d1e4cd79fafb6b",
    "darwin-arm64": "4d3024f24131440cacc9d04cf9a19dc673c821216fe5fec848d1ce5af0c06092",
}
"""SHA-256 of each archive, as nixpkgs pins them (pkgs/by-name/pu/pulumi-bin/data.nix, there in Nix's base 32)."""
STALLED_SECONDS = 10

_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def download(folder: Path) -> None:
    """Put the CLI and its language hosts into `folder`/bin. Raise ToolError, and leave nothing there, if the archive's
    checksum is wrong."""
    kind = f"{sys.platform}-{_MACHINES.get(platform.machine(), platform.machine())}"
    if kind not in DIGESTS:
        raise ToolError(f"there is no archive for {kind}, only for {', '.join(DIGESTS)}")
    folder.mkdir(parents=True)
    archive = folder / "archive.tar.gz"
    try:
        digest = _fetch(f"{RELEASES}/pulumi-v{VERSION}-{kind}.tar.gz", archive)
    except OSError as error:
        raise ToolError(str(error)) from error
    if digest != DIGESTS[kind]:
        shutil.rmtree(folder)
        raise ToolError(f"the archive's checksum is {digest}, not {DIGESTS[kind]}: it was thrown away")
    _unpack(archive, folder / "bin")
    archive.unlink()


def _fetch(address: str, archive: Path) -> str:
    """Download an archive and return the SHA-256 of what was written."""
    import urllib.request  # takes longer than all that most commands do

    digest = hashlib.sha256()
    answer = urllib.request.urlopen(address, timeout=STALLED_SECONDS)  # noqa: S310 (the vendor's, a constant)
    with answer, archive.open("wb") as file:
        while chunk := answer.read(2**20):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def _unpack(archive: Path, programs: Path) -> None:
    """Unpack the programs, which are all in one folder of the archive."""
    programs.mkdir()
    with tarfile.open(archive) as content:
        for member in content.getmembers():
            data = content.extractfile(member)
            if data is None:
                continue
            program = programs / Path(member.name).name
            with program.open("wb") as file:
                shutil.copyfileobj(data, file)
            program.chmod(0o755)
