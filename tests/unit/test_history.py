"""Past results: listed in order, changes marked where ranges do not overlap, any two side by side."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from report import source
from report.__main__ import main
from report.change import RATIOS as MEASURES
from report.change import UNCHANGED, UNDECIDED, Change, changes, made_differently, show_difference, speedup_change
from report.errors import HistoryError
from report.history import compare as side_by_side
from report.history import history
from report.publish import publish
from report.stored import choose, stored_results
from tests.unit.results import make_context, make_provenance, make_recipe, make_run, make_runs
from training import provenance
from training.comparison import Comparison, compare
from training.comparison_schema import Spread

WHOLE = compare(make_runs(), make_context())


@pytest.fixture(autouse=True)
def page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing a page takes a second, and is tested elsewhere."""
    monkeypatch.setattr("report.html.render", lambda comparison, stack, project: "")


def measured(ray_step_seconds: float = 0.053, hour: int = 12, repeats: int = 3, **recipe: Any) -> Comparison:
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


def spread(low: float, median: float, high: float, n: int = 3) -> Spread:
    """A value over `n` repeats."""
    return {"median": median, "low": low, "high": high, "n": n}


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (spread(1.5, 1.6, 1.7), spread(1.71, 1.8, 1.9), "faster"),
        (spread(1.5, 1.6, 1.7), spread(1.2, 1.3, 1.49), "slower"),
        (spread(1.5, 1.6, 1.7), spread(1.69, 1.8, 1.9), UNCHANGED),
        (spread(1.5, 1.6, 1.7), spread(1.7, 1.8, 1.9), UNCHANGED),
        (spread(1.6, 1.6, 1.6, 1), spread(1.8, 1.8, 1.8), UNDECIDED),
        (spread(1.5, 1.6, 1.7), None, UNDECIDED),
    ],
)
def test_a_change_counts_where_the_ranges_do_not_overlap(before: Spread, after: Spread, verdict: str) -> None:
    """Touching ranges overlap; one repeat has no range, and what was not measured has no change."""
    assert verdict == Change("", MEASURES[0], before, after).verdict


def test_the_change_has_the_widest_range_that_the_two_allow() -> None:
    """Slowest against fastest and the other way round: 1.2 of 1.0, between 1.1 / 1.05 and 1.3 / 0.95."""
    change = Change("", MEASURES[0], spread(0.95, 1.0, 1.05), spread(1.1, 1.2, 1.3))

    assert "+20.0 % (+4.8 to +36.8)" == show_difference(change)


def test_accuracies_are_subtracted_in_points() -> None:
    """A share of an accuracy would say nothing, and a gap may be 0."""
    gap = MEASURES[3]

    assert "+1.50 points (+1.00 to +2.00)" == show_difference(
        Change("", gap, spread(-0.5, 0.0, 0.0), spread(1.0, 1.5, 1.5))
    )
    accuracy = next(change for change in changes(WHOLE.data, WHOLE.data) if change.measure.key == "testAccuracy")
    assert "+0.00 points (+0.00 to +0.00)" == show_difference(accuracy)


def test_a_headline_slows_down_when_ray_does() -> None:
    """The direction is that of the speedup and not of the seconds."""
    fast, slow = measured(0.053).data, measured(0.07).data

    assert ("slower", "faster") == (speedup_change(fast, slow).verdict, speedup_change(slow, fast).verdict)
    steady = {change.arm: change.verdict for change in changes(fast, slow) if change.measure.key == "trainSeconds"}
    assert {"baseline": UNCHANGED, "native": UNCHANGED, "ray": "slower"} == steady


def test_what_two_results_were_made_with_is_told_apart() -> None:
    """Recipe, code, data, versions and host, each with both values; equal ones have none."""
    other = make_provenance(code_hash="f" * 64, cpus_allowed=8, versions={"ray": "2.61.0"})
    runs = [make_run(arm, repeat, provenance=other) for repeat in (1, 2, 3) for arm in ("baseline", "native", "ray")]
    again = compare(runs, make_context(make_recipe()))

    assert [] == made_differently(WHOLE.data, WHOLE.data)
    found = made_differently(WHOLE.data, again.data)
    assert ["code of baseline ccccccc -> fffffff", "cpusAllowed 4 -> 8"] == [
        text for text in found if text.startswith(("code of b", "cpus"))
    ]
    assert "ray 2.60.0 -> 2.61.0" in found
    assert ["epochs 3 -> 4"] == made_differently(WHOLE.data, measured(epochs=4).data)


def test_the_list_is_in_order_and_marks_changes(tmp_path: Path) -> None:
    """Oldest first, whatever the order of publishing; a decided change in capitals, what differs below it."""
    for comparison in (measured(0.07, hour=14), measured(hour=12), measured(hour=13), measured(hour=15, epochs=4)):
        publish(comparison, "local", tmp_path)

    lines = history(tmp_path, "local").splitlines()

    assert ["2025-03-01 12:03:00", "2025-03-01 13:03:00", "2025-03-01 14:03:00", "2025-03-01 15:03:00"] == [
        line[3:22] for line in lines if line[0].isdigit()
    ]
    assert lines[1].endswith("1.85× (1.83 to 1.87)")
    assert lines[2].endswith(UNCHANGED)
    assert lines[3].endswith("SLOWER")
    assert lines[4].endswith("FASTER")
    assert "     epochs 3 -> 4" == lines[5]


def test_a_damaged_result_is_left_out_and_said(tmp_path: Path) -> None:
    """The others are still shown; folders that are no results are no problem."""
    publish(measured(hour=12), "local", tmp_path)
    broken = publish(measured(hour=13), "local", tmp_path)
    (broken / "comparison.json").write_text("{")
    (tmp_path / "results/local/sweeps").mkdir()

    shown = history(tmp_path, "local")

    assert f"{broken.name} is left out:" in shown
    assert 1 == sum(line[0].isdigit() and line[1] == " " for line in shown.splitlines())


def test_results_are_chosen_by_number_latest_or_beginning(tmp_path: Path) -> None:
    """Whatever is ambiguous or unknown is answered with the names there are."""
    names = [publish(measured(hour=hour), "local", tmp_path).name for hour in (12, 13)]
    results, _ = stored_results(tmp_path, "local")

    assert names == [choose(results, wanted, "local").name for wanted in ("1", "latest")]
    assert names[1] == choose(results, "20250301T13", "local").name
    with pytest.raises(HistoryError, match=f"several results of that name.*\n  1  {names[0]}\n  2  {names[1]}"):
        choose(results, "20250301", "local")
    with pytest.raises(HistoryError, match="'9': no such result"):
        choose(results, "9", "local")


def test_the_same_runs_compared_otherwise_are_told_apart(tmp_path: Path) -> None:
    """A second edition has the same time and recipe: its own name chooses it, and the first's still the first."""
    names = [
        publish(comparison, "local", tmp_path).name
        for comparison in (WHOLE, compare(make_runs(), make_context(oversubscription="2 on 1")))
    ]
    results, _ = stored_results(tmp_path, "local")

    assert names == [result.name for result in results]
    assert names == [choose(results, name, "local").name for name in names]


def test_two_results_stand_side_by_side(tmp_path: Path) -> None:
    """Every measure of both, the change with its range, and what they were made with."""
    publish(measured(hour=12), "local", tmp_path)
    publish(measured(0.07, hour=13, epochs=4), "local", tmp_path)

    shown = side_by_side(tmp_path, "local", "1", "latest")

    row = next(line for line in shown.splitlines() if line.startswith("speedup"))
    assert ["speedup", "1.85×", "(1.83", "to", "1.87)", "1.40×", "(1.39", "to", "1.41)"] == row.split()[:9]
    assert row.endswith("SLOWER")
    assert "made with other: epochs 3 -> 4" in shown
    assert "A  20250301T120300Z-" in shown


def repository(folder: Path) -> str:
    """A git repository with one committed file; its commit."""
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    (folder / "file").write_text("1")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def with_code_of(project: Path) -> Comparison:
    """A comparison whose runs have the code that lies in `project` now."""
    made = {arm: make_provenance(code_hash=provenance.code_hash(arm, project)) for arm in ("baseline", "native", "ray")}
    return compare([make_run(arm, r, provenance=its) for r in (1, 2, 3) for arm, its in made.items()], make_context())


def test_the_commit_is_recorded_with_the_result(tmp_path: Path) -> None:
    """A + marks files that differed from it, and the list shows it."""
    commit = repository(tmp_path)
    clean = publish(with_code_of(tmp_path), "local", tmp_path)
    (tmp_path / "file").write_text("2")

    assert {"commit": commit, "modified": False} == json.loads((clean / "source.json").read_text())
    assert f"  {commit[:7]}  " in history(tmp_path, "local")
    assert json.loads(source.describe(with_code_of(tmp_path), tmp_path) or "")["modified"] is True


def test_a_commit_that_the_runs_are_not_of_is_not_recorded(tmp_path: Path) -> None:
    """`make report` may come after a checkout; without git there is none either."""
    without_git = source.describe(with_code_of(tmp_path), tmp_path)
    repository(tmp_path)
    foreign = compare([make_run(arm, 1) for arm in ("baseline", "native", "ray")], make_context(repeats=1))

    assert (None, None) == (without_git, source.describe(foreign, tmp_path))


def test_the_command_lists_and_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """COMPARE is make's way to ask for two; a stack without results says what to type."""
    publish(measured(hour=12), "local", tmp_path)
    ask = ["history", "--stack", "local", "--project", str(tmp_path)]

    assert 0 == main(ask)
    assert "recipe" in capsys.readouterr().out
    monkeypatch.setenv("COMPARE", "1 latest")
    assert 0 == main(ask)
    assert "A  2025" in capsys.readouterr().out
    monkeypatch.setenv("COMPARE", "1")
    assert 1 == main(ask)
    assert 'COMPARE="1" is not two results' in capsys.readouterr().err
    monkeypatch.delenv("COMPARE")
    assert 1 == main(["history", "--stack", "none", "--project", str(tmp_path)])
    assert "results/none/ yet: `STACK=none make up`" in capsys.readouterr().err
