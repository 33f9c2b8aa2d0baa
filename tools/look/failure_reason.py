"""Why an update of a cluster failed, as far as the cluster's pods tell: a sentence each, with the line that mends it.

Pulumi shows a Job's last lines, and not that the kubelet ended its pod, or which of several ranks failed first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from infra.places.cluster import kube
from infra.places.cluster.job_result import INDEX_LABEL
from infra.places.cluster.kube import KubeError
from infra.places.cluster.pod_spec import COMPONENT_LABEL, PROJECT, PROJECT_LABEL, RUN_LABEL
from infra.places.cluster.short_job import NOT_PULLED
from infra.settings.draft import set_line
from infra.settings.rules import quantity
from tools.look import cluster
from tools.setup.project import ToolError, say

Pod = Mapping[str, Any]
MEMORY_KEY = {"ray-head": "headMemory"}
"""Setting with a pod's memory by its component; of all others `workerMemory`."""
CPU_KEY = {"ray-head": "headCpus"}
"""Likewise its CPUs."""
ENDED = ("Succeeded", "Failed")
"""Phases of a pod whose containers are started no more."""
_TOO_SLOW = "The current node timed out during startup"
"""Of Ray's own `node.py`, after `raylet_start_wait_time_s`."""
_READ_ONLY = re.compile(r"Read-only file system: '(.+?)'")
_LIMIT = re.compile(r'EmptyDir volume "(tmp|results)" exceeds the limit "(\w+)"')


def ended(stack: str, overrides: Mapping[str, str]) -> frozenset[str]:
    """What has ended before an update, pods by name and containers by id: of why that failed they say nothing."""
    pods = _pods(stack, overrides)
    names = (pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] in ENDED)
    return frozenset(names) | {end["containerID"] for pod in pods for end in _ends(pod) if "containerID" in end}


def tell(stack: str, overrides: Mapping[str, str], before: Collection[str]) -> None:
    """Say it of what had not `ended` before the update."""
    for line in reasons([pod for pod in _pods(stack, overrides) if pod["metadata"]["name"] not in before], before):
        say(line)


def _pods(stack: str, overrides: Mapping[str, str]) -> Sequence[Pod]:
    """Ours; none where the cluster can't be asked: an update may fail because of that."""
    try:
        stack_cluster = cluster.find(stack, overrides)
        api = cluster.client_of_made(stack_cluster)
        chosen = {"labelSelector": f"{PROJECT_LABEL}={PROJECT}"}
        return kube.items(api, f"/api/v1/namespaces/{stack_cluster.namespace}/pods", **chosen) if api else []
    except (KubeError, ToolError):
        return []


def reasons(pods: Sequence[Pod], before: Collection[str] = ()) -> list[str]:
    """A sentence for each pod that ended badly or can't start; of the ranks of one run, for the first alone.

    Args:
        pods: As Kubernetes has them.
        before: Ids of containers that had ended before; nothing is said of them.
    """
    first: dict[str, tuple[str, str]] = {}
    for pod in pods:
        for when, text in _troubles(pod, before):
            run = pod["metadata"]["labels"].get(RUN_LABEL, pod["metadata"]["name"])
            first[run] = min(first.get(run, (when, text)), (when, text))
    return [f"{run}: {text}" for run, (_, text) in sorted(first.items())]


def _troubles(pod: Pod, before: Collection[str]) -> Iterator[tuple[str, str]]:
    """When, as Kubernetes writes times, and what."""
    status = pod["status"]
    if status.get("reason") == "Evicted":
        yield "", _evicted(str(status.get("message", "")).strip())
        return
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield "", f"no node takes its pod: {condition.get('message', '').strip()}"
    for container in kube.statuses(pod):
        waiting = container["state"].get("waiting") or {}
        if waiting.get("reason") in NOT_PULLED:
            yield "", f"its image can't be pulled: {str(waiting.get('message', '')).strip()}"
    for end in _ends(pod):
        if end.get("exitCode") and end.get("containerID") not in before:
            yield str(end.get("finishedAt", "")), _ended(pod["metadata"]["labels"], end)


def _ends(pod: Pod) -> Iterator[Mapping[str, Any]]:
    """How its containers ended, as far as Kubernetes still knows."""
    for container in kube.statuses(pod):
        for state in (container["state"], container.get("lastState") or {}):
            if ended := state.get("terminated"):
                yield ended


def _evicted(message: str) -> str:
    if match := _LIMIT.search(message):
        more = f"{2 * quantity('1').parse(match[2]).bytes // 2**20}Mi"
        return (
            f"its pod was ended, because it wrote more than scratch allows ({match[2]}):  {set_line('scratch', more)}"
        )
    return f"the node ended its pod: {message}"


def _ended(labels: Mapping[str, str], ended: Mapping[str, Any]) -> str:
    if ended.get("reason") == "OOMKilled":
        key = MEMORY_KEY.get(labels.get(COMPONENT_LABEL, ""), "workerMemory")
        return f"it needed more memory than its pod has (OOMKilled): a larger {key}"
    if _TOO_SLOW in str(ended.get("message", "")):
        key = CPU_KEY.get(labels.get(COMPONENT_LABEL, ""), "workerCpus")
        return f"Ray did not start within the 30 s that it gives itself: a larger {key}, or fewer pods on its node"
    if match := _READ_ONLY.search(str(ended.get("message", ""))):
        return (
            f"it wrote to {match[1]}, and a pod's files are read-only but for a script's own copy, /tmp and the folder"
            " {storage}: name that in scriptArguments"
        )
    rank = f"rank {labels[INDEX_LABEL]} of it ended first" if INDEX_LABEL in labels else "it ended"
    return f"{rank}, with exit code {ended['exitCode']}"
