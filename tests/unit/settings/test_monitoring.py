"""Keys about monitoring: what has no effect is refused, and what the target cannot have."""

import pytest

from infra.settings.cluster import EXISTING, NONE, PROMETHEUS
from infra.settings.table import every_key
from tests.golden import Wording
from tests.unit.settings_machine import machine, only_problem, parse

THERE = {"target": "kubernetes", "kubeContext": "staging", "image": "registry.example.com/a:1"}
ANOTHER = {
    "prometheusImage": ("registry.example.com/prometheus:1", {"prometheus"}),
    "monitoringNamespace": ("observability", {"prometheus", "existing"}),
    "podMonitorLabels": ("release=prometheus", {"existing"}),
    "grafanaUrl": ("https://grafana.example.com", {"prometheus", "existing"}),
}
"""A value of each key, and the ways of monitoring that have something to do with it."""
WAYS = (NONE, PROMETHEUS, EXISTING)


def test_all_ways_are_tried() -> None:
    """Every key with every value of `monitoring`."""
    assert {name for name, key in every_key().items() if "monitoring" in key.needs} == {*ANOTHER}
    for way in WAYS:
        every_key()["monitoring"].rule.parse(way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", ANOTHER)
def test_a_key_has_an_effect_or_is_refused(key: str, way: str) -> None:
    """Each with the lines that fix it."""
    text, ways = ANOTHER[key]
    values = {**THERE, "monitoring": way, key: text}
    if way in ways:
        parse(values, machine(cores=64, gib=256))
    else:
        assert f"pulumi config rm {key}" in only_problem(machine(64, 256), **values).fixes


def test_the_prometheus_that_exists_is_in_a_cluster_that_exists(wording: Wording) -> None:
    """A Minikube of the stack's own has none before it is created."""
    refused = only_problem(machine(64, 256), target="minikube", monitoring="existing")

    wording("settings", refused)
    assert ("pulumi config set monitoring prometheus",) == refused.fixes


@pytest.mark.parametrize("target", ["local", "ray"])
def test_only_clusters_have_it(target: str) -> None:
    """Elsewhere nothing could be installed."""
    assert target not in every_key()["monitoring"].targets
