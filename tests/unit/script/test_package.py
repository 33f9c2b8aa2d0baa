"""A folder as the package that Ray unpacks: what is in it, what is left out, and what is refused."""

import io
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from training.workloads.script import package, source
from training.workloads.script.source import SourceError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A script with a module in a package of its own, and a program."""
    made = tmp_path / "mine"
    (made / "parts").mkdir(parents=True)
    (made / "train.py").write_text("import parts.net\n")
    (made / "parts" / "net.py").write_text("SIZE = 3\n")
    (made / "start.sh").write_text("#!/bin/sh\n")
    (made / "start.sh").chmod(0o755)
    return made


def names(content: bytes) -> list[str]:
    """Of the files in it."""
    return zipfile.ZipFile(io.BytesIO(content)).namelist()


def test_a_package_has_names_contents_and_who_may_run(folder: Path) -> None:
    """As the folder has them, from its top on; Ray gives each file the mode that stands there."""
    archive = zipfile.ZipFile(io.BytesIO(package.of_folder(folder)))
    modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}

    assert {"parts/net.py": 0o644, "start.sh": 0o755, "train.py": 0o644} == modes
    assert b"SIZE = 3\n" == archive.read("parts/net.py")


def test_the_same_files_are_the_same_package(folder: Path) -> None:
    """Whenever they were written: what is there is not sent again. Another content, name or mode is another."""
    before = package.of_folder(folder)
    os.utime(folder / "train.py", (1, 1))
    assert before == package.of_folder(folder)
    (folder / "train.py").chmod(0o755)
    executable = package.of_folder(folder)
    (folder / "train.py").write_text("import parts.net  # edited\n")

    assert 3 == len({before, executable, package.of_folder(folder)})


def test_what_git_ignores_is_left_out(folder: Path) -> None:
    """As of a measured script; a file that is not committed yet belongs to it."""
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / ".gitignore").write_text("data/\n")
    (folder / "data").mkdir()
    (folder / "data" / "large.bin").write_bytes(b"0" * 1000)

    assert [".gitignore", "parts/net.py", "start.sh", "train.py"] == names(package.of_folder(folder))


def test_outside_a_repository_what_is_hidden_is_left_out(folder: Path) -> None:
    """And environments and caches."""
    for name in (".secret", "__pycache__/net.pyc", ".venv/pyvenv.cfg", "env/pyvenv.cfg"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")

    assert ["parts/net.py", "start.sh", "train.py"] == names(package.of_folder(folder))


def test_a_link_inside_is_packed_as_the_file_that_it_means(folder: Path) -> None:
    """Ray's zip has no links."""
    (folder / "again.py").symlink_to("parts/net.py")

    assert b"SIZE = 3\n" == zipfile.ZipFile(io.BytesIO(package.of_folder(folder))).read("again.py")


@pytest.mark.parametrize("in_git", [False, True])
@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("../outside.txt", "leads out of it, to .*outside.txt: put what is there into the folder"),
        ("..", "leads out of it"),
        ("/etc/hostname", "leads out of it, to /etc/hostname"),
        ("nowhere", "leads to .*nowhere, which is not there"),
        ("parts", "is one to the folder parts, and a package has no links"),
    ],
)
def test_a_link_that_means_no_file_of_the_folder_is_refused(folder: Path, target: str, why: str, in_git: bool) -> None:
    """On the cluster it would be missing, or be a file that nobody meant to send."""
    if in_git:
        subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder.parent / "outside.txt").write_text("x")
    (folder / "data").symlink_to(target)

    with pytest.raises(SourceError, match=f"the link data {why}.*gitignore"):
        package.of_folder(folder)


def test_a_folder_over_the_limit_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the largest file, which is what somebody forgot to ignore."""
    monkeypatch.setattr(source, "MOST_BYTES", 2**20)
    (folder / "parts" / "weights.bin").write_bytes(b"0" * (2**20))

    with pytest.raises(SourceError, match=r"holds 1 MiB in 4 files, the largest parts/weights.bin: at most 1 MiB"):
        package.of_folder(folder)
