"""What a lesson prints and draws."""

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from bench.lesson import table
from bench.lesson.table import BreakEven, Kept, Repeat, Where, judge, refusals
from bench.lesson.ways import LENGTHS
from compare.intervals import Interval
from tests.golden import Wording
from tests.unit.bench.lessons import CPUS, repeat, repeats, use

SVG = "{http://www.w3.org/2000/svg}"


def kept(of: list[Repeat]) -> Kept:
    """A lesson of these repeats."""
    refused = refusals(of, CPUS)
    return Kept(
        schema_version=1,
        made_at="2026-11-25T19:00:00+00:00",
        cpu_model="Some CPU (family 6, model 1)",
        cpus=CPUS,
        versions={"python": "3.11.7", "ray": "2.60.0"},
        environment={},
        seconds=121.3,
        repeats=of,
        refused=refused,
        lesson=None if refused else judge(of),
    )


def test_it_prints_costs_speedups_and_break_evens(wording: Wording) -> None:
    """In 80 columns, with intervals."""
    text = table.text(kept(repeats()))

    assert max(map(len, text.splitlines())) <= 80
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    wording("lesson", text)


def test_where_nothing_is_concluded_no_number_of_it_is_printed(wording: Wording) -> None:
    """The reasons alone: a ratio of a busy machine would be believed."""
    text = table.text(kept([repeat(machine=use(others=1.0))]))

    assert not re.search(r"±|\d ms|µs", text)
    assert max(map(len, text.splitlines())) <= 80
    wording("lesson", text)


def test_a_system_that_does_not_say_what_others_took_is_named(wording: Wording) -> None:
    """It is not known then whether the machine was quiet."""
    known, unknown = (table.text(kept(repeats(machine=machine))).splitlines() for machine in (use(), None))

    (line,) = set(unknown) - set(known)
    wording("lesson", line)


@pytest.mark.parametrize("where", ["at most", "at least", "below", "above", "not decided"])
def test_a_break_even_beyond_the_lengths_has_no_interval(where: Where, wording: Wording) -> None:
    """A bound where some repeats have one, else the side."""
    bound = 0.00123 if where in ("at most", "at least") else None

    wording("lesson", table.length(BreakEven(where=where, bound=bound)))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3.234, "3.23 s"), (0.716, "716 ms"), (0.0123, "12.3 ms"), (0.000716, "716 µs"), (0.00000004, "0.04 µs")],
)
def test_seconds_have_three_digits_and_the_largest_unit(seconds: float, words: str) -> None:
    """As one says them; an interval of logarithms by half of its width, a factor up and down."""
    assert words == table.seconds(seconds)
    assert "±10%" in table._times(Interval(1 / 1.1, 1.0, 1.1))


def test_the_picture_has_every_way_and_length() -> None:
    """Lines named, the lengths on the axis, and the number of CPUs as the bound; one that fails says why."""
    lesson = judge(repeats())
    root = ET.fromstring(table.picture(lesson, CPUS))  # noqa: S314 - the text is our own
    words = {"".join(element.itertext()).strip() for element in root.iter(f"{SVG}text")}

    assert {*table.LABELS.values(), *(length.name for length in LENGTHS), f"{CPUS} CPUs"} <= words
    broken = replace(lesson, speedups={way: {} for way in lesson.speedups})

    with pytest.raises(ValueError, match="KeyError"):
        table.picture(broken, CPUS)
