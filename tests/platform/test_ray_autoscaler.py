"""Ray's own autoscaler with the token that the head's pod mounts for it: workers come when asked for, and go when idle.

kwok plays the nodes; here the processes of Ray's pods run as well, on loopback. A token is at one path alone, so the
autoscaler has a mount namespace of its own.
"""

import itertools
import os
import re
import secrets
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from infra.places.cluster.api import idle_workers, kube, ray_scale
from infra.places.cluster.manifests import ray_autoscaler, ray_cluster
from tests import ray_head
from tests.limits import wait_for
from tests.platform.cluster import Cluster, settings
from tests.platform.programs import Object
from tests.ports import free_ports
from tests.ray_head import PYTHON
from training.launch import environment
from training.launch.ray.driver import LOOPBACK

pytestmark = [ray_head.needed, pytest.mark.slow]
RAY = "ray.io/v1/rayclusters"
IDLE_SECONDS = 10
UP_SECONDS = 240
LEAN = {"RAY_prestart_worker_first_driver": "0", "RAY_USAGE_STATS_ENABLED": "0"}
"""Variables of Ray, which starts no process of Python then that nobody asked for."""
STARTED = "Ray runtime started"
"""What `ray start` says then."""
WORKERS = 2
DRIVER = """
import sys
import ray
from ray.util.placement_group import placement_group
ray.init(address=sys.argv[1], log_to_driver=False)
group = placement_group([{"CPU": float(sys.argv[3])}] * int(sys.argv[2]), strategy="SPREAD")
assert group.wait(float(sys.argv[4]))
"""
"""What Ray Train asks for before it starts its workers: all of them, or none."""
PRIVATE = 'mount -t tmpfs none /var/run/ && mkdir -p "$(dirname "$0")" && ln -s "$1" "$0" && shift && exec "$@"'
"""Puts the folder of a token where Kubernetes has it."""


class Processes:
    """Those of a RayCluster's pods: each starts when Kubernetes says that it runs, and ends with its pod."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._folder, self._running = cluster, folder, dict[str, "subprocess.Popen[bytes]"]()
        (port,) = free_ports(1)
        self.address = f"{LOOPBACK}:{port}"
        path = f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}"
        own = {**LEAN, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.variables = {**os.environ, **own, "HOME": str(folder), "PATH": path}
        self._addresses = (f"127.0.0.{number}" for number in itertools.count(3))
        self._ended = threading.Event()
        self._follows = threading.Thread(target=self._follow)

    def __enter__(self) -> "Processes":
        self._follows.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._follows.join()
        for name, process in self._running.items():
            if process.poll() is None:
                ray_head.end(process)
            print(f"{name}:\n{self.log(name)}")  # what pytest shows of a test that fails

    def start(self, name: str, command: list[str], variables: Mapping[str, str]) -> None:
        """Start one, whose log is in the folder."""
        with (self._folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                command, env={**self.variables, **variables}, stdout=log, stderr=log, start_new_session=True
            )

    def log(self, name: str) -> str:
        """Return the end of a log."""
        with suppress(OSError):
            return (self._folder / f"{name}.log").read_text(errors="replace")[-3000:]
        return ""

    def _follow(self) -> None:
        """Start and end processes as pods come and go, one after another: Ray gives each 30 s to start."""
        while not self._ended.wait(0.5):
            pods = {pod["metadata"]["name"]: pod for pod in self._cluster.pods(**ray_cluster.CLUSTER_LABELS)}
            for name, process in list(self._running.items()):
                has_ended = process.poll() is not None
                if name != ray_autoscaler.CONTAINER and (name not in pods or has_ended):
                    del self._running[name]
                    if not has_ended:
                        ray_head.end(process)
            running = [name for name in pods if name in self._running]
            to_come = [name for name in pods if name not in running and pods[name]["status"].get("phase") == "Running"]
            if to_come and all(STARTED in (self._folder / f"{name}.log").read_text() for name in running):
                self._start_ray(to_come[0], pods[to_come[0]])

    def _start_ray(self, name: str, pod: Object) -> None:
        """Start a pod's Ray by what its container says."""
        main = pod["spec"]["containers"][0]
        (cpus,) = re.findall(r"--num-cpus=(\S+)", " ".join(main["args"]))
        is_head = pod["metadata"]["labels"]["ray.io/node-type"] == "head"
        of_head = [f"--port={self.address.rpartition(':')[2]}", "--head", "--no-monitor", "--include-dashboard=false"]
        role = [*of_head, f"--temp-dir={self._folder / 'r'}"] if is_head else [f"--address={self.address}"]
        ports = ["--min-worker-port=0", "--max-worker-port=0"]
        small = ["--object-store-memory=80000000", "--include-log-monitor=false"]
        own = LOOPBACK if is_head else next(self._addresses)
        ray = [PYTHON, "-m", "ray.scripts.scripts", "start", "--block", f"--node-ip-address={own}"]
        self.start(name, [*ray, f"--num-cpus={cpus}", *ports, *small, *role], _variables(main, pod))


def _variables(container: Object, pod: Object) -> dict[str, str]:
    """Return those of a container that KubeRay gives a text, or the pod's name or a label of its."""
    found = {}
    for each in container.get("env", ()):
        path = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        label = re.fullmatch(r"metadata\.labels\['(.*)'\]", path)
        if label:
            found[each["name"]] = pod["metadata"]["labels"][label[1]]
        elif path in ("metadata.name", "metadata.namespace"):
            found[each["name"]] = pod["metadata"][path.rpartition(".")[2]]
        elif "value" in each and each["name"] not in ("RAY_ADDRESS", "RAY_IP", "FQ_RAY_IP", "RAY_PORT"):
            found[each["name"]] = each["value"]
    return found


def credentials(cluster: Cluster, head: Object, folder: Path) -> Path:
    """Write what the kubelet would put into the volume of the head's pod that the autoscaler's container mounts."""
    (container,) = [each for each in head["spec"]["containers"] if each["name"] == ray_autoscaler.CONTAINER]
    (volume,) = [each["name"] for each in container["volumeMounts"] if each["mountPath"] == ray_autoscaler.TOKEN_PATH]
    (sources,) = [each["projected"]["sources"] for each in head["spec"]["volumes"] if each["name"] == volume]
    folder.mkdir()
    for source in sources:
        if token := source.get("serviceAccountToken"):
            account = cluster.path("v1/serviceaccounts", head["spec"]["serviceAccountName"])
            text = token_of(cluster, f"{account}/token", token["expirationSeconds"])
            (folder / token["path"]).write_text(text)
        elif map_ := source.get("configMap"):
            content = kube.get(cluster.api, cluster.path("v1/configmaps", map_["name"]))["data"]
            for item in map_["items"]:
                (folder / item["path"]).write_text(content[item["key"]])
        else:
            (item,) = source["downwardAPI"]["items"]
            assert "metadata.namespace" == item["fieldRef"]["fieldPath"]
            (folder / item["path"]).write_text(head["metadata"]["namespace"])
    return folder


def token_of(cluster: Cluster, path: str, seconds: int) -> str:
    """Return a token of a ServiceAccount, as a kubelet asks for one."""
    from kubernetes.client import CoreV1Api

    namespace, _, rest = path.partition("/namespaces/")[2].partition("/serviceaccounts/")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
    made = CoreV1Api(cluster.api.client).create_namespaced_service_account_token(
        rest.partition("/")[0], namespace, request
    )
    return str(made.status.token)


def autoscaler(head: Object, token: Path, address: str, server: str) -> tuple[list[str], dict[str, str]]:
    """Return the command of KubeRay's container, with the address of this Ray, and its variables."""
    (container,) = [each for each in head["spec"]["containers"] if each["name"] == ray_autoscaler.CONTAINER]
    host, _, port = server.rpartition("/")[2].partition(":")
    variables = {**_variables(container, head), "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT_HTTPS": port}
    said = re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], " ".join(container["args"]))
    (arguments,) = re.findall(r"ray (kuberay-autoscaler .*)", said)
    ray = [PYTHON, "-m", "ray.scripts.scripts", *arguments.split(), f"--gcs-address={address}"]
    private = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    return [*private, "sh", "-c", PRIVATE, ray_autoscaler.TOKEN_PATH, str(token), *ray], variables


@pytest.fixture
def processes(cluster: Cluster) -> Iterator[Processes]:
    """A RayCluster that runs: its head, and Ray's autoscaler beside it."""
    spec = ray_cluster.spec(settings(WORKERS, rayWorkers="autoscaled", idleSeconds=str(IDLE_SECONDS), workerCpus="1"))
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(dir=environment.short_folder(), prefix="ray-")))
        running = held.enter_context(Processes(cluster, folder))
        cluster.make_ray_cluster(spec)
        (head,) = wait_for(
            lambda: [pod for pod in cluster.pods(**ray_cluster.HEAD_LABELS) if pod["spec"].get("nodeName")]
        )
        command, variables = autoscaler(
            head, credentials(cluster, head, folder / "token"), running.address, cluster.api.configuration.host
        )
        running.start(ray_autoscaler.CONTAINER, command, variables)
        yield running


def asked_for(cluster: Cluster) -> int:
    """How many workers KubeRay is to have."""
    return ray_scale.asked_for(ray_scale.read_cluster(cluster.api, cluster.namespace) or {})


def test_workers_come_when_ray_asks_and_go_when_they_are_idle(processes: Processes, cluster: Cluster) -> None:
    """Two of them, by the rights that KubeRay gives alone; then our own wait ends, and nothing is left."""
    assert 0 == asked_for(cluster)
    command = [PYTHON, "-c", DRIVER, processes.address, str(WORKERS), "1", str(UP_SECONDS)]
    driver = subprocess.Popen(command, env=processes.variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        wait_for(lambda: WORKERS == asked_for(cluster))
        (said, _) = driver.communicate(timeout=2 * UP_SECONDS)
    finally:
        driver.kill()
        driver.wait()
    assert 0 == driver.returncode, f"{said.decode()[-2000:]}\n{processes.log(ray_autoscaler.CONTAINER)}"
    assert WORKERS == len(cluster.workers())
    began = time.monotonic()

    assert [] == idle_workers.wait_until_gone(cluster.api, cluster.namespace, "local", IDLE_SECONDS)

    assert time.monotonic() - began > IDLE_SECONDS / 2
    assert (0, []) == (asked_for(cluster), cluster.workers())
