"""The KubeRay chart: fetched once into the project's state folder, and the CRDs in it. Asks no cluster.

Preview needs it, because the CRDs are made from it and Helm never upgrades those.
"""

import hashlib
import json
import os
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import yaml

from training.provenance import PROJECT

CACHE = PROJECT / ".state" / "charts"
SECONDS = 30.0
ATTEMPTS = 3


class ChartError(pulumi.RunError):
    """A chart that can't be had, or is not what it should be. The message names the setting; Pulumi shows it alone."""


@dataclass(frozen=True)
class Source:
    """Where a chart is to be had: a path, or a name in a repository."""

    chart: str
    repository: str
    version: str


@dataclass(frozen=True)
class Chart:
    """A chart on this machine."""

    path: Path
    """A folder or a .tgz."""
    version: str

    def crds(self) -> list[dict[str, Any]]:
        """The CRDs in it, by name; raises ChartError when there are none."""
        texts = _folder_crds(self.path) if self.path.is_dir() else _archive_crds(self.path)
        found = [document for text in texts for document in yaml.load_all(text, Loader=_LOADER) if document]
        if not found:
            raise ChartError(f"the chart {self.path} has no CRDs: kuberayChart must name KubeRay's operator chart")
        return sorted(found, key=lambda crd: str(crd["metadata"]["name"]))


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader where it is there: the CRDs are 4 MB of YAML."""


def crds_digest(crds: list[dict[str, Any]]) -> str:
    """A hash that changes with any of the CRDs."""
    return hashlib.sha256(json.dumps(crds, sort_keys=True).encode()).hexdigest()


def find(source: Source, cache: Path = CACHE) -> Chart:
    """The chart of a source; from a repository it is kept, and fetched no more. Raises ChartError."""
    chart, version = source.chart, source.version
    path = PROJECT / Path(chart).expanduser()
    if path.exists():
        return _checked(Chart(path, version))
    kept = cache / f"{chart}-{version}.tgz"
    if not kept.is_file():
        try:
            _keep(_download(_address(source)), kept)
        except (OSError, ValueError, KeyError) as error:
            raise ChartError(
                f"the chart {chart} {version} could not be fetched from {source.repository} ({error}).\n"
                "Where that can't be reached, get the chart's .tgz and say where it is:\n"
                f"  pulumi config set kuberayChart PATH/{chart}-{version}.tgz\n"
                "or name a mirror:  pulumi config set kuberayRepository https://…"
            ) from None
    return _checked(Chart(kept, version))


def _checked(chart: Chart) -> Chart:
    """The chart, if it is of the version that the settings name."""
    try:
        found = _metadata(chart.path)["version"]
    except (OSError, KeyError, tarfile.TarError) as error:
        raise ChartError(f"{chart.path} is not a Helm chart ({error}): set kuberayChart to one") from None
    if str(found).lstrip("v") != chart.version:
        raise ChartError(
            f"{chart.path} has version {found}, and kuberayVersion is {chart.version}; make them equal:\n"
            f"  pulumi config set kuberayVersion {str(found).lstrip('v')}"
        )
    return chart


def _metadata(path: Path) -> dict[str, Any]:
    if path.is_dir():
        return dict(yaml.safe_load((path / "Chart.yaml").read_text(encoding="utf-8")))
    with tarfile.open(path) as archive:
        member = next(name for name in archive.getnames() if name.count("/") == 1 and name.endswith("/Chart.yaml"))
        content = archive.extractfile(member)
        return dict(yaml.safe_load(content.read())) if content else {}


def _folder_crds(folder: Path) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted((folder / "crds").glob("*.yaml"))]


def _archive_crds(path: Path) -> list[str]:
    with tarfile.open(path) as archive:
        names = [name for name in archive.getnames() if name.split("/")[1:2] == ["crds"] and name.endswith(".yaml")]
        files = [archive.extractfile(name) for name in sorted(names)]
        return [file.read().decode() for file in files if file]


def _address(source: Source) -> str:
    """Where a repository's index says that the chart is."""
    base = source.repository.rstrip("/") + "/"
    index = yaml.safe_load(_download(urllib.parse.urljoin(base, "index.yaml")))
    entries = [entry for entry in index["entries"][source.chart] if str(entry["version"]).lstrip("v") == source.version]
    if not entries:
        raise ValueError(f"it has no version {source.version}")
    return urllib.parse.urljoin(base, str(entries[0]["urls"][0]))


def _download(address: str) -> bytes:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(address, timeout=SECONDS) as answer:  # noqa: S310 (the user's own repository)
                return bytes(answer.read())
        except urllib.error.HTTPError:
            raise
        except OSError:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _keep(content: bytes, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)
