"""Which arms a measurement lacks, and what is said of it."""

import re

import pytest

from infra.places.cluster.fit import GIB, RESERVED, Measurement, Size, arms_to_leave_out, cluster_fit
from infra.settings.facts import Facts
from tests.golden import Wording
from tests.unit.settings_machine import machine, settings

LARGE = machine(cores=16, gib=64, stack="minikube")
ROOMY = {"target": "minikube", "minikubeCpus": "6", "minikubeMemory": "12Gi"}
CROWDED = {"target": "minikube", "minikubeCpus": "5", "minikubeMemory": "8Gi", "workerCpus": "1.5"}


def test_one_process_with_all_cpus_is_measured_unless_it_is_left_out() -> None:
    """Here every process may use them all."""
    assert settings().arms == ("baseline", "wide", "native", "ray")
    assert "wide" not in settings(wideArm="false").arms
    assert {"wide": "wideArm is off"} == settings(wideArm="false").absent_arms  # variants are not missed


@pytest.mark.parametrize("wanted", ["auto", "true"])
def test_with_one_worker_one_process_with_all_cpus_is_the_baseline(wording: Wording, wanted: str) -> None:
    """It would be measured twice, and compared with itself."""
    alone = settings(workers="1", wideArm=wanted)

    assert "wide" not in alone.arms
    wording("settings", alone.absent_arms["wide"])


def test_a_minikube_node_that_holds_it_has_the_wide_arm() -> None:
    """Beside the idle Ray pods, of which a node has its share; the one without the control plane keeps less for the
    system's pods, so the default has it, too."""
    assert "wide" in settings(LARGE, **ROOMY).arms
    assert "wide" in settings(LARGE, target="minikube").arms


def test_where_no_minikube_node_holds_it_the_wide_arm_is_absent_and_nothing_is_refused(wording: Wording) -> None:
    """The reason names nodes that would hold it, and they do."""
    small = settings(LARGE, **CROWDED)

    assert "wide" not in small.arms
    assert not small.refused_at_up
    wording("settings", small.absent_arms["wide"])
    assert re.findall("[0-9.]+ CPUs", small.absent_arms["wide"]) == ["5 CPUs", "3 CPUs", "6 CPUs"]
    assert "wide" in settings(LARGE, **CROWDED | {"minikubeCpus": "6"}).arms


@pytest.mark.parametrize(
    "facts", [machine(cores=6, gib=64, stack="minikube"), machine(cores=16, gib=10, stack="minikube")]
)
def test_the_wide_arm_never_makes_a_machine_too_small(wording: Wording, facts: Facts) -> None:
    """Without the native arm it needs most: 6.6 CPUs and 10.5 GiB where the others need 5.6 and 9."""
    nodes = {"nativeArm": "false", "minikubeCpus": "5", "minikubeMemory": "8Gi"}
    found = settings(facts, target="minikube", **nodes)

    wording("settings", found.absent_arms["wide"])
    assert {"6.6 CPUs", "10.5 GiB"} < set(re.findall("[0-9.]+ (?:CPUs|GiB)", found.absent_arms["wide"]))
    assert not found.refused_at_up
    assert settings(facts, target="minikube", **nodes, wideArm="true").refused_at_up
    assert "wide" in settings(LARGE, target="minikube", **nodes).arms


def test_who_asks_for_it_is_told_what_it_does_not_fit(wording: Wording) -> None:
    """And that it can be left out."""
    found = settings(LARGE, **CROWDED, wideArm="true")

    assert "wide" in found.arms
    wording("settings", found.refused_at_up[0])
    assert "pulumi config set wideArm false" in found.refused_at_up[0]


def test_on_a_cluster_that_exists_it_is_asked_for() -> None:
    """A preview may not see its nodes, and must promise the runs that the update makes."""
    cluster = {"target": "kubernetes", "image": "registry.example.com/it:1", "kubeContext": "staging"}

    assert "pulumi config set wideArm true" in settings(**cluster).absent_arms["wide"]
    assert "wide" in settings(**cluster, wideArm="true").arms


def test_the_fewest_arms_are_left_out_that_let_the_rest_fit() -> None:
    """The wide arm needs one large node, the native arm many small ones."""
    asked = Measurement(3, Size(1, GIB), Size(1, GIB), ("baseline", "wide", "native", "ray"))

    def without(nodes: list[Size]) -> tuple[str, ...]:
        return arms_to_leave_out(asked, lambda smaller: not cluster_fit(smaller, nodes, [RESERVED] * len(nodes)))

    assert without([Size(4, 16 * GIB)] * 3) == ("wide",)
    assert without([Size(4, 16 * GIB)] * 2) == ("wide", "native")
    assert without([Size(1, GIB)]) == ()
    assert cluster_fit(asked.without("wide"), [Size(4, 16 * GIB)] * 3, [RESERVED] * 3) == ()
