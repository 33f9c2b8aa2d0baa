"""Records of trials in Ray's own key-value store, which every process of a cluster reaches: pods share no folder."""

import json
import time

from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_list, _internal_kv_put

from training.workloads.search import brought
from training.workloads.search.plan import STORES, Plan

WAIT_SECONDS = 60.0
"""Time for trials that were stopped to end, longer than they have until SIGKILL."""
POLL_SECONDS = 0.05


def take(plan: Plan, number: int) -> bool:
    """Take the number of a trial; false where another trial has it."""
    return not _internal_kv_put(f"{plan.store}/number/{number}", b"taken", overwrite=False)


def put(plan: Plan, number: int) -> int:
    """Bring a trial that has ended here; return how many have."""
    trial = brought.of_trial(plan, number)
    assert trial  # noqa: S101 (its record is written)
    _internal_kv_put(f"{plan.store}/trial/{number}", trial.text())
    return len(_internal_kv_list(f"{plan.store}/trial/"))


def fetch(plan: Plan, least: int) -> None:
    """Write what all workers have brought into the driver's folder of the run.

    `least`: trials that did not fail for Tune, which bring a record; one that it has stopped ends after that.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while len(_internal_kv_list(f"{plan.store}/trial/")) < least and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    for key in _internal_kv_list(f"{plan.store}/trial/"):
        brought.parse(json.loads(_internal_kv_get(key))).write(plan)


def clear() -> None:
    """Delete what this search has in the store, and what earlier ones left whose driver was killed: a Ray that outlives
    them has one search at a time."""
    _internal_kv_del(STORES, del_by_prefix=True)
