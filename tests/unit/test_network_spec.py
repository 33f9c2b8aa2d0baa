"""Who may talk to whom: the policies put together, as the cluster's network puts them."""

from itertools import product
from typing import Any

import pytest

from infra import jobs_spec, network_spec
from infra.network_spec import NetworkSettings
from infra.pod_spec import labels
from infra.ray_cluster_spec import HEAD_LABELS, WORKER_LABELS

PODS = {
    "head": {**labels("ray-head"), **HEAD_LABELS},
    "worker": {**labels("ray-worker"), **WORKER_LABELS},
    "baseline": labels("baseline"),
    "native": labels("native"),
    "submitter": labels(jobs_spec.component("ray")),
    "operator": dict(network_spec.OPERATOR_LABELS),
    "stranger": {},
}
PORTS = {"gcs": 6379, "client": 10001, "dashboard": 8265, "tensorflow": 2222, "any": 40000}
RAY = {("head", "worker"), ("worker", "head"), ("worker", "worker"), ("head", "head")}
ALLOWED = (
    {(*pair, port) for pair in RAY for port in PORTS}
    | {("native", "native", "tensorflow")}
    | {("submitter", "head", "dashboard")}
)


def policies(*, operator: bool = True, node_port: bool = True) -> dict[str, dict[str, Any]]:
    """The policies of a stack."""
    return network_spec.policies(NetworkSettings(create_namespace=True, operator=operator, node_port=node_port))


def selects(selector: dict[str, Any], pod: dict[str, str]) -> bool:
    """Whether a selector of labels takes a pod."""
    return bool(selector.get("matchLabels", {}).items() <= pod.items())


def is_open(direction: str, pod: str, peer: str, port: int) -> bool:
    """Whether a policy lets traffic of `pod` in this direction, to or from `peer` in the namespace."""
    rules = [
        rule
        for policy in policies().values()
        if direction.capitalize() in policy["policyTypes"] and selects(policy["podSelector"], PODS[pod])
        for rule in policy.get(direction, [])
    ]
    key = "from" if direction == "ingress" else "to"
    return any(_takes(rule.get(key), peer) and _has(rule.get("ports"), port) for rule in rules)


def _takes(peers: list[dict[str, Any]] | None, pod: str) -> bool:
    if peers is None:
        return True
    own = [peer for peer in peers if "podSelector" in peer and "namespaceSelector" not in peer]
    return any(selects(peer["podSelector"], PODS[pod]) for peer in own)


def _has(ports: list[dict[str, Any]] | None, port: int) -> bool:
    return ports is None or any(one["port"] == port and one["protocol"] == "TCP" for one in ports)


@pytest.mark.parametrize(("source", "target"), sorted(product(PODS, PODS)))
def test_pods_reach_what_the_arms_need_and_no_more(source: str, target: str) -> None:
    """Both ends must allow it, and for every other pair and port one of them does not."""
    reached = {
        (source, target, name)
        for name, port in PORTS.items()
        if is_open("egress", source, target, port) and is_open("ingress", target, source, port)
    }

    assert {one for one in ALLOWED if one[:2] == (source, target)} == reached


def test_everything_is_denied_first() -> None:
    """A pod that no policy selects may do anything."""
    assert {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]} == policies()["default-deny"]


def test_the_node_port_is_for_nodes_and_the_dashboard_alone() -> None:
    """Traffic through it has a node's address; a pod's own address gets no further for it."""
    (rule,) = policies()["dashboard-node-port"]["ingress"]

    assert [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.244.0.0/16"]}}] == rule["from"]
    assert [{"protocol": "TCP", "port": 8265}] == rule["ports"]
    assert "dashboard-node-port" not in policies(node_port=False)


def test_an_operator_elsewhere_needs_no_policy_here() -> None:
    """With `operator existing` nothing of it is declared."""
    assert "operator" not in policies(operator=False)


def test_the_namespace_admits_restricted_pods_only() -> None:
    """Enforced, not only warned about."""
    assert "restricted" == network_spec.namespace("a")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
