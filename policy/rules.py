"""What every stack has to keep to, as plain functions: a resource in, sentences out, one for each violation.

They read what is declared and share nothing with the code that declares it: a rule that is broken there is seen here.
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
    """A resource as the engine is about to make it."""

    type: str
    name: str
    properties: dict[str, Any]
    provider: str | None = None
    """The name of its provider; the engine's own begin with `default`."""
    urn: str = ""


Rule = Callable[[Declared], Iterator[str]]


def pinned_images(resource: Declared) -> Iterator[str]:
    """Another image under the same name would be another measurement, and nobody would see it.

    What is built here has a hash of its content for a tag; what somebody else pushed has a digest. A chart is a file of
    this machine, which the program has verified: one by name or address would be fetched by Helm, as it comes.
    """
    for pod in _pods(resource.properties):
        for container in pod_security.containers(pod):
            if not _is_pinned(str(container.get("image", ""))):
                yield f"{container['name']} has the image {container.get('image')!r}: give it a digest, @sha256:…"
    if resource.type == RELEASE and not _CHART.fullmatch(str(resource.properties.get("chart", ""))):
        yield f"the chart {resource.properties.get('chart')!r} is not the .tgz of one version on this machine"


def requests_are_limits(resource: Declared) -> Iterator[str]:
    """What one pod does not use must not be another's gain: it would be in the measurement."""
    wanted = [
        (str(container["name"]), container.get("resources", {}))
        for pod in _pods(resource.properties)
        for container in pod_security.containers(pod)
    ]
    if resource.type == RELEASE:
        wanted.append(("values", resource.properties.get("values", {}).get("resources", {})))
    for name, resources in wanted:
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        if not {"cpu", "memory"} <= requests.keys() or requests != limits:
            yield f"{name} requests {requests} with the limits {limits}: cpu and memory in both, and alike"


def deadlines(resource: Declared) -> Iterator[str]:
    """A run that hangs ends by itself: `pulumi up` waits for it."""
    if resource.type == LOCAL_RUN and not _is_positive(resource.properties.get("timeoutMinutes")):
        yield "timeoutMinutes is not set"
    seconds = resource.properties.get("spec", {}).get("activeDeadlineSeconds")
    if resource.type == JOB and not _is_positive(seconds):
        yield "activeDeadlineSeconds is not set"


def explicit_provider(resource: Declared) -> Iterator[str]:
    """The default one goes to whichever cluster the user's kubeconfig names."""
    if resource.type.startswith("kubernetes:") and (resource.provider or "default").startswith("default"):
        yield "it names no provider, and would be made in the kubeconfig's current context"


def no_privileged_pods(resource: Declared) -> Iterator[str]:
    """Every pod passes Pod Security `restricted`."""
    for pod in _pods(resource.properties):
        yield from pod_security.violations(pod)


def restricted_namespaces(resource: Declared) -> Iterator[str]:
    """A namespace that is made here admits no other pods."""
    if resource.type == NAMESPACE:
        labels = resource.properties.get("metadata", {}).get("labels", {})
        if labels.get(ENFORCED) != "restricted":
            yield f"it has not the label {ENFORCED}: restricted"


def no_service_account_tokens(resource: Declared) -> Iterator[str]:
    """Training asks the API server nothing."""
    for pod in _pods(resource.properties):
        if pod.get("automountServiceAccountToken") is not False:
            yield "automountServiceAccountToken is not false"
        for volume in pod.get("volumes", []):
            sources = volume.get("projected", {}).get("sources", [])
            if any("serviceAccountToken" in source for source in sources):
                yield f"volume {volume['name']} holds a service account token"


def exposed_services(stack: Sequence[Declared]) -> Iterator[tuple[Declared, str]]:
    """The one port that the nodes open is the dashboard's, which asks for a token, and on Minikube alone."""
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
"""Those about one resource, by name; `exposed_services` is about a whole stack."""


def _pods(value: Any) -> Iterator[dict[str, Any]]:
    """The specs of pods anywhere in it, whichever kind of object they are a template of."""
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
