"""What a script of one's own brings into a cluster: its files, and variables that nobody else may see. Pure: dicts.

Both are immutable objects named by what is in them: a pod that was made with one can't find another. Not in the
RayCluster are the files: they go to it with each run (`training.launch.submit`), so that an edit keeps it.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.places.cluster import pod_spec
from infra.places.cluster.pod_spec import Manifest
from training.contract.workload import Files
from training.launch import environment

KEY = "files.zip"
FOLDER = "/files"
"""Where pods find it."""
_DIGITS = 12


@dataclass(frozen=True)
class Secret:
    """Variables for pods, without their values."""

    names: tuple[str, ...]
    digest: str
    """By which a change of a value is seen."""

    @property
    def name(self) -> str:
        """The object's."""
        return f"script-secret-{self.digest[:_DIGITS]}"


def config_map(files: Files) -> tuple[str, Manifest]:
    """The name of the object with the files, and what is in it."""
    return _name(files), {"immutable": True, "binaryData": {KEY: b64encode(files.content).decode()}}


def mounted(pod: Manifest, files: Files) -> Manifest:
    """A pod's spec that has the files to read."""
    source: dict[str, Any] = {"configMap": {"name": _name(files)}}
    return pod_spec.with_variables(
        pod_spec.mounted(pod, "files", FOLDER, source), **{environment.FILES: f"{FOLDER}/{KEY}"}
    )


def secret_variables(secret: Secret) -> Mapping[str, Any]:
    """The variables, each by reference: no manifest has a value."""
    references = {name: {"secretKeyRef": {"name": secret.name, "key": name}} for name in secret.names}
    return {environment.SECRET_NAMES: ",".join(secret.names), **references}


def _name(files: Files) -> str:
    return f"script-files-{files.digest[:_DIGITS]}"
