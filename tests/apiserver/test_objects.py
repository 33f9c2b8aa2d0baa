"""Every object that the program declares, for each stack file, as a real API server sees it: a dry run of its creation.

The namespace has the program's Pod Security labels. Pod Security looks at pods alone, so each template of a Job or a
RayCluster is sent as a pod, too. Unknown fields are errors here, where the server would drop them with a warning.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.stacks import ON_KUBERNETES
from tests.unit.test_wiring import record

NAMESPACE = "ray-system"
EXISTS = 409

Manifest = dict[str, Any]


def objects(stack: str, *more: str) -> dict[str, Manifest]:
    """The manifests that the program of a stack declares, by kind and name; a Helm release is none."""
    recorded = record(stack, *more)["objects"]
    return {name: _whole_numbers(manifest) | _named(manifest) for name, manifest in recorded.items()}


def _named(manifest: Manifest) -> Manifest:
    """With a name where Pulumi gives one."""
    return {"metadata": {"generateName": "auto-", **manifest["metadata"]}}


def _whole_numbers(value: Any) -> Any:
    """The recorder's numbers are floats."""
    if isinstance(value, dict):
        return {key: _whole_numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(part) for part in value]
    return int(value) if isinstance(value, float) else value


def pods(name: str, manifest: Manifest) -> Iterator[tuple[str, Manifest]]:
    """A pod of each template in it."""
    spec = manifest.get("spec", {})
    groups = [spec, spec.get("headGroupSpec", {}), *spec.get("workerGroupSpecs", [])]
    for index, group in enumerate(groups):
        if "template" in group:
            metadata = {"generateName": "auto-", "namespace": NAMESPACE, **group["template"]["metadata"]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": group["template"]["spec"]}
            yield f"pod {index} of {name}", pod


def refusal(api: Any, manifest: Manifest) -> str:
    """What the API server says against an object; empty when it would make it, or has it: the account of the pods."""
    from kubernetes.dynamic.exceptions import DynamicApiError

    kind = api.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
    strict = [("dryRun", "All"), ("fieldValidation", "Strict")]
    try:
        api.create(kind, manifest, manifest["metadata"].get("namespace"), query_params=strict)
    except DynamicApiError as error:
        return "" if error.status == EXISTS else str(error.summary())
    return ""


@pytest.mark.parametrize("stack", ON_KUBERNETES)
def test_every_object_is_accepted(stack: str, api: Any) -> None:
    """With its pods."""
    declared = {name: one for name, one in objects(stack).items() if not name.startswith("Namespace ")}
    sent = declared | {name: pod for of, one in declared.items() for name, pod in pods(of, one)}

    assert {} == {name: said for name, one in sent.items() if (said := refusal(api, one))}
    kinds = [name.partition(" ")[0] for name in sent]
    assert {"Job", "NetworkPolicy", "RayCluster", "Service", "ServiceAccount", "pod"} == set(kinds)
    assert kinds.count("Job") + 2 == kinds.count("pod")


def test_a_prometheus_of_the_stack_s_own_is_accepted(api: Any) -> None:
    """Its Services, its policies and its pod, beside what the stack declares without it."""
    without, monitored = (objects("kubernetes", f"monitoring={way}") for way in ("none", "prometheus"))
    more = {name: one for name, one in monitored.items() if name not in without}
    sent = more | {name: pod for of, one in more.items() for name, pod in pods(of, one)}

    assert {} == {name: said for name, one in sent.items() if (said := refusal(api, one))}
    kinds = {name.partition(" ")[0] for name in sent}
    assert {"ConfigMap", "Deployment", "NetworkPolicy", "Service", "pod"} == kinds


def _job(change: Callable[[Manifest], object]) -> Manifest:
    """The ci stack's baseline, changed."""
    changed = copy.deepcopy(objects("ci")["Job baseline-1"])
    change(changed["spec"])
    return changed


def _pod(change: Callable[[Manifest], object]) -> Manifest:
    """Its pod, changed."""
    ((_, pod),) = pods("", objects("ci")["Job baseline-1"])
    changed = copy.deepcopy(pod)
    change(changed["spec"])
    return changed


def _ray_cluster(change: Callable[[Manifest], object]) -> Manifest:
    changed = copy.deepcopy(objects("ci")["RayCluster ray-training-cluster"])
    change(changed["spec"])
    return changed


HOST_PATH = {"name": "host", "hostPath": {"path": "/"}}
WRONG: dict[str, tuple[Callable[[], Manifest], str]] = {
    "unknown field of a Job": (lambda: _job(lambda spec: spec.update(backOffLimit=0)), "unknown field"),
    "wrong type in a Job": (lambda: _job(lambda spec: spec.update(backoffLimit="none")), "backoffLimit"),
    "unknown field of a RayCluster": (
        lambda: _ray_cluster(lambda spec: spec["workerGroupSpecs"][0].update(replica=2)),
        "unknown field",
    ),
    "unknown mode in a RayCluster": (
        lambda: _ray_cluster(lambda spec: spec.update(authOptions={"mode": "none"})),
        "authOptions.mode",
    ),
    "host path in a pod": (lambda: _pod(lambda spec: spec["volumes"].append(HOST_PATH)), "violates PodSecurity"),
    "root in a pod": (lambda: _pod(lambda spec: spec.pop("securityContext")), "violates PodSecurity"),
    "host network in a pod": (lambda: _pod(lambda spec: spec.update(hostNetwork=True)), "violates PodSecurity"),
}


@pytest.mark.parametrize(("make", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_refused(make: Callable[[], Manifest], said: str, api: Any) -> None:
    """The server is no rubber stamp: Pod Security is on, the CRDs are there, and unknown fields are errors."""
    assert said in refusal(api, make())
