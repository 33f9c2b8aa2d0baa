"""What KubeRay's operator is made of: its chart and the values of its Helm release. Pure: dicts, no Pulumi."""

from dataclasses import dataclass

from infra.chart import Chart, Source
from infra.pod_spec import Manifest, Placement, Size

RELEASE = "kuberay-operator"
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
        "fullnameOverride": RELEASE,
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
        "tolerations": [dict(one) for one in placement.tolerations],
    }
