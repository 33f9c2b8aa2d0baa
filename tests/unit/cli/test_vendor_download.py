"""The vendor's download: an archive is unpacked when it is the one whose checksum is written down, and else refused."""

from __future__ import annotations

import hashlib
import io
import platform
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from cli.setup import pulumi_cli, vendor_download
from cli.setup.project import ToolError

NAME = f"pulumi-v{vendor_download.VERSION}-linux-x64.tar.gz"


def archive(version: str) -> bytes:
    """As the vendor packs it: programs side by side in one folder, and a link out of it, which theirs has not."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as packed:
        for name in ("pulumi", "pulumi-language-python"):
            text = f"#!/bin/sh\necho {version}\n".encode()
            entry = tarfile.TarInfo(f"pulumi/{name}")
            entry.size = len(text)
            packed.addfile(entry, io.BytesIO(text))
        outside = tarfile.TarInfo("pulumi/../../outside")
        outside.size = 1
        packed.addfile(outside, io.BytesIO(b"x"))
    return content.getvalue()


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A server in place of the vendor's, with the archive for Linux, whose checksum is known; it serves this folder."""
    served = tmp_path / "served"
    served.mkdir()
    (served / NAME).write_bytes(archive("v3.221.0"))
    handler = partial(_Quiet, directory=str(served))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    digest = hashlib.sha256((served / NAME).read_bytes()).hexdigest()
    monkeypatch.setitem(vendor_download.DIGESTS, "linux-x64", digest)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        monkeypatch.setattr(vendor_download, "RELEASES", f"http://127.0.0.1:{server.server_port}")
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield served
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def test_the_archive_s_programs_run(vendor: Path, tmp_path: Path) -> None:
    """They lie in the folder's bin, and nothing lies outside of it."""
    vendor_download.download(tmp_path / "cli")

    program = tmp_path / "cli/bin/pulumi"
    assert "v3.221.0\n" == subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert {"bin"} == {path.name for path in (tmp_path / "cli").iterdir()}
    assert {"cli", "served"} == {path.name for path in tmp_path.iterdir()}


def test_another_archive_under_its_name_is_thrown_away(vendor: Path, tmp_path: Path) -> None:
    """Nothing of it is run, or kept, and it is not asked for again."""
    (vendor / NAME).write_bytes(archive("v9.9.9"))

    with pytest.raises(ToolError, match=r"\b[0-9a-f]{64}\b.*\b[0-9a-f]{64}\b"):
        vendor_download.download(tmp_path / "cli")
    assert not (tmp_path / "cli").exists()
    with pytest.raises(ToolError) as refused:
        pulumi_cli._download(tmp_path / "cli")
    assert pulumi_cli._is_final(refused.value)


def test_a_machine_that_the_vendor_builds_nothing_for_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CLI is built from Go modules there."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")

    with pytest.raises(ToolError, match=r"-riscv64.* linux-x64"):
        vendor_download.download(tmp_path / "cli")


def test_a_server_that_can_t_be_reached_is_a_reason_and_no_traceback(
    vendor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And final: the next way is tried at once."""
    monkeypatch.setattr(vendor_download, "RELEASES", "http://127.0.0.1:1")

    with pytest.raises(ToolError, match="urlopen error"):
        vendor_download.download(tmp_path / "cli")


def test_the_version_is_new_enough_and_each_checksum_one_of_its_own() -> None:
    """An older one would be downloaded at every call."""
    assert pulumi_cli.parse_version(vendor_download.VERSION) >= pulumi_cli.MINIMUM
    assert {64} == {len(digest) for digest in vendor_download.DIGESTS.values()}
    assert len(vendor_download.DIGESTS) == len(set(vendor_download.DIGESTS.values()))
