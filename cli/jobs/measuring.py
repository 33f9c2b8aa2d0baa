"""Detects whether a measurement uses a stack's Ray cluster just now. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cli.look.cluster import StackCluster
from cli.look.ray_cluster import StackRay
from cli.setup.project import project_name
from cli.stack import environment, state
from infra.places.cluster.api import leftover_jobs
from infra.places.ray import owner
from training.launch.ray.other_jobs import end_line, is_of, is_of_measurement, is_unfinished, job_name
from training.machine.command_line import rwi


def update_or_run(ray_cluster: StackCluster | StackRay, api: Any) -> str:
    """Return how a measurement is seen to run, by pulumi here or by a Job of a run; "" if none runs. A run on an
    existing Ray cluster is seen by `ray_job`. Raise KubeError."""
    backend = environment.file_backend()
    if backend and (process := state.running(backend, project_name(), ray_cluster.stack)):
        return (
            f"pulumi works on the stack, process {process}: wait for its end, which"
            f" `{rwi('status --watch', ray_cluster.stack)}` shows"
        )
    if isinstance(ray_cluster, StackRay):
        return ""
    for name, stack in leftover_jobs.unfinished(api, ray_cluster.namespace).items():
        return (
            f"the run {name} of stack {stack or 'unknown'} goes on: wait for its end. Where an interrupted update left"
            f" it, `{rwi('up', ray_cluster.stack)}` ends it, or says how"
        )
    return ""


def ray_job(ray_cluster: StackCluster | StackRay, jobs: Sequence[Mapping[str, Any]]) -> str:
    """Return a text that names a running Ray job of a measurement, of this stack or of somebody else, and says how to
    end the job; "" if no such job runs."""
    mine = owner.known_mark(ray_cluster.stack) if isinstance(ray_cluster, StackRay) else ray_cluster.stack
    for job in filter(is_unfinished, jobs):
        name = job_name(job)
        if is_of(mine, job):
            return f"an interrupted one left its Ray job {name}: {rwi(f'jobs stop {name}', ray_cluster.stack)}"
        if is_of_measurement(job):
            return end_line(job, ray_cluster.stack)
    return ""
