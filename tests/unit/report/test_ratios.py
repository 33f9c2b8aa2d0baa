"""The table of ratios: a word or a sign a row, footnotes that say what decides, 80 columns; the page has the same."""

import html as markup
import re
from dataclasses import replace
from pathlib import Path

import pytest

from compare.comparison import compare
from compare.measurement import Run
from compare.schema import Comparison, Estimate
from report import html, table
from report.ratios import Row, footnotes, rows
from report.table import WIDTH
from tests.golden import Wording
from tests.unit.results import COMPARED as ALL
from tests.unit.results import disturbed, make_context, make_run, make_runs, ratio_of

PACE = {
    ("baseline", 1): 0.100, ("wide", 1): 0.0601, ("native", 1): 0.0530, ("ray", 1): 0.053,
    ("baseline", 2): 0.101, ("wide", 2): 0.0540, ("native", 2): 0.0531, ("ray", 2): 0.053,
    ("baseline", 3): 0.102, ("wide", 3): 0.0520, ("native", 3): 0.0529, ("ray", 3): 0.053,
}  # fmt: skip
"""Mean step: Ray beats one process, equals the native arm, and nothing is known of it and `wide`."""


def mixed(*, noisy: bool = False) -> Comparison:
    """A measurement of these steps, in which every word and sign occurs."""
    runs: list[Run] = [make_run(arm, repeat, step_seconds_mean=pace) for (arm, repeat), pace in PACE.items()]
    if noisy:
        runs = [disturbed(run) for run in runs]
    return compare(runs, make_context(arms=ALL))


def says(comparison: Comparison) -> dict[str, str]:
    """What each row says of Ray."""
    return {row.name: row.says for row in rows(comparison)}


def test_every_row_has_a_word_or_a_sign(wording: Wording) -> None:
    """No sign stands for two things; where 1 means nothing special there is none."""
    comparison = mixed()

    assert says(comparison) == {
        "speedup": "faster", "wideSpeedup": "~", "endToEndSpeedup": "slower", "endToEndWideSpeedup": "slower",
        "efficiency": "", "rayOverhead": "=", "accuracyGap": "", "breakEvenEpochs": "",
    }  # fmt: skip
    wording("table", table.render(comparison).split("\n\n")[4])


def opened(comparison: Comparison, repeats: dict[str, int | None], n: int = 3) -> Comparison:
    """The comparison with these ratios not decided, and the repeats that would decide each."""
    changed: dict[str, Estimate | None] = {
        name: replace(ratio_of(comparison, name), decision="not decided", repeats_to_decide=number, n=n)
        for name, number in repeats.items()
    }
    return replace(comparison, ratios=comparison.ratios | changed)


def test_different_footnotes_have_marks_and_alike_rows_share_one(wording: Wording) -> None:
    """In the order of the rows, whatever the order in the JSON."""
    comparison = opened(mixed(), {"speedup": 8, "wideSpeedup": None, "endToEndSpeedup": 8, "rayOverhead": 5})
    stored = Comparison.from_json(comparison.to_json())
    signs = says(stored)

    assert ["~¹", "~²", "~¹", "~³"] == [
        signs[name] for name in ("speedup", "wideSpeedup", "endToEndSpeedup", "rayOverhead")
    ]
    wording("table", "\n".join(footnotes(stored)))


def test_one_repeat_and_a_machine_that_was_not_quiet_are_said_in_the_footnote(wording: Wording) -> None:
    """They are why nothing is decided."""
    wording("table", "\n".join(footnotes(compare(make_runs(repeats=1), make_context(repeats=1)))), "one repeat")
    two = opened(compare(make_runs(repeats=2), make_context(repeats=2)), {"rayOverhead": 4}, n=2)
    wording("table", "\n".join(footnotes(two)), "two repeats")
    wording("table", "\n".join(footnotes(mixed(noisy=True))), "not quiet")


def test_where_every_row_has_a_word_there_is_no_footnote() -> None:
    """Nothing has to be explained."""
    assert footnotes(compare(make_runs(), make_context())) == []


@pytest.mark.parametrize("size", [1e-6, 0.5, 9.99, 99.94, 999.6, 54_321.0, 1e98])
def test_eighty_columns_whatever_the_numbers_are(size: float) -> None:
    """Runs that have nothing in common have intervals of any width."""
    comparison = opened(mixed(), {"wideSpeedup": None, "rayOverhead": 100})
    ratios = {
        name: value and replace(value, median=size, lower=-size if "Gap" in name else size / 3, upper=2 * size)
        for name, value in comparison.ratios.items()
    }
    ratios["costRatio"] = ratios["speedup"] and replace(ratios["speedup"], decision="cheaper")
    wide = replace(comparison, ratios=ratios, break_even_epochs=10_000)
    lines = table.render(wide).splitlines()

    assert max(map(len, lines)) <= WIDTH
    assert any(line.startswith("costRatio ") for line in lines)


@pytest.mark.usefixtures("undrawn")
def test_the_page_has_the_same_rows_and_footnotes(tmp_path: Path) -> None:
    """Name by name, sign by sign."""
    comparison = opened(mixed(), {"wideSpeedup": None, "endToEndSpeedup": 8})
    page = markup.unescape(html.render(comparison, "local", tmp_path))
    block = re.search(r'<table class="ratios">.*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    assert block
    cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL) for row in block[1].split("</tr>")[:-1]]

    def shown(row: Row) -> tuple[str, str, str]:
        return row.title, row.median, row.says

    assert [(cell[0].partition("<br>")[0], cell[1], cell[3]) for cell in cells] == [
        shown(row) for row in rows(comparison)
    ]
    assert all(text in page for text in footnotes(comparison))
    assert len(footnotes(comparison)) == 3


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("is_auto", "level"), [(False, "95"), (True, "98.75")])
def test_the_page_names_the_level_of_its_intervals(is_auto: bool, level: str, tmp_path: Path) -> None:
    """With `repeats auto` each is wider, so that all hold together."""
    comparison = compare(make_runs(repeats=4), make_context(repeats=4, is_auto=is_auto))

    assert [level] == re.findall(r"([\d.]+) % t ", html.render(comparison, "local", tmp_path))
