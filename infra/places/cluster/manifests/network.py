"""The namespace and its network policies: deny everything, then allow what the arms need. Pure: dicts, no Pulumi.

In a namespace that this stack creates, every pod is denied first. An existing namespace may contain foreign pods, and
no policy selects those: a selected pod loses all traffic that no policy allows.
"""

import json
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Self
from urllib.parse import urlsplit

from infra.places.cluster.manifests import monitoring as metrics
from infra.places.cluster.manifests.monitoring import Monitoring
from infra.places.cluster.manifests.operator import OPERATOR_LABELS
from infra.places.cluster.manifests.pod_parts import COMPONENT_LABEL, PROJECT, PROJECT_LABEL, Manifest
from infra.places.cluster.manifests.ray_cluster import CLUSTER_LABELS, DASHBOARD_PORT, HEAD_LABELS
from infra.settings.rules import Destination
from infra.settings.storage import Storage

API_SERVER_PORTS = (443, 6443, 8443, 16443, 2040)
"""Ports of an API server: 443 of its Service and of EKS, GKE and AKS; 6443 of kubeadm, k3s and OpenShift; 8443 of
Minikube; 16443 of MicroK8s; 2040 of IBM Cloud."""
OURS = {PROJECT_LABEL: PROJECT}
"""The label of every pod that this project declares. Policies need it beside KubeRay's own labels, because the pods of
foreign Ray clusters have those, too."""
DNS_PORT, OPENSHIFT_DNS_PORT = 53, 5353
CLUSTER_DNS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {
        "matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns", "node-local-dns"]}]
    },
}
OPENSHIFT_DNS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}},
    "podSelector": {"matchLabels": {"dns.operator.openshift.io/daemonset-dns": "default"}},
}
LINK_LOCAL = "169.254.0.0/16"
NODE_CACHES = ("169.254.20.10/32", "169.254.10.10/32")
"""The addresses of a node's DNS cache: NodeLocal DNSCache's and AKS LocalDNS'."""
Network = IPv4Network | IPv6Network
METADATA: tuple[Network, ...] = (
    IPv4Network(LINK_LOCAL),
    IPv6Network("fe80::/10"),
    IPv6Network("fd00:ec2::/32"),  # AWS: of instances, of tasks and of pods
    IPv4Network("168.63.129.16/32"),  # Azure's WireServer, which gives a node its certificates
    IPv6Network("fd20:ce::/64"),  # Google Cloud
    IPv4Network("100.100.100.200/32"),  # Alibaba Cloud
    IPv4Network("192.0.0.192/32"),  # Oracle Cloud
    IPv6Network("fd00:c1::/64"),  # the same
    IPv4Network("192.80.8.124/32"),  # Equinix Metal
)
"""Where clouds hand out a node's credentials: the link-local ranges, and further addresses of single clouds."""
NODE_DNS = (
    LINK_LOCAL,
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "34.118.224.0/20",
)
"""Addresses where a node's DNS cache may answer if the DNS Service's address is not known. NodeLocal DNSCache and AKS
LocalDNS answer at an address of their own, or at the address of the DNS Service, which no pod selector matches. So
these are the link-local, private and shared ranges (RFC 3927, 1918, 6598), and the range that GKE gives its Services.
IPv4 only, because not every network policy agent accepts IPv4 and IPv6 in one rule."""
OF_SERVERS = ("dns", "operator", "autoscaler")
"""The policies that depend on the addresses of the cluster's servers."""

STORAGE_PORTS = {"http": 80, "https": 443}
IN_CLUSTER = (".svc", ".svc.cluster.local")
"""The endings of host names inside the cluster."""
ANYWHERE = ("0.0.0.0/0", "::/0")


def namespace(name: str) -> Manifest:
    """Return the manifest of the namespace, which admits only pods that pass Pod Security `restricted`."""
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return {"metadata": {"name": name, "labels": levels}}


@dataclass(frozen=True)
class Servers:
    """The addresses of the cluster's API server and DNS server; a field is empty if its addresses are not known."""

    api: tuple[tuple[str, int], ...] = ()
    """The API server's addresses with their ports. They include the address of its Service, because not every network
    policy agent sees the address to which the Service's address is translated."""
    dns: tuple[str, ...] = ()
    """The addresses of the cluster's DNS Service."""

    @classmethod
    def from_json(cls, text: str | None) -> Self:
        """Return the servers that `to_json` wrote as text; None gives servers without known addresses."""
        known = json.loads(text or "{}")
        return cls(tuple((address, port) for address, port in known.get("api", ())), tuple(known.get("dns", ())))

    def to_json(self) -> str:
        """Return the servers as text, for a resource's properties."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """The settings that determine a stack's network policies."""

    create_namespace: bool
    operator: bool
    """Whether KubeRay's operator runs in the namespace."""
    pod_range: str | None
    """The range of the pods' addresses if the dashboard has a NodePort; None if the dashboard has no NodePort."""
    native_ports: tuple[int, ...]
    """The ports between pods of the arm `native`. Empty means all ports, which a user's script may need."""
    egress: tuple[Destination, ...] = ()
    """Destinations outside of the cluster that the project's pods may call."""
    monitoring: Monitoring | None = None
    """How the metrics of Ray's pods are read; None if nothing reads them."""
    autoscaled: bool = False
    """Whether Ray's autoscaler runs in the head's pod."""
    storage: Sequence[Manifest] = ()
    """Rules that let the pods reach their storage."""
    servers: Servers = Servers()


def policies(settings: NetworkSettings) -> dict[str, Manifest]:
    """Return the specs of the network policies by name."""
    everyone: Manifest = {} if settings.create_namespace else {"matchLabels": dict(OURS)}
    specs: dict[str, Manifest] = {
        "default-deny": {"podSelector": everyone, "policyTypes": ["Ingress", "Egress"]},
        "dns": {"podSelector": everyone, "policyTypes": ["Egress"], "egress": _to_dns(settings.servers)},
        "ray-cluster": _among({**OURS, **CLUSTER_LABELS}),
        "native-workers": _among(_component("native"), *settings.native_ports),
        "submitter": _to_head(),
        "dashboard": _from_submitter(),
    }
    if settings.egress:
        specs["egress"] = _to_outside(settings.egress)
    if settings.storage:
        specs["storage"] = _to_storage(settings.storage)
    if settings.monitoring:
        specs |= _metrics(settings.monitoring)
    if settings.autoscaled:
        specs["autoscaler"] = {
            "podSelector": _head(),
            "policyTypes": ["Egress"],
            "egress": _to_api_server(settings.servers),
        }
    if settings.operator:
        specs["operator"] = _operator(settings.servers)
    if settings.pod_range:
        specs["dashboard-node-port"] = _from_nodes(settings.pod_range)
    return specs


def object_name(policy: str) -> str:
    """Return the name of a policy's object, with a prefix: others of the namespace may be called `default-deny`."""
    return f"{PROJECT}-{policy}"


def _component(name: str) -> dict[str, str]:
    return {**OURS, COMPONENT_LABEL: name}


def _head() -> Manifest:
    return {"matchLabels": {**OURS, **HEAD_LABELS}}


def _ports(*ports: int, protocols: tuple[str, ...] = ("TCP",)) -> list[Manifest]:
    return [{"protocol": protocol, "port": port} for port in ports for protocol in protocols]


def _to_dns(servers: Servers) -> list[Manifest]:
    """Return the rules that allow the cluster's DNS in every distribution, but no DNS server of the Internet."""
    both = ("UDP", "TCP")
    caches = (*map(_only, servers.dns), *NODE_CACHES) if servers.dns else NODE_DNS
    return [
        {
            "to": [CLUSTER_DNS, *({"ipBlock": {"cidr": cidr}} for cidr in caches)],
            "ports": _ports(DNS_PORT, protocols=both),
        },
        {"to": [OPENSHIFT_DNS], "ports": _ports(OPENSHIFT_DNS_PORT, protocols=both)},
    ]


def _among(chosen: dict[str, str], *ports: int) -> Manifest:
    """Return the policy that lets pods with these labels talk to each other: on the given ports, or on all ports if no
    port is given, because Ray's workers choose their ports themselves."""
    peers = [{"podSelector": {"matchLabels": dict(chosen)}}]
    limit = {"ports": _ports(*ports)} if ports else {}
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
        "egress": [{"to": [{"podSelector": _head()}], "ports": _ports(DASHBOARD_PORT)}],
    }


def _from_submitter() -> Manifest:
    submitter = {"podSelector": {"matchLabels": _component("ray-submitter")}}
    return {
        "podSelector": _head(),
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [submitter], "ports": _ports(DASHBOARD_PORT)}],
    }


def _metrics(monitoring: Monitoring) -> dict[str, Manifest]:
    """Return the policies that open the ports of Ray's metrics to Prometheus alone, and Prometheus' port to the
    namespace that reads Prometheus."""
    of_others = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": monitoring.namespace}}}
    ours = {"podSelector": {"matchLabels": dict(metrics.LABELS)}}
    reader = ours if monitoring.way == metrics.NAME else of_others
    ray: Manifest = {"matchLabels": {**OURS, **CLUSTER_LABELS}}
    opened = {"metrics": (ray, _ports(metrics.RAY_PORT)), "head-metrics": (_head(), _ports(*metrics.HEAD_PORTS))}
    specs: dict[str, Manifest] = {
        name: {
            "podSelector": pods,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [reader], "ports": ports}],
        }
        for name, (pods, ports) in opened.items()
    }
    if monitoring.way != metrics.NAME:
        return specs
    return specs | {
        metrics.NAME: {
            "podSelector": ours["podSelector"],
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [of_others], "ports": _ports(metrics.PORT)}],
            "egress": [{"to": [{"podSelector": pods}], "ports": ports} for pods, ports in opened.values()],
        }
    }


def _to_outside(destinations: tuple[Destination, ...]) -> Manifest:
    egress = [{"to": [{"ipBlock": _block(each.cidr)}], "ports": _ports(each.port)} for each in destinations]
    return {"podSelector": {"matchLabels": dict(OURS)}, "policyTypes": ["Egress"], "egress": egress}


def _to_storage(rules: Sequence[Manifest]) -> Manifest:
    return {"podSelector": {"matchLabels": dict(OURS)}, "policyTypes": ["Egress"], "egress": list(rules)}


def _block(cidr: str) -> Manifest:
    """Return an IP block. If its range contains addresses of metadata servers, these are excepted."""
    network = ip_network(cidr)
    within = [
        kept for kept in METADATA if kept.version == network.version and kept != network and _is_in(kept, network)
    ]
    return {"cidr": cidr, **({"except": list(map(str, within))} if within else {})}


def _is_in(inner: Network, outer: Network) -> bool:
    return inner.network_address in outer and inner.prefixlen >= outer.prefixlen


def _from_nodes(pod_range: str) -> Manifest:
    """Return the policy that opens the dashboard's port to nodes, but not to pods. NodePort traffic comes from the
    address of a node, and `pod_range` has the addresses of pods."""
    nodes = {"ipBlock": {"cidr": "0.0.0.0/0", "except": [pod_range]}}
    return {
        "podSelector": _head(),
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [nodes], "ports": _ports(DASHBOARD_PORT)}],
    }


def _operator(servers: Servers) -> Manifest:
    """Return the policy that allows KubeRay's operator to call DNS and the API server, and nobody to call the operator.

    Helm declares the operator's pod, without our label, so in an existing namespace no other policy selects the pod.
    """
    return {
        "podSelector": {"matchLabels": dict(OPERATOR_LABELS)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [],
        "egress": [*_to_dns(servers), *_to_api_server(servers)],
    }


def _to_api_server(servers: Servers) -> list[Manifest]:
    """Return the rules that open the API server: its addresses if they are known, otherwise its usual ports at any
    address. Each update looks the addresses up, because they may change during the cluster's life."""
    if not servers.api:
        return [{"ports": _ports(*API_SERVER_PORTS)}]
    return [{"to": [{"ipBlock": {"cidr": _only(address)}}], "ports": _ports(port)} for address, port in servers.api]


def _only(address: str) -> str:
    """Return the address as a range that contains only this address."""
    return f"{address}/{128 if ':' in address else 32}"


@dataclass(frozen=True)
class StorageServer:
    """The address of a storage server, in terms of a network policy."""

    port: int
    namespace: str | None = None
    """The namespace of the storage server, if the server runs in the cluster itself."""
    addresses: tuple[str, ...] = ()
    """Ranges of the server's addresses."""


def storage_server(storage: Storage) -> StorageServer | None:
    """Return the storage server's address; None for storage without a network. Raise OSError if the host name is
    unknown.

    A NetworkPolicy accepts no host names, and the addresses of a host in the Internet change by the minute. For such a
    host, all addresses are opened on its port, except those of metadata servers. The addresses of a host in a private
    network are stable.
    """
    if not storage.is_remote:
        return None
    if storage.endpoint is None:
        return StorageServer(STORAGE_PORTS["https"], addresses=ANYWHERE)
    endpoint = urlsplit(storage.endpoint)
    host, port = endpoint.hostname or "", endpoint.port or STORAGE_PORTS[endpoint.scheme]
    if is_in_cluster(storage):
        return StorageServer(port, namespace=host.split(".")[1])
    if host.endswith((".amazonaws.com", ".googleapis.com")):
        return StorageServer(port, addresses=ANYWHERE)
    addresses = {str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    if addresses != {host} and any(ip_address(address).is_global for address in addresses):
        return StorageServer(port, addresses=ANYWHERE)
    return StorageServer(port, addresses=tuple(sorted(map(_only, addresses))))


def is_in_cluster(storage: Storage) -> bool:
    """Return whether the storage server's name is known only inside the cluster."""
    return bool(storage.endpoint) and str(urlsplit(storage.endpoint).hostname).endswith(IN_CLUSTER)


def to_storage(server: StorageServer) -> list[Manifest]:
    """Return the rules of a network policy that allow calls to the storage server, and to nothing else."""
    to: list[Manifest] = [{"ipBlock": _block(cidr)} for cidr in server.addresses]
    if server.namespace:
        to.append({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": server.namespace}}})
    return [{"to": to, "ports": [{"protocol": "TCP", "port": server.port}]}]
