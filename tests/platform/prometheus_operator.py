"""A real Prometheus Operator as a process, and the Prometheus that it configures.

The program is cmd/operator of the Go module github.com/prometheus-operator/prometheus-operator, on PATH or where
TRY_PROMETHEUS_OPERATOR says; its CRDs are in PROMETHEUS_OPERATOR_CRDS, the module's folder
example/prometheus-operator-crd. `go install` refuses the module for its `replace` lines: build it in a copy without
them. A Prometheus that was built without the discovery of pods, as Debian's was, is given what that would find.
"""

import base64
import gzip
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from tests.apiserver import control_plane
from tests.metrics import prometheus
from tests.platform import programs
from tests.platform.cluster import Cluster
from tests.platform.programs import Object
from tests.ports import free_ports

PROGRAM, CRDS = "TRY_PROMETHEUS_OPERATOR", "PROMETHEUS_OPERATOR_CRDS"
KINDS = ("prometheuses", "podmonitors", "servicemonitors", "probes", "prometheusrules", "scrapeconfigs")
"""Those that the operator asks for before it configures a Prometheus."""
API = "monitoring.coreos.com/v1"
NAME = "platform"
"""The Prometheus."""
CHOSEN_BY = {"release": "kube-prometheus-stack"}
"""The labels by which it chooses PodMonitors, of all namespaces: as the Helm chart of that name has it."""
CONFIG_KEY = "prometheus.yaml.gz"
DISCOVERY = "kubernetes_sd_configs"
SHARD = "$(SHARD)"
"""What the pod's own sidecar replaces by the pod's number, of those that share the targets."""


def program() -> str | None:
    """The path of the operator's program; None if there is none."""
    return os.environ.get(PROGRAM) or shutil.which("operator", path=control_plane.search_path())


def missing() -> str:
    """What is missing, as a reason to skip a test; "" if nothing is."""
    if program() is None:
        return f"no program `operator` of a Prometheus Operator, neither on PATH nor named by {PROGRAM}"
    if not _crd_files():
        return f"{CRDS} does not name the folder example/prometheus-operator-crd of the Prometheus Operator"
    return ""


def _crd_files() -> list[Path]:
    folder = Path(os.environ.get(CRDS, "/nowhere"))
    files = [folder / f"monitoring.coreos.com_{kind}.yaml" for kind in KINDS]
    return files if all(file.is_file() for file in files) else []


@contextmanager
def running(kubeconfig: Path) -> Iterator[Path]:
    """Start the operator; gives its log. The CRDs are left."""
    programs.define(kube.connect(str(kubeconfig)), [yaml.safe_load(file.read_bytes()) for file in _crd_files()])
    log = kubeconfig.with_name("prometheus-operator.log")
    (port,) = free_ports(1)
    command = ["env", f"KUBECONFIG={kubeconfig}", str(program()), f"--web.listen-address=127.0.0.1:{port}"]
    with ExitStack() as started:
        control_plane.start(started, command, log)
        yield log


def make_prometheus(cluster: Cluster) -> None:
    """Let the operator configure a Prometheus of the namespace, without a pod; it asks the API server from here."""
    kubeconfig = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    (server,), (user,) = ([each[kind] for each in kubeconfig[f"{kind}s"]] for kind in ("cluster", "user"))
    spec = {
        "replicas": 0,
        "podMonitorSelector": {"matchLabels": CHOSEN_BY},
        "podMonitorNamespaceSelector": {},
        "apiserverConfig": {
            "host": server["server"],
            "bearerToken": user["token"],
            "tlsConfig": {"caFile": server["certificate-authority"]},
        },
        **({"version": version()} if prometheus.program() else {}),
    }
    make(cluster, {"apiVersion": API, "kind": "Prometheus", "metadata": {"name": NAME}, "spec": spec}, "prometheuses")


def make(cluster: Cluster, item: Object, plural: str) -> None:
    """Make an object of the operator's in the namespace."""
    kube.create(cluster.api, cluster.path(f"{API}/{plural}"), item)


def version() -> str:
    """The version of Prometheus' program, for which the operator writes."""
    said = subprocess.run([str(prometheus.program()), "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[2].partition("+")[0]


def configuration(cluster: Cluster) -> dict[str, Any]:
    """What the operator has written for it, as its one pod reads it; empty while it has written nothing."""
    try:
        secret = kube.find(cluster.api, cluster.path("v1/secrets", f"prometheus-{NAME}"))
    except KubeError:
        return {}
    packed = ((secret or {}).get("data") or {}).get(CONFIG_KEY)
    text = gzip.decompress(base64.b64decode(packed)).decode() if packed else "{}"
    return dict(yaml.safe_load(text.replace(SHARD, "0")))


def promtool() -> str | None:
    """The path of Prometheus' own tool, beside its program; None if there is none."""
    folder = Path(shutil.which(prometheus.program() or "") or "/nowhere").parent
    return shutil.which("promtool", path=str(folder))


def refusal(config: Mapping[str, Any], folder: Path) -> str:
    """What Prometheus has against a configuration; "" if nothing."""
    file = folder / "checked.yaml"
    file.write_text(yaml.safe_dump(dict(config)))
    command = [str(promtool()), "check", "config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def readable(config: Mapping[str, Any], api: Any, folder: Path) -> dict[str, Any]:
    """The configuration for the Prometheus that is here, which finds the pods by itself or is given them."""
    if f"{DISCOVERY} not found" not in refusal(config, folder):
        return dict(config)
    return {**config, "scrape_configs": [_with_pods(job, api) for job in config["scrape_configs"]]}


def _with_pods(job: Mapping[str, Any], api: Any) -> dict[str, Any]:
    (discovery,) = job[DISCOVERY]
    names = discovery["namespaces"]["names"]
    pods = [pod for pod in kube.items(api, "/api/v1/pods") if pod["metadata"]["namespace"] in names]
    of_pods = [target for pod in pods for target in _targets(pod)]
    return {name: value for name, value in job.items() if name != DISCOVERY} | {"static_configs": of_pods}


def _targets(pod: Object) -> list[Object]:
    """What the discovery of pods finds of one: a target for each port of each container, one for a container without
    any; as https://prometheus.io/docs/prometheus/latest/configuration/configuration/#pod has it."""
    metadata, address = pod["metadata"], pod["status"]["podIP"]
    of_pod = {"namespace": metadata["namespace"], "pod_name": metadata["name"], "pod_phase": pod["status"]["phase"]}
    for name, value in metadata.get("labels", {}).items():
        label = re.sub(r"[^a-zA-Z0-9_]", "_", name)
        of_pod |= {f"pod_label_{label}": value, f"pod_labelpresent_{label}": "true"}
    targets = []
    for container in [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]:
        for port in container.get("ports") or [{}]:
            number, name = port.get("containerPort"), port.get("name", "")
            of_port = {"pod_container_name": container["name"], "pod_container_port_name": name}
            labels = {f"__meta_kubernetes_{key}": value for key, value in {**of_pod, **of_port}.items()}
            targets.append({"targets": [f"{address}:{number}" if number else address], "labels": labels})
    return targets
