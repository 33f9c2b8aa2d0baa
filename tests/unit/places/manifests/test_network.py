"""Who may talk to whom: the policies put together, as the cluster's network puts them."""

from ipaddress import ip_address, ip_network
from itertools import product
from typing import Any

import pytest

from infra.places.cluster.manifests import jobs, network
from infra.places.cluster.manifests.monitoring import Monitoring
from infra.places.cluster.manifests.network import NetworkSettings, Servers
from infra.places.cluster.manifests.operator import OPERATOR_LABELS
from infra.places.cluster.manifests.pod_parts import COMPONENT_LABEL, PROJECT_LABEL, Placement, labels
from infra.places.cluster.manifests.ray_cluster import HEAD_LABELS, WORKER_LABELS
from infra.settings.table import every_key

PODS = {
    "head": {**labels("ray-head"), **HEAD_LABELS},
    "worker": {**labels("ray-worker"), **WORKER_LABELS},
    "baseline": labels("baseline"),
    "native": labels("native"),
    "submitter": labels(jobs.component("ray")),
    "operator": dict(OPERATOR_LABELS),
    "prometheus": labels("prometheus"),
    "stranger": {},
}
OTHERS = {
    "without labels": {},
    "another part of something": {PROJECT_LABEL: "shop", COMPONENT_LABEL: "native"},
    "another native": {COMPONENT_LABEL: "native"},
    "another submitter": {COMPONENT_LABEL: "ray-submitter"},
    "another's Ray head": {
        "ray.io/cluster": "theirs",
        "ray.io/node-type": "head",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    },
    "another's Ray worker": {"ray.io/cluster": "theirs", "ray.io/node-type": "worker", "ray.io/is-ray-node": "yes"},
    "another's KubeRay": {
        "app.kubernetes.io/name": "kuberay-operator",
        "app.kubernetes.io/instance": "kuberay-operator",
    },
}
"""Pods of others that a namespace may hold, with labels near to ours."""
OF_METRICS = {"agent": 8080, "autoscaler": 44217, "dashboard's own": 44227, "prometheus": 9090}
PORTS = {"gcs": 6379, "client": 10001, "dashboard": 8265, "tensorflow": 2222, "any": 40000, **OF_METRICS}
RAY = {("head", "worker"), ("worker", "head"), ("worker", "worker"), ("head", "head")}
ALLOWED = (
    {(*pair, port) for pair in RAY for port in PORTS}
    | {("native", "native", "tensorflow")}
    | {("submitter", "head", "dashboard")}
)


def policies(
    *,
    own: bool = True,
    operator: bool = True,
    node_port: bool = True,
    native_ports: tuple[int, ...] = (2222,),
    egress: str = "none",
    monitoring: Monitoring | None = None,
    autoscaled: bool = False,
    servers: Servers = Servers(),  # noqa: B008 (frozen)
) -> dict[str, dict[str, Any]]:
    """The policies of a stack, in a namespace that it makes or in one that was there."""
    return network.policies(
        NetworkSettings(
            create_namespace=own,
            operator=operator,
            pod_range="10.244.0.0/16" if node_port else None,
            native_ports=native_ports,
            egress=every_key()["egress"].rule.parse(egress),
            monitoring=monitoring,
            autoscaled=autoscaled,
            servers=servers,
        )
    )


def selects(selector: dict[str, Any], pod: dict[str, str]) -> bool:
    """Whether a selector of labels takes a pod."""
    assert set(selector) <= {"matchLabels"}
    return bool(selector.get("matchLabels", {}).items() <= pod.items())


def selecting(pod: dict[str, str], **of_policies: Any) -> dict[str, dict[str, Any]]:
    """The policies that select a pod."""
    return {name: policy for name, policy in policies(**of_policies).items() if selects(policy["podSelector"], pod)}


def is_open(direction: str, pod: str, peer: str, port: int, **of_policies: Any) -> bool:
    """Whether a pod's traffic in this direction, to or from `peer` in the namespace, is allowed."""
    directed = [
        policy
        for policy in selecting(PODS[pod], **of_policies).values()
        if direction.capitalize() in policy["policyTypes"]
    ]
    key = "from" if direction == "ingress" else "to"
    rules = [rule for policy in directed for rule in policy.get(direction, [])]
    return not directed or any(_takes(rule.get(key), peer) and _has(rule.get("ports"), port) for rule in rules)


def _takes(peers: list[dict[str, Any]] | None, pod: str) -> bool:
    if peers is None:
        return True
    own = [peer for peer in peers if "podSelector" in peer and "namespaceSelector" not in peer]
    return any(selects(peer["podSelector"], PODS[pod]) for peer in own)


def _has(ports: list[dict[str, Any]] | None, port: int) -> bool:
    return ports is None or any(one["port"] == port and one["protocol"] == "TCP" for one in ports)


READ = {("prometheus", "worker", "agent")} | {
    ("prometheus", "head", name) for name in ("agent", "autoscaler", "dashboard's own")
}


def monitored(way: str) -> Monitoring | None:
    """What reads metrics, if anything does."""
    return None if way == "none" else Monitoring(way, "image:1", Placement("image:1"), "observability", ("ray",), ())


@pytest.mark.parametrize("own", [True, False], ids=["own namespace", "namespace of others"])
@pytest.mark.parametrize(("way", "read"), [("none", set()), ("prometheus", READ), ("existing", set())])
def test_pods_reach_what_the_arms_need_and_no_more(way: str, read: set[tuple[str, str, str]], own: bool) -> None:
    """Both ends must allow it, and for every other pair and port one of them does not; others' pods are left alone.
    Prometheus reaches the ports of metrics, and no pod reaches it. One that exists reaches them from its own
    namespace."""
    of_policies = {"own": own, "monitoring": monitored(way)}
    reached = {
        (source, target, name)
        for source, target, (name, port) in product(PODS, PODS, PORTS.items())
        if is_open("egress", source, target, port, **of_policies)
        if is_open("ingress", target, source, port, **of_policies)
    }
    others_own = {("stranger", "stranger", name) for name in PORTS} if not own else set()

    assert ALLOWED | read | others_own == reached


@pytest.mark.parametrize("way", ["prometheus", "existing"])
def test_another_namespace_reaches_what_reads_or_is_read(way: str) -> None:
    """By the name of the namespace alone: Prometheus' own port, or Ray's."""
    specs = policies(monitoring=monitored(way))
    of_others = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "observability"}}}
    opened = {
        port["port"]
        for spec in specs.values()
        for rule in spec.get("ingress", [])
        if of_others in rule.get("from", [])
        for port in rule["ports"]
    }

    assert {"prometheus": {9090}, "existing": {8080, 44217, 44227}}[way] == opened


def test_everything_is_denied_first_in_a_namespace_of_our_own() -> None:
    """A pod that no policy selects may do anything."""
    assert {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]} == policies()["default-deny"]


@pytest.mark.parametrize("pod", OTHERS.values(), ids=OTHERS)
def test_in_a_namespace_of_others_no_policy_selects_their_pods(pod: dict[str, str]) -> None:
    """A pod that a policy selects loses all traffic that none allows: an outage of what runs there."""
    assert {} == selecting(pod, own=False)
    assert {"default-deny", "dns"} == set(selecting(pod, own=True))


def test_our_own_pods_are_denied_first_there_too() -> None:
    """In both directions, and they may ask for names. `default-deny` may be there already, and nothing that exists is
    taken over."""
    for pod in sorted(set(PODS) - {"stranger"}):
        chosen = selecting(PODS[pod], own=False).values()
        ports = {one["port"] for policy in chosen for rule in policy.get("egress", []) for one in rule.get("ports", [])}

        assert {"Ingress", "Egress"} == {direction for policy in chosen for direction in policy["policyTypes"]}, pod
        assert 53 in ports, pod
    assert all(network.object_name(policy).startswith("ray-worth-it-") for policy in policies())


def dns_servers() -> list[tuple[dict[str, Any], set[tuple[str, int]]]]:
    """The peers at which pods may ask for names, with the protocols and ports."""
    return [
        (peer, {(port["protocol"], port["port"]) for port in rule["ports"]})
        for rule in policies()["dns"]["egress"]
        for peer in rule["to"]
    ]


@pytest.mark.parametrize(
    ("namespace", "pod", "port"),
    [
        ("kube-system", {"k8s-app": "kube-dns"}, 53),  # CoreDNS of kubeadm, k3s, EKS, AKS, GKE, Minikube
        ("kube-system", {"k8s-app": "node-local-dns"}, 53),  # Cilium's redirect, GKE Dataplane V2
        ("openshift-dns", {"dns.operator.openshift.io/daemonset-dns": "default"}, 5353),
    ],
)
def test_dns_is_reached_as_a_pod(namespace: str, pod: dict[str, str], port: int) -> None:
    """At the port of the pod: a policy sees an address after the Service's translation. By UDP, and by TCP where an
    answer is long."""
    ports = [
        ports
        for peer, ports in dns_servers()
        if "podSelector" in peer
        and peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": namespace}
        and _takes_labels(peer["podSelector"], pod)
    ]

    assert [{("UDP", port), ("TCP", port)}] == ports


def _takes_labels(selector: dict[str, Any], pod: dict[str, str]) -> bool:
    expressions = selector.get("matchExpressions", [])
    assert all(expression["operator"] == "In" for expression in expressions)
    return selector.get("matchLabels", {}).items() <= pod.items() and all(
        pod.get(expression["key"]) in expression["values"] for expression in expressions
    )


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("169.254.20.10", True),  # NodeLocal DNSCache
        ("169.254.10.10", True),  # AKS LocalDNS
        ("10.96.0.10", True),  # NodeLocal DNSCache at the Service's address: kubeadm
        ("172.20.0.10", True),  # EKS
        ("34.118.224.10", True),  # GKE
        ("8.8.8.8", False),
        ("1.1.1.1", False),
    ],
)
def test_dns_caches_of_a_node_are_reached_and_no_server_of_the_internet(address: str, expected: bool) -> None:
    """A cache in the node's own network is no pod to a policy; another server's port 53 would be a way out."""
    blocks = [(peer["ipBlock"]["cidr"], ports) for peer, ports in dns_servers() if "ipBlock" in peer]

    reached = any(ip_address(address) in ip_network(cidr) for cidr, _ in blocks)

    assert expected == reached
    assert {frozenset({("UDP", 53), ("TCP", 53)})} == {frozenset(ports) for _, ports in blocks}


def test_the_operator_reaches_the_api_server_where_distributions_have_it() -> None:
    """Managed ones and the Service; kubeadm, k3s and OpenShift; Minikube; MicroK8s."""
    opened = [rule["ports"] for rule in policies()["operator"]["egress"] if "to" not in rule]

    assert [] == [port for port in (443, 6443, 8443, 16443) if not any(_has(ports, port) for ports in opened)]


KNOWN = Servers((("192.168.49.2", 8443), ("10.96.0.1", 443)), ("10.96.0.10",))


def test_known_servers_are_opened_and_no_other_address() -> None:
    """The API server's and its Service's, each at its port; of the private ranges the DNS Service alone."""
    assert Servers.from_json(KNOWN.to_json()) == KNOWN
    assert Servers.from_json(None) == Servers()
    specs = policies(autoscaled=True, servers=KNOWN)
    api = [
        {"to": [{"ipBlock": {"cidr": "192.168.49.2/32"}}], "ports": [{"protocol": "TCP", "port": 8443}]},
        {"to": [{"ipBlock": {"cidr": "10.96.0.1/32"}}], "ports": [{"protocol": "TCP", "port": 443}]},
    ]
    names = [peer["ipBlock"]["cidr"] for peer in specs["dns"]["egress"][0]["to"] if "ipBlock" in peer]

    assert api == specs["autoscaler"]["egress"]
    assert [*specs["dns"]["egress"], *api] == specs["operator"]["egress"]
    assert ["10.96.0.10/32", *network.NODE_CACHES] == names


def test_what_depends_on_the_servers_is_named() -> None:
    """The other policies are known before the cluster is."""
    unknown, known = policies(autoscaled=True), policies(autoscaled=True, servers=KNOWN)

    assert {*network.OF_SERVERS} == {name for name in known if known[name] != unknown[name]}


@pytest.mark.parametrize("pod", PODS)
def test_ray_s_autoscaler_opens_the_api_server_s_ports_to_the_head_alone(pod: str) -> None:
    """No other pod has one way more, or one that is no longer there; nothing more comes in."""
    before, after = selecting(PODS[pod]), selecting(PODS[pod], autoscaled=True)
    added = {name: policy for name, policy in after.items() if name not in before}

    assert before.items() <= after.items()
    assert (["autoscaler"] if pod == "head" else []) == list(added)
    for policy in added.values():
        assert ["Egress"] == policy["policyTypes"]
        assert [{*network.API_SERVER_PORTS}] == [{one["port"] for one in rule["ports"]} for rule in policy["egress"]]


def test_the_node_port_is_for_nodes_and_the_dashboard_alone() -> None:
    """Traffic through it has a node's address; a pod's own address gets no further for it. What a stack does not have
    needs no policy: a port of the nodes, or an operator of its own."""
    (rule,) = policies()["dashboard-node-port"]["ingress"]

    assert [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.244.0.0/16"]}}] == rule["from"]
    assert [{"protocol": "TCP", "port": 8265}] == rule["ports"]
    assert {"dashboard-node-port"} == policies().keys() - policies(node_port=False).keys()
    assert {"operator"} == policies().keys() - policies(operator=False).keys()


def test_the_namespace_admits_restricted_pods_only() -> None:
    """Enforced, not only warned about."""
    assert "restricted" == network.namespace("a")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]


def test_ranks_of_a_script_talk_at_any_port_and_to_each_other_alone() -> None:
    """PyTorch's and a booster's ranks choose their ports; who else may talk to them is as before."""
    (script, own) = (policies(native_ports=ports)["native-workers"] for ports in ((), (2222,)))
    rule = {"from": own["ingress"][0]["from"]}

    assert [rule] == script["ingress"]
    assert [{"to": rule["from"]}] == script["egress"]
    assert own["podSelector"] == script["podSelector"]


def test_pods_reach_outside_what_is_named_and_no_more() -> None:
    """Ours alone; nothing without the key."""
    opened = policies(egress="203.0.113.7:443, 2001:db8::/32:8080")["egress"]
    blocks = [(rule["to"], rule["ports"]) for rule in opened["egress"]]

    assert "egress" not in policies()
    assert {"matchLabels": network.OURS} == opened["podSelector"]
    assert ["Egress"] == opened["policyTypes"]
    assert [
        ([{"ipBlock": {"cidr": "203.0.113.7/32"}}], [{"protocol": "TCP", "port": 443}]),
        ([{"ipBlock": {"cidr": "2001:db8::/32"}}], [{"protocol": "TCP", "port": 8080}]),
    ] == blocks


METADATA = {
    "AWS, Google, Azure, OpenStack, IBM, DigitalOcean, Hetzner": "169.254.169.254",
    "AWS' tasks": "169.254.170.2",
    "AWS' pods": "169.254.170.23",
    "Tencent": "169.254.0.23",
    "Azure's WireServer": "168.63.129.16",
    "Alibaba": "100.100.100.200",
    "Oracle": "192.0.0.192",
    "Equinix": "192.80.8.124",
    "AWS, IPv6": "fd00:ec2::254",
    "AWS' pods, IPv6": "fd00:ec2::23",
    "Google, IPv6": "fd20:ce::254",
    "Oracle, IPv6": "fd00:c1::a9fe:a9fe",
    "OpenStack, IPv6": "fe80::a9fe:a9fe",
}


@pytest.mark.parametrize("server", METADATA.values(), ids=METADATA)
def test_a_range_does_not_open_the_metadata_server_of_a_cloud(server: str) -> None:
    """It gives out the credentials of the node. All else in the range is open, and so is one that is named itself."""
    address = ip_address(server)
    whole, near = "0.0.0.0/0" if address.version == 4 else "::/0", f"{server}/8"
    for cidr in (whole, str(ip_network(near, strict=False))):
        (rule,) = policies(egress=f"{cidr}:443")["egress"]["egress"]
        block = rule["to"][0]["ipBlock"]

        assert [cidr] == [block["cidr"]]
        assert [kept for kept in block["except"] if address in ip_network(kept)]
        assert all(ip_network(kept).subnet_of(ip_network(cidr)) for kept in block["except"])  # type: ignore[arg-type]
    (rule,) = policies(egress=f"{server}:80")["egress"]["egress"]
    assert "except" not in rule["to"][0]["ipBlock"]
