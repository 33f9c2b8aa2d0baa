"""Somebody else's application in a namespace of theirs: a server, and customers who ask it all the time."""

import json
from types import TracebackType
from typing import Any

from tests.cluster.story import ClusterProject
from tests.limits import wait_for

CUSTOMER = """
import time, urllib.request
while True:
    try:
        urllib.request.urlopen("http://shop.shop.svc.cluster.local", timeout=10).read()
        print("answered", flush=True)
    except OSError as error:
        print("silent:", error, flush=True)
    time.sleep(0.5)
"""
LURES = {"app.kubernetes.io/name": "kuberay-operator", "app.kubernetes.io/component": "native"}
"""Labels of KubeRay's operator and of ours, which do not make a pod one of ours."""


class Shop:
    """A Deployment and a Service, with a customer in the namespace and one in another. All of it goes at the end."""

    NAME = "shop"
    PLACES = (NAME, "default")

    def __init__(self, project: ClusterProject, image: str) -> None:
        self._project, self._image = project, image

    def __enter__(self) -> "Shop":
        self._project.kubectl("create", "namespace", self.NAME)
        self._apply("deployment", self._deployment("shop", self.NAME, ["python", "-m", "http.server", "8080"]))
        port = {"port": 80, "targetPort": 8080}
        spec = {"selector": {"app": "shop"}, "ports": [port]}
        metadata = {"name": "shop", "namespace": self.NAME}
        self._apply("service", {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        self._project.kubectl("rollout", "status", "deployment/shop", f"--namespace={self.NAME}", "--timeout=120s")
        for place in self.PLACES:
            self._apply(f"customer-{place}", self._deployment("customer", place, ["python", "-c", CUSTOMER]))
            self._project.kubectl("rollout", "status", "deployment/customer", f"--namespace={place}", "--timeout=120s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._project.kubectl("delete", "namespace", self.NAME, "--wait=true")
        self._project.kubectl("delete", "deployment/customer", "--namespace=default")

    def wait_for_answers(self) -> None:
        """Every customer gets three more answers from now on."""
        enough = {place: self._answers(place) + 3 for place in self.PLACES}
        wait_for(lambda: all(self._answers(place) >= n for place, n in enough.items()), "answers")

    def silences(self) -> list[str]:
        """What customers got instead of an answer, ever."""
        lines = [line for place in self.PLACES for line in self._log(place).splitlines()]
        return [line for line in lines if line != "answered"]

    def pods(self) -> list[dict[str, Any]]:
        """All that run in the namespace."""
        return [
            pod
            for pod in self._project.objects("pods", namespace=self.NAME)
            if "deletionTimestamp" not in pod["metadata"]
        ]

    def _answers(self, place: str) -> int:
        return self._log(place).count("answered")

    def _log(self, place: str) -> str:
        return self._project.kubectl("logs", "deployment/customer", f"--namespace={place}")

    def _apply(self, name: str, manifest: dict[str, Any]) -> None:
        path = self._project.folder / f"{name}.json"
        path.write_text(json.dumps(manifest))
        self._project.kubectl("apply", f"--filename={path}")

    def _deployment(self, name: str, namespace: str, command: list[str]) -> dict[str, Any]:
        labels = {"app": name, **LURES}
        container = {"name": name, "image": self._image, "imagePullPolicy": "IfNotPresent", "command": command}
        spec = {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
            },
        }
        metadata = {"name": name, "namespace": namespace}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
