"""Checks that a prebuilt image can run the pods, as a Pulumi dynamic resource: a short Job runs the check in it.

It runs before the Ray cluster is created, whose pods would wait a quarter of an hour for what the image lacks. It runs
once for an image; the Job is deleted afterwards. The state holds the provider pickled by reference: this module and its
class keep their names for ever.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource

from infra.places.cluster.api import kube, short_job
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.short_job import ShortJobError
from infra.places.cluster.manifests.pod_parts import (
    UNPACKED_VARIABLES,
    Manifest,
    Placement,
    Size,
    container,
    metadata,
    pod,
)
from infra.programs import UserError
from infra.provider import Provider, changed, replaced_by
from infra.settings.problem import set_line
from infra.settings.rules import template_line
from training.contract.provenance import PROJECT
from training.image.check import ASKED

NAME = "image-check"
CHECK = PROJECT / "training" / "image" / "check.py"
SIZE = Size(0.1, "256Mi")
SECONDS = 900.0
"""The seconds that the Job may take. An image of some gigabytes may have to be pulled first."""
PROGRAMS = ("bash", "ray")
"""Programs that the image needs, because KubeRay runs `ray` in `bash`."""
NO_PYTHON = "\nPods run `python` as user 1000: it has to be on PATH, and in no folder that another user alone may enter"
FOLDERS = ("/tmp", "/results")  # noqa: S108 (of the pod)


class BadImageError(UserError):
    """Raised if an image cannot run the pods."""


class ImageCheck(Resource, module="cluster", name="ImageCheck"):
    """The check of a prebuilt image as a Pulumi resource. `found` are the image's versions, as canonical JSON."""

    found: pulumi.Output[str]

    def __init__(self, name: str, properties: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(ImageCheckProvider(), name, properties | {"found": None}, opts)


class ImageCheckProvider(Provider):
    """Checks an image when the resource is created; there is nothing to delete."""

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return that the resource is replaced if the image, the pods or the requirements changed."""
        replaced = bool(changed(olds, news, "pod", "namespace"))
        return replaced_by(["pod"] if replaced else [])

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Run the check in the image. Raise BadImageError, with what to change, if the image cannot run the pods."""
        try:
            api = kube.connect(props["kubeconfig"])
            log = short_job.run(api, props["namespace"], NAME, json.loads(props["pod"]), SECONDS)
        except KubeError as error:
            raise BadImageError(f"{props['image']} could not be checked: {error}") from None
        except ShortJobError as error:
            raise BadImageError(_failure(props["image"], error)) from None
        return CreateResult(props["image"], props | {"found": log.strip().splitlines()[-1]})


def pod_of(placement: Placement, needs: Mapping[str, Any]) -> Manifest:
    """Return the pod that checks an image. It has the same placement and the same restrictions as all other pods."""
    question = json.dumps({"programs": PROGRAMS, "folders": FOLDERS, **needs})
    variables = UNPACKED_VARIABLES if placement.modules else {}
    command = ["python", "-c", CHECK.read_text(encoding="utf-8")]
    main = container(NAME, placement.image, SIZE, command=command, environment={ASKED: question, **variables})
    return {"metadata": metadata(placement, NAME), "spec": pod(main, replace(placement, modules=None))}


def _failure(image: str, error: ShortJobError) -> str:
    if error.log:
        lines = "".join(f"\n  - {line}" for line in error.log.splitlines())
        return f"the image {image} cannot run the pods; nothing was created from it:{lines}"
    if not error.pulled:
        return f"{error}\nAnother image:  {set_line('image', 'registry.example.com/name:tag')}\n" + _LOGIN
    hint = NO_PYTHON if 'exec: "python"' in str(error) else ""
    return f"the image {image} cannot run the pods; nothing was created from it: {error}{hint}"


_LOGIN = (
    "A registry that asks for a login: a pull secret in a namespace that exists, and\n"
    f"  {set_line('createNamespace', 'false')} && "
    + template_line({"imagePullSecrets": [{"name": "registry-login"}]}, "stacks/pull-secret.yaml")
)
