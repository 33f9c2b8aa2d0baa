"""Two clusters that somebody may take for each other, and the kubeconfig of a user who has both."""

import base64
import os
import socket
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.places.cluster.api import kube
from training.machine.port_forward import copy_both_ways

NAMESPACE = "training"
NAMES = ("made-by-the-stack", "made-after-it")
"""Of what the stack makes, and of what the other cluster has already: a deletion goes by names."""


@dataclass(frozen=True)
class Cluster:
    """An API server, and its administrator's kubeconfig."""

    path: Path

    @property
    def entry(self) -> dict[str, Any]:
        """The cluster's part of a kubeconfig, its authority embedded."""
        given = yaml.safe_load(self.path.read_text())["clusters"][0]["cluster"]
        authority = base64.b64encode(Path(given["certificate-authority"]).read_bytes()).decode()
        return {"server": given["server"], "certificate-authority-data": authority}

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.entry["server"].rpartition(":")[2])

    @property
    def uid(self) -> str:
        """What it is known by."""
        return str(self.get("/api/v1/namespaces/kube-system")["metadata"]["uid"])

    def get(self, path: str) -> Any:
        """What it has there."""
        return kube.get(kube.connect(str(self.path)), path)

    def objects(self) -> dict[str, tuple[str, str]]:
        """Uid and version of each object of these names: equal when nobody has touched one."""
        items = [item["metadata"] for item in self.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps")["items"]]
        return {meta["name"]: (meta["uid"], meta["resourceVersion"]) for meta in items if meta["name"] in NAMES}

    def make_namespace(self) -> None:
        """The one that the tests use, where it is not there yet."""
        from kubernetes.client import CoreV1Api
        from kubernetes.client.exceptions import ApiException

        with suppress(ApiException):
            CoreV1Api(kube.client(str(self.path))).create_namespace({"metadata": {"name": NAMESPACE}})

    def make_objects(self) -> None:
        """Somebody else's, of the names that the stack uses."""
        from kubernetes.client import CoreV1Api

        core = CoreV1Api(kube.client(str(self.path)))
        for name in NAMES:
            core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": name}, "data": {"whose": "another's"}})

    def remove_objects(self) -> None:
        """What a test that failed has left."""
        from kubernetes.client import CoreV1Api

        core = CoreV1Api(kube.client(str(self.path)))
        for name in self.objects():
            core.delete_namespaced_config_map(name, NAMESPACE)


class User:
    """Somebody with a kubeconfig whose credentials come from a program beside it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "config"
        program = folder / "credentials"
        program.write_text(f"#!/bin/sh\necho '{_CREDENTIAL}'\n")
        program.chmod(stat.S_IRWXU)

    def has(self, contexts: Mapping[str, dict[str, Any]], current: str) -> None:
        """Write the kubeconfig: cluster entries by the name of their context."""
        program = {"apiVersion": _EXEC, "command": f".{os.sep}credentials", "interactiveMode": "Never"}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": current,
            "users": [{"name": "me", "user": {"exec": program}}],
            "clusters": [{"name": f"of-{name}", "cluster": entry} for name, entry in contexts.items()],
            "contexts": [{"name": name, "context": {"cluster": f"of-{name}", "user": "me"}} for name in contexts],
        }
        self.file.write_text(yaml.safe_dump(content))


_EXEC = "client.authentication.k8s.io/v1"
_CREDENTIAL = f'{{"apiVersion": "{_EXEC}", "kind": "ExecCredential", "status": {{"token": "a-token"}}}}'


class Address:
    """A port behind which one cluster or another is."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.target = 0
        self.server = f"https://127.0.0.1:{listener.getsockname()[1]}"

    def serve(self) -> None:
        """Until the listener is closed."""
        with suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(accepted,), daemon=True).start()

    def _forward(self, accepted: socket.socket) -> None:
        with suppress(OSError), accepted, socket.create_connection(("127.0.0.1", self.target)) as remote:
            copy_both_ways(accepted, remote)


@contextmanager
def address() -> Iterator[Address]:
    """An address whose cluster can be exchanged."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Address(listener)
        serving = threading.Thread(target=made.serve, daemon=True)
        serving.start()
        yield made
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
