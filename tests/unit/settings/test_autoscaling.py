"""Keys about Ray's autoscaler: what has no effect is refused, and its container is counted."""

import pytest

from infra.places.cluster.fit import MIB, measurement_of
from infra.places.kubernetes.place import ExistingCluster
from tests.golden import Wording
from tests.unit.settings_machine import machine, only_problem, parse

THERE = {"target": "kubernetes", "kubeContext": "staging", "image": "registry.example.com/a:1"}
AUTOSCALED = {**THERE, "rayWorkers": "autoscaled"}


@pytest.mark.parametrize("workers", ["kept", "per-run"])
def test_an_idle_time_without_an_autoscaler_is_refused(workers: str, wording: Wording) -> None:
    """With one it is its own."""
    wording("settings", only_problem(machine(64, 256), **THERE, rayWorkers=workers, idleSeconds="30"))

    assert 30 == parse({**AUTOSCALED, "idleSeconds": "30"}, machine(64, 256)).of_cluster.idle_seconds


def test_an_identity_of_yours_gets_no_rights_of_the_autoscaler(wording: Wording) -> None:
    """KubeRay binds them to the account of the head's pod."""
    of_storage = {"storage": "s3://bucket/prefix", "serviceAccount": "training", "createNamespace": "false"}

    wording("settings", only_problem(machine(64, 256), **AUTOSCALED, **of_storage))


def test_the_head_has_room_for_the_autoscaler() -> None:
    """Beside what it needs itself; and while Ray is idle, it is all that is held."""
    kept, autoscaled = (parse(values, machine(64, 256)) for values in (THERE, AUTOSCALED))
    heads = [measurement_of(each.recipe, each.run.worker_memory, each.of_cluster, ("ray",)).head
             for each in (kept, autoscaled)]  # fmt: skip
    idle = [ExistingCluster().site(each).idle_ray for each in (kept, autoscaled)]

    assert (0.5, 512 * MIB) == (heads[1].cpus - heads[0].cpus, heads[1].memory_bytes - heads[0].memory_bytes)
    assert (heads[1].cpus, heads[1].memory_bytes) == (idle[1].cpus, idle[1].memory_bytes)


@pytest.mark.parametrize(
    ("values", "gone_seconds"),
    [({}, None), ({"rayWorkers": "per-run"}, 120), ({"rayWorkers": "autoscaled", "idleSeconds": "30"}, 150)],
    ids=["kept", "per-run", "autoscaled"],
)
def test_the_comparison_knows_when_workers_are_gone(values: dict[str, str], gone_seconds: float | None) -> None:
    """Until then other arms wait: no pause, and no time in which workers are idle."""
    site = ExistingCluster().site(parse({**THERE, **values}, machine(64, 256)))

    assert gone_seconds == site.workers_gone_seconds
