"""The target `ray`: an existing Ray cluster, reached by its dashboard's address. Every run is a job there."""

import platform
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import pulumi

from infra.doctor import Finding
from infra.places.local.measurement import ProcessMeasurement, common
from infra.places.ray import inspection
from infra.places.ray.inspection import AskError, RayNodes
from infra.places.ray.jobs import Jobs
from infra.places.ray.run import RayJobRun
from infra.plan import RunPlan, Site
from infra.settings.draft import Check, Draft, is_readable_folder
from infra.settings.key import Target
from infra.settings.problem import Problem, set_line
from infra.settings.sections import ON
from infra.settings.settings import Judgement, Settings
from training.contract.recipe import canonical
from training.contract.workload import OfRayCluster, named
from training.launch.ray.jobs_api import is_readable_on_the_way

ON_ONE_NODE = ("wide", "native")
"""The arms whose processes run on a single node with the CPUs of all workers."""
DATASETS = ("digits", "synthetic")
"""The data sets that need no files on a node and no download."""

_version = cache(version)
"""`version`, but cached, because it reads all metadata of the Ray package, and a preview asks several times."""


class ExistingRay:
    """An existing Ray cluster at an address. Nothing in it is changed, apart from the jobs that start and end."""

    target: Target = "ray"
    trains_here = False
    holds_machine = False  # each run waits for it by itself: the cluster may be on this machine

    @property
    def checks(self) -> tuple[Check, ...]:
        """Return the checks of this target."""
        return (
            _address_is_named,
            _token_is_secret,
            _cpus_are_whole,
            _data_is_there,
        )

    def installed(self, requirements: str | None, image: str | None) -> OfRayCluster:  # noqa: ARG002
        """Return this machine's versions of Ray and Python, because settings are judged before the nodes are asked."""
        return OfRayCluster(ray=_version("ray"), python=platform.python_version())

    def judge(self, draft: Draft, arms: Sequence[str], optional: Collection[str]) -> Judgement:  # noqa: ARG002
        """Return a judgement that leaves out the arms on one node unless `wideArm` is true, because settings are judged
        before the nodes are asked for their CPUs.

        The judgement has a remark if secrets are sent to the cluster unencrypted.
        """
        unknown = draft.run.wide_arm != ON and draft.recipe.workers > 1
        why = (
            "whether a node has the CPUs of all workers is not known at preview; if one does, wide and native are"
            f" measured with: {set_line('wideArm', ON)}"
        )
        absent = {arm: why for arm in optional if arm in ON_ONE_NODE and unknown}
        secret = [key for key in ("rayToken", "secretEnvironment") if draft.values.get(key)]
        address = draft.ray.ray_address
        is_readable = bool(secret and address) and is_readable_on_the_way(address)
        return Judgement(absent=absent, remarks=[f"{' and '.join(secret)}: {readable(address)}"] if is_readable else [])

    def site(self, settings: Settings, nodes: RayNodes | None = None) -> Site:
        """Return the site, with what is known about the cluster's nodes. A run reserves nothing beside its workers:
        Ray's head exists without a measurement, too, and the driver holds no CPU."""
        image = self.installed(settings.requirements, None)
        known = {"version": nodes.version, "cpus": list(nodes.cpus)} if nodes else None
        machines = {"address": settings.of_ray.ray_address, "nodes": known}
        return Site(installed=image, machines=machines, pods=Jobs())

    def survey(self, settings: Settings) -> Site:
        """Log a description of the cluster, and return the site. Raise RunError if the cluster does not answer or
        cannot hold the measurement; a preview only warns."""
        preview = pulumi.runtime.is_dry_run()
        api = inspection.connect(settings)
        try:
            nodes = inspection.nodes(api, settings)
            refused = list(inspection.obstacles(api, settings, nodes))
            if not refused and not preview:
                refused = list(inspection.unlike(api, settings, nodes))
        except AskError as error:
            if not preview:
                raise pulumi.RunError(f"the Ray cluster could not be asked; nothing was changed.\n{error}") from None
            why = "because it could not read which nodes there are"
            pulumi.log.warn(f"{error}\nThis preview shows every run as one to repeat, {why}.")
            return self.site(settings)
        pulumi.log.info(f"the cluster: {description(settings, nodes)}")
        if refused and not preview:
            words = "This Ray cluster does not meet the requirements below; nothing was changed."
            raise pulumi.RunError("\n\n".join([words, *(obstacle.advice() for obstacle in refused)]))
        for obstacle in refused:
            pulumi.log.warn(f"`up` would be refused: {obstacle.advice()}")
        return self.site(settings, nodes)

    def declare(self, settings: Settings, site: Site, runs: Sequence[RunPlan]) -> ProcessMeasurement:  # noqa: ARG002
        """Return the component that declares the runs."""
        properties = {plan.name: _properties(settings, plan) for plan in runs}
        return ProcessMeasurement("ray-worth-it:ray:Measurement", RayJobRun, properties)

    def doctor(self, settings: Settings) -> Iterator[Finding]:
        """Yield the findings about the cluster that a preview checks."""
        api, needed = inspection.connect(settings), "a Ray cluster that answers"
        try:
            nodes = inspection.nodes(api, settings)
            obstacles = list(inspection.obstacles(api, settings, nodes))
        except AskError as error:
            yield Finding("Ray cluster", "see below", needed, False, str(error))
            return
        yield Finding("Ray cluster", description(settings, nodes), needed, True)
        for obstacle in obstacles:
            yield Finding("Ray cluster", "see below", "room for the measurement alone", False, obstacle.advice())


def readable(address: str) -> str:
    """Return a warning that the address has no TLS, with the command lines that open a tunnel through SSH."""
    parts = urlsplit(address)
    named = parts.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")[2]  # an IPv6 address has colons, too
    here, port = named or "8265", named or "80"
    return (
        f"what is sent to {address} can be read on the way, and who has Ray's token runs code there. Where that is not"
        f" a network of your own, use its https:// address, or a tunnel:\n"
        f"  ssh -N -L {here}:localhost:{port} {parts.hostname}\n  {set_line('rayAddress', f'http://localhost:{here}')}"
    )


def description(settings: Settings, nodes: RayNodes) -> str:
    """Return a description of the cluster in one line."""
    cpus = ", ".join(f"{each:g}" for each in nodes.cpus) or "none"
    return f"Ray {nodes.version} at {settings.of_ray.ray_address}, CPUs of its nodes: {cpus}"


def _properties(settings: Settings, plan: RunPlan) -> dict[str, Any]:
    """Return the properties for the provider of the runs."""
    ray, variables = settings.of_ray, settings.secret_environment
    secret = {"token": ray.ray_token, "secretEnvironment": canonical(dict(variables)) if variables else ""}
    recipe = plan.recipe
    command = named(recipe.workload).command(recipe, plan.arm, OfRayCluster(ray="", python=""))
    return {
        **({"command": command} if command else {}),  # read by nobody: a preview shows what is to be run
        **{name: pulumi.Output.secret(value) for name, value in secret.items() if value},
        "address": ray.ray_address,
        **common(settings, plan),
    }


def _address_is_named(draft: Draft) -> Iterator[Problem]:
    if not draft.ray.ray_address:
        key = draft.keys["rayAddress"]
        yield Problem(
            draft.shown("rayAddress"), f"{key.rule.allowed}, on target ray", (set_line("rayAddress", key.example),),
            why="it says on which cluster is measured",
        )  # fmt: skip


def _token_is_secret(draft: Draft) -> Iterator[Problem]:
    if draft.ray.ray_token and "rayToken" not in draft.facts.secret_keys:
        yield Problem(
            "rayToken is set without --secret",
            "a value that Pulumi encrypts",
            ("pulumi config set --secret rayToken",),
            why="the stack's file has it in clear text; the command below asks for the value",
        )


def _cpus_are_whole(draft: Draft) -> Iterator[Problem]:
    cpus = draft.recipe.worker_cpus
    if cpus > 1 and cpus != int(cpus):
        yield Problem(
            draft.shown("workerCpus"), "a whole number, or less than 1, on target ray",
            (set_line("workerCpus", int(cpus) + 1),), why="Ray reserves no other numbers of CPUs",
        )  # fmt: skip


def _data_is_there(draft: Draft) -> Iterator[Problem]:
    data = draft.values.get("datasetPath")
    path = draft.path(data)
    if (path and is_readable_folder(path)) or draft.in_storage(data):
        yield Problem(
            draft.shown("datasetPath"), "not set on target ray", ("pulumi config rm datasetPath",),
            why="the nodes of the cluster have no files of this machine",
        )  # fmt: skip
    elif not data and draft.values.get("dataset", "auto") not in ("auto", *DATASETS):
        yield Problem(
            draft.shown("dataset"), f"{' or '.join(DATASETS)} on target ray", (set_line("dataset", DATASETS[0]),),
            why="a run there downloads nothing",
        )  # fmt: skip
