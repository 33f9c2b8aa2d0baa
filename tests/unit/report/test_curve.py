"""The workers' curve for readers: rows in the table and on the page, and the points in the projection's picture."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from compare.comparison import compare
from compare.schema import Comparison
from report.curve import HEADINGS, measured_points
from report.html import render as page
from report.plots import scaling
from report.table import WIDTH, render
from tests.unit.results import make_context, make_recipe, make_run, make_runs

THREE = make_recipe(workers=3)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """Three arms with three workers, and Ray with one and with two, which gain nothing over each other."""
    points = [
        replace(make_run("ray", repeat, replace(THREE, workers=workers)), name=f"ray-w{workers}-{repeat}")
        for repeat in (1, 2, 3)
        for workers in (1, 2)
    ]
    return compare([*make_runs(THREE), *points], make_context(THREE, curve=(1, 2)))


def test_the_table_has_a_row_a_number_of_workers(comparison: Comparison) -> None:
    """With intervals, in as many columns as a terminal has, and what follows from them."""
    lines = render(comparison).splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("workers  "))

    assert ["1", "2", "3"] == [line.split()[0] for line in lines[start + 1 : start + 4]]
    assert all(len(line) <= WIDTH for line in lines)
    assert "1.00 1.00–1.00" in lines[start + 2]
    assert "stopsPayingAt 2; costsMoreFrom 1." in lines  # not prose: keys and numbers


@pytest.mark.usefixtures("undrawn")
def test_without_a_curve_there_is_no_row_of_it() -> None:
    """On the page, why."""
    alone = compare(make_runs(), make_context())

    assert "stopsPayingAt" not in render(alone)
    assert "workersCurve is none" in page(alone, "local", Path("/nowhere"))


def test_the_page_has_the_rows_and_the_points(comparison: Comparison) -> None:
    """The same texts as the table; three points of Ray in the picture of the band."""
    text = page(comparison, "local", Path("/nowhere"))
    (picture,) = (svg for svg in re.findall(r"<svg .*?</svg>", text, re.DOTALL) if "scaling-" in svg)

    assert all(f'<th scope="col">{heading}</th>' in text for heading in HEADINGS)
    assert "stopsPayingAt 2; costsMoreFrom 1." in text  # not prose: keys and numbers
    assert ">ray, measured<" in picture
    assert [1, 2, 3] == list(measured_points(comparison))


def test_a_picture_without_a_number_promises_no_band(comparison: Comparison) -> None:
    """What was measured alone."""
    assert comparison.projection is not None

    empty = scaling(replace(comparison.projection, points=[]), measured_points(comparison))

    assert ">ray, measured<" in empty
    assert "90 %" not in empty
