"""Reads from a cluster's pods, and from a queue, why an update failed: a sentence for each cause, with the line that
fixes it.

Pulumi shows a Job's last lines, and not that the kubelet ended its pod, or which of several ranks failed first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from cli.look import cluster
from cli.setup.project import ToolError, say
from infra.places.cluster.api import kube, kueue, waits
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.job_result import INDEX_LABEL
from infra.places.cluster.manifests.pod_parts import COMPONENT_LABEL, PROJECT, PROJECT_LABEL, RUN_LABEL
from infra.settings.problem import set_line
from infra.settings.rules import quantity

Pod = Mapping[str, Any]
MEMORY_KEY = {"ray-head": "headMemory"}
"""The setting for a pod's memory, by component; `workerMemory` for every other component."""
CPU_KEY = {"ray-head": "headCpus"}
"""The setting for a pod's CPUs, by component; `workerCpus` for every other component."""
ENDED = ("Succeeded", "Failed")
"""Phases of a pod whose containers are not started again."""
_TOO_SLOW = "The current node timed out during startup"
"""The message of Ray's `node.py` after `raylet_start_wait_time_s`."""
_READ_ONLY = re.compile(r"Read-only file system: '(.+?)'")
_LIMIT = re.compile(r'EmptyDir volume "(tmp|results)" exceeds the limit "(\w+)"')


def ended(stack: str, overrides: Mapping[str, str]) -> frozenset[str]:
    """Return the pods (names), containers (ids) and queue messages (keys) that ended before an update, and so cannot
    explain its failure."""
    pods, queued = _pods_and_queue(stack, overrides)
    names = (pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] in ENDED)
    ids = {end["containerID"] for pod in pods for end in _ends(pod) if "containerID" in end}
    return frozenset(names) | ids | queued.keys()


def tell(stack: str, overrides: Mapping[str, str], before: Collection[str]) -> None:
    """Print why pods and containers failed that are not in `before`, and what a queue did to them."""
    pods, queued = _pods_and_queue(stack, overrides)
    for line in reasons([pod for pod in pods if pod["metadata"]["name"] not in before], before):
        say(line)
    for key, line in queued.items():
        if key not in before:
            say(line)


def _pods_and_queue(stack: str, overrides: Mapping[str, str]) -> tuple[Sequence[Pod], Mapping[str, str]]:
    """Return this project's pods, and a queue's messages about it. Both are empty if the cluster cannot be asked, which
    may be why the update failed."""
    pods: Sequence[Pod] = []
    queued: Mapping[str, str] = {}
    with suppress(KubeError, ToolError):
        stack_cluster = cluster.find(stack, overrides)
        api = cluster.client_of_made(stack_cluster)
        chosen = {"labelSelector": f"{PROJECT_LABEL}={PROJECT}"}
        pods = kube.items(api, f"/api/v1/namespaces/{stack_cluster.namespace}/pods", **chosen) if api else []
        queued = kueue.evictions(api, stack_cluster.namespace) if api and stack_cluster.cluster.queue else {}
    return pods, queued


def reasons(pods: Sequence[Pod], before: Collection[str] = ()) -> list[str]:
    """Return a sentence for each pod that failed or can't start; for a run, only for the rank that failed first. Ends
    of containers in `before` (ids) are ignored."""
    first: dict[str, tuple[str, str]] = {}
    for pod in pods:
        for when, text in _troubles(pod, before):
            run = pod["metadata"]["labels"].get(RUN_LABEL, pod["metadata"]["name"])
            first[run] = min(first.get(run, (when, text)), (when, text))
    return [f"{run}: {text}" for run, (_, text) in sorted(first.items())]


def _troubles(pod: Pod, before: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the time (in Kubernetes' format) and the description of each failure of a pod."""
    status = pod["status"]
    if status.get("reason") == "Evicted":
        yield "", _evicted(str(status.get("message", "")).strip())
        return
    yield from (("", f"no node takes its pod: {message}") for message in waits.unplaced(pod))
    yield from (("", f"its image can't be pulled: {message}") for message in waits.not_pulled(pod))
    for end in _ends(pod):
        if end.get("exitCode") and end.get("containerID") not in before:
            yield str(end.get("finishedAt", "")), _ended(pod["metadata"]["labels"], end)


def _ends(pod: Pod) -> Iterator[Mapping[str, Any]]:
    """Yield the terminated states of a pod's containers that Kubernetes still has."""
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
