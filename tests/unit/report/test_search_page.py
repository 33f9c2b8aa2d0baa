"""The part of the page that a search has, and its lines in the table for a terminal."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compare.schema import Comparison
from report import plots, search_page, table
from report.html import render, shown_runs
from report.links import run_files
from report.plots import ShownRun
from report.replay import ORDERS
from report.search_page import Savings
from report.table import WIDTH
from tests.golden import Wording
from tests.unit.report.test_html import is_whole_in_one_file, svgs
from tests.unit.results import written_run
from tests.unit.searches import ALL, RECIPE, compared, make_search, make_searches, make_trials
from training.workloads.search.detail import Segment
from training.workloads.search.recipe import SearchRecipe

LOSS = replace(RECIPE, metric_mode="min")


def measured(
    project: Path, recipe: SearchRecipe = RECIPE, of_arms: Mapping[str, dict[str, Any]] | None = None
) -> tuple[Comparison, list[ShownRun]]:
    """A measurement of two repeats whose result files lie in `project`, and what is shown of them."""
    runs = []
    for repeat in (1, 2):
        for arm in ALL:
            made = make_search(arm, repeat, recipe, **(of_arms or {}).get(arm, {}))
            runs.append(written_run(project, made, repeat))
    comparison = compared(runs, recipe)
    return comparison, shown_runs(run_files(comparison, project), project)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, list[ShownRun], str]:
    """A plain one, with its page."""
    project = tmp_path_factory.mktemp("project")
    comparison, runs = measured(project)
    return comparison, runs, render(comparison, "local", project)


def rows(runs: list[ShownRun]) -> search_page.Trials:
    """The table of trials."""
    trials = search_page.table(search_page.runs_of(runs))
    assert trials is not None
    return trials


def test_the_page_has_its_pictures(whole: tuple[Comparison, list[ShownRun], str]) -> None:
    """Best so far and the trials, beside those that every page has; no curve of one training."""
    pictures = svgs(whole[2])

    is_whole_in_one_file(whole[2])
    assert {"best-so-far", "parallel", "clocks", "time"} <= set(pictures)
    assert "metric" not in pictures
    # Each check has a sentence, and none is another's of a training that has no trials
    assert "sameFailedTrials" in whole[0].checks
    assert not any(f": {name}" in whole[2] for name in whole[0].checks)


def test_lines_of_trials_are_ranked_by_the_metric(whole: tuple[Comparison, list[ShownRun], str]) -> None:
    """The darkest is the best, whatever the order of the trials: the lowest, where lower is better."""
    trials = search_page.trials_of(search_page.runs_of(whole[1])[0])
    space = search_page.space(whole[0])
    higher, again, lower = (
        plots.parallel(shown, space, RECIPE.metric, better)
        for shown, better in ((trials, "higher"), (trials[::-1], "higher"), (trials, "lower"))
    )

    assert higher == again
    assert higher != lower


def test_trials_are_a_row_each_with_a_cell_an_arm(whole: tuple[Comparison, list[ShownRun], str]) -> None:
    """Of the first repeat, by number, with the configuration, which is one for all arms."""
    trials = rows(whole[1])

    assert (trials.repeat, trials.names, sorted(trials.arms)) == (1, ["lr", "width"], sorted(ALL))
    assert [number for number, _, _ in trials.rows] == list(range(8))
    assert trials.rows[2][1] == ["0.003", "64"]
    assert all(cell and cell.metric == "0.8583" and "9 epochs" in cell.how for cell in trials.rows[2][2])
    assert trials.left_out == 0


def test_what_did_not_finish_is_said(tmp_path: Path) -> None:
    """A stopped trial with its epochs, a failed one with its reason, in their cells."""
    recipe = replace(RECIPE, search_scheduler="asha")
    own = {arm: {"failed": (1,), "stopped": {3: 1}} for arm in ALL}
    _, runs = measured(tmp_path, recipe, own)
    trials = rows(runs)

    assert all(cell and cell.how.endswith("ValueError") for cell in trials.rows[1][2])
    assert all(cell and cell.how.startswith("1 epoch, ") for cell in trials.rows[3][2])
    assert all(cell and cell.how.endswith("stopped") for cell in trials.rows[3][2])


def test_whose_checkpoint_a_trial_took_stands_in_its_cell() -> None:
    """With the epoch before which it did; its own is no news. There is nothing to replay."""
    made = make_trials("ray")
    parts = [
        Segment(
            config={}, began=0, ended=1, until=until, epochs=3, metric=0.5, origin=origin,
            digest_before="", digest_after="",
        )
        for until, origin in [(3, None), (6, [1, 0]), (9, [0, 1])]
    ]  # fmt: skip
    made[0] = replace(made[0], segments=parts)
    runs = [ShownRun("ray-1", 1, make_search("ray", trials=made))]

    cell = rows(runs).rows[0][2][0]

    assert cell is not None
    assert ("trial 1" in cell.how, "epoch 4" in cell.how, "trial 0" in cell.how) == (True, True, False)
    assert search_page.savings(compared(make_searches()), runs) is None


def test_arms_that_chose_other_configurations_have_rows_of_their_own() -> None:
    """A cell stands beside the configuration that was trained."""
    made = [make_trials(arm) for arm in ("native", "ray")]
    made[1][0] = replace(made[1][0], config={"lr": 0.05, "width": 64})
    runs = [
        ShownRun(f"{arm}-1", 1, make_search(arm, trials=trials))
        for arm, trials in zip(("native", "ray"), made, strict=True)
    ]

    trials = rows(runs)

    assert [number for number, _, _ in trials.rows] == [0, 0, *range(1, 8)]
    assert [[cell is not None for cell in cells] for _, _, cells in trials.rows[:3]] == [
        [True, False], [False, True], [True, True],
    ]  # fmt: skip


def test_a_long_search_says_how_many_rows_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of a thousand rows helps nobody."""
    monkeypatch.setattr(search_page, "MOST_ROWS", 5)

    trials = rows([ShownRun("ray-1", 1, make_search("ray"))])

    assert (len(trials.rows), trials.left_out) == (5, 3)


def test_the_replay_is_labelled_as_none_of_the_measured(whole: tuple[Comparison, list[ShownRun], str]) -> None:
    """With its orders; epochs without stopping are those that were trained."""
    comparison, runs, page = whole
    saved = search_page.savings(comparison, search_page.runs_of(runs))

    assert saved is not None
    assert saved.rows[0][1].startswith("72 ")
    assert "<em>Replayed, not measured</em>" in page  # not prose: HTML
    assert f" {ORDERS} orders" in page
    assert all(row[0] in page for row in saved.rows if "'" not in row[0])


def test_a_rule_goes_by_what_is_better() -> None:
    """One trial is the lowest until its last report, which is the highest: as an accuracy the best, and stopped."""
    trials = make_trials("baseline")
    trials[0] = replace(trials[0], points=[[seconds, 0.0] for seconds, _ in trials[0].points[:-1]] + [[4.0, 0.99]])
    runs = [ShownRun("baseline-1", 1, make_search("baseline", trials=trials))]
    searches = [compared(make_searches(2, recipe=recipe), recipe) for recipe in (RECIPE, LOSS)]
    of_accuracy, of_loss = (search_page.savings(comparison, runs) for comparison in searches)

    assert of_accuracy is not None
    assert of_loss is not None
    assert of_accuracy.rows[0] == of_loss.rows[0]
    assert of_accuracy.rows[1][-1] != of_loss.rows[1][-1]


def test_what_failed_or_was_stopped_is_not_replayed(tmp_path: Path) -> None:
    """A failed trial not even up to where it failed; curves that a rule ended end there."""
    trials = make_trials("baseline")
    trials[2] = replace(trials[2], state="failed", metric=None, points=trials[2].points[:5])
    runs = [ShownRun("baseline-1", 1, make_search("baseline", trials=trials))]
    saved = search_page.savings(compared(make_searches(2)), runs)
    recipe = replace(RECIPE, search_scheduler="asha")
    comparison, stopped = measured(tmp_path, recipe, {"ray": {"stopped": {3: 1}}})

    assert saved is not None
    assert saved.rows[0][1].startswith("63 ")
    assert search_page.savings(comparison, search_page.runs_of(stopped)) is None
    assert "Replayed" not in render(comparison, "local", tmp_path)


def test_trials_that_report_once_are_not_replayed(tmp_path: Path, wording: Wording) -> None:
    """There is no report after which one could be stopped."""
    comparison, runs = measured(tmp_path, replace(RECIPE, epochs=1))
    saved = search_page.savings(comparison, search_page.runs_of(runs))

    assert isinstance(saved, Savings)
    assert saved.rows == []
    wording("report", saved.why)


def test_a_page_without_the_files_has_what_the_comparison_has(
    whole: tuple[Comparison, list[ShownRun], str], tmp_path: Path
) -> None:
    """No table, no picture of trials; the best configuration is in the stack's state."""
    page = render(whole[0], "local", tmp_path)

    assert "<h2>Trials</h2>" in page
    assert "best-so-far" not in page
    assert "<h3>" not in page
    assert "0.005" in page


@pytest.mark.parametrize(
    ("value", "kind", "place"),
    [
        (0.01, {"log": [0.001, 0.1]}, 0.5),
        (0.001, {"log": [0.001, 0.1]}, 0.0),
        (3, {"int": [1, 5]}, 0.5),
        (0.25, {"float": [0.0, 1.0]}, 0.25),
        (64, {"choice": [16, 32, 64]}, 1.0),
        ("adam", {"choice": ["adam"]}, 0.5),
    ],
)
def test_values_have_their_place_in_their_range(value: Any, kind: dict[str, Any], place: float) -> None:
    """A logarithmic range is drawn as one, and a choice by the place of its value."""
    assert plots.height(value, kind) == pytest.approx(place)


def test_the_text_table_fits_a_terminal(whole: tuple[Comparison, list[ShownRun], str], wording: Wording) -> None:
    """Its columns and its ratios are those of a search."""
    text = table.render(whole[0])

    assert max(map(len, text.splitlines())) <= WIDTH
    wording("table", text)


def test_the_text_table_of_stopped_trials_fits_a_terminal(tmp_path: Path, wording: Wording) -> None:
    """With two ratios for each alternative more."""
    recipe = replace(RECIPE, search_scheduler="asha")
    comparison, _ = measured(tmp_path, recipe, {arm: {"stopped": {3: 1 + 2 * (arm == "ray")}} for arm in ALL})
    text = table.render(comparison)

    assert max(map(len, text.splitlines())) <= WIDTH
    wording("table", text)
