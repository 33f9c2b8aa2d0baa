"""A base image is known by its digest or ID; `docker` is a script that says what one would."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pulumi
import pytest

from infra.image import base as image_base
from infra.image.base import built_from, identity, pinned
from infra.image.spec import Content
from infra.programs import ProgramError
from infra.settings.rules import BASE_IMAGE, image
from infra.settings.settings import Settings
from tests.golden import Wording
from tests.offline import folder
from tests.unit.settings_machine import settings

OLD, NEW, ID = (f"sha256:{character * 64}" for character in "abc")


class Docker:
    """What the engine has and the registry says, by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.log = folder / "log"
        self.has(None)
        program = folder / "docker"
        program.write_text(
            f'#!/bin/sh\necho "$*" >> {self.log}\n'
            f'case "$1 $2" in "image inspect") cat {folder}/engine;; "buildx imagetools") cat {folder}/registry;;\n'
            f"pull*) cp {folder}/pulled {folder}/engine;; *) exit 2;; esac\n"
        )
        program.chmod(0o755)

    def has(self, image: dict[str, object] | None) -> None:
        """The engine has this image, or none."""
        file = self._folder / "engine"
        file.unlink(missing_ok=True)
        if image:
            file.write_text(json.dumps(image))

    def registry_has(self, digest: str, repository: str) -> None:
        """Whoever asks is told this digest, and whoever pulls gets it."""
        (self._folder / "registry").write_text(json.dumps({"digest": digest}))
        (self._folder / "pulled").write_text(json.dumps({"Id": ID, "RepoDigests": [f"{repository}@{digest}"]}))

    def asked(self) -> list[str]:
        """What it was asked to do."""
        return [" ".join(line.split()[:2]) for line in self.log.read_text().splitlines()] if self.log.exists() else []


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """An engine without images; nothing answers for a registry."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Docker(tmp_path)


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("python:3.12-slim", "python"),
        ("docker.io/library/python:3.12-slim", "python"),
        ("me/base:1", "me/base"),
        ("localhost:5000/me/base:1", "localhost:5000/me/base"),
    ],
)
def test_an_image_of_a_registry_is_known_by_its_digest(docker: Docker, name: str, repository: str) -> None:
    """The one that the engine has counts, because a build takes it; its registry is not asked."""
    others = [f"another/{repository}@{NEW}", f"{repository}@{OLD}"]
    docker.has({"Id": ID, "RepoDigests": others})
    docker.registry_has(NEW, repository)

    assert f"{name}@{OLD}" == identity(name, pull=True) == identity(name, pull=False)
    assert {"image inspect"} == set(docker.asked())


def test_one_that_is_not_here_is_asked_of_its_registry_and_pulled_by_an_update_alone(docker: Docker) -> None:
    """A preview changes nothing on this machine, and both give the same."""
    docker.registry_has(NEW, "python")

    assert f"python:3.12@{NEW}" == identity("python:3.12", pull=False)
    assert "pull --quiet" not in docker.asked()
    assert f"python:3.12@{NEW}" == identity("python:3.12", pull=True)


def test_one_of_this_engine_alone_is_known_by_its_id(docker: Docker) -> None:
    """Also one that has a digest under another name: what is under this name may be anything."""
    for digests in ([], None, [f"python@{OLD}"]):
        docker.has({"Id": ID, "RepoDigests": digests})
        assert f"mine:1#{ID}" == identity("mine:1", pull=False)


def test_another_image_under_the_name_gives_another_tag(docker: Docker) -> None:
    """And so another measurement: the tag is in every pod."""
    tags = []
    for digest in (OLD, NEW):
        docker.has({"Id": ID, "RepoDigests": [f"python@{digest}"]})
        tags.append(Content("cnn", identity("python:3.12", pull=False), "digits", None).tag())

    assert tags[0] != tags[1]


def test_a_digest_asks_nobody(docker: Docker) -> None:
    """The default is one: a preview needs no engine."""
    default = BASE_IMAGE

    assert default == identity(default, pull=True) == built_from(default)
    assert "@sha256:" in default
    assert [] == docker.asked()


def test_a_build_takes_the_image_that_its_tag_says(wording: Wording, docker: Docker) -> None:
    """A name whose image changed meanwhile is refused."""
    docker.has({"Id": ID, "RepoDigests": []})
    base = identity("mine:1", pull=False)

    assert "mine:1" == built_from(base)
    docker.has({"Id": NEW, "RepoDigests": []})
    with pytest.raises(ProgramError, match="mine:1") as refused:
        built_from(base)
    wording("image", str(refused.value))


@pytest.fixture
def dry_run(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A preview; the warnings that it shows."""
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr(pulumi.log, "warn", warnings.append)
    return warnings


def base_image(found: Settings) -> str:
    """The setting."""
    assert found.cluster
    return found.cluster.offline.base_image


@pytest.fixture
def other_base(tmp_path: Path) -> str:
    """A folder that names another base image."""
    return folder(tmp_path, base_image="python:3.12")


def test_a_preview_goes_on_without_an_engine_and_says_so(docker: Docker, dry_run: list[str], other_base: str) -> None:
    """With the line by which it is known without one."""
    found = pinned(settings(target="minikube", offline=other_base))

    assert "python:3.12" == base_image(found)
    assert "python:3.12@sha256:…" in dry_run[0]


def test_an_update_without_an_engine_is_refused(
    docker: Docker, monkeypatch: pytest.MonkeyPatch, other_base: str
) -> None:
    """Otherwise a tag would say less than what is in the image."""
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)

    with pytest.raises(pulumi.RunError, match=r"python:3\.12"):
        pinned(settings(target="minikube", offline=other_base))


def test_it_is_looked_up_only_where_an_image_is_built(docker: Docker, dry_run: list[str], other_base: str) -> None:
    """Not for an image that is in a registry already."""
    docker.has({"Id": ID, "RepoDigests": [f"python@{OLD}"]})
    built = settings(
        target="kubernetes", kubeContext="staging", imageRegistry="registry.example.com/it", offline=other_base
    )
    named = settings(target="kubernetes", kubeContext="staging", image="registry.example.com/it:1", offline=other_base)

    assert f"python:3.12@{OLD}" == base_image(pinned(built))
    assert named == pinned(named)
    assert built == replace(pinned(built), cluster=built.cluster)
    assert 1 == len(set(docker.asked()))
    assert image_base.ID not in image().allowed
