"""The project's modules in the pods of an image that lacks them. Pure: dicts, no Pulumi.

An immutable object named by what is in it, and in each pod a container that unpacks it before the pod's own starts: so
that is in no arm's clock. The object is not that of a script's files: Ray's pods have it, too, and an edit of the
script keeps those.
"""

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from infra.bundle import LEAST_PYTHON, LEAST_RAY, by_name, dotted, needed, zipped
from infra.image import spec as image_spec
from infra.places.cluster import pod_spec
from infra.places.cluster.pod_spec import Manifest
from training.contract import provenance
from training.contract.recipe import Recipe
from training.launch.environment import IN_OTHER_IMAGE

KEY = "modules.zip"
PACKED = "/modules"
"""Where the container that unpacks them finds it."""
UNPACK = f"import zipfile; zipfile.ZipFile('{PACKED}/{KEY}').extractall('{IN_OTHER_IMAGE}')"
ENTRY = "training.launch.unpacked_modules"
DASHBOARD = {"aiohttp_cors": "ray[default]"}
"""A module of Ray's dashboard, to which runs are submitted, and what brings it."""
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
    """As an image of ours has them. In others user 1000 may have no name, and no folder that can be written."""
    start: ClassVar[tuple[str, ...]] = ("python", "-P", f"{IN_OTHER_IMAGE}/training/launch/unpacked_modules.py")
    """What starts the module that follows."""

    ray_version: ClassVar[str] = f"{dotted(LEAST_RAY)}.0"
    """What KubeRay is told of an image whose Ray is not known before it is asked: it has this one, or a newer."""

    @property
    def name(self) -> str:
        """The object's."""
        return f"project-modules-{self.digest[:_DIGITS]}"

    def config_map(self) -> Manifest:
        """What is in the object."""
        return {"immutable": True, "binaryData": {KEY: b64encode(self.content).decode()}}

    def asked_of_image(self, recipe: Recipe) -> Mapping[str, Any]:
        """What an image has to have beside them."""
        modules = {name: package for name, package in {**needed(recipe), **DASHBOARD}.items() if name != "ray"}
        return {
            "least": {"python": dotted(LEAST_PYTHON), "ray": dotted(LEAST_RAY)},
            "exact": {},
            "modules": modules,
        }

    def mounted_in(self, pod: Manifest) -> Manifest:
        """A pod's spec whose container has them to read."""
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
        pod_with_volume = pod_spec.mounted(
            pod_spec.with_variables(pod, **self.variables), _UNPACKED, IN_OTHER_IMAGE, {"emptyDir": {}}
        )
        packed = {"name": "packed", "configMap": {"name": self.name}}
        return {**pod_with_volume, "initContainers": [unpacks], "volumes": [*pod_with_volume["volumes"], packed]}


def of_workload(workload: str) -> Modules:
    """Those that any pod of a workload imports, or loads by their path."""
    files = by_name(sorted({*image_spec.modules(workload), *provenance.modules_of([ENTRY])}))
    digest = hashlib.sha256(b"".join(f"{name}\0".encode() + content + b"\0" for name, content in files.items()))
    return Modules(zipped(files), digest.hexdigest())
