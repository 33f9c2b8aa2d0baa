"""What a ClusterQueue's quota holds: made-up ones; real ones are in tests/platform/test_queue.py."""

from functools import partial
from typing import Any

import pytest

from infra.places.cluster.api.selectors import selects
from infra.places.cluster.fit import GIB, Measurement, Size
from infra.places.cluster.manifests import queue
from infra.places.kubernetes import quota
from infra.places.kubernetes.cohorts import Cohorts
from infra.settings.pod_template import REQUIRED
from tests.golden import Wording
from tests.unit.kueue_objects import group

GPU = "nvidia.com/gpu"
NOT_VISION = {"key": "team", "operator": "NotIn", "values": ["vision"]}
ARMS = ("baseline", "native", "ray")


def cluster_queue(*flavors: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A ClusterQueue with one group of resources."""
    named = {f"flavor-{number}": flavor for number, flavor in enumerate(flavors)}
    return {"metadata": {"name": "team"}, "spec": {"resourceGroups": [group(named)], **spec}}


def measurement(workers: int = 2, cpus: float = 1, gpus: int = 0) -> Measurement:
    """Workers beside a head of one CPU and 2 GiB."""
    return Measurement(workers, Size(cpus, GIB, gpus), Size(1, 2 * GIB), ARMS)


def problem(
    asked: Measurement, found: dict[str, Any], other: dict[str, Any] | None = None, **closed: frozenset[bool]
) -> str:
    """What is said against it; "" for nothing. `closed`: flavours that are closed to pods, by name."""
    most = partial(Cohorts([found, *([other] if other else [])], []).most, "team")
    groups = quota.flavors(found, most, lambda name: closed.get(name.replace("-", "_"), frozenset()))
    return "".join(str(each) for each in quota.too_little(found, groups, asked, GPU))


@pytest.mark.parametrize(
    ("flavors", "holds"),
    [
        ([{"cpu": "5", "memory": "8Gi"}], True),  # a head, two workers of Ray and two of native
        ([{"cpu": "4900m", "memory": "8Gi"}], False),
        ([{"cpu": "5", "memory": "5Gi"}], False),
        ([{"cpu": "5"}], False),  # memory is given by nobody
        ([{"cpu": "3", "memory": "8Gi"}, {"cpu": "2", "memory": "8Gi"}], True),
        ([{"cpu": "1500m", "memory": "8Gi"}] * 4, False),  # Ray's workers have one flavour
        ([{"cpu": "2", "memory": "8Gi"}, {"cpu": "3", "memory": "8Gi"}], False),  # the head takes of the first
        ([{"cpu": "5", "memory": "8Gi", "pods": "5"}], True),
        ([{"cpu": "5", "memory": "8Gi", "pods": "4"}], False),
    ],
)
def test_the_ray_cluster_and_one_run_need_quota_at_once(flavors: list[dict[str, str]], *, holds: bool) -> None:
    """Each set of pods in one flavour."""
    assert holds == (not problem(measurement(), cluster_queue(*flavors)))


def test_a_flavor_is_for_the_pods_that_it_takes() -> None:
    """By taints, which its own tolerations may answer, and by labels; of others, quota is none."""
    two = cluster_queue({"cpu": "9", "memory": "9Gi"}, {"cpu": "4", "memory": "8Gi"})
    tainted = {"nodeTaints": [{"key": "spot", "value": "true", "effect": "NoSchedule"}]}
    tolerates = {"tolerations": [{"key": "spot", "operator": "Equal", "value": "true"}]}
    labelled = {"nodeLabels": {"accelerator": "a100"}}

    assert "" == problem(measurement(), two)
    assert problem(measurement(), two, flavor_0=frozenset({True, False}))
    assert "" == problem(measurement(), two, flavor_0=frozenset({False}))
    assert not quota.takes(tainted, {})
    assert quota.takes(tainted, tolerates)
    assert quota.takes(tainted | tolerates, {})
    assert quota.takes(labelled, {"nodeSelector": {"pool": "x"}})
    assert not quota.takes(labelled, {"nodeSelector": {"accelerator": "h100"}})


def with_affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    """The spec of a pod for the nodes that match one of these terms."""
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in terms]}
    return {"affinity": {"nodeAffinity": {REQUIRED: required}}}


@pytest.mark.parametrize(
    ("terms", "takes"),
    [
        ([], True),
        ([["In", "a100"]], True),
        ([["In", "h100"]], False),
        ([["NotIn", "a100"]], False),
        ([["NotIn", "h100"]], True),
        ([["In", "h100"], ["In", "a100"]], True),
        ([["In", "h100"], ["NotIn", "a100"]], False),
    ],
)
def test_a_flavor_is_for_the_pods_whose_affinity_it_has(terms: list[list[str]], *, takes: bool) -> None:
    """Of its own labels alone: a term about others matches, also beside one that does not."""
    flavor = {"nodeLabels": {"accelerator": "a100"}}
    asked = [[{"key": "accelerator", "operator": operator, "values": [value]}] for operator, value in terms]
    elsewhere = {"key": "zone", "operator": "In", "values": ["b"]}

    assert takes == quota.takes(flavor, with_affinity(*asked))
    assert takes == quota.takes(flavor, with_affinity(*([*term, elsewhere] for term in asked)))
    assert quota.takes(flavor, with_affinity(*asked, [elsewhere]))


@pytest.mark.parametrize(
    ("first", "cohort", "choice", "fits"),
    [
        ("0", "all", "TryNextFlavor", True),
        ("0", "all", "MayStopSearch", False),
        ("4", "", "TryNextFlavor", False),
    ],
)
def test_who_borrows_last_is_refused_what_no_choice_of_flavors_holds(
    first: str, cohort: str, choice: str, *, fits: bool
) -> None:
    """The head gets its own flavour then, and not the first."""
    more = {"cohortName": cohort, "flavorFungibility": {"whenCanBorrow": choice}}
    team = cluster_queue({"cpu": first, "memory": "9Gi"}, {"cpu": "1", "memory": "9Gi"}, **more)
    other = cluster_queue({"cpu": "4", "memory": "0"}, cohortName="all") | {"metadata": {"name": "other"}}

    assert fits == (not problem(measurement(), team, other))


@pytest.mark.parametrize("closed", [{True, False}, {True}, {False}], ids=["all", "those that train", "others"])
def test_a_flavor_that_is_closed_is_shown_as_such(closed: set[bool], wording: Wording) -> None:
    """Its numbers alone look as if there were room."""
    wording("cluster", problem(measurement(), cluster_queue({"cpu": "9", "memory": "9Gi"}), flavor_0=frozenset(closed)))


def test_namespaces_are_selected_by_their_labels() -> None:
    """No selector selects nothing, and an empty one everything."""
    of_team: dict[str, Any] = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["vision"]}]}
    of_nobody: dict[str, Any] = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}

    assert not selects(None, {})
    assert selects({}, {})
    assert [True, False] == [selects(each, {"team": "vision"}) for each in (of_team, of_nobody)]
    assert [True, True] == [selects(each, {}) for each in ({"matchExpressions": [NOT_VISION]}, of_nobody)]
    assert not selects({"matchLabels": {"team": "vision"}}, {"team": "audio"})
    assert not selects({"matchLabels": {"team": "audio"}, "matchExpressions": [NOT_VISION]}, {"team": "vision"})


def test_gpus_are_counted_under_their_own_name() -> None:
    """Those of Ray's kept workers beside those of a run; fewer workers are named that fit."""
    of_gpus = {"cpu": "99", "memory": "99Gi", GPU: "4"}

    assert "" == problem(measurement(gpus=1), cluster_queue(of_gpus))
    refused = problem(measurement(workers=3, gpus=1), cluster_queue(of_gpus))
    assert "workers 2" in refused
    assert f"6 {GPU}" in refused
    assert "cpu" not in refused


def test_quantities_are_as_kubernetes_writes_them() -> None:
    """So that what Kueue writes again is what was declared."""
    given = {"1000m": "1", "1500m": "1500m", "0.25": "250m", "2048Mi": "2Gi", "1.5Gi": "1536Mi", "1": "1", "5000": "5k"}
    part = {"spec": [{"resources": {"limits": dict.fromkeys(["cpu"], text)}, "sizeLimit": text} for text in given]}

    made = queue.canonical(part)["spec"]

    assert list(given.values()) == [each["resources"]["limits"]["cpu"] for each in made]
    assert list(given.values()) == [each["sizeLimit"] for each in made]
