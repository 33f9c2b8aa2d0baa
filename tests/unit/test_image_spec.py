"""The image's tag follows from its content, and from nothing else."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from infra import image_spec
from infra.image_spec import Content
from tools.uv import UV_VERSION
from training.provenance import PROJECT

CONTENT = Content("python:3.11-slim", "digits", None)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what an image is made of."""
    shutil.copytree(PROJECT / "training", tmp_path / "training", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("uv.lock", ".python-version"):
        shutil.copy(PROJECT / name, tmp_path)
    return tmp_path


def test_a_tag_is_repeatable() -> None:
    """The same content has the same tag, on every machine."""
    assert CONTENT.tag() == CONTENT.tag()
    assert re.fullmatch("[0-9a-f]{12}", CONTENT.tag())


def test_a_module_of_training_changes_it(project: Path) -> None:
    """Otherwise pods would train with older code than the program says."""
    before = CONTENT.tag(project)
    (project / "training" / "loop.py").write_text("# changed\n")

    assert before != CONTENT.tag(project)


@pytest.mark.parametrize("name", ["verdict.py", "comparison.py", "projection.py"])
def test_what_pods_never_import_does_not(project: Path, name: str) -> None:
    """A new word in the verdict must not repeat a measurement."""
    before = CONTENT.tag(project)
    (project / "training" / name).write_text("# changed\n")

    assert before == CONTENT.tag(project)


@pytest.mark.parametrize(("package", "changes"), [("tensorflow-cpu", True), ("ray", True), ("pulumi", False)])
def test_only_packages_in_the_image_change_it(project: Path, package: str, changes: bool) -> None:
    """The lock holds the program's packages too."""
    lock = project / "uv.lock"
    before = CONTENT.tag(project)
    text, count = re.subn(rf'(name = "{package}"\nversion = ")[^"]+', r"\g<1>9.9.9", lock.read_text())
    lock.write_text(text)
    image_spec.packages.cache_clear()
    after = CONTENT.tag(project)
    image_spec.packages.cache_clear()

    assert 1 == count
    assert changes == (before != after)


@pytest.mark.parametrize("name", ["DOCKERFILE", "BUILD_SCRIPTS"])
def test_how_it_is_built_changes_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Dockerfile, and the script that it runs."""
    before = CONTENT.tag()
    changed = tmp_path / "changed"
    changed.write_text("# changed\n")
    monkeypatch.setattr(image_spec, name, changed if name == "DOCKERFILE" else (changed,))

    assert before != CONTENT.tag()


def test_base_and_data_change_it(tmp_path: Path) -> None:
    """Both are in the image."""
    (tmp_path / "data_batch_1").write_bytes(b"images")
    downloaded = replace(CONTENT, dataset="cifar10")
    given = replace(downloaded, dataset_path=str(tmp_path))

    tags = {one.tag() for one in (CONTENT, replace(CONTENT, base_image="python:3.11"), downloaded, given)}

    assert 4 == len(tags)


def test_only_cifar10_is_in_the_image() -> None:
    """The others are made by code, or come with a package."""
    assert [] == CONTENT.dataset_flag()
    assert ["--dataset-path=/data/cifar-10-batches-py"] == replace(CONTENT, dataset="cifar10").dataset_flag()


def test_pods_expect_the_locked_versions() -> None:
    """Of all that decides what is computed; Python's as the project pins it."""
    expected = image_spec.expected_versions()

    assert {"ray", "tensorflow", "python"} == set(expected)
    assert f"ray=={expected['ray']}" in image_spec.packages()


def test_the_image_holds_what_its_entries_import() -> None:
    """A module that is missing is found out when a pod starts."""
    names = {path.stem for path in image_spec.modules()}

    assert {"__init__", *image_spec.ENTRIES, "train", "loop", "dataset", "result"} <= names
    assert not {"verdict", "comparison"} & names


def test_the_dockerfile_builds_anywhere() -> None:
    """The classic builder has no mounts; the uv in it is the one that made the lock."""
    text = image_spec.DOCKERFILE.read_text()
    instructions = [line for line in text.splitlines() if not line.startswith("#")]

    assert not [line for line in instructions if "--mount" in line]
    assert f"ARG UV_VERSION={UV_VERSION}" in text


def test_what_the_dockerfile_leaves_out_is_locked() -> None:
    """A package that is renamed would come back in silence."""
    left_out = re.findall(r"--no-emit-package (\S+)", image_spec.DOCKERFILE.read_text())

    assert left_out
    assert set(left_out) <= {name.partition("==")[0] for name in image_spec.packages()}


def test_the_last_stage_gets_nothing_of_the_machine_s_package_index() -> None:
    """Its layers and its history go to a registry."""
    final = image_spec.DOCKERFILE.read_text().rpartition("FROM ")[2]

    assert "host" not in final
    assert "ARG" not in final
