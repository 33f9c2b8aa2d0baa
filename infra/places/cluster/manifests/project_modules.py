"""The project's modules for the pods of an image that lacks them. Pure: dicts, no Pulumi.

An immutable object named by a hash of its contents, which each pod unpacks (`pod_parts`). It is separate from a
script's files: Ray's pods mount it, too, and must survive an edit of the script.
"""

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from infra.bundle import LEAST_PYTHON, LEAST_RAY, by_name, dotted, needed, zipped
from infra.image import spec as image_spec
from infra.places.cluster.manifests.pod_parts import PACKED_MODULES, Manifest
from training.contract import provenance
from training.contract.recipe import Recipe

ENTRY = "training.launch.pod.unpacked_modules"
DASHBOARD = {"aiohttp_cors": "ray[default]"}
"""A module without which Ray's dashboard accepts no jobs, and the package that installs the module."""
_DIGITS = 12


@dataclass(frozen=True)
class Modules:
    """The project's modules, packed into one zip file."""

    content: bytes
    digest: str
    """SHA-256 over the names and the contents of the modules."""

    ray_version: ClassVar[str] = f"{dotted(LEAST_RAY)}.0"
    """The version of Ray that KubeRay is told before the image is checked, which has this or a newer one."""

    @property
    def name(self) -> str:
        """Return the name of the ConfigMap with the modules."""
        return f"project-modules-{self.digest[:_DIGITS]}"

    def config_map(self) -> Manifest:
        """Return the contents of the ConfigMap with the modules."""
        return {"immutable": True, "binaryData": {PACKED_MODULES: b64encode(self.content).decode()}}

    def asked_of_image(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the requirements that an image has to meet so that the project's modules work in it."""
        modules = {name: package for name, package in {**needed(recipe), **DASHBOARD}.items() if name != "ray"}
        return {
            "least": {"python": dotted(LEAST_PYTHON), "ray": dotted(LEAST_RAY)},
            "exact": {},
            "modules": modules,
        }


def of_workload(workload: str) -> Modules:
    """Return the modules that any pod of a workload imports, or loads by the path of their file."""
    files = by_name(sorted({*image_spec.modules(workload), *provenance.modules_of([ENTRY])}))
    digest = hashlib.sha256(b"".join(f"{name}\0".encode() + content + b"\0" for name, content in files.items()))
    return Modules(zipped(files), digest.hexdigest())
