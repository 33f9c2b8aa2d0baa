"""Inspects an existing Ray cluster before an update: whether it answers, its version, its room for a measurement.

Only a job there can list the packages of its nodes. Changes nothing; each obstacle comes with its fix.
"""

import http.client
import json
import re
import secrets
import shlex
import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from infra.bundle import LEAST_PYTHON, LEAST_RAY, dotted, needed, zipped
from infra.places.ray import jobs, owner
from infra.settings.problem import Problem, set_line
from infra.settings.settings import Settings
from training.contract.arms import counted
from training.contract.printable import printable
from training.contract.provenance import PROJECT
from training.contract.recipe import canonical
from training.launch.ray import node_packages, other_jobs, submit
from training.launch.ray.jobs_api import JobsApi, SubmitError
from training.launch.ray.other_jobs import mark
from training.machine import output

LOOK = PROJECT / "training" / "launch" / "ray" / "node_packages.py"
EXAMPLES = ".example.com"
"""End of the names of hosts in examples: no host has such a name (RFC 2606)."""
SAID_LINES = 5
"""The number of log lines shown of a job that failed."""


class AskError(OSError):
    """Raised if the cluster cannot be asked; the message says why, and what helps."""


@dataclass(frozen=True, kw_only=True)
class RayNodes:
    """What is known about an existing Ray cluster before anything runs there."""

    version: str
    cpus: tuple[float, ...]
    """The number of CPUs of each node that has CPUs, ascending."""


@dataclass(frozen=True)
class Installed:
    """The packages and the modules of one Python environment on the cluster."""

    where: str
    versions: Mapping[str, str]
    modules: frozenset[str]

    def __str__(self) -> str:
        return self.where


def connect(settings: Settings) -> JobsApi:
    """Return a client of the cluster's Job Submission API; sends no request."""
    return JobsApi(settings.of_ray.ray_address, settings.of_ray.ray_token)


def nodes(api: JobsApi, settings: Settings) -> RayNodes:
    """Return the cluster's Ray version and its nodes. Raise AskError if the cluster does not answer or refuses."""
    with _asking(settings):
        version, entries = api.version(), api.nodes()
        alive = [node["resources_total"].get("CPU", 0.0) for node in entries if node["state"] == "ALIVE"]
    return RayNodes(version=version, cpus=tuple(sorted(cpus for cpus in alive if cpus)))


@contextmanager
def _asking(settings: Settings) -> Iterator[None]:
    """Turn each refusal of the cluster, and each failure of the connection, into an AskError."""
    address = settings.of_ray.ray_address
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        raise AskError(_refusal(error, settings)) from None
    except OSError as error:
        line = set_line("rayAddress", "http://…:8265")
        if (urlsplit(address).hostname or "").endswith(EXAMPLES):
            raise AskError(f"{address} is only the example of the stack's file; to set yours:\n  {line}") from None
        raise AskError(
            f"{address} does not answer ({getattr(error, 'reason', error)}). Check that the cluster runs and that"
            f" this machine reaches it. If it has another address:\n  {line}"
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError, http.client.HTTPException) as error:
        raise AskError(_no_dashboard(settings, repr(error))) from None


def _refusal(error: urllib.error.HTTPError, settings: Settings) -> str:
    """Return a text that explains an answer of the cluster other than 200, and how to fix it."""
    address, line = settings.of_ray.ray_address, "pulumi config set --secret rayToken"
    if HTTPStatus.MULTIPLE_CHOICES <= error.code < HTTPStatus.BAD_REQUEST:
        return _sent_on(address, error)
    if error.code not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return _no_dashboard(settings, f"HTTP {error.code}")
    if not settings.of_ray.ray_token:
        return f"{address} asks for a token (HTTP {error.code}); this line asks for it:\n  {line}"
    return f"{address} refuses the token that rayToken holds (HTTP {error.code}); this line asks for another:\n  {line}"


def _sent_on(address: str, error: urllib.error.HTTPError) -> str:
    """Return a text that says what to do about a redirect, which mostly leads to the same host with TLS."""
    location, here = urlsplit(error.headers.get("Location", "")), urlsplit(address)
    same = location.hostname == here.hostname and location.scheme == "https"
    example = f"https://{location.netloc}{here.path}" if same else "http://…:8265"
    return (
        f"{address} sends what asks it to another address (HTTP {error.code}), where the token is not sent to:"
        f" rayAddress is the one at which Ray's dashboard itself answers:\n  {set_line('rayAddress', example)}"
    )


def _no_dashboard(settings: Settings, reason: str) -> str:
    return (
        f"{settings.of_ray.ray_address} answers, but not as Ray's dashboard does ({reason}): rayAddress is the address"
        f" that `ray job submit --address` takes:\n  {set_line('rayAddress', 'http://…:8265')}"
    )


def obstacles(api: JobsApi, settings: Settings, nodes: RayNodes) -> Iterator[Problem]:
    """Yield a problem for everything in the cluster's current state that prevents the measurement. Raise AskError if
    the cluster does not answer or refuses."""
    if _numbers(nodes.version) < LEAST_RAY:
        least = dotted(LEAST_RAY)
        yield Problem(
            f"the cluster has Ray {nodes.version}, and {least} is the oldest without CVE-2026-27482",
            fixes=(f"pip install --upgrade 'ray[default,train]>={least}'    (on its nodes, or in their image)",),
        )
    yield from _too_small(settings, nodes.cpus)
    with _asking(settings):
        others = other_jobs.running_others(api.jobs(), owner.known_mark(settings.stack))
    if others:
        lines = tuple(other_jobs.end_line(job, settings.stack) for job in others)
        yield Problem(other_jobs.reason(others, settings.stack), fixes=lines)


def _too_small(settings: Settings, cpus: Sequence[float]) -> Iterator[Problem]:
    """Yield a problem if the nodes have no room for all workers, or if an arm needs more CPUs than any node has."""
    recipe, shown = settings.recipe, ", ".join(f"{each:g}" for each in cpus) or "none"
    room = sum(int(round(each / recipe.worker_cpus, 6)) for each in cpus)
    if room < recipe.workers:
        ways = [set_line("workers", room)] if room else [set_line("workerCpus", f"{max(cpus, default=1):g}")]
        yield Problem(
            f"{counted(recipe.workers, 'worker')} with workerCpus {recipe.worker_cpus:g} do not fit:"
            f" the CPUs of Ray's nodes are {shown}", fixes=(*ways,)
        )  # fmt: skip
        return
    for arm in settings.arms:
        needed = jobs.cpus_of(arm, recipe)
        if needed > max(cpus):
            yield Problem(
                f"the arm {arm} needs a node with {counted(needed, 'CPU')}: those of Ray's nodes are {shown}",
                fixes=(set_line("wideArm", "false"),),
            )
            return


def unlike(api: JobsApi, settings: Settings, cluster: RayNodes) -> Iterator[Problem]:
    """Yield a problem for missing and for conflicting packages of the nodes. A job of some seconds lists the packages.
    Raise AskError if that job fails."""
    wanted = needed(settings.recipe)
    job, *others = _installed(api, settings, wanted)
    if _numbers(job.versions["python"]) < LEAST_PYTHON:
        image = f"rayproject/ray:{cluster.version}-py{''.join(map(str, LEAST_PYTHON))}"
        yield Problem(
            f"{job} is Python {job.versions['python']}, and a measurement needs {dotted(LEAST_PYTHON)} or newer",
            fixes=(f"a cluster with that Python or a newer one, as the image {image} has it",),
        )
    if "ray" in job.versions and job.versions["ray"] != cluster.version:
        yield Problem(
            f"{job} has Ray {job.versions['ray']}, and the cluster is Ray {cluster.version}",
            fixes=("start Ray with the folder of its own `python` first on PATH",),
        )
    lacking = {side.where: sorted({wanted[name] for name in wanted.keys() - side.modules}) for side in (job, *others)}
    for where, packages in lacking.items():
        if packages:
            line = f"python -m pip install {shlex.join(packages)}    (there, or in its image)"
            yield Problem(f"{where} lacks {', '.join(packages)}", fixes=(line,))
    yield from _different(job, others)


def _different(job: Installed, others: Sequence[Installed]) -> Iterator[Problem]:
    """Yield a problem for each package that differs between nodes. If Python or Ray does, Ray refuses to start."""
    for other in others:
        names = sorted(job.versions.keys() & other.versions.keys())
        for name in (name for name in names if job.versions[name] != other.versions[name]):
            yield Problem(
                f"{other} has {name} {other.versions[name]}, and {job} {job.versions[name]}: runs would differ by that",
                fixes=("one environment, or one image, for all nodes",),
            )


def _installed(api: JobsApi, settings: Settings, wanted: Mapping[str, str]) -> list[Installed]:
    """Return the packages of the Python that a job starts with, and of each node's workers; a short job lists them.
    Raise AskError if that job fails."""
    name = f"{settings.stack}-look-{secrets.token_hex(3)}"
    question = {"packages": sorted({*wanted.values(), *(f"{package}-cpu" for package in wanted.values())}),
             "modules": sorted(wanted)}  # fmt: skip
    package = submit.package_of_run(zipped({LOOK.name: LOOK.read_bytes()}), name)
    try:
        uri = api.upload(package)
        api.submit(
            name, ["python", LOOK.name, canonical(question)], {}, mark(owner.of(settings.stack)), working_dir=uri
        )
        submit.follow(api, name, visible=lambda _: "")
        _, _, answer = api.log(name).rpartition(node_packages.MARKER)
        installed = json.loads(answer)
    except (SubmitError, OSError, ValueError) as error:
        raise AskError(f"the short job that lists the cluster's packages failed: {error}\n{_log(api, name)}") from None
    by_node = [
        Installed(f"node {at}", node["versions"], frozenset(node["modules"])) for at, node in installed["nodes"].items()
    ]
    job = installed["job"]
    return [Installed("`python` of a job", job["versions"], frozenset(job["modules"])), *by_node]


def _log(api: JobsApi, name: str) -> str:
    """Return the last lines of a job's log; empty if the log cannot be read."""
    try:
        return "\n".join(f"  | {line}" for line in output.last_lines(printable(api.log(name)), SAID_LINES))
    except OSError:
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    """Return major and minor."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
