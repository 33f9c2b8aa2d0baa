"""The chart of KubeRay: found, fetched once, verified at every use, and what is said when it can't be."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pulumi
import pytest

from infra.places.cluster import chart
from infra.places.cluster.chart import DIGESTS, ChartError, Source, find
from infra.settings.table import every_key
from tests.offline import CRD, FILES, archive


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A chart on this machine."""
    made = tmp_path / "kuberay-operator-1.6.2.tgz"
    made.write_bytes(archive())
    return made


def test_an_archive_on_this_machine_is_used_if_something_vouches_for_it(path: Path, tmp_path: Path) -> None:
    """The folder's SHA256SUMS, or this program; nothing is fetched. The refusal has the line to review."""
    assert ["rayclusters.ray.io"] == [crd["metadata"]["name"] for crd in find(Source(str(path), "1.6.2", SHA)).crds()]
    for version, digest in (("1.6.2", ""), ("1.6.2", "1" * 64), ("1.7.0", "")):
        with pytest.raises(ChartError) as refused:
            find(Source(str(path), version, digest))
        line = str(refused.value).splitlines()[-1].strip()
        assert line.startswith(f"echo '{SHA}  kuberay-operator-{version}.tgz' ")
        assert line.endswith(f" {tmp_path}/SHA256SUMS")


def test_an_archive_that_can_t_be_read_is_refused(path: Path) -> None:
    """A folder of its name, or a gzip file that ends early and is vouched for: no traceback."""
    content = path.read_bytes()[:40]
    path.write_bytes(content)
    with pytest.raises(ChartError):
        find(Source(str(path), "1.6.2", hashlib.sha256(content).hexdigest()))
    path.unlink()
    path.mkdir()
    with pytest.raises(ChartError):
        find(Source(str(path), "1.6.2", SHA))


def test_the_published_archive_needs_no_file_beside_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its digest is in the program."""
    monkeypatch.setitem(DIGESTS, "1.6.2", SHA)

    assert path == find(Source(str(path), "1.6.2")).path


SHA = hashlib.sha256(archive()).hexdigest()
NEXT = {**FILES, "Chart.yaml": "name: kuberay-operator\nversion: 1.7.0\n"}
"""Of a version whose digest this program does not know."""
NEXT_SHA = hashlib.sha256(archive(NEXT)).hexdigest()


class Repository(dict[str, bytes]):
    """A Helm repository on this machine: what it serves by path, where it redirects to, and what it was asked for."""

    def __init__(self) -> None:
        super().__init__({"/index.yaml": index(NEXT_SHA), "/kuberay-operator-1.7.0.tgz": archive(NEXT)})
        self.redirects: dict[str, str] = {}
        self.asked: list[str] = []

    def source(self, digest: str = "") -> Source:
        """The chart in it."""
        return Source(None, "1.7.0", digest)


def index(digest: str | None, url: str = "kuberay-operator-1.7.0.tgz", version: str = "1.7.0") -> bytes:
    """The index of a repository; addresses in it may be relative."""
    known = f", digest: {digest}" if digest else ""
    return f"entries: {{kuberay-operator: [{{version: v{version}, urls: ['{url}']{known}}}]}}".encode()


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """It serves a version whose digest is in its index alone."""
    served = Repository()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            content, redirect = served.get(self.path), served.redirects.get(self.path)
            self.send_response(302 if redirect else 200 if content else 404)
            if redirect:
                self.send_header("Location", redirect)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setattr(chart, "CHART_REPOSITORY", f"http://127.0.0.1:{server.server_port}/")
        Thread(target=lambda: server.serve_forever(0.01), daemon=True).start()
        yield served
        server.shutdown()


def test_a_repository_is_asked_once(repository: Repository, tmp_path: Path) -> None:
    """Previews without a network go on working."""
    first, second = find(repository.source(), tmp_path), find(repository.source(), tmp_path)

    assert ["/index.yaml", "/kuberay-operator-1.7.0.tgz"] == repository.asked
    assert first.crds() == second.crds()


@pytest.mark.parametrize("digest", ["0" * 64, None], ids=["another", "none"])
def test_an_archive_that_the_index_does_not_vouch_for_is_refused(
    repository: Repository, tmp_path: Path, digest: str | None
) -> None:
    """Its CRDs and its operator would have the whole cluster. The message says how to pin it."""
    repository["/index.yaml"] = index(digest)

    with pytest.raises(ChartError, match=f"{NEXT_SHA}  kuberay-operator-1.7.0.tgz"):
        find(repository.source(), tmp_path)
    assert [] == list(tmp_path.iterdir())
    find(repository.source(NEXT_SHA), tmp_path)


def test_the_default_version_is_compared_with_the_digest_in_the_program(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever an index says: who changes the archive can change that too."""
    repository |= {"/index.yaml": index(SHA, "a.tgz", "1.6.2"), "/a.tgz": archive()}
    source = replace(repository.source(), version="1.6.2")

    assert every_key()["kuberayVersion"].default in DIGESTS
    with pytest.raises(ChartError, match=DIGESTS["1.6.2"]):
        find(source, tmp_path)
    monkeypatch.setitem(DIGESTS, "1.6.2", SHA)
    find(source, tmp_path)


@pytest.mark.parametrize("damage", ["archive", "record", "repository"])
def test_a_kept_copy_that_is_not_what_was_fetched_is_fetched_again(
    repository: Repository, tmp_path: Path, damage: str
) -> None:
    """Half written, exchanged, without what is known of it, or of a repository that is no longer named."""
    kept = find(repository.source(), tmp_path).path
    if damage == "archive":
        kept.write_bytes(archive({**NEXT, "crds/rayclusters.yaml": CRD.replace("rayclusters", "others")}))
    elif damage == "record":
        kept.with_suffix(".json").unlink()
    else:
        record = {"repository": "https://charts.example.com", "digest": NEXT_SHA}
        kept.with_suffix(".json").write_text(json.dumps(record))

    assert ["rayclusters.ray.io"] == [crd["metadata"]["name"] for crd in find(repository.source(), tmp_path).crds()]
    assert 4 == len(repository.asked)


def test_an_index_or_an_archive_without_tls_is_not_asked_for(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody on the way could change both; loopback has no way. Neither a redirect nor an index leads there."""
    elsewhere = "http://charts.example.com/index.yaml"
    with monkeypatch.context() as other:
        other.setattr(chart, "CHART_REPOSITORY", "http://charts.example.com/")
        with pytest.raises(ChartError, match=elsewhere):
            find(repository.source(), tmp_path)
    repository.redirects["/index.yaml"] = elsewhere
    with pytest.raises(ChartError, match=elsewhere):
        find(repository.source(), tmp_path)
    repository.redirects.clear()
    for url in ("http://charts.example.com/a.tgz", "file:///etc/passwd"):
        repository["/index.yaml"] = index(NEXT_SHA, url)
        with pytest.raises(ChartError, match=url):
            find(repository.source(), tmp_path)


def test_a_chart_that_can_t_be_fetched_names_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what to put there; Pulumi shows a RunError without its traceback."""

    def refuse(address: str) -> bytes:
        raise OSError("no route")

    monkeypatch.setattr(chart, "_download", refuse)

    with pytest.raises(pulumi.RunError, match=r"(?s)no route.*kuberay-operator-1\.6\.2\.tgz.*set offline"):
        find(Source(None, "1.6.2"), tmp_path)


@pytest.mark.parametrize(
    ("files", "version", "why"),
    [
        (FILES, "1.7.0", r"pulumi config set kuberayVersion 1.6.2"),
        ({"Chart.yaml": FILES["Chart.yaml"]}, "1.6.2", "has no CRDs"),
        ({"values.yaml": "{}"}, "1.6.2", r"kuberay-operator-1\.6\.2\.tgz"),
    ],
    ids=["another version", "without CRDs", "no chart"],
)
def test_an_archive_of_something_else_is_refused(files: dict[str, str], version: str, why: str, path: Path) -> None:
    """CRDs would be those of another version, or there are none, without which no operator starts; and any .tgz can be
    named by mistake."""
    content = archive(files)
    path.write_bytes(content)

    with pytest.raises(ChartError, match=why):
        find(Source(str(path), version, hashlib.sha256(content).hexdigest())).crds()
