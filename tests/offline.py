"""Folders as the setting `offline` names them, for tests."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

ARCHIVE = "kuberay-operator-1.6.2.tgz"
CRD = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: rayclusters.ray.io}\n"
FILES = {"Chart.yaml": "name: kuberay-operator\nversion: 1.6.2\n", "crds/rayclusters.yaml": CRD, "values.yaml": "{}"}


def archive(files: Mapping[str, str] = FILES) -> bytes:
    """A chart as `helm package` makes it, the same bytes each time."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as packed:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"kuberay-operator/{name}")
            entry.size = len(text)
            packed.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(content.getvalue(), mtime=0)


def folder(path: Path, **files: str) -> str:
    """The path of a folder with these files; a suffix of .txt is added, and _ stands for -."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / f"{name.replace('_', '-')}.txt").write_text(text, encoding="utf-8")
    return str(path)


def with_chart(path: Path, chart: bytes | None = None, **files: str) -> str:
    """A folder that also has a chart, and vouches for it."""
    content = archive() if chart is None else chart
    folder(path, **files)
    (path / ARCHIVE).write_bytes(content)
    (path / "SHA256SUMS").write_text(f"{hashlib.sha256(content).hexdigest()}  {ARCHIVE}\n", encoding="utf-8")
    return str(path)
