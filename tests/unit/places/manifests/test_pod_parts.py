"""What every pod has in common."""

from dataclasses import replace

import pytest

from infra.places.cluster.manifests import pod_parts
from infra.places.cluster.manifests.pod_parts import Placement, Size
from infra.settings.rules import PodTemplate
from policy.pod_security import violations

PLACE = Placement("image:1")
MAIN = pod_parts.container("main", "image:1", Size(0.25, "1Gi"))


def test_every_pod_passes_pod_security() -> None:
    """The namespace admits no other."""
    assert [] == violations(pod_parts.pod(MAIN, PLACE))


@pytest.mark.parametrize("removed", ["allowPrivilegeEscalation", "capabilities"])
def test_the_check_sees_what_is_missing(removed: str) -> None:
    """A check that passes everything would guard nothing."""
    bare = {**MAIN, "securityContext": {k: v for k, v in MAIN["securityContext"].items() if k != removed}}

    assert violations(pod_parts.pod(bare, PLACE))


def test_no_pod_holds_a_token_or_the_addresses_of_services() -> None:
    """Training asks the API server nothing."""
    pod = pod_parts.pod(MAIN, PLACE)

    assert (False, False) == (pod["automountServiceAccountToken"], pod["enableServiceLinks"])


def test_requests_are_the_limits() -> None:
    """What one pod leaves must not be another's gain."""
    resources = MAIN["resources"]

    assert {"cpu": "250m", "memory": "1Gi"} == resources["requests"] == resources["limits"]


def test_a_read_only_root_has_places_to_write() -> None:
    """Ray needs /tmp, a run its folder."""
    mounts = {mount["name"]: mount["mountPath"] for mount in MAIN["volumeMounts"]}
    volumes = {volume["name"] for volume in pod_parts.pod(MAIN, PLACE)["volumes"]}

    assert MAIN["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"tmp": "/tmp", "results": "/results"} == mounts  # noqa: S108 (a path in a container)
    assert volumes == set(mounts)


def test_place_reaches_the_pod() -> None:
    """The template's fields as they are, beside the others; its names never replace the project's."""
    spec = {"tolerations": [{"key": "dedicated", "operator": "Exists"}], "priorityClassName": "low"}
    place = Placement("image:1", PodTemplate({"team": "a", pod_parts.PROJECT_LABEL: "b"}, {"note": "c"}, spec))

    assert pod_parts.pod(MAIN, place) == pod_parts.pod(MAIN, PLACE) | spec
    metadata = pod_parts.metadata(place, pod_parts.labels("main"), {"own": "d"})
    assert {"team": "a", **pod_parts.labels("main")} == metadata["labels"]
    assert {"note": "c", "own": "d"} == metadata["annotations"]
    assert {"labels": pod_parts.labels("main")} == pod_parts.metadata(PLACE, pod_parts.labels("main"))


def test_the_error_of_an_up_has_the_last_lines() -> None:
    """Kubernetes puts them into the pod's status, from where Pulumi takes them."""
    assert "FallbackToLogsOnError" == MAIN["terminationMessagePolicy"]


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
