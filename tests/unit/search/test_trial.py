"""A line of progress names a trial as its folder does."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.search.made import ALONE, RECIPE, ended
from training.contract.progress import NAME, describe
from training.workloads.search import trial


def test_a_trial_has_the_number_of_its_folder(tmp_path: Path) -> None:
    """From 0, as in the page and in what is said of one that differs."""
    trial.tell(replace(ended("baseline", ALONE).plan, folder=str(tmp_path)), ALONE[2])

    (line,) = (tmp_path / NAME).read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["trial"] == 2


@pytest.mark.parametrize(("arm", "trials"), [("baseline", None), ("native", None), ("ray", 4)])
def test_trials_that_epochs_are_given_out_to_are_not_counted_before(
    tmp_path: Path, arm: str, trials: int | None
) -> None:
    """With pbt Optuna's arms have the epochs of Ray's population, whatever number of trials these make."""
    recipe = replace(RECIPE, search_scheduler="pbt")
    trial.tell(replace(ended(arm, ALONE, recipe).plan, folder=str(tmp_path)), ALONE[2], 5)

    (event,) = map(json.loads, (tmp_path / NAME).read_text().splitlines())
    assert trials == event["trials"]
    assert (" of " not in describe(event)) == (trials is None)
