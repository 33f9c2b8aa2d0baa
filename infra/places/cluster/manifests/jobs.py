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
"""Annotations of a Job's template with the plan's two hashes: a change of one replaces the Job."""
AWAIT_EXTRA_SECONDS = 300
"""Pulumi waits this much longer than the Job's own deadline, so that it reports the Job's end."""
SUBMITTER = Size(0.1, "512Mi")
GRACE_SECONDS = 10
NODE_NAME = {"fieldRef": {"fieldPath": "spec.nodeName"}}
TOKEN = {"secretKeyRef": {"name": TOKEN_SECRET, "key": TOKEN_KEY, "optional": True}}
"""The token, which exists as long as the RayCluster. Optional: the submitter reports a missing one; a pod that requires
it would wait silently."""


@dataclass(frozen=True)
class JobSettings:
    """The settings that the Jobs of a measurement have in common."""

    stack: str
    worker: Size
    wide: Size
    """The size of the wide arm's one pod: all workers' CPUs and memory."""
    placement: Placement
    timeout_minutes: int
    dataset_flags: tuple[str, ...]
    environment: Mapping[str, Any]
    files: Files | None = None
    """The files that pods need in addition to the image."""
    storage: InPods | None = None
    """The storage that pods are given; None if nothing outlives them."""
    queue: Queue | None = None
    """The queue in which the Jobs wait for quota; None for none."""

    @property
    def deadline_seconds(self) -> int:
        """Return the number of seconds after which Kubernetes ends a Job; it does not count while the Job is
        suspended."""
        return self.timeout_minutes * 60

    @property
    def await_seconds(self) -> int:
        """Return the number of seconds that Pulumi waits for a Job's end."""
        return self.deadline_seconds + AWAIT_EXTRA_SECONDS + (self.queue.seconds if self.queue else 0)


def environment(expected_versions: Mapping[str, str], secret: Secret | None = None) -> dict[str, Any]:
    """Return the environment of every training process: texts, and references that Kubernetes resolves."""
    return {
        versions.EXPECTED: json.dumps(dict(expected_versions), sort_keys=True),
        progress.ECHO: "1",
        provenance.NODE: NODE_NAME,
        **(script_files.secret_variables(secret) if secret else {}),
    }


def annotations(stack: str) -> dict[str, str]:
    """Return the Job's annotations: its stack, and that the next `up` replaces it if it failed."""
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
    """Return the folder in storage as an annotation: it is no part of a command, so that a baseline can be kept."""
    return {STORAGE_ANNOTATION: folder_of(settings.storage.address, settings.stack, plan)} if settings.storage else {}


def service(plan: RunPlan) -> Manifest | None:
    """Return the headless Service by which peer pods find each other before they are ready; None for other arms."""
    if ARMS[plan.arm].start != "peers":
        return None
    return {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": run_label(plan),
        "ports": [{"name": "tensorflow", "port": indexed_job.PORT, "protocol": "TCP"}],
    }


def component(arm: str) -> str:
    """Return the component label of an arm's pods. Pods of an arm that Ray starts only submit: they train nothing."""
    return "ray-submitter" if ARMS[arm].start == "ray" else arm


def _recipe_flags(plan: RunPlan, files: Files | None) -> list[str]:
    """Return the recipe's flags without those that do not change the arm, so that its Job can be kept.

    For example, the number of workers is left out for the baseline. `$` is doubled: Kubernetes would expand $(NAME).
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
