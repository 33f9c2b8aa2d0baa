"""Fetches the KubeRay chart once into the project's state folder, verifies it at every use, and reads its CRDs.

A preview needs the chart, because the CRDs are created from it and Helm never upgrades them. Asks no cluster. A chart
in the folder `offline` is not fetched; its digest is compared, too.
"""

import hashlib
import json
import os
import re
import shlex
import tarfile
import urllib.error
import urllib.parse
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import yaml

from infra.settings.facts import YAML_LOADER
from infra.settings.rules import CHART, CHART_FILE, CHART_REPOSITORY, SUMS
from training.contract.provenance import PROJECT
from training.machine.retries import retry

CACHE = PROJECT / ".state" / "charts"
SECONDS = 30.0
ATTEMPTS = 3
DIGESTS = {"1.6.2": "660e709573ea49455fea0b34b40a38afc217b8354bcf0f17aab2a3249d3c1b5f"}
"""The SHA-256 of the archives that KubeRay published, by the chart's version. The default version must be in this
table, with the SHA-256 that others pin for the archive on KubeRay's release page. For any other version, the digest
comes from the repository's index, over TLS."""
LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1")


class ChartError(pulumi.RunError):
    """Raised, with the setting to change, if the chart cannot be fetched or is wrong. Pulumi shows no traceback."""


@dataclass(frozen=True)
class Source:
    """Where KubeRay's chart comes from, and the version that the settings ask for."""

    path: str | None
    """The path of the chart's archive in the folder `offline`; None if it is fetched from KubeRay's repository."""
    version: str
    digest: str = ""
    """The SHA-256 of the archive that the folder `offline` states; empty if the folder states no SHA-256."""

    def pinned(self) -> tuple[str, str]:
        """Return the digest that is known before anything is fetched, and its origin; two empty texts without one."""
        if self.digest:
            return self.digest, SUMS
        return (DIGESTS[self.version], "this program") if self.version in DIGESTS else ("", "")


@dataclass(frozen=True)
class Chart:
    """A chart's archive on this machine, and its version."""

    path: Path
    version: str

    def crds(self) -> list[dict[str, Any]]:
        """Return the chart's CRDs, sorted by name. Raise ChartError if the chart has no CRDs."""
        crds = [
            document
            for text in _archive_crds(self.path)
            for document in yaml.load_all(text, Loader=YAML_LOADER)
            if document
        ]
        if not crds:
            raise ChartError(f"the chart {self.path} has no CRDs: it is not KubeRay's operator chart")
        return sorted(crds, key=lambda crd: str(crd["metadata"]["name"]))


def crds_digest(crds: list[dict[str, Any]]) -> str:
    """Return a hash of the CRDs, which changes if any of the CRDs changes."""
    return hashlib.sha256(json.dumps(crds, sort_keys=True).encode()).hexdigest()


def find(source: Source, cache: Path = CACHE) -> Chart:
    """Return the chart of a source after its digest and its version were verified. A chart from the repository is
    cached and not fetched again. Raise ChartError if the chart is missing or wrong."""
    if source.path:
        path = PROJECT / Path(source.path).expanduser()
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ChartError(f"the chart {source.path} can't be read ({error})") from None
        _compare(content, source, *source.pinned())
        return _checked(Chart(path, source.version))
    kept = cache / CHART_FILE.format(source.version)
    if not _is_verified(kept, source):
        try:
            _keep(*_fetched(source), kept)
        except (OSError, ValueError, KeyError) as error:
            raise ChartError(
                f"the chart {CHART} {source.version} could not be fetched from {CHART_REPOSITORY} ({error}).\n"
                f"If that cannot be reached, put {kept.name} into a folder (docs/offline.md) and name it:\n"
                "  pulumi config set offline FOLDER"
            ) from None
    return _checked(Chart(kept, source.version))


def _is_verified(kept: Path, source: Source) -> bool:
    """Return whether the cached copy has the right digest. It has not if damaged, or from another repository."""
    try:
        record = json.loads(_record(kept).read_text(encoding="utf-8"))
        digest = hashlib.sha256(kept.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return False
    pinned, _ = source.pinned()
    return bool(digest == (pinned or (record["repository"] == CHART_REPOSITORY and record["digest"])))


def _fetched(source: Source) -> tuple[bytes, dict[str, str]]:
    """Return the fetched archive, whose digest was verified, and the record that verifies the cached copy later."""
    entry = _entry(source)
    content = _download(urllib.parse.urljoin(CHART_REPOSITORY, str(entry["urls"][0])))
    digest, says = source.pinned()
    if not digest:
        digest, says = str(entry.get("digest") or "").removeprefix("sha256:"), f"the index of {CHART_REPOSITORY}"
    _compare(content, source, digest, says)
    return content, {"repository": CHART_REPOSITORY, "digest": digest}


def _compare(content: bytes, source: Source, expected: str, says: str) -> None:
    """Raise ChartError unless the archive has the expected digest. `says` names the origin of that digest."""
    digest = hashlib.sha256(content).hexdigest()
    if digest == expected:
        return
    wrong = (
        f"its SHA-256 is {digest}, and {says} says {expected}" if expected else f"nothing says that {digest} is right"
    )
    file = CHART_FILE.format(source.version)
    raise ChartError(
        f"the chart {source.path or file} was refused: {wrong}.\n"
        f"If you have compared it with a source that you trust, say so in {SUMS} beside it (docs/offline.md):\n"
        f"  echo '{digest}  {file}' >> {shlex.quote(str(Path(source.path or 'FOLDER/x').parent / SUMS))}"
    )


def _checked(chart: Chart) -> Chart:
    """Return the chart. Raise ChartError if it has another version than the settings name, or is no Helm chart."""
    try:
        version = _metadata(chart.path)["version"]
    except (OSError, EOFError, KeyError, TypeError, ValueError, zlib.error, tarfile.TarError, yaml.YAMLError) as error:
        raise ChartError(f"{chart.path} is not a Helm chart ({error})") from None
    if str(version).lstrip("v") != chart.version:
        raise ChartError(
            f"{chart.path} has version {version}, and kuberayVersion is {chart.version}; make them equal:\n"
            f"  pulumi config set kuberayVersion {str(version).lstrip('v')}"
        )
    return chart


def _metadata(path: Path) -> dict[str, Any]:
    with tarfile.open(path) as archive:
        inside = [name for name in archive.getnames() if name.count("/") == 1 and name.endswith("/Chart.yaml")]
        if not inside:
            raise KeyError("Chart.yaml")
        content = archive.extractfile(inside[0])
        return dict(yaml.safe_load(content.read())) if content else {}


def _archive_crds(path: Path) -> list[str]:
    with tarfile.open(path) as archive:
        names = [name for name in archive.getnames() if name.split("/")[1:2] == ["crds"] and name.endswith(".yaml")]
        files = [archive.extractfile(name) for name in sorted(names)]
        return [file.read().decode() for file in files if file]


def _entry(source: Source) -> dict[str, Any]:
    """Return the chart's entry in the index of the repository. Raise ValueError if the index lacks the version."""
    index = yaml.safe_load(_download(urllib.parse.urljoin(CHART_REPOSITORY, "index.yaml")))
    entries = [entry for entry in index["entries"][CHART] if str(entry["version"]).lstrip("v") == source.version]
    if not entries:
        raise ValueError(f"it has no version {source.version}")
    return dict(entries[0])


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects from TLS to plain HTTP."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:  # noqa: PLR0913, PLR0917 (urllib's)
        return super().redirect_request(req, fp, code, msg, headers, _trusted(newurl))


def _trusted(address: str) -> str:
    """Return the address if it is https:// or on this machine, so that nobody can tamper with the transfer. Raise
    ValueError for any other address."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme == "https" or (parts.scheme == "http" and LOOPBACK.fullmatch(parts.hostname or "")):
        return address
    raise ValueError(f"{address} is neither https:// nor on this machine")


def _download(address: str) -> bytes:
    opener = urllib.request.build_opener(_Redirects)

    def once() -> bytes:
        with opener.open(_trusted(address), timeout=SECONDS) as answer:
            return bytes(answer.read())

    def pause(attempt: int, error: Exception) -> float | None:
        return None if isinstance(error, urllib.error.HTTPError) or attempt == ATTEMPTS else 0.0

    return retry(once, (OSError,), pause)


def _record(kept: Path) -> Path:
    """Return the path of the record next to a cached chart, which holds the chart's repository and digest."""
    return kept.with_suffix(".json")


def _keep(content: bytes, record: dict[str, str], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for file, data in ((path, content), (_record(path), json.dumps(record).encode())):
        partial = file.with_name(f"{file.name}.{os.getpid()}")
        partial.write_bytes(data)
        partial.replace(file)
