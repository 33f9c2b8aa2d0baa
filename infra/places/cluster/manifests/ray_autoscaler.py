"""Ray's autoscaler as KubeRay starts it: a container in the head's pod, and in no pod template. Pure: no Pulumi.

KubeRay makes a ServiceAccount, a Role and a RoleBinding of the RayCluster's name. The pod mounts no token; the volume
below holds one, and this container alone mounts it.
"""

from infra.places.cluster.manifests.pod_parts import Manifest, Size

CONTAINER = "autoscaler"
"""The name of the autoscaler's container, which KubeRay chooses."""
SIZE = Size(0.5, "512Mi")
"""The size of the autoscaler's container, as KubeRay sets it by default."""
CREDENTIALS = "autoscaler-token"
"""The volume of the head's pod with the token that the autoscaler uses."""
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 (a folder)
"""The folder in which Ray reads the token."""
TOKEN_SECONDS = 3600
"""The seconds for which a token is valid; the kubelet renews the token before they end."""


def options(head: Manifest, idle_seconds: int) -> Manifest:
    """Return `autoscalerOptions` for the autoscaler's container. It has the image and the security context of the
    head's container, which is in the same pod."""
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
    """Return the volume of the head's pod that holds the token, the API server's CA certificate and the namespace."""
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": CREDENTIALS, "projected": {"sources": sources}}
