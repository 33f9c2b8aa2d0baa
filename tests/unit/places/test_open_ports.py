"""A run of this machine has a network of its own; one that needs a bucket has not, and is refused until it is meant."""

import pytest

from tests.unit.settings_machine import applied, settings

BUCKETS = ["s3://bucket/prefix", "gs://bucket/prefix"]


@pytest.mark.parametrize("storage", BUCKETS)
def test_a_run_whose_ports_others_reach_is_refused(storage: str) -> None:
    """At `up`; a preview may be of another machine. Each line that is printed lifts it."""
    (refused,) = settings(storage=storage).refused_at_up

    assert settings(storage=storage).warnings == (refused,)
    lines = [line.partition("    (")[0].strip() for line in refused.splitlines() if "pulumi config set" in line]
    assert 2 == len(lines)
    for line in lines:
        assert () == settings(**applied({"storage": storage}, line)).refused_at_up


def test_what_keeps_its_own_network_is_not() -> None:
    """A folder of this machine, no storage, and pods, which have policies."""
    let_in = {"storage": BUCKETS[0], "storageRole": "arn:aws:iam::123456789012:role/training"}

    for given in ({}, {"storage": "kept"}, {"target": "minikube", **let_in}):
        assert not [said for said in settings(**given).refused_at_up if "allowOpenPorts" in said]
