"""Keys of monitoring, of a queue and of Ray's autoscaler: what has no effect, or no place, is refused."""

import pytest

from infra.places.cluster.fit import MIB, measurement_of
from infra.places.kubernetes.place import ExistingCluster
from infra.settings import cluster
from infra.settings.table import every_key
from tests.golden import Wording
from tests.unit.settings_machine import machine, only_problem, parse
from tests.unit.settings_values import EXISTING

LARGE = machine(64, 256)
AUTOSCALED = {**EXISTING, "rayWorkers": "autoscaled"}
OF_MONITORING = {
    "prometheusImage": ("registry.example.com/prometheus:1", {"prometheus"}),
    "monitoringNamespace": ("observability", {"prometheus", "existing"}),
    "podMonitorLabels": ("release=prometheus", {"existing"}),
    "grafanaUrl": ("https://grafana.example.com", {"prometheus", "existing"}),
}
"""A value of each key, and the ways of monitoring that have something to do with it."""
WAYS = (cluster.NONE, cluster.PROMETHEUS, cluster.EXISTING)
OF_STORAGE = {"storage": "s3://bucket/prefix", "serviceAccount": "training", "createNamespace": "false"}
REFUSED: dict[str, tuple[dict[str, str], str]] = {
    # A Minikube of the stack's own has none before it is created
    "a Prometheus that exists": ({"target": "minikube", "monitoring": "existing"}, "set monitoring prometheus"),
    "a time in no queue": ({**EXISTING, "queueMinutes": "15"}, "rm queueMinutes"),
    # Another number of workers is another workload
    "a queue, workers of each run": ({**EXISTING, "queue": "team", "rayWorkers": "per-run"}, "rm queue"),
    "a queue, an autoscaler": ({**AUTOSCALED, "queue": "team"}, "rm queue"),
    "an idle time, workers kept": ({**EXISTING, "rayWorkers": "kept", "idleSeconds": "30"}, "rm idleSeconds"),
    "an idle time, workers of each run": ({**EXISTING, "rayWorkers": "per-run", "idleSeconds": "30"}, "rm idleSeconds"),
    # KubeRay binds the autoscaler's rights to the account of the head's pod
    "an identity of yours, an autoscaler": ({**AUTOSCALED, **OF_STORAGE}, "set rayWorkers per-run"),
}
"""By what is refused: the settings, and a line that mends it."""


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_cluster_cannot_have_is_refused(case: str, wording: Wording) -> None:
    """Or would have no effect."""
    values, line = REFUSED[case]
    refused = only_problem(LARGE, **values)

    assert f"pulumi config {line}" in refused.fixes
    wording("settings", refused)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", OF_MONITORING)
def test_a_key_of_monitoring_has_an_effect_or_is_refused(key: str, way: str) -> None:
    """Every key with every value of `monitoring`, which clusters alone have."""
    text, ways = OF_MONITORING[key]
    values = {**EXISTING, "monitoring": way, key: text}

    assert {name for name, key in every_key().items() if "monitoring" in key.needs} == {*OF_MONITORING}
    assert not {"local", "ray"} & {*every_key()["monitoring"].targets}
    if way in ways:
        parse(values, LARGE)
    else:
        assert f"pulumi config rm {key}" in only_problem(LARGE, **values).fixes


@pytest.mark.parametrize(("name", "allowed"), [
    *((name, True) for name in ("team", "team.training-1", "0")),
    *((name, False) for name in ("Team", "team.", "team..a", "a" * 64)),
])  # fmt: skip
def test_a_queue_has_any_name_that_kueue_lets_it_have(name: str, *, allowed: bool) -> None:
    """Up to what a label holds; Kueue refuses an object with another."""
    if allowed:
        found = parse({**EXISTING, "queue": name, "queueMinutes": "15"}, LARGE).of_cluster
        assert (name, 15) == (found.queue, found.queue_minutes)
    else:
        assert only_problem(LARGE, **EXISTING, queue=name)


def test_the_head_has_room_for_the_autoscaler() -> None:
    """Beside what it needs itself; and while Ray is idle, it is all that is held."""
    kept, autoscaled = (parse(values, LARGE) for values in (EXISTING, AUTOSCALED))
    heads = [measurement_of(each.recipe, each.run.worker_memory, each.of_cluster, ("ray",)).head
             for each in (kept, autoscaled)]  # fmt: skip
    idle = ExistingCluster().site(autoscaled).idle_ray

    assert (0.5, 512 * MIB) == (heads[1].cpus - heads[0].cpus, heads[1].memory_bytes - heads[0].memory_bytes)
    assert (heads[1].cpus, heads[1].memory_bytes) == (idle.cpus, idle.memory_bytes)


@pytest.mark.parametrize(
    ("values", "gone_seconds"),
    [({}, None), ({"rayWorkers": "per-run"}, 120), ({"rayWorkers": "autoscaled", "idleSeconds": "30"}, 150)],
    ids=["kept", "per-run", "autoscaled"],
)
def test_the_comparison_knows_when_workers_are_gone(values: dict[str, str], gone_seconds: float | None) -> None:
    """Until then other arms wait: no pause, and no time in which workers are idle."""
    site = ExistingCluster().site(parse({**EXISTING, **values}, LARGE))

    assert gone_seconds == site.workers_gone_seconds
