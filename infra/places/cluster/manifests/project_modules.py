"""The project's modules in the pods of an image that lacks them. Pure: dicts, no Pulumi.

An immutable object named by a hash of its contents, and an init container in each pod that unpacks it: so unpacking is
in no arm's clock. It is separate from a script's files: Ray's pods mount it, too, and must survive an edit of the
script.
"""

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from infra.bundle import LEAST_PYTHON, LEAST_RAY, by_name, dotted, needed, zipped
from infra.image import spec as image_spec
from infra.places.cluster.manifests import pod_parts
from infra.places.cluster.manifests.pod_parts import Manifest
from training.contract import provenance
from training.contract.recipe import Recipe
from training.launch.environment import IN_OTHER_IMAGE

KEY = "modules.zip"
PACKED = "/modules"
"""The folder in which the init container finds the packed modules."""
UNPACK = f"import zipfile; zipfile.ZipFile('{PACKED}/{KEY}').extractall('{IN_OTHER_IMAGE}')"
ENTRY = "training.launch.pod.unpacked_modules"
DASHBOARD = {"aiohttp_cors": "ray[default]"}
"""A module that Ray's dashboard needs to accept jobs, and the package that installs it."""
_UNPACKED, _DIGITS = "modules", 12
_OF_MAIN = ("image", "imagePullPolicy", "resources", "securityContext", "terminationMessagePolicy")


@dataclass(frozen=True)
class Modules:
    """The project's modules, packed."""

    content: bytes
    digest: str
    """SHA-256 over names and contents."""

    variables: ClassVar[Mapping[str, str]] = {
        "HOME": "/tmp",  # noqa: S108 (of the pod)
        "USER": "training",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    """The variables that our own image sets. In other images user 1000 may have no name, and no writable folder."""
    start: ClassVar[tuple[str, ...]] = ("python", "-P", f"{IN_OTHER_IMAGE}/training/launch/pod/unpacked_modules.py")
    """The command that starts the module named after it."""

    ray_version: ClassVar[str] = f"{dotted(LEAST_RAY)}.0"
    """The Ray version that KubeRay is told before the image is checked: the image has this one, or a newer one."""

    @property
    def name(self) -> str:
        """Return the object's name."""
        return f"project-modules-{self.digest[:_DIGITS]}"

    def config_map(self) -> Manifest:
        """Return the object's contents."""
        return {"immutable": True, "binaryData": {KEY: b64encode(self.content).decode()}}

    def asked_of_image(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the requirements that an image has to meet in addition to the modules."""
        modules = {name: package for name, package in {**needed(recipe), **DASHBOARD}.items() if name != "ray"}
        return {
            "least": {"python": dotted(LEAST_PYTHON), "ray": dotted(LEAST_RAY)},
            "exact": {},
            "modules": modules,
        }

    def mounted_in(self, pod: Manifest) -> Manifest:
        """Return the pod's spec with the modules mounted in its container."""
        (main,) = pod["containers"]
        unpacks = {
            "name": _UNPACKED,
            **{key: main[key] for key in _OF_MAIN},
            "command": ["python", "-P", "-c", UNPACK],
            "volumeMounts": [
                {"name": _UNPACKED, "mountPath": IN_OTHER_IMAGE},
                {"name": "packed", "mountPath": PACKED, "readOnly": True},
            ],
        }
        pod_with_volume = pod_parts.mounted(
            pod_parts.with_variables(pod, **self.variables), _UNPACKED, IN_OTHER_IMAGE, {"emptyDir": {}}
        )
        packed = {"name": "packed", "configMap": {"name": self.name}}
        return {**pod_with_volume, "initContainers": [unpacks], "volumes": [*pod_with_volume["volumes"], packed]}


def of_workload(workload: str) -> Modules:
    """Return the modules that any pod of a workload imports, or loads by their path."""
    files = by_name(sorted({*image_spec.modules(workload), *provenance.modules_of([ENTRY])}))
    digest = hashlib.sha256(b"".join(f"{name}\0".encode() + content + b"\0" for name, content in files.items()))
    return Modules(zipped(files), digest.hexdigest())
