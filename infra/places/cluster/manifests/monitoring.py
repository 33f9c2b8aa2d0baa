"""Prometheus beside a stack's Ray cluster, or what one that the cluster has needs to find it. Pure: dicts, no Pulumi.

Ray's pods are found by the DNS names of headless Services, so Prometheus needs neither a token nor rights. The pods of
runs have no metrics: DNS tells how many there are, and no more.
"""

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

import yaml

from infra.places.cluster.manifests import pod_parts
from infra.places.cluster.manifests.jobs import component
from infra.places.cluster.manifests.pod_parts import COMPONENT_LABEL, PROJECT, PROJECT_LABEL, Manifest, Placement, Size
from infra.places.cluster.manifests.ray_cluster import CLUSTER_LABELS, HEAD_LABELS
from infra.places.cluster.manifests.ray_cluster import NAME as RAY_CLUSTER
from infra.settings.cluster import PROMETHEUS, ClusterSettings

NAME = PROMETHEUS
PORT = 9090
SIZE = Size(0.25, "512Mi")
"""The size of Prometheus' pod. Measured with Ray's head and one worker, read every 5 s: 0.5 % of a CPU, 65 MB."""
EVERY_SECONDS = 15
"""The seconds between two readings of a metrics port."""
RAY_PORT = 8080
"""The port of the metrics agent in each Ray pod, as KubeRay sets it."""
HEAD_PORTS = (44217, 44227)
"""The ports of the autoscaler and of the dashboard, which only the head has (Ray's constants)."""
RAY_SERVICE, HEAD_SERVICE = "ray-metrics", "ray-head-metrics"
ARM_PREFIX = "arm-"
"""The prefix in the name of an arm's Service, and of its job in Prometheus."""
CLUSTER_NAME_LABEL = "ray_io_cluster"
"""The label by which Ray's dashboards choose a cluster."""
CONFIG_KEY = "prometheus.yml"
CONFIG_FOLDER, DATA_FOLDER = "/etc/prometheus", "/prometheus"
KEPT = "15d"
KEPT_SIZE, DATA_SIZE = "1GB", "2Gi"
"""Prometheus deletes its oldest data above KEPT_SIZE. DATA_SIZE is the volume's size, which also has to hold the log of
the newest data."""
LABELS = {PROJECT_LABEL: PROJECT, COMPONENT_LABEL: NAME}
"""The labels by which the Deployment selects Prometheus' pod; a Deployment's selector cannot be changed."""
POD_MONITOR = "PodMonitor"
POD_MONITOR_API = "monitoring.coreos.com/v1"
POD_MONITOR_CRD = "podmonitors.monitoring.coreos.com"
_DIGITS = 12


DASHBOARD_PREFIX, DASHBOARD_LABEL = "grafana-", "grafana_dashboard"
DIGEST_ANNOTATION = "ray-worth-it/digest"
"""The annotation with the SHA-256 of a dashboard's text."""
FORWARDED_URL = f"http://127.0.0.1:{PORT}"
"""Prometheus' address while its port is forwarded."""


@dataclass(frozen=True)
class Monitoring:
    """How a stack's Ray cluster is observed."""

    way: str
    """Whose Prometheus reads the metrics: `prometheus`, the stack's own, or `existing`, one that the cluster has."""
    image: str
    """Prometheus' image."""
    placement: Placement
    """The placement of all pods that do not train."""
    namespace: str
    """The namespace whose pods may read the stack's own Prometheus, or the namespace of the Prometheus that exists."""
    arms: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    """The labels by which the Prometheus that exists chooses its PodMonitors."""

    @property
    def hashed(self) -> Manifest:
        """Return what can change a run's result: who reads the metrics of Ray, and how often."""
        return {"by": self.way, "everySeconds": EVERY_SECONDS}


def services(monitoring: Monitoring) -> dict[str, Manifest]:
    """Return the headless Services by name: of Ray's pods, of Ray's head and of each arm. The DNS name of such a
    Service resolves to the addresses of its pods."""
    arms = {f"{ARM_PREFIX}{arm}": {PROJECT_LABEL: PROJECT, COMPONENT_LABEL: component(arm)} for arm in monitoring.arms}
    selectors = {RAY_SERVICE: CLUSTER_LABELS, HEAD_SERVICE: HEAD_LABELS, **arms}
    return {
        name: {"clusterIP": "None", "selector": dict(selector), "ports": _ports(name)}
        for name, selector in selectors.items()
    }


def _ports(service: str) -> list[Manifest]:
    """Return the ports of a headless Service. That of an arm is never called, but a Service needs a port."""
    numbers = HEAD_PORTS if service == HEAD_SERVICE else (RAY_PORT,)
    return [{"name": f"tcp-{number}", "port": number, "protocol": "TCP"} for number in numbers]


def service() -> Manifest:
    """Return the Service at which Prometheus answers inside the cluster."""
    return {
        "type": "ClusterIP",
        "selector": dict(LABELS),
        "ports": [{"name": "http", "port": PORT, "targetPort": PORT, "protocol": "TCP"}],
    }


def config(arms: Sequence[str]) -> str:
    """Return Prometheus' configuration. Prometheus reads no metrics from the pods of an arm; it only counts them
    (`prometheus_sd_discovered_targets`)."""
    named = [{"target_label": CLUSTER_NAME_LABEL, "replacement": RAY_CLUSTER}]
    jobs = [
        {"job_name": "ray", "dns_sd_configs": [_dns(RAY_SERVICE, RAY_PORT)], "relabel_configs": named},
        {
            "job_name": "ray-head",
            "dns_sd_configs": [_dns(HEAD_SERVICE, port) for port in HEAD_PORTS],
            "relabel_configs": named,
        },
        {"job_name": NAME, "static_configs": [{"targets": [f"localhost:{PORT}"]}]},
        *(
            {
                "job_name": f"{ARM_PREFIX}{arm}",
                "dns_sd_configs": [_dns(f"{ARM_PREFIX}{arm}", RAY_PORT)],
                "relabel_configs": [{"action": "drop"}],
            }
            for arm in arms
        ),
    ]
    every = {"scrape_interval": f"{EVERY_SECONDS}s", "scrape_timeout": "10s"}
    text: str = yaml.safe_dump({"global": every, "scrape_configs": jobs}, sort_keys=False)
    return text


def _dns(name: str, port: int) -> Manifest:
    return {"names": [name], "type": "A", "port": port, "refresh_interval": "5s"}


def config_map(monitoring: Monitoring) -> tuple[str, Manifest]:
    """Return the name, which has a hash, and the contents of the ConfigMap with Prometheus' configuration."""
    text = config(monitoring.arms)
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    return f"{NAME}-{digest}", {"immutable": True, "data": {CONFIG_KEY: text}}


def deployment(monitoring: Monitoring) -> Manifest:
    """Return the spec of the Deployment of Prometheus: one pod, with whose end its data is deleted."""
    name, _ = config_map(monitoring)
    main = pod_parts.container(NAME, monitoring.image, SIZE)
    main |= {
        "args": [
            f"--config.file={CONFIG_FOLDER}/{CONFIG_KEY}",
            f"--storage.tsdb.path={DATA_FOLDER}",
            f"--storage.tsdb.retention.time={KEPT}",
            f"--storage.tsdb.retention.size={KEPT_SIZE}",
        ],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/-/ready", "port": PORT}, "periodSeconds": 5},
    }
    pod = pod_parts.pod(main, bare(monitoring.placement))
    pod = pod_parts.mounted(pod, "config", CONFIG_FOLDER, {"configMap": {"name": name}})
    pod = pod_parts.mounted(pod, "data", DATA_FOLDER, {"emptyDir": {"sizeLimit": DATA_SIZE}}, read_only=False)
    return {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": dict(LABELS)},
        "template": {"metadata": pod_parts.metadata(monitoring.placement, NAME), "spec": pod},
    }


def bare(placement: Placement) -> Placement:
    """Return the placement for a pod that is not Ray's: without the project's modules and without shared memory."""
    return replace(placement, modules=None, shared_memory=None)


def dashboard_object(name: str, text: str) -> Manifest:
    """Return the ConfigMap of a Grafana dashboard, with the label by which Grafana's usual sidecar finds it."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{DASHBOARD_PREFIX}{name}-{digest[:_DIGITS]}",
            "labels": {DASHBOARD_LABEL: "1"},
            "annotations": {DIGEST_ANNOTATION: digest},
        },
        "immutable": True,
        "data": {f"{name}.json": text},
    }


def pod_monitor(monitoring: Monitoring) -> Manifest:
    """Return the PodMonitor. The two ports that only the head has are not in the spec of its pod, which must be the
    same with and without monitoring; the PodMonitor therefore puts them into the pod's address."""
    every = {"interval": f"{EVERY_SECONDS}s", "scrapeTimeout": "10s"}
    named = {"targetLabel": CLUSTER_NAME_LABEL, "replacement": RAY_CLUSTER}
    of_head = {"sourceLabels": ["__meta_kubernetes_pod_label_ray_io_node_type"], "action": "keep", "regex": "head"}
    endpoints: list[Manifest] = [{"port": "metrics", **every, "relabelings": [named]}]
    for port in HEAD_PORTS:
        moved = {
            "sourceLabels": ["__address__"],
            "regex": r"(.+):\d+",
            "targetLabel": "__address__",
            "replacement": f"$1:{port}",
        }
        endpoints.append({"port": "metrics", **every, "relabelings": [of_head, moved, named]})
    return {
        "apiVersion": POD_MONITOR_API,
        "kind": POD_MONITOR,
        "metadata": {"name": RAY_SERVICE, "labels": dict(monitoring.labels)},
        "spec": {"selector": {"matchLabels": dict(CLUSTER_LABELS)}, "podMetricsEndpoints": endpoints},
    }


def addresses(cluster: ClusterSettings, kubeconfig: str) -> list[str]:
    """Return lines for the user: Prometheus' address with the command that makes it answer on this machine, and
    Grafana's address. Each line is there only if the stack has that program."""
    way = [f"--kubeconfig={kubeconfig}", f"--namespace={cluster.namespace}"]
    command = shlex.join(["kubectl", *way, "port-forward", f"service/{NAME}", str(PORT)])
    prometheus = [f"Prometheus: {FORWARDED_URL}, while this runs:  {command}"] if cluster.monitoring == NAME else []
    return prometheus + ([f"Grafana: {cluster.grafana_url}"] if cluster.grafana_url else [])
