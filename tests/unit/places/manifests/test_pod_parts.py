"""What every pod has in common."""

from dataclasses import replace

import pytest

from infra.places.cluster.manifests import pod_parts
from infra.places.cluster.manifests.pod_parts import Placement, Size
from infra.places.cluster.manifests.pods import pods_of
from infra.settings.rules import PodTemplate
from policy.pod_security import violations
from tests.unit.settings_machine import existing, machine

PLACE = Placement("image:1")
MAIN = pod_parts.container("main", "image:1", Size(0.25, "1Gi"))


def test_every_pod_is_as_restricted_as_its_namespace_demands() -> None:
    """No other is let in. Training asks the API server nothing: it has no token and no addresses of Services. What one
    pod leaves is not another's gain: requests are limits. Ray needs /tmp, and a run its folder: they may be written to.
    The error of an `up` has a pod's last lines: Kubernetes puts them into its status, from where Pulumi takes them."""
    pod, resources = pod_parts.pod(MAIN, PLACE), MAIN["resources"]

    assert [] == violations(pod)
    assert (False, False) == (pod["automountServiceAccountToken"], pod["enableServiceLinks"])
    assert pod_parts.SERVICE_ACCOUNT == pod["serviceAccountName"]  # not that of whatever else is in the namespace
    assert {"cpu": "250m", "memory": "1Gi"} == resources["requests"] == resources["limits"]
    assert MAIN["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {mount["name"]: mount["mountPath"] for mount in MAIN["volumeMounts"]}
    assert {"tmp": "/tmp", "results": "/results"} == mounts  # noqa: S108 (a path in a container)
    assert set(mounts) == {volume["name"] for volume in pod["volumes"]}
    assert "FallbackToLogsOnError" == MAIN["terminationMessagePolicy"]


@pytest.mark.parametrize("removed", ["allowPrivilegeEscalation", "capabilities"])
def test_the_check_sees_what_is_missing(removed: str) -> None:
    """A check that passes everything would guard nothing."""
    bare = {**MAIN, "securityContext": {k: v for k, v in MAIN["securityContext"].items() if k != removed}}

    assert violations(pod_parts.pod(bare, PLACE))


@pytest.mark.parametrize(
    ("stack", "label"), [("ci", "ci"), ("a" * 100, "a" * 63), ("-my.stack_", "my.stack"), ("b" * 62 + "-c", "b" * 62)]
)
def test_a_label_has_as_much_of_a_stack_s_name_as_it_may(stack: str, label: str) -> None:
    """A name may be longer, and end with other characters: the API server would refuse all pods."""
    assert label == pod_parts.labels("main", stack)[pod_parts.INSTANCE_LABEL]


def test_a_pod_asks_for_the_disk_that_it_may_write() -> None:
    """Its log's, and both folders' where they are limited. In a queue none: Kueue would never admit it."""
    asked = [pods_of(existing(machine(64, 256), **values)).placement
             for values in ({}, {"scratch": "1Gi"}, {"queue": "training"})]  # fmt: skip
    disks = [
        pod_parts.pod(MAIN, place)["containers"][0]["resources"]["requests"].get(pod_parts.DISK) for place in asked
    ]

    assert ["64Mi", "2112Mi", None] == disks


def test_place_reaches_the_pod() -> None:
    """The template's fields as they are, beside the others; its names never replace the project's."""
    spec = {"tolerations": [{"key": "dedicated", "operator": "Exists"}], "priorityClassName": "low"}
    place = Placement("image:1", PodTemplate({"team": "a", pod_parts.PROJECT_LABEL: "b"}, {"note": "c"}, spec))

    assert pod_parts.pod(MAIN, place) == pod_parts.pod(MAIN, PLACE) | spec
    metadata = pod_parts.metadata(place, "main", {"own": "d"})
    assert {"team": "a", **pod_parts.labels("main")} == metadata["labels"]
    assert {"note": "c", "own": "d"} == metadata["annotations"]
    assert {"labels": pod_parts.labels("main")} == pod_parts.metadata(PLACE, "main")


def test_a_pod_has_the_shared_memory_that_is_asked_for() -> None:
    """In memory, so that its limit holds it; else /dev/shm is the container runtime's."""
    pod = pod_parts.pod(MAIN, replace(PLACE, shared_memory="1Gi"))
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}

    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}} in pod["volumes"]
    assert {"name": "shm", "mountPath": "/dev/shm"} == mounts["shm"]  # noqa: S108 (a path in a container)
    assert [] == violations(pod)
    assert "shm" not in str(pod_parts.pod(MAIN, PLACE))


def test_what_a_pod_may_write_has_the_limit_that_is_asked_for() -> None:
    """Each folder; a pod that fills a node's disk ends those of others."""
    limited = pod_parts.pod(MAIN, replace(PLACE, scratch="10Gi"))

    assert [{"sizeLimit": "10Gi"}] * 2 == [volume["emptyDir"] for volume in limited["volumes"]]
    assert [{}, {}] == [volume["emptyDir"] for volume in pod_parts.pod(MAIN, PLACE)["volumes"]]
