"""The folder `offline`: each file takes the place of one download, and what is wrong in it is one problem."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.places.minikube.place import MinikubePlace
from infra.places.minikube.spec import wanted_cluster
from infra.settings.offline import LISTS, MANIFEST
from infra.settings.rules import BASE_IMAGE, Supplies
from infra.settings.settings import Settings
from infra.settings.table import read
from tests.offline import ARCHIVE, archive, folder, with_chart
from tests.unit.settings_machine import Refusal, applied, machine, only_problem, problems, settings

MINIKUBE = {"target": "minikube"}
DEFAULT = Supplies(base_image=BASE_IMAGE)


def supplies(path: str, **more: str) -> Supplies:
    """What a Minikube stack with the folder takes from it."""
    return settings(**MINIKUBE, offline=path, **more).of_cluster.offline


def refusal(path: Path | str, **more: str) -> Refusal:
    """The one problem of a Minikube stack with the folder."""
    return only_problem(**MINIKUBE, offline=str(path), **more)


def test_what_has_no_file_is_downloaded_as_without_the_folder(tmp_path: Path) -> None:
    """Somebody who only has another base image says only that."""
    assert DEFAULT == supplies(folder(tmp_path))
    assert replace(DEFAULT, base_image="a:1") == supplies(folder(tmp_path, base_image="a:1\n"))


def test_files_for_other_uses_may_stand_beside_them(tmp_path: Path) -> None:
    """Neither another archive nor notes on the chart are taken for a chart of another version."""
    for name in ("fonts.tgz", "kuberay-operator.md"):
        (tmp_path / name).touch()

    assert DEFAULT == supplies(folder(tmp_path))


def test_each_file_takes_the_place_of_one_download(tmp_path: Path) -> None:
    """Comments and empty lines are none of it; the sample's files are all valid."""
    found = supplies(
        with_chart(tmp_path, base_image="# of a mirror\na:1\n", images="b:1\n\nc:1", network="kindnet", addons="# none")
    )
    sample = supplies("docs/samples/offline")

    sha = hashlib.sha256(archive()).hexdigest()
    assert found == Supplies(
        base_image="a:1",
        chart=str(tmp_path / ARCHIVE),
        chart_digest=sha,
        images=("b:1", "c:1"),
        network="kindnet",
        addons=(),
    )
    assert ("kindnet", (), 1) == (sample.network, sample.addons, len(sample.images))
    assert ("docs/samples", "registry.example.com") == ("docs/samples", sample.base_image.partition("/")[0])


def test_a_folder_is_named_from_the_project_or_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the state holds of it is as it was typed: another machine has the project elsewhere."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with_chart(tmp_path / "kept")

    assert str(tmp_path / "kept" / ARCHIVE) == supplies("~/kept").chart


def _network(found: Settings) -> str:
    machines = MinikubePlace().site(found).machines
    assert machines is not None
    return str(machines["cni"])


def test_a_manifest_of_the_pod_network_counts_by_its_content(tmp_path: Path) -> None:
    """Minikube gets its path, and the measurement its digest."""

    def told(text: str) -> tuple[str, str]:
        (tmp_path / "network.yaml").write_text(text, encoding="utf-8")
        found: Settings = settings(**MINIKUBE, offline=folder(tmp_path))
        return wanted_cluster(found).cni, _network(found)

    first, second = told("kind: A"), told("kind: B")

    assert str(tmp_path / "network.yaml") == first[0] == second[0]
    assert first[1] != second[1]
    assert "calico" == _network(settings(**MINIKUBE))


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("base-image.txt", "", "base-image.txt"),
        ("base-image.txt", "a:1\nb:1", "base-image.txt"),
        ("base-image.txt", "python:latest", "base-image.txt, line 1"),
        ("images.txt", "a:1\nbusybox", "images.txt, line 2"),
        ("images.txt", "a:1,b:1", "images.txt, line 1"),
        ("network.txt", "flannel", "network.txt, line 1"),
        ("addons.txt", "Metrics Server", "addons.txt, line 1"),
        ("SHA256SUMS", "0 x", "SHA256SUMS, line 1"),
        ("image.txt", "a:1", "image.txt"),
        ("network.yml", "kind: A", "network.yml"),
        ("Images.TXT", "a:1", "Images.TXT"),
        ("SHA256SUM", "", "SHA256SUM"),
        ("SHA256SUMS.txt", "", "SHA256SUMS.txt"),
        ("kuberay-operator-1.6.2.tar.gz", "", "kuberay-operator-1.6.2.tar.gz"),
        ("kuberay-operator-v1.6.2.tgz", "", "kuberay-operator-v1.6.2.tgz"),
    ],
)
def test_a_wrong_line_is_refused_with_its_place(tmp_path: Path, name: str, text: str, part: str) -> None:
    """And a misspelt name, which would be downloaded instead."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    refused = refusal(tmp_path)

    assert f"{tmp_path}: {part}\n" in refused
    assert "offline" == refused.key


def test_what_the_nodes_must_hold_is_known_without_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chart has megabytes, and whether the pods fit depends on no file."""
    draft = read({**MINIKUBE, "offline": with_chart(tmp_path)}, machine())
    monkeypatch.setattr(Path, "read_bytes", lambda file: pytest.fail(f"{file} was read"))

    assert [] == MinikubePlace().unfit(draft, ["baseline", "ray"])


FILES = (*LISTS, MANIFEST, ARCHIVE)
UNREADABLE = [
    *((name, what) for name in FILES for what in ("a link to nothing", "a folder", "without permission")),
    *((name, "other bytes") for name in ("images.txt", "SHA256SUMS")),
]


@pytest.mark.parametrize(("name", "what"), UNREADABLE)
def test_a_name_whose_file_can_t_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    """It does not count as absent. Root reads a file without permission all the same, so that refusal is the test's."""
    if what == "a link to nothing":
        (tmp_path / name).symlink_to(tmp_path / "nothing")
    elif what == "a folder":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(b"\xff\x00")
    if what == "without permission":
        refuse_reading(tmp_path / name, monkeypatch)
    (problem,) = problems(**MINIKUBE, offline=str(tmp_path))

    assert f": {name}" in problem.what


def refuse_reading(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this file alone."""
    for method in ("read_bytes", "read_text"):
        read = getattr(Path, method)

        def refuse(path: Path, *how: Any, read: Any = read, **more: Any) -> Any:
            if path == file:
                raise PermissionError
            return read(path, *how, **more)

        monkeypatch.setattr(Path, method, refuse)


def test_two_networks_are_refused(tmp_path: Path) -> None:
    """It would be unclear which one is meant."""
    (tmp_path / "network.yaml").write_text("kind: A", encoding="utf-8")

    assert "network.txt" in refusal(folder(tmp_path, network="auto"))


def test_a_chart_of_another_version_alone_is_refused(tmp_path: Path) -> None:
    """The one that is meant would be downloaded, on a machine that has no network."""
    with_chart(tmp_path)
    refused = refusal(tmp_path, kuberayVersion="1.7.0")

    assert "pulumi config set kuberayVersion 1.6.2" in refused.fixes
    assert supplies(str(tmp_path), **applied({"kuberayVersion": "1.7.0"}, refused.fixes[0])).chart
    existing = {"target": "kubernetes", "kubeContext": "a", "image": "a/b:1", "operator": "existing"}
    assert settings(**existing, offline=str(tmp_path), kuberayVersion="1.7.0").of_cluster.offline.chart is None


def test_what_else_lies_there_is_no_matter(tmp_path: Path) -> None:
    """A page about it, archives of images, a chart of another version beside the right one."""
    with_chart(tmp_path)
    for name in (
        "README.txt",
        "images.tar",
        "images.txt~",
        "SHA256SUMS.asc",
        "kuberay-operator-1.5.0.tgz",
        ".hidden.txt",
    ):
        (tmp_path / name).write_bytes(b"?")

    assert supplies(str(tmp_path)).chart


def test_every_problem_of_a_folder_is_said(tmp_path: Path) -> None:
    """At once."""
    found = problems(**MINIKUBE, offline=folder(tmp_path, base_image="a", images="b", addons="C"), workers="0")

    assert 4 == len(found)
