"""What keeps pods from starting, as the cluster says it: a refusal of the API server, no node, an image that is not
pulled. For all that wait for pods, or say why one waits.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError

NOT_PULLED = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
REFUSED = ("FailedCreate", "FailedToCreateHeadPod", "FailedToCreateWorkerPod")
"""The reasons of events by which the API server refuses a Job's pods, or, as KubeRay reports it, a RayCluster's."""
SAY_SECONDS = 8.0
"""The seconds that a reason has to last to be reported. An earlier pod's resources are free again sooner."""
GIVE_UP_SECONDS = 120.0
"""The seconds after which waiting for a refused pod or an unavailable image ends: neither changes by itself."""

Object = Mapping[str, Any]


def unplaced(pod: Object) -> list[str]:
    """Return the scheduler's message about a pod that has no node; empty for a pod that has a node."""
    return [
        str(condition.get("message", "")).strip()
        for condition in pod["status"].get("conditions") or ()
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    ]


def not_pulled(pod: Object) -> list[str]:
    """Return the kubelet's messages about images that it could not pull."""
    waiting = [status["state"].get("waiting") or {} for status in kube.statuses(pod)]
    return [str(each.get("message", "")).strip() for each in waiting if each.get("reason") in NOT_PULLED]


def reasons(pod: Object) -> list[str]:
    """Return the reasons why a pod waits, for a node or for its image; only the first clause of each reason."""
    return [text.partition(". ")[0] for text in (*unplaced(pod), *not_pulled(pod))]


def refusals(api: Any, namespace: str, **owner: str) -> list[dict[str, Any]]:
    """Return the events by which the API server refused pods of an object: because of a quota, a limit range, Pod
    Security or an admission webhook. Empty if the user may not list events. Raise KubeError for any other failure."""
    chosen = ",".join(f"involvedObject.{name}={value}" for name, value in owner.items())
    try:
        events = kube.items(api, f"/api/v1/namespaces/{namespace}/events", fieldSelector=chosen)
    except KubeError as error:
        if error.status != 403:
            raise
        return []
    return [event for event in events if event.get("reason") in REFUSED]


def _texts(refused: Iterable[Object]) -> list[str]:
    """Return the messages of refusals without duplicates, cut before the pod's name, which differs each time."""
    texts = [str(event["message"]).strip() for event in refused]
    return list(dict.fromkeys(text.partition(" is forbidden: ")[2] or text for text in texts))


class Reasons:
    """Reports each reason once, after the reason has lasted for a while."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._since: dict[str, float] = {}
        self._already_said: set[str] = set()

    def hear(self, reasons: Iterable[str]) -> None:
        """Update the reasons that apply now, and report those that have lasted long enough."""
        now = time.monotonic()
        self._since = {reason: self._since.get(reason, now) for reason in reasons}
        for reason, since in self._since.items():
            if reason not in self._already_said and now - since >= SAY_SECONDS:
                self._already_said.add(reason)
                self._say(reason)


class Patience:
    """Reports why the pods of an object wait, each reason once, and decides when it is useless to wait longer."""

    def __init__(self, say: Callable[[str], object], *, is_new: bool = True) -> None:
        """Set what to report to. `is_new` says that the object was just created; refusals of an older object may no
        longer apply."""
        self._reasons = Reasons(say)
        self._earlier: set[tuple[str, int]] | None = set() if is_new else None
        self._in_vain_since: float | None = None

    def look(self, api: Any, namespace: str, owner: Object, pods: Sequence[Object], wanted: int) -> str:
        """Look at the object's pods, of which there should be `wanted`. Return why it is useless to wait longer; empty
        as long as waiting may help. Raise KubeError if the cluster does not answer or refuses."""
        refused = self._refused(api, namespace, owner) if len(pods) < wanted else []
        images = [reason for pod in pods for reason in not_pulled(pod)]
        now, all_reasons = time.monotonic(), [f"its pods are refused: {reason}" for reason in refused]
        all_reasons += [f"a pod waits: {reason}" for pod in pods for reason in reasons(pod)]
        self._reasons.hear(all_reasons)
        if not (refused or images):
            self._in_vain_since = None
            return ""
        self._in_vain_since = now if self._in_vain_since is None else self._in_vain_since
        if now - self._in_vain_since < GIVE_UP_SECONDS:
            return ""
        return "; ".join(dict.fromkeys(all_reasons))

    def _refused(self, api: Any, namespace: str, owner: Object) -> list[str]:
        events = {
            (event["metadata"]["uid"], event.get("count") or 1): event
            for event in refusals(api, namespace, uid=owner["metadata"].get("uid", ""))
        }
        if self._earlier is None:
            self._earlier = set(events)
        return _texts(event for key, event in events.items() if key not in self._earlier)
