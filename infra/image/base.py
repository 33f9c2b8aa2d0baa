"""Which image a name means now: the digest that its registry gave it, or the ID of one that this engine alone has.

A name with a tag means another image after the next push. What is built on it is another image, too, and is measured as
such: its tag has the base's digest in it (`infra.image.spec`), and so has the measurement's hash.
"""

import json
from dataclasses import replace

import pulumi

from infra.programs import ProgramError, run
from infra.settings.settings import Settings

ENGINE_SECONDS = 20.0
REGISTRY_SECONDS = 30.0
ID = "#"
"""Between a name and an image's ID, where it has no digest: `NAME#sha256:…`. No image's name has this character."""


def pinned(settings: Settings) -> Settings:
    """The settings with the base image by its digest, where the training image is built here.

    A preview goes on where that can't be found out, with a warning; an update raises RunError.
    """
    cluster = settings.of_cluster
    if cluster.image:
        return settings
    try:
        base = identity(cluster.base_image, pull=not pulumi.runtime.is_dry_run())
    except ProgramError as failure:
        problem = f"which image {cluster.base_image} is now could not be found out ({failure})."
        advice = (
            "With its digest that is known without an engine:\n"
            f"  pulumi config set baseImage {cluster.base_image}@sha256:…"
        )
        if not pulumi.runtime.is_dry_run():
            raise pulumi.RunError(f"{problem}\n{advice}") from None
        pulumi.log.warn(f"{problem} `up` finds it out, and may measure more again than is shown here. {advice}")
        return settings
    return replace(settings, cluster=replace(cluster, base_image=base))


def identity(name: str, *, pull: bool) -> str:
    """`NAME@sha256:…`, or `NAME#sha256:…` for an image that came from no registry; raises ProgramError.

    What the engine has counts, because a build takes it; else what the registry has, pulled where `pull` says so.
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
    """Return the base that a build names. Raises ProgramError if the image of that name has another ID now."""
    name, _, image_id = base.partition(ID)
    if image_id and _identity_here(name) != base:
        raise ProgramError(f"{name} is another image than when this update began ({image_id}): run it again")
    return name


def _identity_here(name: str) -> str:
    printed = run("docker", "image", "inspect", "--format", "{{json .}}", name, quiet=True, seconds=ENGINE_SECONDS)
    image = json.loads(printed)
    digests = {repository: digest for repository, _, digest in (d.partition("@") for d in image["RepoDigests"] or [])}
    digest = digests.get(_repository(name))
    return f"{name}@{digest}" if digest else f"{name}{ID}{image['Id']}"


def _repository(name: str) -> str:
    """The name without its tag, as an engine writes it."""
    path, _, last = name.rpartition("/")
    repository = f"{path}/{last.partition(':')[0]}".lstrip("/")
    return repository.removeprefix("docker.io/").removeprefix("library/")


def _digest_in_registry(name: str) -> str:
    """Asked without pulling anything."""
    command = ("docker", "buildx", "imagetools", "inspect", "--format", "{{json .Manifest}}", name)
    return str(json.loads(run(*command, quiet=True, seconds=REGISTRY_SECONDS))["digest"])
