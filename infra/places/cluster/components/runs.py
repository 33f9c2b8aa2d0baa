"""The runs of a measurement as Jobs of a cluster, one after another, each followed by its result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.places.cluster.components.access import Access, uid
from infra.places.cluster.job_result import JobResult
from infra.places.cluster.manifests import jobs
from infra.places.cluster.manifests.jobs import JobSettings
from infra.places.cluster.manifests.pod_parts import STORAGE_ANNOTATION
from infra.places.cluster.manifests.queue import QUEUE_PATH
from infra.places.cluster.ray_workers import SCALED, RayWorkers
from infra.plan import RunPlan
from training.contract.arms import ARMS
from training.contract.recipe import texts


@dataclass(frozen=True)
class WantedRuns:
    """The runs of a stack's measurement, with what their Jobs have in common."""

    stack: str
    plans: Sequence[RunPlan]
    jobs: JobSettings
    keep_baseline: bool
    before_run: Callable[[RunPlan, pulumi.ResourceOptions], pulumi.Resource] | None
    """The function that creates what a single run needs, such as credentials; None if runs need nothing."""
    per_run: bool = False
    """Whether Ray's workers exist only while Ray runs."""
    idle_seconds: int | None = None
    """The seconds without work after which Ray's autoscaler removes a worker; None if there is no autoscaler."""


OF_MEASUREMENT = (jobs.MEASUREMENT, STORAGE_ANNOTATION)
"""Annotations whose change does not replace the Job of a kept baseline."""


class ClusterRuns(pulumi.ComponentResource):
    """The planned runs as resources, in their order. Runs never overlap, because they share the nodes' cores."""

    runs: dict[str, JobResult]
    """The results of the runs, by the run's name."""

    def __init__(
        self,
        name: str,
        wanted: WantedRuns,
        access: Access,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:Runs", name, {}, opts)
        self._wanted, self._access = wanted, access
        self.runs = {}
        previous: list[pulumi.Resource] = list(after)
        for plan in wanted.plans:
            workers = self._workers(plan, previous)
            job = self._job(plan, [*previous, *self._before(plan, previous)], workers)
            self.runs[plan.name] = self._result(plan, job, workers)
            ends = [self._workers_end(plan, job, workers)] if self._needs_workers(plan) else []
            previous = [self.runs[plan.name], *ends]
        self.register_outputs({"runs": list(self.runs)})

    def _workers(self, plan: RunPlan, previous: Sequence[pulumi.Resource]) -> RayWorkers | None:
        """Return the resource that asks for the workers of a Ray run. None if the run needs no workers, if they always
        exist, or if Ray's autoscaler asks for them."""
        if not self._needs_workers(plan) or self._wanted.idle_seconds is not None:
            return None
        properties = self._of_workers(plan) | {"workers": plan.recipe.workers}
        options = pulumi.ResourceOptions(parent=self, depends_on=list(previous), retain_on_delete=True)
        return RayWorkers(f"{plan.name}-workers", properties, options)

    def _needs_workers(self, plan: RunPlan) -> bool:
        """Return whether the run is a Ray run whose workers exist only while it runs."""
        return self._wanted.per_run and ARMS[plan.arm].start == "ray"

    def _workers_end(self, plan: RunPlan, job: k8s.batch.v1.Job, workers: RayWorkers | None) -> RayWorkers:
        """Return the resource that removes the workers after the run's Job has succeeded, even if its result cannot be
        read. With Ray's autoscaler, the resource waits until the autoscaler has removed them."""
        properties = self._of_workers(plan) | {"workers": 0}
        if workers:
            properties |= {"after": workers.id}
        else:
            properties |= {"after": job.metadata.apply(uid), "idleSeconds": self._wanted.idle_seconds}
            properties |= {"stack": self._wanted.stack}
        options = pulumi.ResourceOptions(parent=self, depends_on=[job], retain_on_delete=True)
        return RayWorkers(f"{plan.name}-workers-end", properties, options)

    def _of_workers(self, plan: RunPlan) -> dict[str, Any]:
        return {
            "name": plan.name,
            "run": f"{plan.own_key} {plan.measurement}",
            "namespace": self._access.namespace,
            "kubeconfig": self._access.kubeconfig,
        }

    def _before(self, plan: RunPlan, previous: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        make = self._wanted.before_run
        options = pulumi.ResourceOptions(parent=self, depends_on=list(previous), retain_on_delete=True)
        return [make(plan, options)] if make else []

    def _job(self, plan: RunPlan, previous: Sequence[pulumi.Resource], workers: RayWorkers | None) -> k8s.batch.v1.Job:
        wanted, access = self._wanted, self._access
        keep = wanted.keep_baseline and ARMS[plan.arm].role(plan.recipe.workload) == "reference"
        service = self._service(plan)
        spec: Any = jobs.job(plan, wanted.jobs)
        if workers:
            spec["template"]["metadata"]["annotations"][SCALED] = workers.id
        queue = wanted.jobs.queue
        return k8s.batch.v1.Job(
            plan.name,
            metadata=access.metadata(
                jobs.component(plan.arm),
                jobs.annotations(wanted.stack),
                labels={**jobs.run_label(plan), **(queue.labels if queue else {})},
            ),
            spec=spec,
            opts=access.options(
                self,
                depends_on=[*previous, *service, *([workers] if workers else [])],
                ignore_changes=[_annotation(name) for name in OF_MEASUREMENT] if keep else [],
                replace_on_changes=[QUEUE_PATH],
                custom_timeouts=pulumi.CustomTimeouts(create=f"{wanted.jobs.await_seconds}s"),
            ),
        )

    def _service(self, plan: RunPlan) -> list[pulumi.Resource]:
        spec: Any = jobs.service(plan)
        if spec is None:
            return []
        metadata = self._access.metadata(jobs.component(plan.arm), name=plan.name, labels=jobs.run_label(plan))
        return [
            k8s.core.v1.Service(f"{plan.name}-peers", metadata=metadata, spec=spec, opts=self._access.options(self))
        ]

    def _result(self, plan: RunPlan, job: k8s.batch.v1.Job, workers: RayWorkers | None) -> JobResult:
        properties = {
            "uid": job.metadata.apply(uid),
            "jobUrn": workers.urn if workers else job.urn,  # what repeats the run when it is replaced
            "stack": self._wanted.stack,
            "name": plan.name,
            "arm": plan.arm,
            "recipe": texts(ARMS[plan.arm].settings(plan.recipe)),
            # Read by nobody: it differs, and is shown; where all that differs is hidden, a preview prints every input.
            "measurement": plan.measurement,
            "indexed": ARMS[plan.arm].start == "peers",
            "namespace": self._access.namespace,
            "kubeconfig": self._access.kubeconfig,
        }
        if workers:
            properties["scaleUp"] = workers.scaleUp
        if self._wanted.jobs.queue:
            properties["queue"] = self._wanted.jobs.queue.name
        options = pulumi.ResourceOptions(
            parent=self,
            depends_on=[job],
            retain_on_delete=True,
            hide_diffs=["uid"],  # that of a dry run, in a preview: no Job will have it
        )
        return JobResult(f"{plan.name}-result", properties, options)


def _annotation(name: str) -> str:
    """Return the path of an annotation in a Job's template, as Pulumi writes paths."""
    return f'spec.template.metadata.annotations["{name}"]'
