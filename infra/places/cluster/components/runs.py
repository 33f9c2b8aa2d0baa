"""The runs of a measurement as Jobs of a cluster, one after another, each followed by its result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.places.cluster.components.access import Access
from infra.places.cluster.job_result import JobResult
from infra.places.cluster.manifests import jobs
from infra.places.cluster.manifests.jobs import JobSettings
from infra.places.cluster.manifests.pod_parts import STORAGE_ANNOTATION
from infra.plan import RunPlan
from training.contract.arms import ARMS
from training.contract.recipe import canonical


@dataclass(frozen=True)
class WantedRuns:
    """The runs of a stack's measurement."""

    stack: str
    plans: Sequence[RunPlan]
    jobs: JobSettings
    keep_baseline: bool
    before_run: Callable[[RunPlan, pulumi.ResourceOptions], pulumi.Resource] | None
    """Creates what a run needs of its own, together with the run."""


OF_MEASUREMENT = (jobs.MEASUREMENT, STORAGE_ANNOTATION)
"""Annotations whose change does not replace the Job of a kept baseline."""


class ClusterRuns(pulumi.ComponentResource):
    """Declares the planned runs in their order. They never overlap: they share the nodes' cores."""

    runs: dict[str, JobResult]
    """The runs by name."""

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
            job = self._job(plan, [*previous, *self._before(plan, previous)])
            self.runs[plan.name] = self._result(plan, job)
            previous = [self.runs[plan.name]]
        self.register_outputs({"runs": list(self.runs)})

    def _before(self, plan: RunPlan, previous: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        make = self._wanted.before_run
        options = pulumi.ResourceOptions(parent=self, depends_on=list(previous), retain_on_delete=True)
        return [make(plan, options)] if make else []

    def _job(self, plan: RunPlan, previous: Sequence[pulumi.Resource]) -> k8s.batch.v1.Job:
        wanted, access = self._wanted, self._access
        keep = wanted.keep_baseline and ARMS[plan.arm].role(plan.recipe.workload) == "reference"
        service = self._service(plan)
        spec: Any = jobs.job(plan, wanted.jobs)
        seconds = wanted.jobs.deadline_seconds + jobs.AWAIT_EXTRA_SECONDS
        return k8s.batch.v1.Job(
            plan.name,
            metadata=access.metadata(jobs.annotations(wanted.stack)),
            spec=spec,
            opts=access.options(
                self,
                depends_on=[*previous, *service],
                ignore_changes=[_annotation(name) for name in OF_MEASUREMENT] if keep else [],
                custom_timeouts=pulumi.CustomTimeouts(create=f"{seconds}s"),
            ),
        )

    def _service(self, plan: RunPlan) -> list[pulumi.Resource]:
        spec: Any = jobs.service(plan)
        if spec is None:
            return []
        metadata = self._access.metadata(name=plan.name)
        return [
            k8s.core.v1.Service(f"{plan.name}-peers", metadata=metadata, spec=spec, opts=self._access.options(self))
        ]

    def _result(self, plan: RunPlan, job: k8s.batch.v1.Job) -> JobResult:
        properties = {
            "uid": job.metadata.apply(_uid),
            "jobUrn": job.urn,
            "stack": self._wanted.stack,
            "name": plan.name,
            "arm": plan.arm,
            "recipe": canonical(ARMS[plan.arm].settings(plan.recipe)),
            "indexed": ARMS[plan.arm].start == "peers",
            "namespace": self._access.namespace,
            "kubeconfig": self._access.kubeconfig,
        }
        options = pulumi.ResourceOptions(parent=self, depends_on=[job], retain_on_delete=True)
        return JobResult(f"{plan.name}-result", properties, options)


def _annotation(name: str) -> str:
    """Return the path of a Job template's annotation, as Pulumi writes it."""
    return f'spec.template.metadata.annotations["{name}"]'


def _uid(metadata: k8s.meta.v1.outputs.ObjectMeta) -> str | None:
    """Return the Job's uid; unknown in a preview that creates the Job."""
    uid: str | None = metadata.get("uid")
    return uid
