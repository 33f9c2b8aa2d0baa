"""KubeRay's operator: its chart and the values of its Helm release. Pure: dicts, no Pulumi."""

from dataclasses import dataclass
from typing import Any

from infra.places.cluster.chart import Chart, Source
from infra.places.cluster.manifests.pod_parts import Manifest, Placement, Size
from infra.settings.rules import CHART

RELEASE = "ray-worth-it-operator"
"""The name of the Helm release. It is not KubeRay's usual one, which the namespace may have already."""
DEPLOYMENT = "kuberay-operator"
OPERATOR_LABELS = {"app.kubernetes.io/name": CHART, "app.kubernetes.io/instance": RELEASE}
"""Labels, set by Helm, that tell the operator's pod of this release from the pod of another release."""
SIZE = Size(0.1, "512Mi")
ALWAYS_SET: Manifest = {"imagePullSecrets": [], "nodeSelector": {}, "tolerations": []}
"""Values that the release has even if the user sets nothing for them."""


@dataclass(frozen=True)
class OperatorSettings:
    """The settings with which KubeRay's operator is installed."""

    source: Source
    chart: Chart
    """The chart fetched from the source."""
    placement: Placement
    namespace: Any
    """The namespace's name. It is an output of the namespace if the program creates the namespace: so Pulumi deletes
    the release before the namespace. Helm cannot uninstall a release whose namespace is gone."""


def values(placement: Placement, namespace: str) -> Manifest:
    """Return the Helm values for an operator that watches one namespace and passes that namespace's Pod Security.

    The chart has no value for a scheduler's name, so the cluster's default scheduler places the operator, which trains
    nothing.
    """
    template = placement.template
    return {
        "fullnameOverride": DEPLOYMENT,
        "singleNamespaceInstall": True,
        "watchNamespace": [namespace],
        "resources": SIZE.resources(),
        "podSecurityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **{name: template.spec.get(name, empty) for name, empty in ALWAYS_SET.items()},
        **{name: template.spec[name] for name in ("affinity", "priorityClassName") if name in template.spec},
        **({"labels": dict(template.labels)} if template.labels else {}),
        **({"annotations": dict(template.annotations)} if template.annotations else {}),
    }
