"""A run of a search as a result: an epoch is a trial, and what nobody saw is null with a reason."""

import json
from dataclasses import replace

import pytest

from compare.run_numbers import clock_of
from tests.unit.search.made import ALONE, RECIPE, TOGETHER, ended, failed, result
from training.contract.result import FAILED
from training.workloads.search import summary


def test_trials_are_the_epochs_of_the_clock() -> None:
    """From 5 to 21 s: 5 s until the first trial, 10 s for four of them, 1 s after the last."""
    made = result("ray", TOGETHER)

    assert (made.seconds.startup, made.seconds.train, made.seconds.wall) == (5, 10, 16)
    clock = clock_of(made)
    assert (clock.epochs, clock.per_epoch, clock.at(8)) == (4, 2.5, 26)


def test_time_between_trials_is_that_of_slots_that_had_more_to_do() -> None:
    """Two slots: 10 to 12 and 13 to 15, then nothing; 10 to 14 and 14 to 20. One second was lost, over four trials."""
    outcome = result("ray", TOGETHER).search

    assert outcome is not None
    assert outcome.trial_seconds == pytest.approx(14 / 4)
    assert outcome.between_trials_seconds == pytest.approx(1 / 4)


def test_slots_are_those_that_were_free() -> None:
    """A trial is of the slot that was free first."""
    slots = ended("ray", TOGETHER).slots

    assert [[trial.number for trial in slot] for slot in slots] == [[0, 2], [1, 3]]


@pytest.mark.parametrize(("mode", "best"), [("max", 3), ("min", 0)])
def test_the_best_configuration_is_by_the_mode(mode: str, best: int) -> None:
    """The greatest metric, or the least."""
    made = result("baseline", ALONE, replace(RECIPE, metric_mode=mode))

    assert made.search is not None
    assert json.loads(made.search.best_config or "") == ALONE[best].config
    assert made.scores == {"accuracy": ALONE[best].metric}
    assert made.reported["accuracy"][-1].value == ALONE[best].metric


def test_failed_trials_count_and_are_never_the_best() -> None:
    """They are trials, without epochs."""
    made = result("baseline", [*ALONE[:3], failed(3, 18, 20)])

    assert made.search is not None
    assert (made.search.finished, made.search.failed, made.search.epochs_trained) == (3, 1, 9)
    assert made.search.best_metric == ALONE[2].metric
    assert made.did[summary.WEIGHTS].split(" ")[-1] == FAILED


def test_a_stopped_trial_is_not_the_best() -> None:
    """Its metric is of fewer epochs than those of the others."""
    made = result("baseline", [*ALONE[:3], replace(ALONE[3], state="stopped", epochs=1)])

    assert made.search is not None
    assert (made.search.stopped, made.search.epochs_trained, made.search.best_metric) == (1, 10, ALONE[2].metric)


def test_what_nobody_saw_is_null_with_a_reason() -> None:
    """Epochs and weights of a plain script."""
    made = result("baseline", [replace(each, epochs=None, weights=None) for each in ALONE])

    assert made.search is not None
    assert made.search.epochs_trained is None
    assert made.reasons["search.epochsTrained"]
    assert made.did[summary.EPOCHS] == "- - - -"  # not prose: a word a trial


def test_a_trial_that_left_no_record_is_in_no_clock() -> None:
    """Whoever ran it was killed: it is counted, and its begin and end are nobody's."""
    lost = replace(failed(3, 21, 21), why="whoever ran it was ended before it")

    made = result("ray", [*TOGETHER[:3], lost])

    assert made.search is not None
    assert made.seconds.train == 5
    assert made.search.failed == 1
    assert made.search.trial_seconds == pytest.approx(8 / 3)
