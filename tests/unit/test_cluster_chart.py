"""The chart of KubeRay: found, fetched once, and what is said when it can't be."""

import io
import tarfile
from pathlib import Path

import pulumi
import pytest

from infra import chart
from infra.chart import ChartError, Source, crds_digest, find

CRD = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.ray.io}\n"
FILES = {"Chart.yaml": "name: kuberay-operator\nversion: 1.6.2\n", "crds/things.yaml": CRD, "values.yaml": "{}"}


def archive(files: dict[str, str] = FILES) -> bytes:
    """A chart as `helm package` makes it."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as packed:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"kuberay-operator/{name}")
            entry.size = len(text)
            packed.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A chart on this machine."""
    made = tmp_path / "kuberay-operator-1.6.2.tgz"
    made.write_bytes(archive())
    return made


def test_a_path_is_used_as_it_is(path: Path) -> None:
    """A .tgz or a folder: neither is fetched."""
    with tarfile.open(path) as packed:
        packed.extractall(path.parent, filter="data")
    folder = path.parent / "kuberay-operator"

    found = [find(Source(str(one), "https://nowhere.invalid", "1.6.2")).crds() for one in (path, folder)]

    assert ["things.ray.io"] == [crd["metadata"]["name"] for crd in found[0]]
    assert crds_digest(found[0]) == crds_digest(found[1])


def test_a_repository_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Previews without a network go on working; addresses in an index may be relative."""
    index = "entries: {kuberay-operator: [{version: v1.6.2, urls: [kuberay-operator-1.6.2.tgz]}]}"
    served = {
        "https://charts.example/a/index.yaml": index.encode(),
        "https://charts.example/a/kuberay-operator-1.6.2.tgz": archive(),
    }
    asked = []

    def download(address: str) -> bytes:
        asked.append(address)
        return served[address]

    monkeypatch.setattr(chart, "_download", download)
    source = Source("kuberay-operator", "https://charts.example/a", "1.6.2")
    first, second = find(source, tmp_path), find(source, tmp_path)

    assert list(served) == asked
    assert first.crds() == second.crds()


def test_a_chart_that_can_t_be_fetched_names_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what to put there; Pulumi shows a RunError without its traceback."""

    def refuse(address: str) -> bytes:
        raise OSError("no route to host")

    monkeypatch.setattr(chart, "_download", refuse)

    with pytest.raises(pulumi.RunError, match=r"(?s)no route to host.*pulumi config set kuberayChart"):
        find(Source("kuberay-operator", "https://charts.example", "1.6.2"), tmp_path)


def test_another_version_than_asked_for_is_refused(path: Path) -> None:
    """Its CRDs would be those of that version."""
    with pytest.raises(ChartError, match=r"pulumi config set kuberayVersion 1.6.2"):
        find(Source(str(path), "", "1.7.0"))


def test_a_chart_without_crds_is_not_kuberay_s(tmp_path: Path) -> None:
    """An operator without them does not start."""
    made = tmp_path / "other.tgz"
    made.write_bytes(archive({"Chart.yaml": FILES["Chart.yaml"]}))

    with pytest.raises(ChartError, match="has no CRDs"):
        find(Source(str(made), "", "1.6.2")).crds()
