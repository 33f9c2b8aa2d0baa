"""How `rwi up` ends: the answer, its sentence, the machine, the report, and a line to type that fits the answer."""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compare.comparison import compare
from compare.in_short import in_short
from compare.intervals import estimate, spread
from compare.schema import BreakEven, Comparison, LongerRun
from report import closing
from report.__main__ import main
from report.closing import next_step, render, smoke
from tests.unit.results import estimated, make_context, make_recipe, make_runs, ratio_of

NEVER = BreakEven(probably=None, possibly=None, surely=None)
LATER = BreakEven(probably=30, possibly=20, surely=None)
TWENTY = LongerRun(passes=12, probably=20, seconds=1860.0, not_advised="")


def compared(repeats: int = 3) -> Comparison:
    """A comparison of made-up runs."""
    recipe = make_recipe()
    return compare(make_runs(recipe, repeats), make_context(recipe, repeats=repeats))


def test_a_report_that_was_not_written_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether nothing was published, or its page failed; the answer stands there all the same."""
    comparison = compared()
    for folder in ([], ["--folder", str(tmp_path)]):
        monkeypatch.setattr("sys.stdin", io.StringIO(comparison.to_json()))
        assert 0 == main(["closing", "--stack", "local", *folder])
        lines = capsys.readouterr().out.splitlines()

        assert comparison.answer == lines[0]
        assert not [line for line in lines if line.startswith("report: ")]


def test_the_last_lines_are_in_this_order() -> None:
    """Answer, sentence, report, next; the report as an address that terminals open."""
    comparison, page = compared(), Path("/a folder/report.html")
    lines = render(comparison, "local", page, {}).splitlines()

    assert lines[0] == comparison.answer
    assert " ".join(lines[1:-2]) == in_short(comparison)
    assert lines[-2] == f"report: {page.as_uri()}"
    assert lines[-1].startswith("next: ./rwi ")
    assert max(map(len, lines[:-2])) <= 80


@pytest.mark.parametrize(("length", "is_cut"), [(10, False), (70, True)])
def test_the_address_of_the_report_is_not_cut_by_the_terminal(
    length: int, is_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is too long for a line, its path in the project is not."""
    root = Path("/") / ("x" * length)
    monkeypatch.setattr(closing, "ROOT", root)
    page = root / "results/local/1/report.html"

    line = render(compared(), "local", page, {}).splitlines()[-2]

    assert line == f"report: {'results/local/1/report.html' if is_cut else page.as_uri()}"
    assert len(line) <= 80


def test_without_a_page_there_is_no_link() -> None:
    """Nobody is sent to a file that is not there."""
    assert "report:" not in render(compared(), "local", None, {})


def test_the_machine_stands_before_the_report(tmp_path: Path) -> None:
    """And what helps is to measure again."""
    busy = replace(
        compared(),
        reasons={"verdict.otherPrograms": "Other programs took 0.9 of 2 CPUs while ray-2 ran"},
        checks={"machineQuiet": None},
    )
    page = tmp_path / "report.html"
    lines = render(busy, "local", page, {"epochs": "2"}).splitlines()
    quiet_enough = render(replace(busy, checks={"machineQuiet": True}), "local", page, {})

    assert "0.9 of 2" in lines[-3]
    assert "./rwi destroy && ./rwi up --set epochs=2 --set repeats=4" in lines[-1]
    assert "0.9 of 2" in quiet_enough
    assert "./rwi destroy" not in quiet_enough


def answered(
    answer: str,
    meets: BreakEven,
    claim: str | None = "same work",
    repeats: int = 3,
    longer: LongerRun | None = None,
) -> Comparison:
    """A comparison with this answer, where the clocks meet, and what might change it."""
    return replace(
        compared(repeats),
        answer=answer,
        break_even={"baseline": meets},
        claim=claim,
        break_even_epochs=meets.surely,
        longer=longer,
    )


@pytest.mark.parametrize(
    ("comparison", "command"),
    [
        (answered("Worth it", LATER), "./rwi report open --stack mine"),
        (answered("Worth it from 40 epochs on", LATER), "./rwi report open --stack mine"),
        (answered("Not worth it here", NEVER), "./rwi report open --stack mine"),
        (answered("Not worth it here", LATER, longer=TWENTY), "./rwi up --stack mine --set workers=3 --set epochs=20"),
        (
            answered("Not worth it here", LATER, longer=replace(TWENTY, not_advised="why")),
            "./rwi report open --stack mine",
        ),
        (
            answered("Not worth it here", LATER, longer=replace(TWENTY, probably=None)),
            "./rwi report open --stack mine",
        ),
        (answered("Not comparable", NEVER, None), "./rwi report open --stack mine"),
        (answered("Not decided", NEVER, "it finished"), "./rwi report open --stack mine"),
        (answered("Not decided", NEVER, repeats=1), "./rwi up --stack mine --set workers=3 --set repeats=4"),
        (answered("Not decided", NEVER, repeats=4), "./rwi report open --stack mine"),
    ],
)
def test_the_next_step_fits_the_answer(comparison: Comparison, command: str) -> None:
    """The settings of this call are in it, so that it changes one thing alone; what it is for stands behind a `#`."""
    assert next_step(comparison, "mine", {"workers": "3"}).partition("    # ")[0] == command


def beside_others(answer: str, lower: float, upper: float, ray: float, baseline: float) -> Comparison:
    """A disturbed comparison with this ratio, and the most CPUs that other programs took while each arm ran."""
    comparison = answered(answer, LATER, longer=TWENTY if answer == "Not worth it here" else None)
    arms = {
        name: replace(
            comparison.arms[name], measures=comparison.arms[name].measures | {"otherCpus": spread([0.1, 0.1, most])}
        )
        for name, most in {"ray": ray, "baseline": baseline}.items()
    }
    return replace(
        comparison,
        arms=comparison.arms | arms,
        ratios={"endToEndSpeedup": estimated((lower * upper) ** 0.5, lower, upper)},
        checks={"machineQuiet": None},
        reasons={"verdict.otherPrograms": "Other programs took something"},
    )


FAR_BELOW, FAR_ABOVE = (
    beside_others("Not worth it here", 0.3, 0.45, 0.5, 0.9), beside_others("Worth it", 2.2, 3, 0.9, 0.5)
)  # fmt: skip
RAY = FAR_BELOW.arms["ray"]
NOT_ALL = {"ray": replace(RAY, measures=RAY.measures | {"otherCpus": spread([0.1, 0.5])})}


@pytest.mark.parametrize(
    ("comparison", "command"),
    [
        (FAR_BELOW, "./rwi up --set epochs=20"),
        (FAR_ABOVE, "./rwi report open"),
        (beside_others("Not worth it here", 0.3, 0.55, 0.5, 0.9), "./rwi destroy && ./rwi up --set repeats=4"),
        (beside_others("Worth it", 1.9, 3, 0.9, 0.5), "./rwi destroy && ./rwi up --set repeats=4"),
        # Who has no CPU may take any time
        (beside_others("Not worth it here", 0.01, 0.02, 1.2, 0.1), "./rwi destroy && ./rwi up --set repeats=4"),
        # Of a host it is not counted for each arm; of numbers that were not measured nothing is known
        (replace(FAR_BELOW, arms=FAR_BELOW.arms | NOT_ALL), "./rwi destroy && ./rwi up --set repeats=4"),
        (replace(FAR_BELOW, reasons={"verdict.stolen": "why"}), "./rwi destroy && ./rwi up --set repeats=4"),
        (replace(FAR_BELOW, claim="same result"), "./rwi destroy && ./rwi up --set repeats=4"),
        (replace(FAR_ABOVE, answer="Worth it from 9 epochs on"), "./rwi destroy && ./rwi up --set repeats=4"),
    ],
)
def test_nobody_measures_again_what_others_cannot_have_changed(comparison: Comparison, command: str) -> None:
    """Had they taken each of their CPU seconds from the loser, and none from the winner; the remark stays."""
    lines = render(comparison, "local", None, {}).splitlines()

    assert command == lines[-1].removeprefix("next: ").partition("    # ")[0]
    assert comparison.reasons.get("verdict.otherPrograms", "why") in lines[-2]


def test_the_price_of_longer_training_stands_beside_it() -> None:
    """In minutes of this machine."""
    advice = next_step(answered("Not worth it here", LATER, longer=TWENTY), "local", {})

    assert ["20", "5", "31"] == re.findall(r"\d+", advice)


@pytest.mark.parametrize(
    ("needed", "changes", "command"),
    [
        (11, {}, "./rwi up --set repeats=auto"),
        (40, {}, "./rwi destroy && ./rwi up --set repeats=40"),
        (11, {"settings": {"keepBaseline": "true"}}, "./rwi destroy && ./rwi up --set repeats=11"),
        (11, {"auto": "goes on"}, "./rwi up"),
        (11, {"auto": "most repeats"}, "./rwi report open"),
        (11, {"auto": "goes on", "answer": "Not worth it here", "longer": TWENTY}, "./rwi up"),
        # An update that has not the time for a repeat would add none, as would the next one
        (11, {"auto": "goes on", "settings": {"budgetMinutes": "30"}}, "./rwi up"),
        (11, {"auto": "goes on", "settings": {"budgetMinutes": "1"}}, "./rwi up --set budgetMinutes=2"),
    ],
)
def test_what_decides_without_erring_more_often_is_proposed(needed: int, changes: dict[str, Any], command: str) -> None:
    """As many repeats as it takes, or a number anew; no number that is added to what was looked at."""
    comparison = answered("Not decided", NEVER)
    open_ratio = replace(ratio_of(comparison, "endToEndSpeedup"), lower=0.9, upper=1.2, repeats_to_decide=needed)
    undecided = replace(comparison, ratios={"endToEndSpeedup": open_ratio}, **changes)

    assert command == next_step(undecided, "local", {}).partition("    # ")[0]


def test_only_what_the_answer_is_about_says_how_many_repeats() -> None:
    """The time to a target may stay open for long after the answer."""
    of_clocks, of_target = (replace(estimate((1.1, 1.28, 1.02, 1.2)), repeats_to_decide=n) for n in (8, 90))
    comparison = replace(
        answered("Not decided", NEVER),
        ratios={"endToEndSpeedup": of_clocks, "timeToTargetSpeedup": of_target},
        settings={"keepBaseline": "true"},
    )

    assert "repeats=8" in next_step(comparison, "local", {})
    assert "8" in in_short(comparison).rpartition(". ")[2]


@pytest.mark.parametrize(("values", "command"), [((1.25, 1.5, 0.98, 1.3), "destroy"), ((1.1, 1.28, 1.02, 1.2), "auto")])
def test_auto_is_proposed_only_where_it_would_probably_decide(values: tuple[float, ...], command: str) -> None:
    """Its intervals are wider, and end with 12: what 10 fixed repeats would decide, it may not."""
    comparison = answered("Not decided", NEVER)
    undecided = replace(comparison, ratios={"endToEndSpeedup": replace(estimate(values), repeats_to_decide=10)})

    assert command in next_step(undecided, "local", {}).partition("    # ")[0]


def test_one_ratio_that_nothing_would_decide_leaves_nothing_to_add() -> None:
    """Whatever would decide the other."""
    comparison = answered("Not decided", NEVER)
    known, unknown = (
        replace(estimate((1.1, 1.28, 1.02, 1.2)), decision="not decided", repeats_to_decide=n) for n in (8, None)
    )
    undecided = replace(comparison, ratios={"endToEndSpeedup": known, "endToEndWideSpeedup": unknown})

    assert "./rwi report open" == next_step(undecided, "local", {}).partition("    # ")[0]


def test_a_smoke_test_counts_arms_and_checks() -> None:
    """Those that could be made; it gives no answer."""
    comparison = replace(compared(), checks={"a": True, "b": None, "c": True, "d": False})

    assert [str(len(comparison.arms)), "2", "3"] == re.findall(r"\d+", smoke(comparison))
    assert comparison.answer not in smoke(comparison)
