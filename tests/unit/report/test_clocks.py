"""The picture that answers, and the same as text: clocks over epochs, the break-even, where the time went."""

import html as markup
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from compare.comparison import compare
from compare.measurement import Run
from compare.schema import BreakEven, Comparison
from report import clocks, html, table, terminal
from report.pictures import first
from report.table import WIDTH
from tests.golden import Wording
from tests.unit.report.test_html import svgs
from tests.unit.results import COMPARED as ALL
from tests.unit.results import STARTUP_SECONDS, STEP_SECONDS, make_context, make_recipe, make_run, make_runs

SPREAD = {"baseline": (2, -1, 0, 1), "wide": (1, 2, -2, 0), "native": (0, 1, 2, -1), "ray": (-1, 0, 1, 2)}
"""Percent by which a run of each repeat is slower than its arm."""


def made(
    pace: Mapping[str, float] | None = None,
    startup: Mapping[str, float] | None = None,
    *,
    arms: Sequence[str] = ALL,
    repeats: int = 4,
    epochs: int = 3,
    end: float = 1.0,
    **changes: Any,
) -> Comparison:
    """A measurement with this mean step and this start-up by arm, and this end of every run, in seconds."""
    steps, starts = {**STEP_SECONDS, **(pace or {})}, {**STARTUP_SECONDS, **(startup or {})}
    recipe = make_recipe(epochs=epochs)
    between = 0.25 * epochs + changes.get("checkpoint_seconds", 0.0)  # validation, reports, checkpoints

    def run(arm: str, repeat: int) -> Run:
        step, start = (seconds[arm] * (1 + SPREAD[arm][repeat - 1] / 100) for seconds in (steps, starts))
        whole = start + 20 * epochs * step + between + end
        own = {"step_seconds_mean": step, "startup_seconds": start, "wall_seconds": whole}
        return make_run(arm, repeat, recipe, evaluation_seconds=0.2 * epochs + 1.0, **own, **changes)

    runs = [run(arm, repeat) for repeat in range(1, repeats + 1) for arm in arms]
    return compare(runs, make_context(recipe, arms=tuple(arms), repeats=repeats))


def of_other_work() -> Comparison:
    """One run of Ray's had one worker."""
    return compare([*make_runs(arms=ALL)[:-1], make_run("ray", 3, world_size=1)], make_context(arms=ALL))


CASES: dict[str, Comparison] = {
    "meets": made(arms=("baseline", "native", "ray")),
    "one epoch": made(epochs=1),
    "one repeat": made(repeats=1),
    "no native arm": made(arms=("baseline", "wide", "ray")),
    "two arms": made(arms=("baseline", "ray")),
    "never meets": made({"ray": 0.12, "native": 0.11}),
    "not known": made({"ray": 0.06}),
    "known of the centre alone": made({"ray": 0.0575}),
    "huge start-up": made(startup={"ray": 400.0}),
    "never makes up for its start-up": made(startup={"ray": 4000.0}),
    "ahead from the first epoch": made({"ray": 0.03, "native": 0.029}, {"ray": 3.0}, epochs=20),
    "met long ago": made({"ray": 3.0, "native": 2.9, "baseline": 9.0, "wide": 4.0}, {"ray": 120.0}, epochs=30),
    "saves for long": made(checkpoint_seconds=9.0),
    "every part": made(checkpoint_seconds=3.0, end=5.0),
    "other work": of_other_work(),
    "epochs not clocked": made(steps_gaps=0),
}


def texts(case: str) -> dict[str, list[str]]:
    """The texts of each of its pictures."""
    page = "".join(str(panel.svg) for panel in first(CASES[case]))
    return {
        name: ["".join(text.itertext()).strip() for text in ET.fromstring(svg).iter("text")]  # noqa: S314 - drawn by this program
        for name, svg in svgs(page).items()
    }


def clocks_of(comparison: Comparison) -> clocks.Clocks:
    """Its clocks over epochs, which are known."""
    shown = clocks.clocks(comparison)
    assert shown
    return shown


@pytest.mark.parametrize("case", CASES)
def test_the_text_says_it_in_eighty_columns(case: str, wording: Wording) -> None:
    """Whatever was measured, with the arms that there are; in ASCII as wide."""
    text = table.render(CASES[case]).split("\n\n")[2]

    assert max(map(len, text.splitlines())) <= WIDTH
    assert [line.split()[0] for line in text.splitlines()[1 : 1 + len(CASES[case].arms)]] == CASES[case].shown_arms()
    wording("table", text)


def test_bars_have_other_characters_where_the_terminal_lacks_them() -> None:
    """One for each part, and none of them a question mark."""
    import io

    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    shades = "".join(table.SHADES.values())

    terminal.write(shades, out)
    out.seek(0)
    line = out.read().strip()

    assert len(set(line)) == len(line) == len(shades)
    assert "?" not in line


def test_a_line_is_the_clock_of_its_runs() -> None:
    """Measured where it was trained, as low and as high as its repeats; it starts at what is paid once."""
    comparison = CASES["meets"]
    shown = clocks_of(comparison)

    for arm, line in shown.lines.items():
        walls = [link.wall_seconds for link in comparison.arms[arm].runs]
        low, mean, high = line.at(shown.measured)
        assert (low, high) == pytest.approx((min(walls), max(walls)))
        assert low < mean < high
        assert line.at(0)[1] + shown.measured * line.epoch == pytest.approx(mean, rel=1e-3)


def test_lines_cross_where_the_comparison_says_that_clocks_meet() -> None:
    """The picture and the verdict go by the same centre."""
    comparison = CASES["no native arm"]
    shown = clocks_of(comparison)

    for name, meets in comparison.break_even.items():
        assert meets
        assert meets.probably
        ray, other = (shown.lines[arm].at(meets.probably)[1] for arm in ("ray", name))
        ray_before, other_before = (shown.lines[arm].at(meets.probably - 1)[1] for arm in ("ray", name))
        assert ray < other
        assert ray_before >= other_before


@pytest.mark.parametrize(
    ("case", "last", "label"),
    [
        ("meets", 12, "Ray ahead from 10"),
        ("one epoch", 236, "Ray ahead from 196"),
        ("one repeat", 60, "Ray meets wide at about 50"),
        ("never meets", 6, ""),
        ("not known", 14, ""),
        ("known of the centre alone", 296, "Ray meets wide at about 246"),
        ("huge start-up", 6626, "Ray ahead from 5,521"),
        ("never makes up for its start-up", 5194, ""),
        ("ahead from the first epoch", 40, ""),
        ("met long ago", 36, "Ray ahead from 7"),
    ],
)
def test_as_many_epochs_are_shown_as_answer(case: str, last: int, label: str) -> None:
    """Up to the break-even, also if only its centre is known, or if Ray overtakes some alternatives alone; where there
    is none twice as many as were trained."""
    shown = clocks_of(CASES[case])

    assert shown.last == last
    assert [text for text in texts(case)["clocks"] if text.startswith("Ray ")] == ([label] if label else [])
    assert {*shown.lines} == {*CASES[case].arms}


@pytest.mark.parametrize("case", CASES)
def test_the_caption_names_no_epochs_that_the_picture_does_not_show(case: str) -> None:
    """The axis reaches them, or the caption says where it ends."""
    comparison = CASES[case]
    shown = clocks.clocks(comparison)
    if shown is None:
        return
    caption = clocks.reading(comparison, shown)
    named = re.sub(r"95 %|none up to [\d,]+", "", clocks.break_even_words(comparison))
    numbers = [int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", named)]

    assert max(numbers, default=0) <= shown.last or f"{shown.last:,} epochs" in caption.rpartition(". ")[2]


def test_bands_and_the_break_even_are_drawn_and_every_line_is_inside() -> None:
    """A band an arm in its colour; grey the epochs of the break-even, where its interval is known."""
    drawn = {case: str(first(CASES[case])[0].svg) for case in ("meets", "one repeat", "never meets")}
    bands = {case: re.findall(r"fill: var\(--(\w+)[-\d]*\); fill-opacity: 0\.2\b", svg) for case, svg in drawn.items()}
    grey = {case: len(re.findall(r"fill: var\(--muted\); opacity: 0\.18", svg)) for case, svg in drawn.items()}
    shown = clocks_of(CASES["meets"])
    highest = max(line.at(shown.last)[2] for line in shown.lines.values())
    ticks = [float(text) for text in texts("meets")["clocks"] if text.isdigit()]

    assert {case: len(found) for case, found in bands.items()} == {"meets": 3, "one repeat": 4, "never meets": 4}
    assert grey == {"meets": 1, "one repeat": 0, "never meets": 0}
    assert 0.8 * highest < max(ticks) <= 1.12 * highest


@pytest.mark.parametrize(
    ("case", "leads", "last"),
    [
        # Ray leads by its centre from the first epoch on, and surely from 30 on, as the answer has it
        ("meets", (1, 1, 30), 36),
        # However early the probable one is: the answer has the sure one
        ("met long ago", (1, 2, 50), 60),
        # Far beyond the probable one it is not shown: the crossing would be at the left edge
        ("meets", (40, 62, 248), 298),
        ("meets", (40, 62, 249), 75),
    ],
)
def test_a_lead_that_is_sure_from_later_on_is_in_the_picture(case: str, leads: tuple[int, int, int], last: int) -> None:
    """And in the row of the alternative."""
    possibly, probably, surely = leads
    meets: dict[str, BreakEven | None] = {"baseline": BreakEven(possibly=possibly, probably=probably, surely=surely)}
    comparison = replace(CASES[case], break_even=meets, break_even_epochs=surely)
    shown = clocks_of(comparison)

    assert last == shown.last
    if last == 36:
        assert clocks.rows(comparison, shown)[0][-2].startswith("30 ")
        assert ["30"] == re.findall(r"from (\d+)", str(first(comparison)[0].svg))


def stopped_early(epochs: Mapping[str, int]) -> Comparison:
    """A measurement whose arms stopped after these epochs, of at most 5."""
    recipe = make_recipe(epochs=5)

    def run(arm: str, repeat: int) -> Run:
        own = make_run(arm, repeat, replace(recipe, epochs=epochs[arm]))
        return replace(own, result=replace(own.result, recipe=own.result.recipe | {"epochs": 5}))

    runs = [run(arm, repeat) for repeat in range(1, 5) for arm in epochs]
    return compare(runs, make_context(recipe, arms=tuple(epochs), repeats=4))


@pytest.mark.usefixtures("undrawn")
def test_of_runs_that_stopped_later_a_column_has_what_its_heading_says(tmp_path: Path) -> None:
    """Seconds of as many epochs as all trained, not of all that an arm trained; and no bar claims to be of them."""
    comparison = stopped_early({"baseline": 5, "native": 3, "ray": 3})
    alike = stopped_early({"baseline": 3, "native": 3, "ray": 3})
    shown = clocks_of(comparison)
    rows, wanted = clocks.rows(comparison, shown), clocks.rows(alike, clocks.clocks(alike))
    baseline = comparison.arms["baseline"].median("wallSeconds")

    assert shown.measured == 3
    assert float(rows[1][-1]) == pytest.approx(float(wanted[1][-1]), abs=0.5)
    assert float(rows[1][-1]) < (baseline or 0.0) - 3
    assert [comparison.passes in panel.title for panel in first(comparison)] == [False, False]
    assert alike.passes in first(alike)[-1].title
    assert "whole run" in table.render(comparison).split("\n\n")[2]
    pages = [html.render(made_up, "local", tmp_path) for made_up in (alike, comparison)]
    cards = [re.findall(r'<li><span class="muted">(.*?)</span>', page)[0] for page in pages]
    assert [comparison.passes in card for card in cards] == [False, True]


def test_ray_is_ahead_where_it_surely_is_of_all() -> None:
    """The alternative that it probably meets last need not be the one that it surely meets last."""
    both: dict[str, BreakEven | None] = {
        "baseline": BreakEven(possibly=4, probably=5, surely=20),
        "wide": BreakEven(possibly=6, probably=7, surely=9),
    }
    comparison = replace(CASES["meets"], break_even=both, break_even_epochs=20)

    assert clocks.last_meeting(comparison) == ("wide", 7, 6, 20)


@pytest.mark.parametrize("case", ["other work", "epochs not clocked"])
def test_without_clocked_epochs_of_the_same_work_there_are_no_lines(case: str) -> None:
    """The bars remain: where the time went is a fact of each arm."""
    assert clocks.clocks(CASES[case]) is None
    assert set(texts(case)) == {"time"}


def test_an_arm_whose_epochs_were_not_clocked_has_no_line() -> None:
    """It stays in the other picture, and has dashes in the text but for what was measured."""
    comparison = CASES["meets"]
    native = comparison.arms["native"]
    unclocked = replace(native, measures=native.measures | {"wallSecondsPerEpoch": None})
    partly = replace(comparison, arms=comparison.arms | {"native": unclocked})
    shown = clocks_of(partly)

    assert set(shown.lines) == {"baseline", "ray"}
    assert ["native", "–", "–", "–", "10.9"] in clocks.rows(partly, shown)


def test_an_earlier_comparison_has_no_lines() -> None:
    """It lacks the measure; its bars are drawn as ever."""
    comparison = CASES["meets"]
    earlier = {
        name: replace(arm, measures={key: each for key, each in arm.measures.items() if key != "wallSecondsPerEpoch"})
        for name, arm in comparison.arms.items()
    }

    assert [panel.svg is None for panel in first(replace(comparison, arms=earlier))] == [False]


@pytest.mark.parametrize("case", CASES)
def test_the_parts_of_an_arm_are_its_whole_clock(case: str) -> None:
    """They add up; its number and that of its start-up stand beside the bar."""
    comparison = CASES[case]
    for arm, parts in clocks.parts(comparison).items():
        summary = comparison.arms[arm]
        assert tuple(parts) == clocks.PARTS
        assert sum(parts.values()) == pytest.approx(summary.median("wallSeconds"), rel=5e-3)  # medians
        assert parts["start-up"] == summary.median("startupSeconds")


def test_medians_that_add_up_to_more_are_no_longer_than_the_whole() -> None:
    """The runs with the longest start-up need not be those that train for the longest; both numbers are the table's."""
    native = CASES["meets"].arms["native"]
    long = native.measures["wallSeconds"]
    assert long
    shorter = replace(native, measures=native.measures | {"wallSeconds": replace(long, median=9.0)})
    parts = clocks.parts(replace(CASES["meets"], arms={"native": shorter}))["native"]

    assert sum(parts.values()) == pytest.approx(9.0)
    assert parts["start-up"] == native.median("startupSeconds")
    assert parts["other"] == pytest.approx(0.0)


def test_a_part_that_nobody_sees_is_not_named() -> None:
    """Few colours: saving is one where it takes time."""
    names = {case: set(texts(case)["time"]) & set(clocks.PARTS) for case in ("meets", "saves for long")}

    assert names == {
        "meets": {"start-up", "training", "evaluation"},
        "saves for long": {"start-up", "training", "evaluation", "saving, reports"},
    }


def test_the_caption_says_where_ray_meets_each(wording: Wording) -> None:
    """With its interval, where there is one."""
    for case in ("no native arm", "one repeat", "never meets", "not known"):
        wording("report", first(CASES[case])[0].note, case)


def test_nothing_measured_has_bars_of_nothing() -> None:
    """Of arms without a second, and no error."""
    comparison = CASES["meets"]
    nothing = {name: replace(arm, measures={}) for name, arm in comparison.arms.items()}
    empty = replace(comparison, arms=nothing)

    assert [panel.problem for panel in first(empty)] == [""]
    assert "–" in table.render(empty)
    assert first(compare([], make_context())) == []


def test_names_of_parts_and_of_lines_are_text() -> None:
    """Arms are named as in the tables, and what each runs stands beside its bar."""
    page = markup.unescape("".join(str(panel.svg) for panel in first(CASES["meets"])))

    for name, arm in CASES["meets"].arms.items():
        assert f">{name}<" in re.sub(r"\s+", "", page)
        assert arm.title.split()[0] in page
