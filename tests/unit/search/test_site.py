"""Where a search runs; pods: tests/search/test_pods.py."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.search import made
from training.contract.arms import ARMS
from training.contract.clock import Phases, Stamp
from training.launch.entry import Request
from training.workloads.search.site import ThisMachine


@pytest.mark.parametrize(("arm", "cpus"), [("baseline", 4), ("wide", 12), ("native", 12), ("ray", 12)])
def test_a_search_is_bound_to_the_cpus_of_all_workers_of_its_trials(arm: str, cpus: int, tmp_path: Path) -> None:
    """On fewer they would share them, unseen, in a measurement of what distribution gains."""
    recipe = replace(made.RECIPE, workers=3, worker_cpus=2, trial_workers=2)
    plan = replace(made.ended(arm, made.ALONE, recipe).plan, threads=ARMS[arm].compute_threads(recipe))
    request = Request(
        recipe=recipe, result=tmp_path / "result.json", dataset_path="", storage="", bind_cpus=True, address="",
        dashboard=False, started=Stamp.now(), phases=Phases(),
    )  # fmt: skip

    assert ThisMachine(request).cpus(plan) == cpus
