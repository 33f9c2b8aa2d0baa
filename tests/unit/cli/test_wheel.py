"""The wheel: what it carries, that it needs nothing, and that it is the same from git and from the source archive."""

from __future__ import annotations

import ast
import hashlib
import io
import re
import shlex
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from cli import door
from cli.setup.project import ROOT
from cli.wheel import backend, notes

VERSION = str(backend._project()["version"])


def test_the_wheel_carries_the_project_without_tests_and_needs_nothing(tmp_path: Path) -> None:
    """Each file of it with its hash, as installers check them; the archive is named after its own."""
    name = backend.build_wheel(str(tmp_path))
    with zipfile.ZipFile(tmp_path / name) as wheel:
        files = {each: wheel.read(each) for each in wheel.namelist()}
    (archive,) = (each for each in files if each.endswith(".zip"))
    tree = zipfile.ZipFile(io.BytesIO(files[archive]))
    (record,) = (files[each].decode() for each in files if each.endswith("/RECORD"))
    (metadata,) = (files[each].decode() for each in files if each.endswith("/METADATA"))

    assert f"ray_worth_it-{VERSION}-py3-none-any.whl" == name
    assert Path(archive).stem == f"{VERSION}-{hashlib.sha256(files[archive]).hexdigest()}"
    assert {"rwi", "uv.lock", "Pulumi.yaml", "LICENSE", "cli/door.py", "stacks/Pulumi.local.yaml"} <= set(
        tree.namelist()
    )
    assert not [each for each in tree.namelist() if each.startswith(backend.LEFT_OUT)]
    assert set(files) == {line.partition(",")[0] for line in record.splitlines()}
    assert "Requires-Dist" not in metadata
    assert "Requires-Python: >=3.9\n" in metadata


def test_the_source_archive_makes_the_same_wheel(tmp_path: Path) -> None:
    """Byte for byte: `uv build` makes the wheel from it, where git does not say what is the project's, and where by
    then there is more: `dist`, or what a run left."""
    packed = tmp_path / backend.build_sdist(str(tmp_path))
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    folder = tmp_path / "unpacked" / f"ray_worth_it-{VERSION}"
    for other in ("dist/ray_worth_it.tar.gz", ".state/secret", "Pulumi.mine.yaml"):
        (folder / other).parent.mkdir(exist_ok=True)
        (folder / other).touch()
    build = "import sys; sys.path.insert(0, 'cli/wheel'); import backend; backend.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=folder, check=True)
    of_archive = (tmp_path / f"ray_worth_it-{VERSION}-py3-none-any.whl").read_bytes()
    backend.build_wheel(str(tmp_path))

    assert (tmp_path / f"ray_worth_it-{VERSION}-py3-none-any.whl").read_bytes() == of_archive


def test_the_launcher_is_read_by_the_oldest_python_that_is_promised() -> None:
    """And it imports the standard library alone: there is nothing else in its environment."""
    tree = ast.parse((ROOT / "cli/wheel/launcher.py").read_text(encoding="utf-8"), feature_version=(3, 9))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert set() == {name.partition(".")[0] for name in names} - sys.stdlib_module_names
    assert "3.9" == backend.PYTHONS[0]


def test_what_an_index_shows_stands_by_itself() -> None:
    """No link leads to a file, of which an index has none; and each command that it names is one."""
    _, _, text = backend._metadata().partition("\n\n")
    commands = re.findall(r"^uvx ray-worth-it (.*?)(?:  |$)", text, re.MULTILINE)

    assert [] == [target for target in re.findall(r"\]\(([^)]*)\)", text) if not target.startswith("https://")]
    assert commands
    for command in commands:
        door.parse(shlex.split(command))


CHANGELOG = "# Changelog\n\n## Unreleased\n\nnew\n\n## 1.2 - 2026-11-28\n\n- good\n\n## 1.1\n\nold\n"


def test_the_notes_of_a_release_are_its_part_of_the_changelog() -> None:
    """Of the version that the tag names."""
    assert "- good\n" == notes.notes("v1.2", CHANGELOG, 'version = "1.2"\n')
    assert "old\n" == notes.notes("v1.1", CHANGELOG, 'version = "1.1"\n')


def test_this_changelog_is_released_as_contributing_says() -> None:
    """By the heading's new name alone."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    renamed = re.sub(r"^## Unreleased$", f"## {VERSION} - 2026-11-29", changelog, flags=re.MULTILINE)

    assert notes.notes(f"v{VERSION}", renamed, project)


@pytest.mark.parametrize(("tag", "version"), [("v1.2", "1.3"), ("v1.3", "1.3"), ("1.2", "1.2"), ("v1x2", "1x2")])
def test_what_is_not_ready_is_not_released(tag: str, version: str) -> None:
    """A tag of another version, and a version of which nothing is said."""
    with pytest.raises(ValueError, match=version):
        notes.notes(tag, CHANGELOG, f'version = "{version}"\n')


def test_the_version_that_is_cited_is_the_one_that_is_built() -> None:
    """Another place has it, as other tools read it."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))

    assert (VERSION, "Apache-2.0") == (citation["version"], citation["license"])


@pytest.mark.parametrize("name", ["tests/x.py", ".ci/run", "AGENTS.md"])
def test_what_only_develops_the_project_stays_out(name: str) -> None:
    """Who has a script needs none of it."""
    assert name.startswith(backend.LEFT_OUT)
