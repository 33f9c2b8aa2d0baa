"""`rwi jobs`: scripts of one's own on a stack's Ray cluster while nothing is measured.

A cluster in Kubernetes is asked through the API server, as by `rwi jobs dashboard`, so none of its ports has to be
open. Ray's token is never shown.
"""

from __future__ import annotations

import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any

from cli.jobs import measuring, request
from cli.look import cluster, ray_cluster
from cli.look.cluster import StackCluster
from cli.look.ray_cluster import StackRay
from cli.look.status_view import duration
from cli.setup.project import CLUSTER_TARGETS, ToolError, say
from cli.stack import settings as stack_settings
from cli.stack.lines import for_rwi
from infra.places.cluster.api import ray_api
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.ray_api import ForwardedJobs
from infra.places.cluster.manifests.ray_cluster import CLUSTER_LABELS
from infra.settings.cluster import KEPT, PER_RUN
from infra.settings.problem import set_line
from report import terminal
from report.terminal import columns
from training.launch.ray.jobs_api import JobsApi, SubmitError, explained
from training.launch.ray.other_jobs import command, end_line, is_of_measurement, is_unfinished, job_name
from training.launch.ray.submit import follow
from training.machine.command_line import quoted, rwi

STOP_SECONDS = 30.0
"""Seconds to wait for the end of a stopped job. Ray asks a job to end, and kills it after 3 seconds."""
POLL_SECONDS = 0.5
NAMES_TRIED = 5


RayPlace = StackCluster | StackRay


@dataclass(frozen=True)
class Ray:
    """The Ray cluster of a stack, and the clients for requests to it."""

    place: RayPlace
    kube: Any
    """A client of the Kubernetes cluster; None if Ray does not run in one."""
    jobs: JobsApi

    def line(self, rest: str) -> str:
        """Return a command line of `rwi jobs` for the stack."""
        return rwi(f"jobs {rest}", self.place.stack)


def reach(place: RayPlace) -> Ray:
    """Return the Ray cluster of a place. Raise ToolError if it is in Kubernetes, and its head does not run."""
    if isinstance(place, StackRay):
        return Ray(place, None, place.jobs)
    api = cluster.connect(place)
    try:
        ray_api.head(api, place.namespace)
    except (KubeError, OSError) as error:
        raise ToolError(f"stack {place.stack}: {error}:  {rwi('status', place.stack)}") from None
    return Ray(place, api, ForwardedJobs(api, place.namespace))


@contextmanager
def asking(place: RayPlace) -> Iterator[None]:
    """Raise errors of the cluster, of Ray and of the connection as ToolError."""
    try:
        yield
    except urllib.error.HTTPError as error:
        advice = _start_again(place) if error.code in (401, 403) else ""
        raise ToolError(f"stack {place.stack}: {explained(error)}{advice}") from None
    except (KubeError, OSError) as error:
        raise ToolError(f"stack {place.stack}: {error}:  {rwi('status', place.stack)}") from None


def _start_again(place: RayPlace) -> str:
    """Return how to fix a refused token. In a cluster, KubeRay recreates the pods with the Secret's token; otherwise
    the user sets the stack's token."""
    if isinstance(place, StackRay):
        line = for_rwi(f"pulumi config set --secret {ray_cluster.KEY}", place.stack, {})
        return f"; the right one is asked for by\n  {line}"
    selector = ",".join(f"{key}={value}" for key, value in CLUSTER_LABELS.items())
    return (
        "; its Secret was changed after Ray had started. To start Ray with what it holds now:\n"
        f"  {place.kubectl} delete pods --selector={selector}"
    )


def submit(place: RayPlace, typed: request.Typed, *, detach: bool) -> int:
    """Send the folder to the cluster, start the script as a job, and follow its log. Return the exit status."""
    refuse_without_workers(place)
    submission = request.read(place.settings.recipe.workers, typed)
    package = submission.package()
    ray = reach(place)
    with asking(place):
        refuse_beside_measurement(ray, "nothing was submitted")
        try:
            working_dir = ray.jobs.upload(package)
        except SubmitError as error:
            raise ToolError(f"--folder {submission.folder}: {error}") from None
        more: dict[str, Any] = {"pip": list(submission.packages)} if submission.packages else {}
        name = _start(ray, submission, working_dir=working_dir, **more)
        _give_way(ray, name)
    say(
        f"{name}: submitted to the Ray cluster of stack {place.stack},"
        f" {len(package) / 1024:.0f} KiB of {submission.folder}"
    )
    if submission.packages:
        say("Ray installs these packages first; pods reach an index only where a NetworkPolicy of yours lets them")
    return 0 if detach else _follow(ray, name)


def refuse_without_workers(place: RayPlace) -> None:
    """Raise ToolError if the Ray cluster has workers only during the runs of a measurement."""
    if isinstance(place, StackCluster) and place.settings.of_cluster.ray_workers == PER_RUN:
        keep = for_rwi(set_line("rayWorkers", KEPT), place.stack, {})
        raise ToolError(
            f"rayWorkers is {PER_RUN}: this Ray cluster has workers only while a measurement runs:\n  {keep}"
        )


def _start(ray: Ray, submission: request.Request, **runtime_env: Any) -> str:
    """Submit the job under the script's name and the next free number, and return that name. Another number is tried if
    another call took the first meanwhile."""
    taken = {job_name(job) for job in ray.jobs.jobs()}
    names = (name for number in count(1) if (name := f"{submission.name}-{number}") not in taken)
    for _ in range(NAMES_TRIED):
        name = next(names)
        try:
            ray.jobs.submit(name, submission.command, submission.variables, **runtime_env)
        except urllib.error.HTTPError as error:
            explanation = explained(error)
            if "already exists" not in explanation:
                raise ToolError(f"stack {ray.place.stack}: {explanation}") from None
            continue
        return name
    raise ToolError(f"others submit {submission.name} just now: {ray.line('list')}, and then again")


def refuse_beside_measurement(ray: Ray, otherwise: str, known: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Raise ToolError if a measurement or a recovery uses the cluster. `known`: its jobs, if already listed."""
    jobs = ray.jobs.jobs() if known is None else known
    reason = measuring.update_or_run(ray.place, ray.kube) or measuring.ray_job(ray.place, jobs)
    if reason:
        raise ToolError(
            f"stack {ray.place.stack} is being measured, and a job would take CPUs from it: {otherwise}; {reason}"
        )


def _give_way(ray: Ray, name: str) -> None:
    """Stop the job if a measurement started while the job was submitted, and raise ToolError."""
    try:
        refuse_beside_measurement(ray, f"{name} was stopped again")
    except ToolError:
        ray.jobs.stop(name)
        raise


def list_all(place: RayPlace) -> int:
    """Print all jobs, the newest last, and return the exit status."""
    ray = reach(place)
    with asking(place):
        listed = sorted(ray.jobs.jobs(), key=lambda job: job.get("start_time") or 0)
    if not listed:
        say(f"no job yet on the Ray cluster of stack {place.stack}: {ray.line('submit SCRIPT')}")
        return 0
    now = datetime.now(UTC)
    terminal.write("\n".join(columns(("job", "state", "began", "took", "whose", "command"),
                                     [_row(job, now) for job in listed])))  # fmt: skip
    return 0


def _row(job: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    began = (job.get("start_time") or 0) / 1000
    ended = (job.get("end_time") or 0) / 1000 or now.timestamp()
    whose = "a measurement's" if is_of_measurement(job) else "submitted" if job.get("submission_id") else "a driver"
    return (
        " ".join(job_name(job).splitlines()),
        str(job["status"]).lower(),
        datetime.fromtimestamp(began).astimezone().strftime("%Y-%m-%d %H:%M") if began else "–",
        duration(int(ended - began)) if began else "–",
        whose,
        command(job),
    )


def logs(place: RayPlace, wanted: str) -> int:
    """Print the log of a job while it grows, until the job ends. Return the exit status."""
    ray = reach(place)
    job = _chosen(ray, "logs", wanted)
    if not job.get("submission_id"):
        raise ToolError(f"{job_name(job)}: Ray keeps the output of submitted jobs alone; this one is to be seen"
                        f" {end_line(job, place.stack)}")  # fmt: skip
    return _follow(ray, job_name(job))


def _follow(ray: Ray, name: str) -> int:
    try:
        follow(ray.jobs, name)
    except KeyboardInterrupt:
        say(
            f"\n{name} goes on. To follow it again:  {ray.line(f'logs {quoted(name)}')}\n"
            f"To end it:  {ray.line(f'stop {quoted(name)}')}"
        )
        raise
    except SubmitError as error:
        raise ToolError(f"stack {ray.place.stack}: {error}") from None
    return 0


def stop(place: RayPlace, wanted: str) -> int:
    """Stop a job, and return the exit status."""
    ray = reach(place)
    job = _chosen(ray, "stop", wanted)
    name = job_name(job)
    if not is_unfinished(job):
        say(f"{name} has ended already, as {job['status']}")
        return 0
    if not job.get("submission_id"):
        raise ToolError(f"{name} is ended {end_line(job, place.stack)}")
    with asking(place):
        if is_of_measurement(job) and (reason := measuring.update_or_run(place, ray.kube)):
            raise ToolError(
                f"{name} is a run that is measured, and ends with its measurement (Ctrl-C where `{rwi('up')}` runs):"
                f" it was left alone; {reason}"
            )
        ray.jobs.stop(name)
        deadline = time.monotonic() + STOP_SECONDS
        while is_unfinished(now := ray.jobs.job(name)) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
    if is_unfinished(now):
        raise ToolError(f"{name} was asked to end and has not: Ray may be installing its packages; {ray.line('list')}")
    say(f"{name} ended as {now['status']}")
    return 0


def _chosen(ray: Ray, verb: str, name: str) -> Mapping[str, Any]:
    """Return the job of this name. Raise ToolError if there is no such job."""
    with asking(ray.place):
        known = {job_name(job): job for job in ray.jobs.jobs()}
    if name in known:
        return known[name]
    listed = f"there are {', '.join(known)}" if known else "there is no job at all"
    problem = f"Ray knows no job {name}" if name else "JOB is missing"
    example = ray.line(f"{verb} {quoted(next(reversed(known), '…'))}")
    raise ToolError(f"stack {ray.place.stack}: {problem}; {listed}:  {example}")


def on_ray(stack: str, overrides: Mapping[str, str], command: str, run: Callable[[RayPlace], int]) -> int:
    """Run one of these commands on a stack's Ray cluster. Raise ToolError if the stack has none that stays up."""
    target = stack_settings.load(stack, overrides).target
    if ray := ray_cluster.find(stack, overrides):
        return run(ray)
    if target not in CLUSTER_TARGETS:
        raise ToolError(
            f"stack {stack} has target {target}, where a Ray starts with each run and ends with it: there is"
            f" none to submit to. A stack with target {' or '.join(CLUSTER_TARGETS)} has one:"
            f"  {rwi(f'jobs {command}', 'minikube')}"
        )
    return run(cluster.find(stack, overrides))
