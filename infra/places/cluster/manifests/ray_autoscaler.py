"""Ray's autoscaler as KubeRay starts it: a container in the head's pod, of which no pod template of ours says anything.
Pure: dicts, no Pulumi.

KubeRay makes a ServiceAccount, a Role and a RoleBinding of the RayCluster's name. The pod mounts no token; the volume
below holds one, and this container alone mounts it.
"""

from infra.places.cluster.manifests.pod_parts import Manifest, Size

CONTAINER = "autoscaler"
"""Its name, which KubeRay gives."""
SIZE = Size(0.5, "512Mi")
"""KubeRay's own default."""
CREDENTIALS = "autoscaler-token"
"""The volume of the head's pod with its token."""
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 (a folder)
"""Where Ray reads it."""
TOKEN_SECONDS = 3600
"""How long a token lasts; the kubelet renews it before."""


def options(head: Manifest, idle_seconds: int) -> Manifest:
    """Return `autoscalerOptions` for a container beside the head's, with its image and its security."""
    mounts = [mount for mount in head["volumeMounts"] if mount["name"] == "tmp"]
    return {
        "version": "v2",
        "idleTimeoutSeconds": idle_seconds,
        "image": head["image"],
        "imagePullPolicy": head["imagePullPolicy"],
        "resources": SIZE.resources(),
        "securityContext": head["securityContext"],
        "volumeMounts": [*mounts, {"name": CREDENTIALS, "mountPath": TOKEN_PATH, "readOnly": True}],
    }


def volume() -> Manifest:
    """Return the volume of the head's pod that holds a token and what it is used with."""
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": CREDENTIALS, "projected": {"sources": sources}}
