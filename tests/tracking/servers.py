"""MLflow servers of this machine: a real one, one in memory that has as much of the REST API as is used, and bad ones.

In memory is what MLflow's documentation of its REST API says; where a real one is named, the same tests run on both.
"""

import http.client
import json
import os
import re
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.limits import LONGEST_SECONDS, wait_for

PYTHON = os.environ.get("TRY_MLFLOW_PYTHON", "")
NO_SERVER = "TRY_MLFLOW_PYTHON=its/python, of an environment with the package mlflow, runs this on a real server, too"
FILES = "/api/2.0/mlflow-artifacts/artifacts/"
STORE = "mlflow-artifacts:"
"""Where the one in memory says that files go."""
JSON = dict[str, Any]


@dataclass
class Server:
    """One that answers; asked over its REST API, as MLflow's page does."""

    url: str

    def runs(self, experiment: str, *, view: str = "ACTIVE_ONLY") -> list[JSON]:
        """Those of an experiment by name."""
        found = self.ask("GET", f"experiments/get-by-name?experiment_name={experiment.replace('/', '%2F')}")
        wanted = {"experiment_ids": [found["experiment"]["experiment_id"]], "run_view_type": view, "max_results": 1000}
        return list(self.ask("POST", "runs/search", wanted).get("runs", []))

    def history(self, run: JSON, metric: str) -> list[tuple[int, float]]:
        """Steps and values."""
        asked = f"metrics/get-history?run_id={run['info']['run_id']}&metric_key={metric.replace('/', '%2F')}"
        points = self.ask("GET", asked)["metrics"]
        return sorted((int(point.get("step", 0)), float(point["value"])) for point in points)

    def file(self, run: JSON, name: str) -> str:
        """An artifact's content."""
        path = f"{run['info']['experiment_id']}/{run['info']['run_id']}/artifacts/{name}"
        return _request(self.url, "GET", f"{FILES}{path}")[1].decode()

    def ask(self, method: str, path: str, body: JSON | None = None) -> JSON:
        """An answer of MLflow's API."""
        data = json.dumps(body).encode() if body is not None else b""
        return dict(json.loads(_request(self.url, method, f"/api/2.0/mlflow/{path}", data)[1]))


def _request(url: str, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=LONGEST_SECONDS)) as connection:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        return answer.status, answer.read()


def params(run: JSON) -> dict[str, str]:
    """Of a run."""
    return {each["key"]: each["value"] for each in run["data"].get("params", [])}


def tags(run: JSON) -> dict[str, str]:
    """Of a run."""
    return {each["key"]: each["value"] for each in run["data"].get("tags", [])}


def metrics(run: JSON) -> dict[str, float]:
    """The last values."""
    return {each["key"]: float(each["value"]) for each in run["data"].get("metrics", [])}


@dataclass
class _Memory:
    """What a server keeps."""

    experiments: dict[str, str] = field(default_factory=dict)
    runs: dict[str, JSON] = field(default_factory=dict)
    points: dict[str, list[JSON]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    def answer(self, path: str, asked: JSON) -> JSON:
        """To a request of the API; KeyError for what is not there."""
        return {
            "experiments/get-by-name": self._experiment,
            "experiments/create": self._create_experiment,
            "runs/create": self._create,
            "runs/get": lambda asked: {"run": self.runs[asked["run_id"]]},
            "runs/log-batch": self._log,
            "runs/update": self._update,
            "runs/delete": self._delete,
            "runs/search": self._search,
            "metrics/get-history": self._history,
        }[path](asked)

    def _experiment(self, asked: JSON) -> JSON:
        number = self.experiments[asked["experiment_name"]]
        return {"experiment": {"experiment_id": number, "name": asked["experiment_name"], "lifecycle_stage": "active"}}

    def _create_experiment(self, asked: JSON) -> JSON:
        self.experiments[asked["name"]] = str(len(self.experiments) + 1)
        return {"experiment_id": self.experiments[asked["name"]]}

    def _create(self, asked: JSON) -> JSON:
        own, experiment = uuid.uuid4().hex, asked["experiment_id"]
        store = f"{STORE}/{experiment}/{own}/artifacts"
        info = {"run_id": own, "run_uuid": own, "experiment_id": experiment, "run_name": asked["run_name"]}
        info |= {"status": "RUNNING", "lifecycle_stage": "active", "artifact_uri": store}
        self.runs[own] = {"info": info | {"start_time": asked["start_time"]}, "data": {"tags": asked.get("tags", [])}}
        self.points[own] = []
        return {"run": self.runs[own]}

    def _log(self, asked: JSON) -> JSON:
        data = self.runs[asked["run_id"]]["data"]
        data["params"] = data.get("params", []) + asked.get("params", [])
        self.points[asked["run_id"]] += asked.get("metrics", [])
        data["metrics"] = list({point["key"]: point for point in self.points[asked["run_id"]]}.values())
        return {}

    def _update(self, asked: JSON) -> JSON:
        info = self.runs[asked["run_id"]]["info"]
        info |= {key: asked[key] for key in ("status", "end_time") if key in asked}
        return {"run_info": info}

    def _delete(self, asked: JSON) -> JSON:
        self.runs[asked["run_id"]]["info"]["lifecycle_stage"] = "deleted"
        return {}

    def _search(self, asked: JSON) -> JSON:
        views = {"ACTIVE_ONLY": {"active"}, "DELETED_ONLY": {"deleted"}, "ALL": {"active", "deleted"}}
        stages = views[asked.get("run_view_type", "ACTIVE_ONLY")]
        wanted = re.fullmatch(r"tags\.`(.+)` = '(.+)'", asked.get("filter", ""))
        found = [
            run
            for run in self.runs.values()
            if run["info"]["experiment_id"] in asked["experiment_ids"] and run["info"]["lifecycle_stage"] in stages
        ]
        return {"runs": [run for run in found if not wanted or tags(run).get(wanted[1]) == wanted[2]]}

    def _history(self, asked: JSON) -> JSON:
        return {"metrics": [each for each in self.points[asked["run_id"]] if each["key"] == asked["metric_key"]]}


@contextmanager
def in_memory() -> Iterator[Server]:
    """The part of an MLflow server that is used."""
    memory = _Memory()

    class Handler(_Quiet):
        """Its API, and its artifacts."""

        def answer(self) -> None:
            path, _, query = self.path.partition("?")
            if path.startswith(FILES):
                self._file(path.removeprefix(FILES))
                return
            asked = {key: values[0] for key, values in parse_qs(query).items()} | json.loads(self.content() or b"{}")
            try:
                self.say(200, memory.answer(path.removeprefix("/api/2.0/mlflow/"), asked))
            except KeyError as error:
                self.say(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"no {error}"})

        def _file(self, name: str) -> None:
            if self.command == "PUT":
                memory.files[name] = self.content()
                self.say(200, {})
            else:
                self.say(200, memory.files[name])

    with _serving(Handler) as url:
        yield Server(url)


@contextmanager
def real(folder: Path) -> Iterator[Server]:
    """MLflow's own, with a database and artifacts in `folder`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [PYTHON, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += [
        "--backend-store-uri",
        f"sqlite:///{folder}/mlflow.db",
        "--artifacts-destination",
        str(folder / "files"),
    ]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (folder / "log").open("w") as log:
        started = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        wait_for(lambda: _answers(f"http://127.0.0.1:{port}", started, folder / "log"), "MLflow answers")
        yield Server(f"http://127.0.0.1:{port}")
    finally:
        started.terminate()
        started.wait()


def _answers(address: str, started: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert started.poll() is None, log.read_text()
    with suppress(OSError):
        _request(address, "GET", "/health")
        return True
    return False


class _Quiet(BaseHTTPRequestHandler):
    """Answers every method alike, and prints nothing."""

    def answer(self) -> None:
        """To one request."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.answer()

    do_POST = do_PUT = do_GET  # noqa: N815 (as its parent calls them)

    def content(self) -> bytes:
        """What came with it."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def say(self, status: int, answer: JSON | bytes) -> None:
        """JSON, or the bytes as they are."""
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(answer, bytes) else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (its parent's name)
        """Not on the terminal."""


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def that_says(status: int, answer: JSON | bytes, seen: list[str] | None = None) -> Iterator[str]:
    """To everything; `seen` gets what each request let itself in with."""

    class Handler(_Quiet):
        """One answer."""

        def answer(self) -> None:
            self.content()
            if seen is not None:
                seen.append(self.headers.get("Authorization", ""))
            self.say(status, answer)

    with _serving(Handler) as url:
        yield url


@contextmanager
def that_trickles() -> Iterator[str]:
    """A byte now and then, for ever: no timeout of a request sees that."""

    class Handler(_Quiet):
        """An answer without an end."""

        def answer(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(b" ")
                    time.sleep(0.1)

    with _serving(Handler) as url:
        yield url


@dataclass
class Gate:
    """Hands requests on to a server, counts those that change something, and can break off."""

    url: str = ""
    changes: int = 0
    dies_after: int | None = None
    """Changes after which nothing is answered any more."""
    requests: list[bytes] = field(default_factory=list)

    @property
    def is_dead(self) -> bool:
        """Whether it has broken off."""
        return self.dies_after is not None and self.changes >= self.dies_after


@contextmanager
def before(server: Server) -> Iterator[Gate]:
    """A gate before a server."""
    gate = Gate()

    class Handler(_Quiet):
        """Passes on, until it does not."""

        def answer(self) -> None:
            body = self.content()
            if gate.is_dead:
                self.close_connection = True
                return
            gate.changes += self.command != "GET" and not self.path.endswith("/search")
            gate.requests.append(body)
            self.say(*_request(server.url, self.command, self.path, body))

    with _serving(Handler) as url:
        gate.url = url
        yield gate


WAYS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {"in memory": lambda _: in_memory(), "real": real}
