"""Past results: listed in order, changes marked where they are decided, any two side by side."""

import json
import math
import random
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from compare.comparison import compare
from compare.intervals import ONCE, WHENEVER, Interval, Rule, spread
from compare.measures import measure, ratio
from compare.schema import Comparison, Spread
from report import show, stored
from report.change import (
    DECIDING,
    UNCHANGED,
    UNDECIDED,
    Change,
    changes,
    made_differently,
    show_difference,
    speedup_change,
)
from report.errors import HistoryError, ReportError
from report.publish import publish
from report.show import listed, side_by_side
from report.stored import choose, stored_results
from report.table import WIDTH
from tests.golden import Wording
from tests.typed import typed
from tests.unit.results import make_context, make_provenance, make_recipe, make_run, make_runs
from training.contract import provenance

WHOLE = compare(make_runs(), make_context())
SAME_PAIR = spread([1.0, 1.1, 0.9, 1.0]), spread([1.2, 1.1, 1.3, 1.2])
"""Four repeats before and after."""


def interval_of(name: str, rule: Rule = ONCE) -> Interval:
    """Of a change between them."""
    interval = Change("", ratio(name), *SAME_PAIR, rule).interval
    assert interval is not None
    return interval


@pytest.fixture(autouse=True)
def page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing a page takes a second, and is tested elsewhere."""
    monkeypatch.setattr("report.html.render", lambda comparison, stack, project: "")


def measured(ray_step_seconds: float = 0.053, hour: int = 12, repeats: int = 4, **recipe: Any) -> Comparison:
    """A comparison of that pace, made at that hour."""
    made = make_recipe(**recipe)
    stamps = {repeat: f"2025-03-01T{hour:02d}:{repeat:02d}:00+00:00" for repeat in range(1, repeats + 1)}
    paces = {"baseline": 0.1, "native": 0.052, "ray": ray_step_seconds}
    runs = [
        make_run(arm, repeat, made, started_at=at, step_seconds_mean=pace * (1 + 0.01 * repeat * (arm == "ray")))
        for repeat, at in stamps.items()
        for arm, pace in paces.items()
    ]
    return compare(runs, make_context(made, repeats=repeats))


@pytest.mark.parametrize(
    ("before", "after", "decision"),
    [
        ([1.5, 1.6, 1.7, 1.6], [1.9, 2.0, 1.95, 1.9], "faster"),
        ([1.5, 1.6, 1.7, 1.6], [1.2, 1.3, 1.25, 1.2], "slower"),
        ([1.5, 1.6, 1.7, 1.6], [1.7, 1.8, 1.6, 1.7], UNDECIDED),
        ([1.60, 1.61, 1.60, 1.61], [1.61, 1.60, 1.62, 1.60], UNCHANGED),
        ([1.60, 1.61, 1.60, 1.61], [1.9, 2.0, 1.95], UNDECIDED),
        ([1.6], [1.8], UNDECIDED),
        ([1.5, 1.6, 1.7, 1.6], None, UNDECIDED),
    ],
)
def test_a_change_counts_where_its_interval_excludes_none(
    before: list[float], after: list[float] | None, decision: str
) -> None:
    """Three repeats decide nothing, and neither does what was measured once or not at all."""
    change = Change("", ratio("speedup"), spread(before), spread(after) if after else None)

    assert decision == change.decision


def test_the_interval_is_corrected_for_the_three_that_decide() -> None:
    """One of 98.3 % for them, one of 95 % for what is only shown; and it is about the value before."""
    corrected, shown = interval_of("speedup"), interval_of("rayOverhead")

    assert corrected.lower < shown.lower < 1.2 < shown.upper < corrected.upper
    assert 3 == len(DECIDING)


def test_a_number_of_repeats_that_follows_from_them_needs_wider_intervals() -> None:
    """`repeats auto` ends when it is decided: where one of two measurements did, both sides are looked at so."""
    assert {ONCE} == {change.rule for change in changes(WHOLE, WHOLE)}
    assert {WHENEVER} == {change.rule for change in changes(WHOLE, replace(WHOLE, auto="decided"))}
    once, whenever = (interval_of("speedup", rule) for rule in (ONCE, WHENEVER))

    assert whenever.lower < once.lower < once.upper < whenever.upper


@pytest.mark.parametrize("draws", [150, pytest.param(600, marks=pytest.mark.slow)])
def test_one_of_three_equal_values_is_told_apart_in_at_most_6_percent(draws: int) -> None:
    """Of comparisons of equal measurements with 4 repeats and 5 % from run to run."""
    rng = random.Random("three")  # noqa: S311 - no secret
    entries = [(arm, measure(name) if arm else ratio(name)) for arm, name in DECIDING]

    def side() -> Spread:
        return spread([math.exp(rng.gauss(0, 0.05)) for _ in range(4)])

    wrong = sum(any(Change(arm, entry, side(), side()).is_decided for arm, entry in entries) for _ in range(draws))

    assert wrong <= 0.06 * draws


def test_accuracies_are_subtracted_in_points() -> None:
    """A share of an accuracy would say nothing, and a gap may be 0."""
    gap = Change("", ratio("accuracyGap"), spread([-0.5, 0.0, 0.5]), spread([1.0, 1.5, 2.0]))

    assert ["+1.50", "points", "(+0.37", "to", "+2.63)"] == show_difference(gap).split()[:5]
    accuracy = next(change for change in changes(WHOLE, WHOLE) if change.entry.name == "testAccuracy")
    assert ["+0.00", "points", "(+0.00", "to", "+0.00)"] == show_difference(accuracy).split()


def test_a_headline_slows_down_when_ray_does() -> None:
    """The direction is that of the speedup and not of the seconds; what does not decide has no word."""
    fast, slow = measured(0.053), measured(0.07)

    assert ("slower", "faster") == (speedup_change(fast, slow).decision, speedup_change(slow, fast).decision)
    steady = {change.arm: change.decision for change in changes(fast, slow) if change.entry.name == "trainSeconds"}
    assert {"baseline": UNCHANGED, "native": "", "ray": ""} == steady


def test_what_two_results_were_made_with_is_told_apart() -> None:
    """Recipe, code, data, versions and host, each with both values; equal ones have none."""
    other = make_provenance(code_hash="f" * 64, cpus_allowed=8, versions={"ray": "2.61.0"})
    runs = [make_run(arm, repeat, provenance=other) for repeat in (1, 2, 3) for arm in ("baseline", "native", "ray")]
    again = compare(runs, make_context(make_recipe()))

    assert [] == made_differently(WHOLE, WHOLE)
    found = made_differently(WHOLE, again)
    values = [text.split()[-4:] for text in found]
    for changed in (("baseline", "ccccccc", "fffffff"), ("cpusAllowed", "4", "8"), ("ray", "2.60.0", "2.61.0")):
        assert [changed[0], changed[1], "->", changed[2]] in values
    assert ["epochs 3 -> 4"] == made_differently(WHOLE, measured(epochs=4))  # not prose: a key and its values


def test_the_list_is_in_order_and_marks_changes(tmp_path: Path) -> None:
    """Oldest first, whatever the order of publishing; a decided change in capitals, what differs below it."""
    for comparison in (measured(0.07, hour=14), measured(hour=12), measured(hour=13), measured(hour=15, epochs=4)):
        publish(comparison, "local", tmp_path)

    lines = listed(tmp_path, "local").splitlines()

    assert ["2025-03-01 12:04:00", "2025-03-01 13:04:00", "2025-03-01 14:04:00", "2025-03-01 15:04:00"] == [
        line[3:22] for line in lines if line[0].isdigit()
    ]
    assert ["1.84×", "(1.80", "to", "1.88)"] == lines[2].split()[-4:]
    assert lines[5].endswith(UNCHANGED)
    assert lines[8].endswith("SLOWER")
    assert lines[11].endswith("FASTER; epochs 3 -> 4")  # not prose: a key and its values


def test_the_list_says_the_answer_and_not_only_what_looks_like_one(tmp_path: Path, wording: Wording) -> None:
    """Ray's steps may be faster where it takes longer from start to result; no line is too long for a terminal."""
    for hour, repeats in ((12, 1), (13, 4)):
        publish(measured(hour=hour, repeats=repeats), "local", tmp_path)
    results, _ = stored_results(tmp_path, "local")
    shown = listed(tmp_path, "local")

    assert [result.comparison.answer for result in results] == [
        line[42:] for line in shown.splitlines() if line[0] in "12"
    ]
    assert max(map(len, shown.splitlines())) <= WIDTH
    wording("report", shown)


def test_what_was_said_of_more_workers_is_held_against_what_was_measured(tmp_path: Path) -> None:
    """Of the same recipe with more workers: one inside, one outside its band; another recipe is no score."""
    publish(measured(), "local", tmp_path)
    unscored = listed(tmp_path, "local")
    publish(measured(0.032, 13, workers=4), "local", tmp_path)
    publish(measured(0.4, 14, workers=8), "local", tmp_path)
    publish(measured(0.03, 15, workers=4, seed=7), "local", tmp_path)

    lines = listed(tmp_path, "local").splitlines()
    scores = [line.split() for line in lines[-3:-1]]
    assert [("2", "4", "inside"), ("3", "8", "OUTSIDE")] == [(each[0], each[1], each[-1]) for each in scores]
    assert ["(#1)", "(#2)"] == [each[-2] for each in scores]
    assert "1 of 2" in lines[-1]
    assert "inside" not in unscored


def test_what_was_said_counts_once_and_of_the_same_alone(tmp_path: Path) -> None:
    """Four workers are measured twice, also with spot prices; then with other pods, then on CPUs that they share."""
    publish(measured(), "local", tmp_path)
    for hour, settings, reasons in (
        (13, {}, {}),
        (14, {"repeats": "8", "priceSpotFactor": "0.35", "interruptionsPerHour": "0.1"}, {}),
        (15, {"hostNetwork": "true"}, {}),
        (16, {}, {"verdict.oversubscription": "4 workers share 2 CPUs"}),
    ):
        later = measured(0.4, hour, workers=4)
        publish(replace(later, settings=settings, reasons=later.reasons | reasons), "local", tmp_path)

    lines = listed(tmp_path, "local").splitlines()

    assert "0 of 1" in lines[-1]
    assert ["3", "4", "(#1)", "OUTSIDE"] == [lines[-2].split()[at] for at in (0, 1, -2, -1)]


def test_a_damaged_result_is_left_out_and_said(tmp_path: Path) -> None:
    """The others are still shown; folders that are no results are no problem."""
    publish(measured(hour=12), "local", tmp_path)
    broken = publish(measured(hour=13), "local", tmp_path)
    (broken / "comparison.json").write_text("{")
    (tmp_path / "results/local/sweeps").mkdir()

    shown = listed(tmp_path, "local")

    assert broken.name in shown
    assert 1 == sum(line[0].isdigit() and line[1] == " " for line in shown.splitlines())


def test_results_are_chosen_by_number_latest_or_beginning(tmp_path: Path) -> None:
    """Whatever is ambiguous or unknown is answered with the names there are."""
    names = [publish(measured(hour=hour), "local", tmp_path).name for hour in (12, 13)]
    results, _ = stored_results(tmp_path, "local")

    assert names == [choose(results, wanted, "local").name for wanted in ("1", "latest")]
    assert names[1] == choose(results, "20250301T13", "local").name
    with pytest.raises(HistoryError, match=rf"\n  1  {names[0]}\n +2  {names[1]}"):  # not prose: a list
        choose(results, "20250301", "local")
    with pytest.raises(HistoryError, match="'9'"):
        choose(results, "9", "local")
    # A second edition of the same runs has the same time and recipe: each is chosen by its own name
    again = replace(measured(hour=12), reasons={"verdict.oversubscription": "2 on 1"})
    names.append(publish(again, "local", tmp_path).name)
    results, _ = stored_results(tmp_path, "local")
    assert names[2].startswith(names[0])
    assert names == [choose(results, name, "local").name for name in names]


def test_two_results_stand_side_by_side(tmp_path: Path) -> None:
    """Every measure of both, the change with its range, and what they were made with."""
    publish(measured(hour=12), "local", tmp_path)
    publish(measured(0.07, hour=13, epochs=4), "local", tmp_path)

    shown = side_by_side(tmp_path, "local", "1", "latest")

    row = next(line for line in shown.splitlines() if line.startswith("speedup"))
    assert ["speedup", "1.84×", "(1.80", "to", "1.88)", "1.39×", "(1.37", "to", "1.42)"] == row.split()[:9]
    assert row.endswith("SLOWER")
    assert ": epochs 3 -> 4" in shown  # not prose: a key and its values
    assert "A  20250301T120400Z-" in shown


def repository(folder: Path) -> str:
    """A git repository with one committed file; its commit."""
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    (folder / "file").write_text("1")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def with_code_of(project: Path) -> Comparison:
    """A comparison whose runs have the code that lies in `project` now."""
    made = {
        arm: make_provenance(code_hash=provenance.code_hash(arm, "cnn", project))
        for arm in ("baseline", "native", "ray")
    }
    return compare([make_run(arm, r, provenance=its) for r in (1, 2, 3) for arm, its in made.items()], make_context())


def test_the_commit_is_recorded_with_the_result(tmp_path: Path) -> None:
    """A + marks files that differed from it, and the list shows it. There is none without git, nor of runs that are of
    other code: `rwi report open` may come after a checkout."""
    without_git = stored.described_source(with_code_of(tmp_path), tmp_path)
    commit = repository(tmp_path)
    foreign = compare([make_run(arm, 1) for arm in ("baseline", "native", "ray")], make_context(repeats=1))
    assert (None, None) == (without_git, stored.described_source(foreign, tmp_path))
    clean = publish(with_code_of(tmp_path), "local", tmp_path)
    (tmp_path / "file").write_text("2")

    assert {"commit": commit, "modified": False} == json.loads((clean / "source.json").read_text())
    assert f"  {commit[:7]}  " in listed(tmp_path, "local")
    assert json.loads(stored.described_source(with_code_of(tmp_path), tmp_path) or "")["modified"] is True


def test_the_command_lists_and_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two are compared, one is not; a stack without results says what to type."""
    publish(measured(hour=12), "local", tmp_path)
    monkeypatch.setattr(show, "PROJECT", tmp_path)

    assert 0 == typed("report", "history")
    assert "recipe" in capsys.readouterr().out
    assert 0 == typed("report", "history", "1", "latest")
    assert "A  2025" in capsys.readouterr().out
    with pytest.raises(click.UsageError, match="two results"):
        typed("report", "history", "1")
    with pytest.raises(ReportError, match=r"results/none/.*`\./rwi up --stack none`"):
        typed("report", "history", "--stack", "none")
