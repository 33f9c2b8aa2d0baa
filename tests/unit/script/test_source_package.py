"""A folder as the package that Ray unpacks: what is in it, what is left out, and what is refused."""

import io
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.golden import Wording
from training.workloads.script import source
from training.workloads.script.recognise import recognise
from training.workloads.script.source import SourceError

NOBODY = 65534


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
    archive = zipfile.ZipFile(io.BytesIO(source.packed_folder(folder)))
    modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}

    assert {"parts/net.py": 0o644, "start.sh": 0o755, "train.py": 0o644} == modes
    assert b"SIZE = 3\n" == archive.read("parts/net.py")


def test_the_same_files_are_the_same_package(folder: Path) -> None:
    """Whenever they were written: what is there is not sent again. Another content, name or mode is another."""
    before = source.packed_folder(folder)
    os.utime(folder / "train.py", (1, 1))
    assert before == source.packed_folder(folder)
    (folder / "train.py").chmod(0o755)
    executable = source.packed_folder(folder)
    (folder / "train.py").write_text("import parts.net  # edited\n")

    assert 3 == len({before, executable, source.packed_folder(folder)})


def test_what_is_unpacked_is_as_it_was(folder: Path, tmp_path: Path) -> None:
    """A script finds its neighbours, and a program that it starts runs in every arm. One that may is another
    package."""
    found = recognise(folder / "train.py", (), "torchrun")
    before = source.package_of(found, folder)
    source.unpack(before.content, tmp_path / "there")
    (folder / "parts" / "net.py").chmod(0o755)

    assert "SIZE = 3\n" == (tmp_path / "there/parts/net.py").read_text()
    assert os.access(tmp_path / "there" / "start.sh", os.X_OK)
    assert not (tmp_path / "there" / "train.py").stat().st_mode & 0o111
    assert before.digest != source.package_of(found, folder).digest


def test_what_git_ignores_is_left_out(folder: Path) -> None:
    """As of a measured script; a file that is not committed yet belongs to it."""
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / ".gitignore").write_text("data/\n")
    (folder / "data").mkdir()
    (folder / "data" / "large.bin").write_bytes(b"0" * 1000)

    assert [".gitignore", "parts/net.py", "start.sh", "train.py"] == names(source.packed_folder(folder))


def test_outside_a_repository_what_is_hidden_is_left_out(folder: Path) -> None:
    """And environments and caches."""
    for name in (".secret", "__pycache__/net.pyc", ".venv/pyvenv.cfg", "env/pyvenv.cfg"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")

    assert ["parts/net.py", "start.sh", "train.py"] == names(source.packed_folder(folder))


def test_a_link_inside_is_packed_as_the_file_that_it_means(folder: Path) -> None:
    """Ray's zip has no links."""
    (folder / "again.py").symlink_to("parts/net.py")

    assert b"SIZE = 3\n" == zipfile.ZipFile(io.BytesIO(source.packed_folder(folder))).read("again.py")


@pytest.mark.parametrize("in_git", [False, True])
@pytest.mark.parametrize(
    ("target", "end"),
    [
        ("../outside.txt", "outside.txt"),
        ("..", ""),
        ("/etc/hostname", "/etc/hostname"),
        ("nowhere", "nowhere"),
        ("parts", "parts"),
    ],
)
def test_a_link_that_means_no_file_of_the_folder_is_refused(
    wording: Wording, folder: Path, target: str, end: str, in_git: bool
) -> None:
    """On the cluster it would be missing, or be a file that nobody meant to send."""
    if in_git:
        subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder.parent / "outside.txt").write_text("x")
    (folder / "data").symlink_to(target)

    with pytest.raises(SourceError, match=rf"\bdata\b.*{end}.*\.gitignore") as refused:
        source.packed_folder(folder)
    wording("script", str(refused.value).replace(str(folder.parent.resolve()), "<tmp>"))


def test_a_folder_over_the_limit_is_refused(wording: Wording, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the largest file, which is what somebody forgot to ignore."""
    monkeypatch.setattr(source, "MOST_BYTES", 2**20)
    (folder / "parts" / "weights.bin").write_bytes(b"0" * (2**20))

    with pytest.raises(SourceError, match=r"1 MiB.* 4 .*parts/weights\.bin.*1 MiB") as refused:  # not prose: a pattern
        source.packed_folder(folder)
    wording("script", str(refused.value))


@pytest.fixture
def of_nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a user who may not read everything: whoever runs the tests, or else nobody."""
    with TemporaryDirectory() as path:
        folder, is_root = Path(path), os.geteuid() == 0
        (folder / "data").mkdir()
        (folder / "data" / "rows.txt").touch()
        (folder / "train.py").touch()
        monkeypatch.setenv("HOME", path)
        if is_root:
            for each in (folder, *folder.rglob("*")):
                os.chown(each, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield folder
        finally:
            if is_root:
                os.seteuid(0)
            (folder / "data").chmod(0o700)


@pytest.mark.parametrize("in_git", [False, True])
@pytest.mark.parametrize("name", ["train.py", "data"])
def test_what_can_t_be_read_is_refused(name: str, in_git: bool, of_nobody: Path) -> None:
    """Also a folder, which git and Python leave out without an error; not one that git ignores."""
    if in_git:
        subprocess.run(["git", "init", "--quiet", str(of_nobody)], check=True)
    (of_nobody / name).chmod(0)

    with pytest.raises(SourceError, match=re.escape(f"{of_nobody / name} ")):
        source.files_of(of_nobody)
    if in_git:
        (of_nobody / ".gitignore").write_text(f"{name}\n")
        assert [of_nobody / ".gitignore"] == [path for path in source.files_of(of_nobody) if path.name[0] == "."]


def test_a_script_is_packed_with_what_it_imports_and_its_folder(folder: Path) -> None:
    """At the same places to each other, wherever its folder is; what nobody named stays here."""
    script = recognise(folder / "train.py", ("{workers}",))
    alone, whole = source.package_of(script, None), source.package_of(script, folder)
    around = source.package_of(script, folder.parent)

    assert (["parts/net.py", "train.py"], "train.py") == (names(alone.content), alone.script)
    assert ["parts/net.py", "start.sh", "train.py"] == names(whole.content)
    assert (["mine/parts/net.py", "mine/start.sh", "mine/train.py"], "mine/train.py") == (
        names(around.content),
        around.script,
    )
    assert 3 == len({alone.digest, whole.digest, around.digest})


@pytest.mark.parametrize(("size", "shown"), [(2**20, "1025 KiB"), (65 * 2**20, "65 MiB")])
def test_a_script_that_no_object_of_kubernetes_holds_is_refused(
    wording: Wording, folder: Path, size: int, shown: str
) -> None:
    """With the largest file; what is far too large is not even compressed."""
    with (folder / "weights.bin").open("wb") as out:
        out.write(os.urandom(2**20))
        out.truncate(size)
    script = recognise(folder / "train.py", ("{workers}",))

    with pytest.raises(SourceError, match=rf"{shown}.* 4 .*weights\.bin.*900 KiB") as refused:  # not prose: a pattern
        source.package_of(script, folder)
    wording("script", str(refused.value))
