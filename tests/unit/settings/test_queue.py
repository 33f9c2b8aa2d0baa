"""Keys about a queue: what has no effect is refused, and what Kueue would suspend."""

import pytest

from tests.golden import Wording
from tests.unit.settings_machine import machine, only_problem, parse

THERE = {"target": "kubernetes", "kubeContext": "staging", "image": "registry.example.com/a:1"}


def test_a_time_in_no_queue_has_no_effect(wording: Wording) -> None:
    """With a queue it has."""
    refused = only_problem(machine(64, 256), **THERE, queueMinutes="15")

    wording("settings", refused)
    assert 15 == parse({**THERE, "queue": "team", "queueMinutes": "15"}, machine(64, 256)).of_cluster.queue_minutes


@pytest.mark.parametrize("workers", ["per-run", "autoscaled"])
def test_workers_of_each_run_are_not_in_a_queue(workers: str, wording: Wording) -> None:
    """Another number of workers is another workload."""
    wording("settings", only_problem(machine(64, 256), **THERE, queue="team", rayWorkers=workers))
