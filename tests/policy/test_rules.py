"""Each rule with a resource that passes and ones that do not."""

import runpy
import sys
from pathlib import Path
from typing import Any

import pulumi_policy
import pytest

from policy import rules
from policy.rules import Declared, Rule

POD: dict[str, Any] = {
    "automountServiceAccountToken": False,
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "main",
            "image": "registry.example.com:5000/training:0123456789ab",
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
    "volumes": [{"name": "tmp", "emptyDir": {}}],
}
TOKEN = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {}}]}}
TOKEN_MOUNT = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
RELEASE = {"chart": "/charts/kuberay-operator-1.6.2.tgz", "values": {"resources": POD["containers"][0]["resources"]}}


def job(pod: dict[str, Any], **spec: Any) -> Declared:
    """A Job of these pods."""
    template = {"activeDeadlineSeconds": 60, "template": {"spec": pod}}
    return Declared(rules.JOB, "job", {"spec": {**template, **spec}}, "cluster")


def ray_cluster(pod: dict[str, Any]) -> Declared:
    """A RayCluster whose workers are these pods; its head is as it should be."""
    groups = {
        "headGroupSpec": {"template": {"spec": POD}},
        "workerGroupSpecs": [{"template": {"spec": pod}}],
    }
    return Declared("kubernetes:ray.io/v1:RayCluster", "ray", {"spec": groups}, "cluster")


def autoscaled(*, head: dict[str, Any] = POD, workers: dict[str, Any] = POD, **options: Any) -> Declared:
    """A RayCluster with Ray's autoscaler, which mounts the token that its head's pod has."""
    groups = {
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {**POD["containers"][0], "volumeMounts": [TOKEN_MOUNT], **options},
        "headGroupSpec": {"template": {"spec": {**head, "volumes": [TOKEN]}}},
        "workerGroupSpecs": [{"template": {"spec": workers}}],
    }
    return Declared("kubernetes:ray.io/v1:RayCluster", "ray", {"spec": groups}, "cluster")


def with_container(**changes: Any) -> dict[str, Any]:
    """The pod, its container changed."""
    return {**POD, "containers": [{**POD["containers"][0], **changes}]}


def with_limits(**limits: str) -> dict[str, Any]:
    """The pod with these limits, its requests as they were."""
    return with_container(resources={**POD["containers"][0]["resources"], "limits": limits})


def namespace(**labels: str) -> Declared:
    """A namespace."""
    return Declared(rules.NAMESPACE, "made", {"metadata": {"labels": labels}}, "cluster")


def release(**changes: Any) -> Declared:
    """The operator's release, changed."""
    return Declared(rules.RELEASE, "operator", {**RELEASE, **changes}, "cluster")


MUTABLE = (
    *("training", "training:latest", "training:1.0", "registry.example.com:5000/training", "python:3.11-slim"),
    *("training:0123456789abc", "0123456789ab:1.0.0", "training:0123456789ab@sha256:abc"),
)
"""Names under which another image can lie tomorrow."""
FETCHED = (
    *("kuberay-operator", "kuberay/kuberay-operator", "/charts/kuberay-operator", "./kuberay-operator-1.6.2.tgz"),
    *(
        "https://charts.example.com/kuberay-operator-1.6.2.tgz",
        "oci://example.com/kuberay-operator",
        "/charts/latest.tgz",
    ),
)
"""Charts that Helm would fetch, and those that say of no version which they are."""
VIOLATIONS: list[tuple[Rule, Declared]] = [
    (rules.pinned_images, ray_cluster(with_container(image="training@sha256:abc"))),
    (rules.pinned_images, job({**POD, "initContainers": with_container(image="training")["containers"]})),
    *((rules.pinned_images, job(with_container(image=image))) for image in MUTABLE),
    *((rules.pinned_images, release(chart=chart, version="1.6.2")) for chart in FETCHED),
    (rules.requests_are_limits, job(with_limits(cpu="2", memory="1Gi"))),
    (rules.requests_are_limits, ray_cluster(with_limits(cpu="1"))),
    (rules.requests_are_limits, job(with_container(resources={}))),
    (rules.requests_are_limits, release(values={})),
    (rules.deadlines, job(POD, activeDeadlineSeconds=None)),
    (rules.deadlines, job(POD, activeDeadlineSeconds=0)),
    (rules.deadlines, Declared(rules.LOCAL_RUN, "ray-1", {"timeoutMinutes": None})),
    (rules.explicit_provider, Declared("kubernetes:core/v1:Secret", "made", {}, "default_4_34_2")),
    (rules.explicit_provider, Declared("kubernetes:core/v1:Secret", "made", {}, None)),
    (rules.no_privileged_pods, job(with_container(securityContext={"privileged": True}))),
    (rules.no_privileged_pods, ray_cluster({**POD, "hostNetwork": True})),
    (rules.no_privileged_pods, job({**POD, "volumes": [{"name": "host", "hostPath": {"path": "/"}}]})),
    (rules.no_privileged_pods, job({**POD, "securityContext": {}})),
    (rules.restricted_namespaces, namespace()),
    (rules.restricted_namespaces, namespace(**{rules.ENFORCED: "baseline"})),
    (rules.no_service_account_tokens, job({k: v for k, v in POD.items() if k != "automountServiceAccountToken"})),
    (rules.no_service_account_tokens, ray_cluster({**POD, "automountServiceAccountToken": True})),
    (
        rules.no_service_account_tokens,
        job({**POD, "volumes": [TOKEN]}),
    ),
    (rules.no_service_account_tokens, autoscaled(head=with_container(volumeMounts=[TOKEN_MOUNT]))),
    (rules.no_service_account_tokens, autoscaled(head={**POD, "automountServiceAccountToken": True})),
    (rules.no_service_account_tokens, autoscaled(workers={**POD, "volumes": [TOKEN]})),
    (
        rules.no_service_account_tokens,
        Declared(
            "kubernetes:ray.io/v1:RayCluster",
            "ray",
            {"spec": {"headGroupSpec": {"template": {"spec": {**POD, "volumes": [TOKEN]}}}}},
            "cluster",
        ),
    ),
    (rules.pinned_images, autoscaled(image="training:latest")),
    (rules.requests_are_limits, autoscaled(resources={})),
    (rules.no_privileged_pods, autoscaled(securityContext={})),
]
FINE = (
    job(POD),
    job(with_container(image=f"training@sha256:{'0' * 64}")),
    ray_cluster(POD),
    autoscaled(),
    release(),
    Declared(rules.LOCAL_RUN, "ray-1", {"timeoutMinutes": 60}),
    Declared("command:local:Command", "start", {"create": "true"}, "default"),
    namespace(**{rules.ENFORCED: "restricted"}),
)


@pytest.mark.parametrize("resource", FINE, ids=lambda one: f"{one.type}-{one.name}")
def test_what_keeps_to_the_rules_passes_all(resource: Declared) -> None:
    """Every rule is asked about every resource."""
    assert [] == [problem for rule in rules.RULES.values() for problem in rule(resource)]


@pytest.mark.parametrize(("rule", "resource"), VIOLATIONS, ids=lambda part: getattr(part, "__name__", None))
def test_what_does_not_is_named(rule: Rule, resource: Declared) -> None:
    """By that rule alone."""
    assert [rule] == [one for one in rules.RULES.values() if list(one(resource))]


def test_every_rule_has_a_violation_here() -> None:
    """A new rule without a test fails this one."""
    assert set(rules.RULES.values()) == {rule for rule, _ in VIOLATIONS}


def service(kind: str, name: str = rules.DASHBOARD, port: int = rules.DASHBOARD_PORT) -> Declared:
    """A Service."""
    return Declared(rules.SERVICE, name, {"spec": {"type": kind, "ports": [{"port": port}]}}, "cluster")


MINIKUBE = Declared(rules.MINIKUBE, "minikube", {})


def test_the_dashboard_has_the_only_node_port() -> None:
    """And services within the cluster are nobody's concern."""
    assert [] == list(rules.exposed_services([MINIKUBE, service("NodePort"), service("ClusterIP", "peers", 12345)]))
    assert [] == list(rules.exposed_services([service("ClusterIP")]))


@pytest.mark.parametrize(
    "stack",
    [
        [service("NodePort")],
        [MINIKUBE, service("NodePort", "gcs")],
        [MINIKUBE, service("NodePort", port=6379)],
        [MINIKUBE, service("LoadBalancer")],
    ],
    ids=["no Minikube", "another service", "another port", "another way"],
)
def test_any_other_open_port_is_refused(stack: list[Declared]) -> None:
    """With the service that opens it."""
    ((resource, problem),) = rules.exposed_services(stack)

    assert stack[-1] is resource
    assert resource.properties["spec"]["type"] in problem


def test_an_autoscaler_of_which_nothing_is_said_is_checked() -> None:
    """KubeRay would start it without a security context."""
    unsaid = autoscaled()
    del unsaid.properties["spec"]["autoscalerOptions"]

    assert list(rules.no_privileged_pods(unsaid))


def test_a_rule_is_described_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pulumi prints it as it is, so it has no line breaks and indents of a docstring."""
    packs: list[dict[str, Any]] = []
    monkeypatch.setattr(pulumi_policy, "PolicyPack", lambda **pack: packs.append(pack))
    monkeypatch.setattr(sys, "path", list(sys.path))
    runpy.run_path(str(Path(rules.__file__).with_name("__main__.py")))

    described = [policy.description for policy in packs[0]["policies"]]
    assert len(rules.RULES) + 1 == len(described)
    assert [" ".join(text.split()) for text in described] == described
