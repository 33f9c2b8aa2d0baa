"""The classic builder has no mounts: the stages that saw an index's password are removed when a build ends."""

from pathlib import Path

import pytest

from infra.image import command as image
from infra.programs import ProgramError

DOCKER = """#!/bin/sh
echo "$*" >>"{calls}"
[ "$1" != build ] || exit {code}
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `docker` that writes down what it is asked; its build works."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    return _docker(tmp_path, 0)


def _docker(folder: Path, code: int) -> Path:
    calls = folder / "calls"
    docker = folder / "docker"
    docker.write_text(DOCKER.format(calls=calls, code=code), encoding="utf-8")
    docker.chmod(0o755)
    return calls


def build(folder: Path, index: dict[str, str]) -> None:
    """A classic build in a folder of its own."""
    (folder / "context").mkdir()
    image._build_classically(["docker", "build", "--tag", "made:1"], index, folder / "context")


WITH_PASSWORD = {"PIP_INDEX_URL": "https://me:word@packages.example/simple"}
PRUNES = [
    f"container prune --force --filter label={image.INDEX_LABEL}",
    f"image prune --force --filter label={image.INDEX_LABEL}",
]


def test_stages_that_saw_a_password_are_removed(tmp_path: Path, calls: Path) -> None:
    """Containers first: a step that failed keeps its image by its container. Those of the label alone."""
    build(tmp_path, WITH_PASSWORD)

    built, *removed = calls.read_text(encoding="utf-8").splitlines()
    assert built.startswith("build ")
    assert PRUNES == removed
    dockerfile = (tmp_path / "context" / "Dockerfile").read_text(encoding="utf-8")
    assert dockerfile.count("COPY secret/") == dockerfile.count(f"LABEL {image.INDEX_LABEL}") > 0


def test_they_are_removed_after_a_build_that_failed(tmp_path: Path, calls: Path) -> None:
    """Its last stage is there, with the password in it."""
    _docker(tmp_path, 1)

    with pytest.raises(ProgramError, match=r"\b1\b"):
        build(tmp_path, WITH_PASSWORD)

    assert PRUNES == calls.read_text(encoding="utf-8").splitlines()[-2:]


def test_without_a_password_nothing_is_removed(tmp_path: Path, calls: Path) -> None:
    """Its stages are the next build's cache."""
    build(tmp_path, {"PIP_INDEX_URL": "https://packages.example/simple"})

    assert 1 == len(calls.read_text(encoding="utf-8").splitlines())
