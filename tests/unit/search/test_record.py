"""The record of a trial by how it ended and what was seen of it; real trials: tests/search."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.golden import Wording
from tests.unit.script.test_facts import rank
from training.workloads.script.observations import Observation
from training.workloads.search import record
from training.workloads.search.questions import Report
from training.workloads.search.record import EndedTrial

POINTS = [(101.0, "accuracy", 0.1), (102.0, "loss", 0.9), (103.0, "loss", 0.7)]
SEEN = rank(0, 1, steps=8, passes=[[0, True], [4, True], [8, False]], metricPoints=POINTS, peakMemoryBytes=7)
ENDED = EndedTrial(
    number=2, config={"lr": 0.1}, workers=1, epochs_asked=3, metric="loss", pattern="", began=100.0,
    clock_began=5.0, clock_ended=9.5, code=0, ended_by_search=False, signalled=False, printed=10, matches=0,
    memory_kills=0, error="",
    reports=[Report(number=1, value=0.9, at=6.0)], seen=[SEEN],
)  # fmt: skip


def test_what_was_observed_is_recorded() -> None:
    """Times since it began, whole epochs, and its length by a clock that nobody sets."""
    found = record.of(ENDED)

    assert ("finished", 2, 8, 7, 1) == (found.state, found.epochs, found.steps, found.peak_memory_bytes, found.threads)
    assert [[2.0, 0.9], [3.0, 0.7]] == found.points
    assert (0.7, 4.5) == (found.metric, found.seconds)


def test_a_trial_that_left_no_observation_has_what_it_asked_about() -> None:
    """One that was killed when it did not stop."""
    found = record.of(replace(ENDED, seen=[], ended_by_search=True, signalled=True, code=-9))

    assert ("stopped", [[1.0, 0.9]], 1, None) == (found.state, found.points, found.epochs, found.steps)


def test_what_was_printed_counts_where_it_is_read() -> None:
    """Whatever the framework reports besides."""
    found = record.of(replace(ENDED, pattern="loss (.*)"))

    assert ([[1.0, 0.9]], 1, 8) == (found.points, found.epochs, found.steps)


def test_the_first_rank_that_reports_speaks_for_the_trial() -> None:
    """Another may report nothing."""
    found = record.of(replace(ENDED, seen=[rank(0, 2, weights="a"), replace(SEEN, rank=1)]))

    assert ([[2.0, 0.9], [3.0, 0.7]], "w") == (found.points, found.weights)


TOGETHER = [replace(SEEN, world=2), rank(1, 2, weights="w")]


def test_workers_that_trained_together_are_one_trial() -> None:
    """They have equal weights in the end."""
    assert "finished" == record.of(replace(ENDED, workers=2, seen=TOGETHER)).state


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([SEEN], id="one of two"),
        pytest.param([TOGETHER[0], replace(TOGETHER[1], weights="v")], id="other weights"),
    ],
)
@pytest.mark.parametrize("stopped", [False, True])
def test_workers_that_did_not_train_together_are_none(seen: list[Observation], stopped: bool, wording: Wording) -> None:
    """Whatever rank 0 reports, it is no metric of a training of two, and a trial that was stopped is none either."""
    found = record.of(replace(ENDED, workers=2, seen=seen, ended_by_search=stopped))

    assert "failed" == found.state
    wording("comparison", found.why)


def test_workers_that_were_ended_by_a_signal_need_not_be_at_the_same_step() -> None:
    """Each was where it was."""
    seen = [TOGETHER[0], replace(TOGETHER[1], weights="v")]
    found = record.of(replace(ENDED, workers=2, seen=seen, ended_by_search=True, signalled=True, code=-15))

    assert "stopped" == found.state


def test_a_metric_that_several_workers_print_is_nobody_s(wording: Wording) -> None:
    """Their lines run together, so what is read of them is one worker's by chance."""
    found = record.of(replace(ENDED, workers=2, seen=TOGETHER, pattern="loss (.*)", matches=6))

    assert "failed" == found.state
    wording("comparison", found.why)


@pytest.mark.parametrize(("workers", "matches"), [(2, 3), (1, 6)])
def test_a_metric_that_one_worker_prints_is_its_own(workers: int, matches: int) -> None:
    """Once an epoch; a process that is alone may print it as often as it likes."""
    seen = TOGETHER[:workers]
    found = record.of(replace(ENDED, workers=workers, seen=seen, pattern="loss (.*)", matches=matches))

    assert "finished" == found.state


def test_what_is_no_number_is_no_point() -> None:
    """JSON has none; the epoch was trained all the same."""
    report = Report(number=2, value=math.nan, at=7.0)
    found = record.of(replace(ENDED, pattern="x", reports=[*ENDED.reports, report], ended_by_search=True))

    assert ("stopped", [[1.0, 0.9]], 2, None) == (found.state, found.points, found.epochs, found.metric)


@pytest.mark.parametrize("code", [1, 3, -6, -9])
def test_a_trial_that_was_told_to_stop_was_stopped_however_it_ends(code: int) -> None:
    """A `finally` that raises, an `atexit` that exits: the search asked for that end."""
    found = record.of(replace(ENDED, code=code, ended_by_search=True))

    assert ("stopped", code, "") == (found.state, found.exit_code, found.why)


def test_what_was_counted_of_its_training_is_recorded() -> None:
    """By the items of a training's work that do not depend on chance."""
    assert {"steps": "8", "rows": "256", "parameters": "100 float32"} == record.of(ENDED).counted
    assert {} == record.of(replace(ENDED, seen=[])).counted


@pytest.mark.parametrize(
    "changes",
    [
        {"code": 1},
        {"code": -9, "memory_kills": 1},
        {"code": -50},
        {"seen": [rank(0, 1)]},
        {"seen": []},
    ],
    ids=["exit code", "memory", "a signal without name", "no report", "unobserved"],
)
def test_why_a_trial_failed(changes: dict[str, Any], wording: Wording) -> None:
    """Also by a signal that has no name."""
    found = record.of(replace(ENDED, reports=[], **changes))

    assert "failed" == found.state
    wording("trials", found.why)
