"""Identifies the image that a name means now: by its registry's digest, or by the ID of an image of this engine alone.

A name with a tag means another image after the next push. An image built on that is another image, too, and is measured
as such: its tag contains the base's digest (`infra.image.spec`), and so does the measurement's hash.
"""

import json
from dataclasses import replace

import pulumi

from infra.programs import ProgramError, run
from infra.settings.settings import Settings

ENGINE_SECONDS = 20.0
REGISTRY_SECONDS = 30.0
ID = "#"
"""The character between a name and an image's ID, for an image without a digest. No image's name contains it."""


def pinned(settings: Settings) -> Settings:
    """Return the settings with the base image's digest added to its name, if the training image is built here.

    If the digest cannot be determined, a preview continues with a warning, and an update raises RunError.
    """
    cluster = settings.of_cluster
    if cluster.image:
        return settings
    named = cluster.offline.base_image
    try:
        base = identity(named, pull=not pulumi.runtime.is_dry_run())
    except ProgramError as failure:
        problem = f"the current digest of {named} could not be determined ({failure})."
        advice = f"With its digest in base-image.txt ({named}@sha256:…, docs/offline.md) it needs no engine."
        if not pulumi.runtime.is_dry_run():
            raise pulumi.RunError(f"{problem}\n{advice}") from None
        pulumi.log.warn(f"{problem} `up` determines it, and may repeat more runs than this preview shows. {advice}")
        return settings
    return replace(settings, cluster=replace(cluster, offline=replace(cluster.offline, base_image=base)))


def identity(name: str, *, pull: bool) -> str:
    """Return `NAME@sha256:…` for an image, or `NAME#sha256:…` for an image without a registry. Raise ProgramError if
    neither is known.

    An image that Docker has here takes precedence, because a build uses it. Any other is pulled; without `pull`, its
    registry is asked.
    """
    if "@" in name:
        return name
    try:
        return _identity_here(name)
    except ProgramError:
        if not pull:
            return f"{name}@{_digest_in_registry(name)}"
    run("docker", "pull", "--quiet", name, quiet=True)
    return _identity_here(name)


def built_from(base: str) -> str:
    """Return the base image's name for the build. Raise ProgramError if the name now means an image with another ID."""
    name, _, image_id = base.partition(ID)
    if image_id and _identity_here(name) != base:
        raise ProgramError(f"{name} changed during this update (it was {image_id}): run the update again")
    return name


def _identity_here(name: str) -> str:
    printed = run("docker", "image", "inspect", "--format", "{{json .}}", name, quiet=True, seconds=ENGINE_SECONDS)
    image = json.loads(printed)
    digests = {repository: digest for repository, _, digest in (d.partition("@") for d in image["RepoDigests"] or [])}
    digest = digests.get(_repository(name))
    return f"{name}@{digest}" if digest else f"{name}{ID}{image['Id']}"


def _repository(name: str) -> str:
    """Return the image's name without its tag, as Docker writes the name."""
    path, _, last = name.rpartition("/")
    repository = f"{path}/{last.partition(':')[0]}".lstrip("/")
    return repository.removeprefix("docker.io/").removeprefix("library/")


def _digest_in_registry(name: str) -> str:
    """Return the image's digest, for which the registry is asked without pulling the image."""
    command = ("docker", "buildx", "imagetools", "inspect", "--format", "{{json .Manifest}}", name)
    return str(json.loads(run(*command, quiet=True, seconds=REGISTRY_SECONDS))["digest"])
