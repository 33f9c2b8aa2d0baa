"""The namespace and who may talk to whom in it: nobody, and then what the arms need. Pure: dicts, no Pulumi."""

from dataclasses import dataclass

from infra.pod_spec import COMPONENT_LABEL, PROJECT, PROJECT_LABEL, Manifest
from infra.ray_cluster_spec import CLUSTER_LABELS, DASHBOARD_PORT, HEAD_LABELS
from training.peers import PORT as NATIVE_PORT

POD_RANGE = "10.244.0.0/16"
"""Minikube's pods: kubeadm's default, which all of its pod networks keep."""
API_SERVER_PORTS = (443, 6443, 8443)
OPERATOR_LABELS = {"app.kubernetes.io/name": "kuberay-operator"}


def namespace(name: str) -> Manifest:
    """The namespace, in which only pods of Pod Security `restricted` are admitted."""
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return {"metadata": {"name": name, "labels": {PROJECT_LABEL: PROJECT, **levels}}}


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """What differs between stacks."""

    create_namespace: bool
    operator: bool
    """KubeRay's operator runs in the namespace."""
    node_port: bool
    """The dashboard has one."""


def policies(settings: NetworkSettings) -> dict[str, Manifest]:
    """The specs of the network policies by name."""
    found = {
        "default-deny": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        "names": _names(),
        "ray-cluster": _among(CLUSTER_LABELS),
        "native-workers": _among(_component("native"), NATIVE_PORT),
        "submitter": _to_head(),
        "dashboard": _from_submitter(),
    }
    if settings.operator:
        found["operator"] = _to_api_server()
    if settings.node_port:
        found["dashboard-node-port"] = _from_nodes()
    return found


def _component(name: str) -> dict[str, str]:
    return {COMPONENT_LABEL: name}


def _tcp(*ports: int) -> list[Manifest]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _names() -> Manifest:
    """Every pod may ask the cluster's DNS."""
    servers = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    ports = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    return {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [servers], "ports": ports}]}


def _among(chosen: dict[str, str], *ports: int) -> Manifest:
    """Pods with these labels may talk to each other; on all ports where none is given (Ray's workers choose theirs)."""
    peers = [{"podSelector": {"matchLabels": dict(chosen)}}]
    limit = {"ports": _tcp(*ports)} if ports else {}
    return {
        "podSelector": {"matchLabels": dict(chosen)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": peers, **limit}],
        "egress": [{"to": peers, **limit}],
    }


def _to_head() -> Manifest:
    return {
        "podSelector": {"matchLabels": _component("ray-submitter")},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"podSelector": {"matchLabels": HEAD_LABELS}}], "ports": _tcp(DASHBOARD_PORT)}],
    }


def _from_submitter() -> Manifest:
    return {
        "podSelector": {"matchLabels": HEAD_LABELS},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [{"podSelector": {"matchLabels": _component("ray-submitter")}}], "ports": _tcp(DASHBOARD_PORT)}
        ],
    }


def _from_nodes() -> Manifest:
    """What comes through a NodePort has a node's address; pods, which have their own, are left out."""
    return {
        "podSelector": {"matchLabels": HEAD_LABELS},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": [POD_RANGE]}}], "ports": _tcp(DASHBOARD_PORT)}
        ],
    }


def _to_api_server() -> Manifest:
    """Its address is not known before the cluster is: the ports alone."""
    return {
        "podSelector": {"matchLabels": OPERATOR_LABELS},
        "policyTypes": ["Egress"],
        "egress": [{"ports": _tcp(*API_SERVER_PORTS)}],
    }
