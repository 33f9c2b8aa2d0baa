"""What KubeRay's operator is made of: its chart and the values of its Helm release. Pure: dicts, no Pulumi."""

from dataclasses import dataclass

from infra.places.cluster.chart import Chart, Source
from infra.places.cluster.pod_spec import Manifest, Placement, Size

RELEASE = "ray-worth-it-operator"
"""Not KubeRay's usual name: others may have a release of that in the namespace."""
DEPLOYMENT = "kuberay-operator"
OPERATOR_LABELS = {"app.kubernetes.io/name": "kuberay-operator", "app.kubernetes.io/instance": RELEASE}
"""By which its chart's pod is told from another release's; Helm sets them."""
SIZE = Size(0.1, "512Mi")


@dataclass(frozen=True)
class OperatorSettings:
    """An operator to install."""

    source: Source
    chart: Chart
    """What was found there."""
    placement: Placement


def values(placement: Placement, namespace: str) -> Manifest:
    """An operator that looks after one namespace, and passes its Pod Security."""
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
        "imagePullSecrets": [{"name": name} for name in placement.pull_secrets],
        "nodeSelector": dict(placement.node_selector),
        "tolerations": [dict(toleration) for toleration in placement.tolerations],
    }
