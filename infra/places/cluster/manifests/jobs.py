"""A run as a Kubernetes Job: one kind of Job an arm. Pure: dicts, no Pulumi.

A Job is created once and never changed: its template contains all that it depends on, and any change of that replaces
it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from infra.places.cluster.manifests import pod_parts, script_files
from infra.places.cluster.manifests.pod_parts import (
    JOB_NAME,
    RUN_LABEL,
    STACK_ANNOTATION,
    STORAGE_ANNOTATION,
    Manifest,
    Placement,
    Size,
)
from infra.places.cluster.manifests.queue import Queue
from infra.places.cluster.manifests.ray_cluster import DASHBOARD_PORT, HEAD_SERVICE, TOKEN_KEY, TOKEN_SECRET
from infra.places.cluster.manifests.script_files import Secret
from infra.places.cluster.manifests.storage_access import InPods
from infra.plan import RunPlan, folder_of
from training.contract import progress, provenance
from training.contract.arms import ARMS, RAY
from training.contract.recipe import kebab
from training.contract.workload import Files
from training.launch.pod import indexed_job, versions

OWN_KEY = "ray-worth-it/own-key"
MEASUREMENT = "ray-worth-it/measurement"
"""Annotations of a Job's template with the two hashes of the run's plan. A change of either hash replaces the Job."""
AWAIT_EXTRA_SECONDS = 300
"""How many seconds longer than the Job's own deadline Pulumi waits, so that Pulumi reports how the Job ended."""
SUBMITTER = Size(0.1, "512Mi")
GRACE_SECONDS = 10
NODE_NAME = {"fieldRef": {"fieldPath": "spec.nodeName"}}
TOKEN = {"secretKeyRef": {"name": TOKEN_SECRET, "key": TOKEN_KEY, "optional": True}}
"""The reference to Ray's token, which exists as long as the RayCluster. The reference is optional, because the
submitter reports a missing token, while a pod that requires the token would wait without a message."""


@dataclass(frozen=True)
class JobSettings:
    """The settings that the Jobs of a measurement have in common."""

    stack: str
    worker: Size
    wide: Size
    """The size of the only pod of the arm `wide`: the CPUs and memory of all workers."""
    placement: Placement
    timeout_minutes: int
    dataset_flags: tuple[str, ...]
    environment: Mapping[str, Any]
    files: Files | None = None
    """The files that pods need in addition to the image."""
    storage: InPods | None = None
    """The pods' access to the storage; None if no storage outlives the pods."""
    queue: Queue | None = None
    """The queue in which the Jobs wait for quota; None for no queue."""

    @property
    def deadline_seconds(self) -> int:
        """Return the seconds after which Kubernetes ends a Job. Time in which the Job is suspended does not count."""
        return self.timeout_minutes * 60

    @property
    def await_seconds(self) -> int:
        """Return the number of seconds that Pulumi waits for a Job's end."""
        return self.deadline_seconds + AWAIT_EXTRA_SECONDS + (self.queue.seconds if self.queue else 0)


def environment(expected_versions: Mapping[str, str], secret: Secret | None = None) -> dict[str, Any]:
    """Return the environment variables of training processes: texts, or references that Kubernetes resolves."""
    return {
        versions.EXPECTED: json.dumps(dict(expected_versions), sort_keys=True),
        progress.ECHO: "1",
        provenance.NODE: NODE_NAME,
        **(script_files.secret_variables(secret) if secret else {}),
    }


def annotations(stack: str) -> dict[str, str]:
    """Return the Job's annotations: its stack's name, and that Pulumi replaces a failed Job at the next `up`."""
    return {STACK_ANNOTATION: stack, "pulumi.com/replaceUnready": "true"}


def job(plan: RunPlan, settings: JobSettings) -> Manifest:
    """Return the spec of the Job of one run."""
    annotations = {OWN_KEY: plan.own_key, MEASUREMENT: plan.measurement, **_storage(plan, settings)}
    template = {
        "metadata": pod_parts.metadata(settings.placement, component(plan.arm), annotations, **run_label(plan)),
        "spec": _pod(plan, settings),
    }
    return {
        "backoffLimit": 0,  # a second attempt would be another measurement
        "activeDeadlineSeconds": settings.deadline_seconds,
        **_indexed(plan),
        "template": template,
    }


def _storage(plan: RunPlan, settings: JobSettings) -> dict[str, str]:
    """Return an annotation with the run's folder in storage; empty without storage. The folder is not part of a
    command, so that a baseline's Job can be kept when the folder changes."""
    return {STORAGE_ANNOTATION: folder_of(settings.storage.address, settings.stack, plan)} if settings.storage else {}


def service(plan: RunPlan) -> Manifest | None:
    """Return the headless Service by which the pods of an arm with peers (N processes without Ray) find each other
    before they are ready; None for other arms."""
    if ARMS[plan.arm].start != "peers":
        return None
    return {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": run_label(plan),
        "ports": [{"name": "tensorflow", "port": indexed_job.PORT, "protocol": "TCP"}],
    }


def component(arm: str) -> str:
    """Return the value of the component label for an arm's pods. In arms that Ray starts, these pods only submit a job
    to Ray and train nothing."""
    return "ray-submitter" if ARMS[arm].start == "ray" else arm


def _recipe_flags(plan: RunPlan, files: Files | None) -> list[str]:
    """Return the recipe's flags, without the flags that the arm ignores, so that their changes do not replace its Job.

    For example, the number of workers is left out for the baseline. `$` is doubled, because Kubernetes would expand
    $(NAME).
    """
    ignored = tuple(f"{kebab(key)}=" for key in ARMS[plan.arm].ignores)
    recipe = replace(plan.recipe, **files.recipe) if files else plan.recipe
    return [flag.replace("$", "$$") for flag in recipe.flags() if not flag.startswith(ignored)]


def run_label(plan: RunPlan) -> dict[str, str]:
    """Return the label of all objects of a run."""
    return {RUN_LABEL: plan.name}


def _indexed(plan: RunPlan) -> Manifest:
    if ARMS[plan.arm].start != "peers":
        return {}
    workers = plan.recipe.workers
    return {"completionMode": "Indexed", "completions": workers, "parallelism": workers}


def _pod(plan: RunPlan, settings: JobSettings) -> Manifest:
    pod = _pod_of_arm(plan, settings)
    if settings.storage:
        pod = settings.storage.kept(pod if ARMS[plan.arm].start == "ray" else settings.storage.mounted_in(pod))
    return script_files.mounted(pod, settings.files) if settings.files else pod


def _pod_of_arm(plan: RunPlan, settings: JobSettings) -> Manifest:
    flags = [*_recipe_flags(plan, settings.files), *settings.dataset_flags]
    flags += [settings.storage.flag] if settings.storage else []
    image, common = settings.placement.image, dict(settings.environment)
    more: Manifest = {"restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE_SECONDS}
    arm = ARMS[plan.arm]
    if arm.start == "ray":
        address = f"http://{HEAD_SERVICE}:{DASHBOARD_PORT}"
        command = [
            *settings.placement.starts("training.launch.ray.submit"),
            f"--address={address}",
            "--submission-id=$(JOB_NAME)",
            f"--stack={settings.stack}",
            *([] if arm is RAY else [f"--arm={arm.name}"]),
            "--",
            *flags,
        ]
        variables = {"JOB_NAME": JOB_NAME, "RAY_AUTH_TOKEN": TOKEN}
        main = pod_parts.container("submitter", image, SUBMITTER, command=command, environment=variables)
        return pod_parts.pod(main, settings.placement, **more)
    command = [*settings.placement.starts("training.launch.pod.run"), arm.name, *flags]
    if arm.start == "alone":
        size = settings.wide if arm.all_cpus else settings.worker
        main = pod_parts.container("training", image, size, command=command, environment=common)
        return pod_parts.pod(main, settings.placement, trains=True, **more)
    common |= {indexed_job.SERVICE: plan.name, indexed_job.WORKERS: str(plan.recipe.workers)}
    main = pod_parts.container("training", image, settings.worker, command=command, environment=common)
    main["ports"] = [{"name": "tensorflow", "containerPort": indexed_job.PORT}]
    return pod_parts.pod(main, settings.placement, spread=run_label(plan), trains=True, subdomain=plan.name, **more)
