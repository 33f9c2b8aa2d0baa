"""A user's script in a cluster: its files, and its secret variables. Pure: dicts.

Both are immutable objects named by a hash of their contents, so a pod cannot find contents other than those it was
created with. The files are sent with each job (`training.launch.ray.submit`) instead of mounted in the RayCluster, so
an edit does not replace it.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.places.cluster.manifests import pod_parts
from infra.places.cluster.manifests.pod_parts import Manifest
from training.contract.workload import Files
from training.launch import environment

KEY = "files.zip"
FOLDER = "/files"
"""The folder in which pods find the files."""
_DIGITS = 12


@dataclass(frozen=True)
class Secret:
    """The secret variables for pods: their names, but not their values."""

    names: tuple[str, ...]
    digest: str
    """A digest of the values, to detect a change."""

    @property
    def name(self) -> str:
        """Return the name of the Secret object."""
        return f"script-secret-{self.digest[:_DIGITS]}"


def config_map(files: Files) -> tuple[str, Manifest]:
    """Return the name and the contents of the ConfigMap with the script's files."""
    return _name(files), {"immutable": True, "binaryData": {KEY: b64encode(files.content).decode()}}


def mounted(pod: Manifest, files: Files) -> Manifest:
    """Return the pod's spec with the script's files mounted in its container."""
    source: dict[str, Any] = {"configMap": {"name": _name(files)}}
    return pod_parts.with_variables(
        pod_parts.mounted(pod, "files", FOLDER, source), **{environment.FILES: f"{FOLDER}/{KEY}"}
    )


def secret_variables(secret: Secret) -> Mapping[str, Any]:
    """Return the secret variables as references to the Secret, so that no manifest contains a value."""
    references = {name: {"secretKeyRef": {"name": secret.name, "key": name}} for name in secret.names}
    return {environment.SECRET_NAMES: ",".join(secret.names), **references}


def _name(files: Files) -> str:
    return f"script-files-{files.digest[:_DIGITS]}"
