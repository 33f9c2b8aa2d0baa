"""The rules of every stack, as plain functions that yield a sentence for each violation.

They read the declared resources and share nothing with the code that declares them: so they detect its mistakes.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from policy import pod_security

RELEASE = "kubernetes:helm.sh/v3:Release"
JOB = "kubernetes:batch/v1:Job"
NAMESPACE = "kubernetes:core/v1:Namespace"
SERVICE = "kubernetes:core/v1:Service"
LOCAL_RUN = "pulumi-python:dynamic/training:Run"
MINIKUBE = "ray-worth-it:cluster:Minikube"
DASHBOARD = "ray-dashboard"
DASHBOARD_PORT = 8265
ENFORCED = "pod-security.kubernetes.io/enforce"

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CONTENT_TAG = re.compile(r"[0-9a-f]{12}")
_CHART = re.compile(r"/(?!.*://).*-\d+\.\d+\.\d+\.tgz")


@dataclass(frozen=True)
class Declared:
    """A resource as the engine is about to create it."""

    type: str
    name: str
    properties: dict[str, Any]
    provider: str | None = None
    """The name of the resource's provider. The names of the engine's own providers begin with `default`."""
    urn: str = ""


Rule = Callable[[Declared], Iterator[str]]


def pinned_images(resource: Declared) -> Iterator[str]:
    """Require images that cannot change under the same name, because an unnoticed other image is another measurement.

    An image that is built here has a hash of its content as its tag, and any other image has a digest. A chart is a
    file on this machine that the program has verified, because Helm does not verify a chart that it fetches.
    """
    for pod in _with_autoscaler(resource):
        for container in pod_security.containers(pod):
            if not _is_pinned(str(container.get("image", ""))):
                yield f"{container['name']} has the image {container.get('image')!r}: give it a digest, @sha256:…"
    if resource.type == RELEASE and not _CHART.fullmatch(str(resource.properties.get("chart", ""))):
        yield f"the chart {resource.properties.get('chart')!r} is not the .tgz of one version on this machine"


def requests_are_limits(resource: Declared) -> Iterator[str]:
    """Require that requests of CPU and memory equal the limits, because otherwise a pod would gain what another pod
    does not use. A request for disk needs no limit, because disk makes no training faster."""
    wanted = [
        (str(container["name"]), container.get("resources", {}))
        for pod in _with_autoscaler(resource)
        for container in pod_security.containers(pod)
    ]
    if resource.type == RELEASE:
        wanted.append(("values", resource.properties.get("values", {}).get("resources", {})))
    for name, resources in wanted:
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        fast = {resource: amount for resource, amount in requests.items() if resource != "ephemeral-storage"}
        if not {"cpu", "memory"} <= fast.keys() or fast != limits:
            yield f"{name} requests {requests} with the limits {limits}: cpu and memory in both, and alike"


def deadlines(resource: Declared) -> Iterator[str]:
    """Require a deadline for every run, because `pulumi up` waits for a run until it ends."""
    if resource.type == LOCAL_RUN and not _is_positive(resource.properties.get("timeoutMinutes")):
        yield "timeoutMinutes is not set"
    seconds = resource.properties.get("spec", {}).get("activeDeadlineSeconds")
    if resource.type == JOB and not _is_positive(seconds):
        yield "activeDeadlineSeconds is not set"


def explicit_provider(resource: Declared) -> Iterator[str]:
    """Require an explicit provider, because the default provider uses whichever cluster the user's kubeconfig names."""
    if resource.type.startswith("kubernetes:") and (resource.provider or "default").startswith("default"):
        yield "it names no provider, and would be made in the kubeconfig's current context"


def no_privileged_pods(resource: Declared) -> Iterator[str]:
    """Require that every pod passes Pod Security `restricted`."""
    for pod in _with_autoscaler(resource):
        yield from pod_security.violations(pod)


def restricted_namespaces(resource: Declared) -> Iterator[str]:
    """Require that a namespace which the stack creates admits only pods that pass Pod Security `restricted`."""
    if resource.type == NAMESPACE:
        labels = resource.properties.get("metadata", {}).get("labels", {})
        if labels.get(ENFORCED) != "restricted":
            yield f"it has not the label {ENFORCED}: restricted"


def no_service_account_tokens(resource: Declared) -> Iterator[str]:
    """Refuse service account tokens, because training does not use the API server. Ray's autoscaler does, so the head's
    pod may hold a token that only the autoscaler's container mounts."""
    head = None if _autoscaler(resource) is None else _head(resource)
    for pod in _pods(resource.properties):
        if pod.get("automountServiceAccountToken") is not False:
            yield "automountServiceAccountToken is not false"
        for volume in pod.get("volumes", []):
            sources = volume.get("projected", {}).get("sources", [])
            if any("serviceAccountToken" in source for source in sources):
                mounts = [container.get("volumeMounts", []) for container in pod_security.containers(pod)]
                if pod is head and volume["name"] not in {mount["name"] for each in mounts for mount in each}:
                    continue
                yield f"volume {volume['name']} holds a service account token"


def exposed_services(stack: Sequence[Declared]) -> Iterator[tuple[Declared, str]]:
    """Refuse Services that others outside the cluster reach, except the dashboard's node port on Minikube, which asks
    for a token."""
    on_minikube = any(resource.type == MINIKUBE for resource in stack)
    for resource in stack:
        kind = resource.properties.get("spec", {}).get("type") if resource.type == SERVICE else None
        if kind in (None, "ClusterIP"):
            continue
        ports = [port.get("port") for port in resource.properties["spec"].get("ports", [])]
        if kind != "NodePort" or (resource.name, ports) != (DASHBOARD, [DASHBOARD_PORT]):
            yield resource, f"a {kind} with the ports {ports}: only {DASHBOARD} may be a NodePort, for {DASHBOARD_PORT}"
        elif not on_minikube:
            yield resource, "a NodePort on a cluster that is not this stack's Minikube"


RULES: dict[str, Rule] = {
    "pinned-images": pinned_images,
    "requests-are-limits": requests_are_limits,
    "deadlines": deadlines,
    "explicit-provider": explicit_provider,
    "no-privileged-pods": no_privileged_pods,
    "restricted-namespaces": restricted_namespaces,
    "no-service-account-tokens": no_service_account_tokens,
}
"""The rules that apply to a single resource, by name. The rule `exposed_services` applies to a whole stack."""


def _with_autoscaler(resource: Declared) -> Iterator[dict[str, Any]]:
    """Yield the specs of the resource's pods. If Ray's autoscaler is on, also yield the head's spec with only the
    container that KubeRay adds for it."""
    yield from _pods(resource.properties)
    if (options := _autoscaler(resource)) is not None:
        yield _head(resource) | {"containers": [{"name": "autoscaler"} | options]}


def _autoscaler(resource: Declared) -> dict[str, Any] | None:
    """Return what a RayCluster states about Ray's autoscaler, which KubeRay starts in the head's pod; None without the
    autoscaler."""
    spec = resource.properties.get("spec", {})
    return dict(spec.get("autoscalerOptions", {})) if spec.get("enableInTreeAutoscaling") else None


def _head(resource: Declared) -> dict[str, Any]:
    """Return the spec of the head's pod of a RayCluster, as the same object that is in the resource's properties."""
    pod: dict[str, Any] = resource.properties["spec"]["headGroupSpec"]["template"]["spec"]
    return pod


def _pods(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the specs of all pods inside a value, in an object of any kind."""
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
        for part in value.values():
            yield from _pods(part)
    elif isinstance(value, list):
        for part in value:
            yield from _pods(part)


def _is_pinned(image: str) -> bool:
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return bool(_DIGEST.fullmatch(digest) if digest else _CONTENT_TAG.fullmatch(tag))


def _is_positive(number: Any) -> bool:
    return isinstance(number, int) and number > 0
