"""Asks Kueue's objects what Kueue decided: whether a queue is active, what a workload waits for, and whether one was
evicted. How quota is counted is Kueue's alone."""

from collections.abc import Mapping
from typing import Any

from infra.places.cluster.api import kube
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.pod_parts import PROJECT_LABEL, RUN_LABEL

GROUP = "kueue.x-k8s.io"
UID_LABEL = f"{GROUP}/job-uid"
"""The label of a Workload, Kueue's object for quota, with the uid of the object that waits for this quota."""
EVICTED, ACTIVE, RESERVED, FINISHED = "Evicted", "Active", "QuotaReserved", "Finished"
DEACTIVATED = "Deactivated"
"""The beginning of an eviction's reason after which Kueue never admits the workload again."""
READY = "Ready"
"""The state of an admission check that lets a workload start."""

OF_RAY, OF_JOBS = "ray.io/raycluster", "batch/job"
"""Kueue's names for its integrations with RayClusters and with Jobs."""
TO_TAKE_KINDS = (
    "An administrator adds that to integrations.frameworks in Kueue's configuration, and restarts Kueue; or labels the"
    " namespace, if managedJobsNamespaceSelector there leaves it out"
)
"""What makes Kueue suspend objects of a kind. Its configuration lists the kinds that it manages; and a Kueue from its
Helm chart suspends nothing in namespaces that it does not select."""
PODSET_LABEL = f"{GROUP}/podset"
"""The label that Kueue adds to the template of the pods that it admits."""
SUSPENDED = "Suspended"
"""The condition of a Job that is suspended, or was. KubeRay gives every RayCluster a similar one of its own."""

LAST = "9999-12-31T23:59:59Z"
"""A time later than all other times."""

Object = Mapping[str, Any]


def version(api: Any) -> str:
    """Return the version of Kueue's API that the cluster prefers; empty if the cluster has no Kueue. Raise KubeError if
    the cluster does not answer."""
    group = kube.find(api, f"/apis/{GROUP}")
    return str(group["preferredVersion"]["groupVersion"]) if group else ""


def local_queues(api: Any, served: str, namespace: str) -> dict[str, Object]:
    """Return the LocalQueues of a namespace, by name. Raise KubeError if the cluster does not answer or refuses."""
    queues = kube.items(api, f"/apis/{served}/namespaces/{namespace}/localqueues")
    return {str(queue["metadata"]["name"]): queue for queue in queues}


def why_inactive(queue: Object) -> str:
    """Return why a LocalQueue or a ClusterQueue admits nothing; empty if it is active, or does not say so."""
    conditions = queue.get("status", {}).get("conditions", ())
    return next(
        (str(each.get("message") or each.get("reason"))
         for each in conditions if each["type"] == ACTIVE and each["status"] == "False"),
        "",
    )  # fmt: skip


def left_alone(api: Any, namespace: str, job: Object) -> list[str]:
    """Return which of the Job and the RayCluster Kueue never suspended, by Kueue's names for their kinds. These ran
    without quota. Raise KubeError if the cluster does not answer or refuses."""
    ray = kube.find(api, _ray_path(namespace))
    pairs = [(OF_JOBS, job), *([(OF_RAY, ray)] if ray else [])]
    return [name for name, item in pairs if not _was_held(item)]


def _was_held(item: Object) -> bool:
    """Return whether Kueue ever suspended a Job or a RayCluster. An object that Kueue admits at once only gets the
    label; a RayCluster also gets the field `suspend`, which is false then."""
    spec = item["spec"]
    head = spec.get("headGroupSpec")
    labels = (head or spec)["template"].get("metadata", {}).get("labels", {})
    conditions = [each["type"] for each in item.get("status", {}).get("conditions", ())]
    return PODSET_LABEL in labels or ("suspend" in spec if head else SUSPENDED in conditions)


def _ray_path(namespace: str) -> str:
    return f"/apis/{ray_cluster.API_VERSION}/namespaces/{namespace}/rayclusters/{ray_cluster.NAME}"


def eviction(api: Any, namespace: str, job: Object) -> str:
    """Return why Kueue evicted a Job, or evicted the RayCluster while this Job ran; empty if Kueue evicted neither.
    Raise KubeError if the cluster does not answer or refuses."""
    served = version(api)
    if not served:
        return ""
    workloads = f"/apis/{served}/namespaces/{namespace}/workloads"
    of_job = kube.items(api, workloads, labelSelector=f"{UID_LABEL}={job['metadata']['uid']}")
    ray = kube.find(api, _ray_path(namespace))
    of_ray = kube.items(api, workloads, labelSelector=f"{UID_LABEL}={ray['metadata']['uid']}") if ray else []
    times = job.get("status", {})
    began, ended = times.get("startTime", ""), times.get("completionTime", LAST)
    reasons = [evicted(workload) for workload in of_job if _was_admitted_before(workload)]
    reasons += [evicted(workload, began, ended) for workload in of_ray]
    return next(filter(None, reasons), "")


def evicted(workload: Object, began: str = "", ended: str = LAST) -> str:
    """Return why Kueue evicted a workload between two times, given as Kubernetes writes them; empty if Kueue did not.
    When the workload is admitted again, the condition of the eviction stays, with the status False and the time of that
    admission."""
    status = workload.get("status", {})
    reasons = [str(each["reason"]) for each in status.get("schedulingStats", {}).get("evictions", ())]
    evictions = [each for each in status.get("conditions", ()) if each["type"] == EVICTED]
    if not any(
        each["lastTransitionTime"] >= began and (each["status"] == "False" or each["lastTransitionTime"] <= ended)
        for each in evictions
    ):
        return ""
    return reasons[-1] if reasons else str(evictions[0]["reason"])


def _was_admitted_before(workload: Object) -> bool:
    """Return whether an evicted workload had been admitted before. An admission check may take back the quota before
    the workload starts. Kueue keeps how long a workload was admitted, until it deactivates the workload. Kueue before
    0.12 keeps no evictions and may not keep this time; then the answer is True."""
    status = workload.get("status", {})
    evictions = status.get("schedulingStats", {}).get("evictions", ())
    has_time = any(name.startswith("accumulatedPastEx") for name in status)  # in v1beta1 misspelled
    return has_time or not evictions or any(each["reason"].startswith(DEACTIVATED) for each in evictions)


def waiting(api: Any, served: str, namespace: str) -> dict[str, str]:
    """Return why each object of this project that Kueue has not admitted waits, by the name of its run or of the
    RayCluster. Raise KubeError if the cluster does not answer or refuses."""
    reasons = {_name(workload): _why_waiting(workload) for workload in _workloads(api, served, namespace)}
    return {name: reason for name, reason in reasons.items() if reason}


def evictions(api: Any, namespace: str) -> dict[str, str]:
    """Return a sentence for each eviction of an object of this project by Kueue. The key contains the time, so that
    each eviction of the same object has another key. Raise KubeError if the cluster does not answer or refuses."""
    return {
        f"{workload['metadata']['uid']} {condition['lastTransitionTime']}": (
            f"{_name(workload)}: evicted by Kueue ({evicted(workload)}): {condition['message']}"
        )
        for workload in _workloads(api, version(api), namespace)
        for condition in [_conditions(workload).get(EVICTED)]
        if condition
    }


def _workloads(api: Any, served: str, namespace: str) -> list[Object]:
    """Return the Workloads that belong to objects of this project. Raise KubeError if that fails."""
    workloads = kube.items(api, f"/apis/{served}/namespaces/{namespace}/workloads") if served else []
    return [workload for workload in workloads if PROJECT_LABEL in _labels(workload)]


def _why_waiting(workload: Object) -> str:
    """Return what a workload waits for, as reason and message; empty if it waits for nothing."""
    conditions, checks = _conditions(workload), workload.get("status", {}).get("admissionChecks", ())
    reserved: Mapping[str, str] = conditions.get(RESERVED, {"status": ""})
    pending = [each for each in checks if reserved["status"] == "True" and each["state"] != READY]
    if FINISHED in conditions or not (pending or reserved["status"] == "False"):
        return ""
    queue = f"waits in queue {workload['spec'].get('queueName', '')}"
    if not workload["spec"].get("active", True):  # what it waited for until then stays in its condition
        why = conditions.get(EVICTED, {}).get("message", "The workload is deactivated")
        return f"{queue}, and Kueue never starts it by itself: {why}"
    if pending:
        check = f"{queue} for an admission check: {pending[0]['name']} is {pending[0]['state']}"
        return f"{check}: {pending[0].get('message', '')}".removesuffix(": ")
    return f"{queue} ({reserved['reason']}): {reserved['message']}"


def _conditions(workload: Object) -> Mapping[str, Mapping[str, str]]:
    return {each["type"]: each for each in workload.get("status", {}).get("conditions", ())}


def _labels(workload: Object) -> Mapping[str, str]:
    pod_sets = workload.get("spec", {}).get("podSets") or [{"template": {}}]  # somebody's own may have none
    return dict(pod_sets[0]["template"].get("metadata", {}).get("labels") or {})


def _name(workload: Object) -> str:
    """Return the name of the run to which a workload belongs, or the name of the RayCluster."""
    owners = workload["metadata"].get("ownerReferences") or [workload["metadata"]]
    return str(_labels(workload).get(RUN_LABEL, owners[0]["name"]))
