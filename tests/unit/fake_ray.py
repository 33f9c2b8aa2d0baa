"""A server that answers as Ray's dashboard does, for tests without Ray: jobs, packages, nodes, its version."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from training.launch.ray import node_packages

TOKEN = "secret"  # noqa: S105 (the fake server's)
MODULES = (
    "ray",
    "fsspec",
    "pandas",
    "pyarrow",
    "pydantic",
    "requests",
    "numpy",
    "tensorflow",
    "tf_keras",
    "torch",
)
PYTHON = {"versions": {"python": "3.11.9", "ray": "2.60.0", "torch": "2.15.0"}, "modules": list(MODULES)}
"""What an environment has in which everything runs."""


@dataclass
class FakeRay:
    """Jobs by submission id: each GET of a job gives its next state, the last for ever."""

    states: dict[str, list[str]] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    marks: dict[str, dict[str, str]] = field(default_factory=dict)
    """Metadata of jobs."""
    submitted: list[str] = field(default_factory=lambda: ["SUCCEEDED"])
    """States of a job from when it is submitted on."""
    drivers: list[dict[str, Any]] = field(default_factory=list)
    """What connected by itself."""
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    failures: int = 0
    """So many requests are answered with 503 first."""
    address: str = ""
    """Where it serves."""
    version: str = "2.60.0"
    cpus: tuple[float, ...] = (4.0,)
    """Of each node."""
    job: dict[str, Any] = field(default_factory=lambda: dict(PYTHON))
    """As `training.launch.ray.node_packages` tells it of the Python of a job."""
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of nodes, where it differs from that, by address."""
    packages: list[bytes] = field(default_factory=list)
    """What was sent."""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and body."""
        self.requests.append((method, path, body))
        if self.failures:
            self.failures -= 1
            return 503, "not yet"
        if not path.startswith("/api/jobs"):
            return self._of_cluster(method, path, body)
        parts = [part for part in path.removeprefix("/api/jobs").split("/") if part]
        if not parts:
            if method == "POST":
                self.states[body["submission_id"]] = list(self.submitted)
                self.marks[body["submission_id"]] = body["metadata"]
                if node_packages.__name__.rpartition(".")[2] in body["entrypoint"]:
                    self.logs[body["submission_id"]] = self._told()
                return 200, {"submission_id": body["submission_id"]}
            return 200, [*(self._listed(name) for name in self.states), *self.drivers]
        return self._of_job(*parts)

    def _of_cluster(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path.startswith("/api/packages") and method == "PUT":
            self.packages.append(body)
            return 200, {}
        if path == "/api/version":
            return 200, {"ray_version": self.version}
        if not path.startswith("/api/v0/nodes"):
            return 404, "nothing is there"
        nodes = [
            {"node_ip": f"10.0.0.{number}", "state": "ALIVE", "is_head_node": number == 0,
             "resources_total": {"CPU": cpus} if cpus else {}}
            for number, cpus in enumerate(self.cpus)
        ]  # fmt: skip
        return 200, {"data": {"result": {"result": nodes}}}

    def _told(self) -> str:
        """What the job that looks at the nodes prints."""
        told = {"job": self.job, "nodes": {"10.0.0.0": self.job} | self.nodes}
        return f"{node_packages.MARKER}\n{json.dumps(told)}\n"

    def _listed(self, name: str) -> dict[str, Any]:
        entrypoint = f"python {name}.py"
        marks = self.marks.get(name) or None  # as Ray has it where there is none
        return {"submission_id": name, "status": self.states[name][0], "metadata": marks, "entrypoint": entrypoint}

    def _of_job(self, name: str, what: str = "") -> tuple[int, Any]:
        if name not in self.states:
            return 404, "unknown job"
        if what == "logs":
            return 200, {"logs": self.logs.get(name, "")}
        if what == "stop":
            self.states[name] = ["STOPPED"]
            return 200, {"stopped": True}
        states = self.states[name]
        state = states.pop(0) if len(states) > 1 else states[0]
        return 200, {"submission_id": name, "status": state, "message": "it broke"}


@contextmanager
def serving(ray: FakeRay, sends_to: tuple[int, str] | None = None) -> Iterator[str]:
    """The address of a server that answers for `ray`, and asks for its token; or sends all to another, by a status."""

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            if sends_to:
                self.send_response(sends_to[0])
                self.send_header("Location", f"{sends_to[1]}{self.path}")
                self.end_headers()
                return
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length)
            sent = content if self.path.startswith("/api/packages") else json.loads(content or b"null")
            known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
            status, answer = ray.answer(self.command, self.path, sent) if known else (401, "no token")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        do_GET = do_POST = do_PUT = handle_any  # noqa: N815 (the names are the library's)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
