"""An API server for tests, over real HTTP: it has what it is given and what is made, filters, patches, deletes.

Not Kubernetes: it validates nothing. What a real one makes of the same requests is tested on a real cluster.
"""

import base64
import gzip
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from infra.places.cluster.manifests.pod_parts import RUN_LABEL, STACK_ANNOTATION

NAMESPACE = "ray-system"
TOKEN = "d3b07384d113edec49eaa6238ad5ff00"  # noqa: S105 (made up)


class Api:
    """Objects by path, and texts (logs) by path; a path that is a list answers with what was put below it."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.texts: dict[str, str] = {}
        self.forbidden: set[str] = set()
        self.refused: dict[str, int] = {}
        """Other statuses than 403, by path."""
        self.headers: dict[str, str] = {}
        """Headers of all answers."""
        self.expired = False
        """Whether nobody's credentials are taken."""
        self.asked: list[str] = []
        self.on_patch: Callable[[dict[str, Any]], None] = _controlled
        self.on_create: Callable[[dict[str, Any]], None] = lambda _: None
        self.on_delete: Callable[[dict[str, Any]], None] = lambda _: None
        self.url = ""

    def put(self, group: str, kind: str, item: dict[str, Any], namespace: str = "") -> None:
        """Add an object: `put("/api/v1", "pods", pod, "ray-system")`."""
        scope = f"/namespaces/{namespace}" if namespace else ""
        self.objects[f"{group}{scope}/{kind}/{item['metadata']['name']}"] = item

    def _made(self, path: str, item: dict[str, Any]) -> tuple[int, str]:
        self.objects[f"{path}/{item['metadata']['name']}"] = item
        self.on_create(item)
        return 201, json.dumps(item)

    def _text(self, path: str, query: Mapping[str, list[str]]) -> tuple[int, str]:
        limits = query.get("limitBytes", ())
        return 200, self.texts[path][: int(limits[0]) if limits else None]

    def answer(self, method: str, path: str, query: Mapping[str, list[str]], change: Any = None) -> tuple[int, str]:
        """Status and body."""
        self.asked.append(f"{method} {path}")
        if self.expired or path in self.forbidden or path in self.refused:
            return 401 if self.expired else self.refused.get(path, 403), json.dumps({"message": f"{path} is forbidden"})
        if method == "PATCH" and "force" in query:  # a server-side apply, which makes what is not there
            self.objects.setdefault(path, {})
        if path in self.objects:
            if method == "DELETE":
                self.on_delete(gone := self.objects.pop(path))
                return 200, json.dumps(gone)
            if method == "PATCH":
                _merge(self.objects[path], change)
                self.on_patch(self.objects[path])
            return 200, json.dumps(self.objects[path])
        if path in self.texts or method == "POST":
            return self._text(path, query) if path in self.texts else self._made(path, change)
        group, _, kind = path.rpartition("/")
        pattern = re.compile(rf"{group}(?:/namespaces/[^/]+)?/{kind}/[^/]+")
        items = [item for name, item in self.objects.items() if pattern.fullmatch(name)]
        if path == "/version" or items or kind in _LISTS:
            chosen = [item for item in items if _matches(item, query.get("labelSelector", [""])[0])]
            return 200, json.dumps({"items": chosen})
        return 404, json.dumps({"message": f"{path} not found"})


_LISTS = {"limitranges", "pods", "resourcequotas", "jobs", "nodes", "secrets", "events", "services", "deployments"}
_LISTS |= {"localqueues", "workloads"}


def _matches(item: Mapping[str, Any], selector: str) -> bool:
    """Of the selector language what is used here: `key=value`, `key`, `key in (a,b)`."""
    labels = item["metadata"].get("labels") or {}
    for part in re.findall(r"[^,(]+(?:\([^)]*\))?", selector):
        key, wanted = re.fullmatch(r"([^ =]+)(?:=(.*)| in \((.*)\))?", part.strip()).groups()[0], part  # type: ignore[union-attr]
        if " in (" in wanted:
            allowed = wanted[wanted.index("(") + 1 : -1].split(",")
        else:
            allowed = [wanted.partition("=")[2]] if "=" in wanted else [labels.get(key, "")]
        if key not in labels or labels[key] not in allowed:
            return False
    return True


def _merge(item: dict[str, Any], change: Mapping[str, Any]) -> None:
    """A merge patch without its nulls (RFC 7396)."""
    for key, value in change.items():
        if isinstance(value, dict):
            _merge(item.setdefault(key, {}), value)
        else:
            item[key] = value


def _controlled(item: dict[str, Any]) -> None:
    """What the Job controller makes of a deadline that has passed."""
    if "activeDeadlineSeconds" in item.get("spec", {}):
        item["status"]["conditions"] = [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]


@contextmanager
def serving(folder: Path, certificate: Path | None = None) -> Iterator[tuple[Api, str]]:
    """A running server, and the path of a kubeconfig for it; over TLS with a file of a key and its certificate."""
    api = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length", 0))
            change = json.loads(self.rfile.read(length)) if length else None
            status, body = api.answer(self.command, url.path, parse_qs(url.query), change)
            self.send_response(status)
            for header in {"Content-Length": str(len(body.encode())), **api.headers}.items():
                self.send_header(*header)
            self.end_headers()
            self.wfile.write(body.encode())

        do_DELETE = do_PATCH = do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if certificate:
            secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            secured.load_cert_chain(certificate)
            server.socket = secured.wrap_socket(server.socket, server_side=True)
        api.url = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield api, str(write_kubeconfig(folder / "kubeconfig", api.url, certificate))
        finally:
            server.shutdown()
            thread.join()


def trust_without_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a user's kubeconfig name this server, which is refused otherwise: it has no certificate."""
    monkeypatch.setattr("infra.places.kubernetes.kubeconfig._pinned", lambda _name, cluster, _source: cluster)


def write_kubeconfig(path: Path, url: str, authority: Path | None = None) -> Path:
    """One context, `test`."""
    trusted = {"certificate-authority": f"{authority}.crt"} if authority else {}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "there", "user": "me"}}],
        "clusters": [{"name": "there", "cluster": {"server": url} | trusted}],
        "users": [{"name": "me", "user": {"token": "kubeconfig-token-of-mine"}}],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def node(name: str, cpu: str = "4", memory: str = "8Gi", **spec: Any) -> dict[str, Any]:
    """A node that is ready."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory},
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.34.4"},
        },
    }


def pod(name: str, phase: str = "Running", labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """A pod with one container, ready while it runs; `state` is the container's, `created` the time of its making."""
    state = more.get("state", {"running": {}})
    conditions = [{"type": "Ready", "status": str(phase == "Running")}]
    return {
        "metadata": {
            "name": name,
            "labels": labels or {},
            "creationTimestamp": more.get("created", "2025-03-01T12:00:00Z"),
        },
        "spec": {"nodeName": "one", "containers": [{"name": "main"}]},
        "status": {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": state}],
        },
    }


def job(name: str, run: str, condition: str = "", stack: str = "", **status: Any) -> dict[str, Any]:
    """A Job of a run, which has ended where it has a condition; of a stack, where it has one."""
    conditions = {"conditions": [{"type": condition, "status": "True"}]} if condition else {}
    template = {"metadata": {"labels": {RUN_LABEL: run} if run else {}}}
    annotations = {STACK_ANNOTATION: stack} if stack else {}
    metadata = {"name": name, "creationTimestamp": "2025-03-01T12:00:00Z", "annotations": annotations}
    return {"metadata": metadata, "spec": {"template": template}, "status": status | conditions}


def helm_revision(name: str, release: str, status: str) -> dict[str, Any]:
    """A revision as Helm keeps it: JSON, packed, in base64, in a Secret."""
    packed = gzip.compress(json.dumps({"name": release, "info": {"status": status}, "version": 1}).encode())
    data = {"release": base64.b64encode(base64.b64encode(packed)).decode()}
    return {"metadata": {"name": name, "labels": {"owner": "helm", "name": release, "status": status}}, "data": data}


def secret(name: str, values: dict[str, str], labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A Secret with these values."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"metadata": {"name": name, "labels": labels or {}}, "type": "Opaque", "data": data}
