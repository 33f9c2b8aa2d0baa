"""Settings of the cluster targets: names, images, and what fits the nodes."""

import re
from dataclasses import replace

import pytest

from infra.places.cluster.fit import (
    GIB,
    RESERVED,
    RESERVED_WITHOUT_CONTROL_PLANE,
    Measurement,
    Size,
    cluster_fit,
    largest_worker,
    measurement_of,
    node_that_fits,
    room,
    spreads,
)
from tests.golden import Wording
from tests.unit.settings_machine import applied, machine, only_problem, settings
from tests.unit.settings_values import EXISTING

MINIKUBE = machine(8, 16, "minikube")


@pytest.mark.parametrize("namespace", ["default", "kube-system", "kube-public", "kube-node-lease"])
def test_namespaces_of_others_are_refused(namespace: str) -> None:
    """What is denied by default and removed at the end must hold nothing else."""
    assert f"namespace = {namespace}" in only_problem(**EXISTING, namespace=namespace)


def test_kubernetes_needs_an_image_or_a_place_to_push_one() -> None:
    """Both ways are given, and each is enough."""
    found = only_problem(target="kubernetes", kubeContext="staging")

    assert "pulumi config set image " in found
    assert "pulumi config set imageRegistry " in found
    settings(target="kubernetes", kubeContext="staging", imageRegistry="registry.example.com/a")


def test_only_one_image_can_be_meant(wording: Wording) -> None:
    """An image that is used as it is, is not built as well."""
    found = only_problem(**EXISTING, imageRegistry="registry.example.com/a")

    assert {"pulumi config rm image", "pulumi config rm imageRegistry"} == set(found.fixes)
    wording("settings", found)


def test_a_stack_whose_name_makes_no_profile_says_so() -> None:
    """The derived profile is never bent silently: two stacks could get the same."""
    found = only_problem(machine(stack="My_Stack"), target="minikube")

    assert "pulumi config set minikubeProfile ray-worth-it-my-stack" in found


def test_a_minikube_stack_installs_its_operator() -> None:
    """There is none in the cluster that it creates, and one that it installed would be deleted."""
    found = only_problem(target="minikube", operator="existing")

    assert "pulumi config set operator install" in found


def test_a_kubeconfig_in_the_home_folder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider knows no ~."""
    monkeypatch.setenv("HOME", "/home/someone")
    found = settings(**EXISTING, kubeconfig="~/.kube/config")

    assert found.cluster is not None
    assert found.cluster.kubeconfig == "/home/someone/.kube/config"


def asked(
    workers: int = 2, cpus: float = 1, gib: float = 1, arms: tuple[str, ...] = ("baseline", "native", "ray")
) -> Measurement:
    """A measurement with a small head."""
    return Measurement(workers, Size(cpus, int(gib * GIB)), Size(1, GIB), arms)


def unfit(measurement: Measurement, nodes: list[Size]) -> tuple[str, ...]:
    """The arms that do not fit nodes of which as much is kept as of one with pods of the system."""
    return cluster_fit(measurement, nodes, [RESERVED] * len(nodes))


ENOUGH = Size(0.1 + 1 + 1 + 1 + 1, int((0.5 + 1 + 1 + 1 + 1) * GIB))
"""For one worker: a CPU and a GiB of each node are kept."""


@pytest.mark.parametrize(
    ("measurement", "nodes", "left_out"),
    [
        # Two nodes with 1.5 CPUs left hold no two-CPU pod, though they have three together
        (
            Measurement(1, Size(2, GIB), Size(0.1, GIB), ("baseline", "ray")),
            [Size(2.5, 8 * GIB)] * 2,
            ("baseline", "ray"),
        ),
        # CPUs enough, memory not
        (asked(gib=4), [Size(16, 8 * GIB)] * 2, ("baseline", "native")),
        # Exactly enough is enough; a hundredth less is not
        (asked(1).without("native"), [ENOUGH], ()),
        (asked(1).without("native"), [Size(ENOUGH.cpus - 0.01, ENOUGH.memory_bytes)], ("baseline",)),
        (asked(1).without("native"), [Size(ENOUGH.cpus, ENOUGH.memory_bytes - 1)], ("baseline",)),
        # Jobs run one after another: the native arm needs most, the others fit without it
        (asked(3), [Size(4, 8 * GIB)] * 2, ("native",)),
        (asked(3).without("native"), [Size(4, 8 * GIB)] * 2, ()),
    ],
)
def test_fit_is_by_node_and_by_arm(measurement: Measurement, nodes: list[Size], left_out: tuple[str, ...]) -> None:
    """And not by sum; of each node a CPU and a GiB are kept."""
    assert left_out == unfit(measurement, nodes)


@pytest.mark.parametrize(("workers", "cpus", "gib"), [(1, 0.25, 0.5), (3, 1, 1.5), (8, 4, 3), (64, 2, 8)])
def test_the_node_suggested_fits_and_a_smaller_one_does_not(workers: int, cpus: float, gib: float) -> None:
    """The message names the smallest node that works."""
    measurement, floor = asked(workers, cpus, gib), Size(2, 2 * GIB)

    found = node_that_fits(measurement, [RESERVED] * 2, floor)

    assert unfit(measurement, [found] * 2) == ()
    if found.cpus > floor.cpus:
        assert unfit(measurement, [Size(found.cpus - 1, found.memory_bytes)] * 2) != ()
    if found.memory_bytes > floor.memory_bytes:
        assert unfit(measurement, [Size(found.cpus, found.memory_bytes - GIB)] * 2) != ()


def test_arms_of_the_default_minikube_are_spread_alike() -> None:
    """A worker of each on a node, whether Ray's are kept or not."""
    found = settings(machine(32, 64, "minikube"), target="minikube")
    measurement = measurement_of(found.recipe, found.run.worker_memory, found.of_cluster, found.arms)
    nodes = [Size(found.of_cluster.minikube_cpus, found.of_cluster.minikube_memory.bytes)] * 2

    assert {"native": (1, 1), "ray": (1, 1)} == spreads(measurement, nodes, [RESERVED, RESERVED_WITHOUT_CONTROL_PLANE])
    assert found.warnings == ()
    assert settings(machine(32, 64, "minikube"), target="minikube", rayWorkers="per-run").warnings == ()


def test_arms_that_will_be_spread_differently_are_said_beforehand(wording: Wording) -> None:
    """Everything fits, and no node has room for a third worker beside the head: native's two share the other. The line
    gives them room."""
    values = {"target": "minikube", "minikubeMemory": "6Gi"}
    (remark,) = settings(machine(32, 64, "minikube"), **values).warnings

    assert "(native 2, ray 1 + 1)" in remark  # not prose: numbers
    wording("settings", remark)
    line = remark[remark.index("pulumi config set") :]
    assert settings(machine(32, 64, "minikube"), **applied(values, line)).warnings == ()


def test_a_spread_that_is_required_has_to_fit() -> None:
    """Kubernetes would leave the second pod of native waiting: what is preferred fits, and what is required does
    not."""
    nodes, kept = [Size(4, 6 * GIB)] * 2, [RESERVED, RESERVED_WITHOUT_CONTROL_PLANE]
    preferred = replace(asked(gib=1.5), head=Size(1, 2 * GIB))

    assert cluster_fit(preferred, nodes, kept) == ()
    assert cluster_fit(replace(preferred, spread="required"), nodes, kept) == ("native",)
    assert spreads(replace(preferred, spread="off"), [Size(32, 64 * GIB), nodes[0]], kept)["native"] == (2,)


def test_three_workers_on_the_default_minikube_need_another_machine_or_no_native_arm(wording: Wording) -> None:
    """The refusal says what would do, and leaving out the native arm is enough."""
    found = settings(MINIKUBE, target="minikube", workers="3")

    assert len(found.refused_at_up) == 2
    assert found.oversubscription is None
    assert all("pulumi config set nativeArm false" in text for text in found.refused_at_up)
    assert ["9", "8"] == re.findall(r"\d+", found.refused_at_up[1].split(":")[0])[-2:]
    wording("settings", found.refused_at_up[0], "nodes")
    wording("settings", found.refused_at_up[1], "machine")
    assert settings(MINIKUBE, target="minikube", workers="3", nativeArm="false").warnings == ()


def test_a_larger_node_is_a_way_out() -> None:
    """The lines that the message gives make the pods fit."""
    values = {"target": "minikube", "workers": "3"}
    (line,) = [line for line in settings(MINIKUBE, **values).warnings[0].split("\n  ") if "minikubeCpus" in line]

    assert settings(machine(32, 64, "minikube"), **applied(values, line)).warnings == ()


@pytest.mark.parametrize("memory", ["512Mi", "1536Mi", "2Gi"])
def test_smaller_workers_are_a_way_out(memory: str) -> None:
    """A machine that has no larger node has this line: what was asked in memory stays, where it fits."""
    size = {"workers": "3", "workerMemory": memory, "minikubeMemory": "16Gi"}
    crowded = {"target": "minikube", "allowOversubscription": "true", **size}
    found = settings(machine(2, 64, "minikube"), **crowded).refused_at_up[0]
    (line,) = [line for line in found.split("\n  ") if "workerCpus" in line]

    assert f"workerMemory {memory}" in line
    assert settings(machine(2, 64, "minikube"), **applied(crowded, line)).refused_at_up == ()


def test_permission_lifts_the_cores_of_the_machine_only(wording: Wording) -> None:
    """Sharing cores is slow and possible; what the scheduler can't place never starts, permission or not."""
    found = settings(machine(2, 16, "minikube"), target="minikube", allowOversubscription="true")
    crowded = settings(machine(2, 16, "minikube"), target="minikube", allowOversubscription="true", workers="3")

    assert found.refused_at_up == ()
    assert found.oversubscription == found.warnings[0]
    assert "7 physical cores" in found.warnings[0]
    assert len(crowded.refused_at_up) == 1
    wording("settings", crowded.refused_at_up[0])


def test_memory_that_the_machine_has_not_is_refused(wording: Wording) -> None:
    """Memory can't be shared."""
    found = settings(machine(8, 8, "minikube"), target="minikube", allowOversubscription="true")

    (refused,) = found.refused_at_up
    wording("settings", refused)


def test_nothing_is_said_about_clusters_not_yet_seen() -> None:
    """On `kubernetes` the nodes are read at `up`, not guessed."""
    assert settings(machine(2, 4), **EXISTING, workers="100", globalBatchSize="100").warnings == ()


@pytest.mark.parametrize(
    "nodes", [[Size(8, 32 * GIB)] * 2, [Size(16, 64 * GIB), Size(4, 8 * GIB)], [Size(96, 768 * GIB)] * 3]
)
def test_the_largest_worker_fits_and_a_larger_one_does_not(nodes: list[Size]) -> None:
    """A node holds an idle worker of Ray and one of native beside it; the system keeps its part."""
    kept, one = [RESERVED] * len(nodes), asked(2, cpus=1, gib=1)
    largest = largest_worker(one, nodes, kept)

    assert largest is not None
    for worker, fits in (
        (largest, True),
        (Size(largest.cpus + 1, largest.memory_bytes), False),
        (Size(largest.cpus, largest.memory_bytes + GIB), False),
    ):
        assert (not unfit(replace(one, worker=worker), nodes)) == fits


def test_small_nodes_hold_workers_of_a_part_of_a_cpu() -> None:
    """In quarters of one; never where a whole one fits."""
    small = replace(asked(2, cpus=1, gib=1), head=Size(0.5, GIB))
    nodes, kept = [Size(2, 8 * GIB)] * 2, [RESERVED] * 2
    largest = largest_worker(small, nodes, kept)

    assert largest is not None
    assert 0.25 == largest.cpus
    assert not unfit(replace(small, worker=largest), nodes)
    assert unfit(replace(small, worker=Size(0.5, GIB)), nodes)


def test_nodes_that_hold_no_worker_have_no_largest() -> None:
    """Not even one of a quarter of a CPU and a GiB."""
    assert largest_worker(asked(), [Size(2, 2 * GIB)], [RESERVED]) is None


def test_doctor_says_how_large_workers_can_be(wording: Wording) -> None:
    """As the lines that set it, which a preview and a pull request then show."""
    roomy = settings(machine(32, 64), target="minikube", minikubeCpus="8", minikubeMemory="16Gi")
    found = room(roomy, [Size(8, 16 * GIB)] * 2, [RESERVED] * 2)

    assert "pulumi config set workerCpus 2 && pulumi config set workerMemory 4Gi" in found.needed
    assert found.ok
    wording("doctor", found.needed)
