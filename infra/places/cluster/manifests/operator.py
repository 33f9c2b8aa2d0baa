"""KubeRay's operator: its chart and the values of its Helm release. Pure: dicts, no Pulumi."""

from dataclasses import dataclass
from typing import Any

from infra.places.cluster.chart import Chart, Source
from infra.places.cluster.manifests.pod_parts import Manifest, Placement, Size
from infra.settings.rules import CHART

RELEASE = "ray-worth-it-operator"
"""Differs from KubeRay's usual name: the namespace may already have a release of that name."""
DEPLOYMENT = "kuberay-operator"
OPERATOR_LABELS = {"app.kubernetes.io/name": CHART, "app.kubernetes.io/instance": RELEASE}
"""Labels that tell the pod of this release from another's; Helm sets them."""
SIZE = Size(0.1, "512Mi")
ALWAYS_SET: Manifest = {"imagePullSecrets": [], "nodeSelector": {}, "tolerations": []}
"""Values that the release has also where the user sets none."""


@dataclass(frozen=True)
class OperatorSettings:
    """The settings of an operator to install."""

    source: Source
    chart: Chart
    """The chart fetched from the source."""
    placement: Placement
    namespace: Any
    """A namespace's name; an output if the program creates it: Helm cannot uninstall a release whose namespace is gone,
    and Pulumi deletes first what reads it."""


def values(placement: Placement, namespace: str) -> Manifest:
    """Return Helm values for an operator that watches one namespace, and passes its Pod Security.

    The chart has no value for a scheduler's name: the operator, which trains nothing, has the cluster's default.
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
