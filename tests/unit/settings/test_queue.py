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


@pytest.mark.parametrize("name", ["team.training-1", "0"])
def test_a_queue_has_any_name_that_kueue_lets_it_have(name: str) -> None:
    """Up to what a label holds."""
    assert name == parse({**THERE, "queue": name}, machine(64, 256)).of_cluster.queue


@pytest.mark.parametrize("name", ["Team", "team.", "team..a", "a" * 64])
def test_a_queue_has_no_other_name(name: str) -> None:
    """Kueue refuses an object with such a label."""
    assert only_problem(machine(64, 256), **THERE, queue=name)


@pytest.mark.parametrize("workers", ["per-run", "autoscaled"])
def test_workers_of_each_run_are_not_in_a_queue(workers: str, wording: Wording) -> None:
    """Another number of workers is another workload."""
    wording("settings", only_problem(machine(64, 256), **THERE, queue="team", rayWorkers=workers))
