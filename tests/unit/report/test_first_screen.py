"""The report's first screen: answer, sentence, date, the picture that answers, the numbers that decide."""

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest

from compare.comparison import compare
from compare.in_short import in_short, machine_in_short
from compare.schema import BreakEven, Comparison
from report import words
from report.html import render
from report.pictures import PHASES
from tests.unit.report.test_html import svgs
from tests.unit.results import COMPARED as ALL
from tests.unit.results import estimated, make_context, make_run, make_runs, quiet_machine, ratio_of, replaced


def page_of(comparison: Comparison, folder: Path) -> str:
    """The page, as text."""
    return html.unescape(render(comparison, "local", folder))


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """A measurement with every alternative."""
    return compare(make_runs(arms=ALL), make_context(arms=ALL))


@pytest.fixture(scope="module")
def page(comparison: Comparison, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its page, without the runs' files."""
    return page_of(comparison, tmp_path_factory.mktemp("project"))


def deciding(page: str) -> list[str]:
    """The texts of the large cards."""
    cards = re.search(r'<ul class="deciding">(.*?)</ul>', page, re.DOTALL)
    assert cards
    return [re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", card)) for card in cards[1].split("</li>")[:-1]]


def test_the_page_begins_with_what_decides(page: str, comparison: Comparison) -> None:
    """Date, answer, sentence, the picture that answers, the two numbers; everything else comes after."""
    parts = [
        "1 March 2025, 12:03 UTC", f"<h1>{comparison.answer}</h1>", in_short(comparison),
        'id="clocks-figure_1"', 'id="time-figure_1"', 'class="deciding"', ">Why<", ">Ratios<", ">Arms<",
    ]  # fmt: skip
    places = [page.index(part) for part in parts]

    assert places == sorted(places)


def test_the_two_numbers_are_those_of_the_comparison(page: str, comparison: Comparison) -> None:
    """Against each alternative by its name, as many times as long, with the interval turned round, too."""
    for card, (name, arm) in zip(
        deciding(page), [("endToEndSpeedup", "baseline"), ("endToEndWideSpeedup", "wide")], strict=True
    ):
        ratio = ratio_of(comparison, name)
        assert ratio.lower
        assert ratio.upper
        for part in (
            comparison.arms[arm].title, f"{1 / ratio.median:.2f} times as long",
            f"{1 / ratio.upper:.2f} to {1 / ratio.lower:.2f}", ratio.decision,
        ):  # fmt: skip
            assert part in card


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((2.0, 1.6, 2.5), ["2.00 times as fast", "1.60 to 2.50"]),
        ((0.5, 0.4, 0.625), ["2.00 times as long", "1.60 to 2.50"]),
        ((0.9, 0.5, 1.25), ["1.11 times as long", "0.80 to 2.00"]),
        ((0.5, None, None), ["2.0 times as long", "one repeat"]),
    ],
)
def test_a_number_is_said_of_the_slower_side(
    comparison: Comparison,
    tmp_path: Path,
    ends: tuple[float, float | None, float | None],
    expected: list[str],
) -> None:
    """Nobody divides in the head; without an interval nothing is said to be certain."""
    ratio = estimated(*ends, decision="", repeats_to_decide=None)
    card, _ = deciding(page_of(replace(comparison, ratios=comparison.ratios | {"endToEndSpeedup": ratio}), tmp_path))

    assert [part for part in expected if part not in card] == []


@pytest.mark.usefixtures("undrawn")
def test_an_alternative_that_was_not_measured_says_why(tmp_path: Path) -> None:
    """It stays in its place: a missing number decides, too."""
    comparison = compare(make_runs(), make_context())
    cards = deciding(page_of(comparison, tmp_path))

    assert "not known" in cards[1]
    assert comparison.reasons["wide"] in cards[1]


@pytest.mark.usefixtures("undrawn")
def test_a_machine_that_was_not_quiet_is_said_at_the_top(tmp_path: Path, page: str) -> None:
    """Above every number; on a quiet machine nothing is said of it."""
    runs = [replaced(run, machine=quiet_machine(20, other_cpu_seconds=30)) for run in make_runs()]
    noisy = compare(runs, make_context())
    text = machine_in_short(noisy)

    assert text
    assert 0 < page_of(noisy, tmp_path).index(text) < page_of(noisy, tmp_path).index('class="deciding"')
    assert 'class="machine"' not in page


def test_ray_stands_beside_the_names_of_the_rows(page: str) -> None:
    """The first column after them, which stay where they are while a phone scrolls."""
    table = page[page.index("<table>") :].partition("</table>")[0]
    columns = re.findall(r'<th scope="col"(?: class="ray")?>(\w+)', table)

    assert columns == ["Measure", "ray", "baseline", "wide", "native"]
    assert table.count('class="ray"') == table.count("<tr>")
    assert re.search(r"th:first-child \{[^}]*position: sticky; left: 0", page)  # not prose: CSS


def test_parts_of_a_start_up_have_words(tmp_path: Path) -> None:
    """No name of the code stands in a picture; a part that is new has its own."""
    phases = dict.fromkeys(PHASES, 1.0) | {"somethingNew": 1.0}
    runs = [make_run(arm, repeat, phases_seconds=phases) for arm in ("baseline", "native", "ray") for repeat in (1, 2)]
    page = page_of(compare(runs, make_context(repeats=2)), tmp_path)
    texts = re.findall(r"<text[^>]*>(.*?)</text>", svgs(page)["start-up"], re.DOTALL)

    assert set(PHASES) & set(texts) == set()
    assert "somethingNew" in texts
    assert PHASES["rayWorkers"] in " ".join(" ".join(texts).split())


def test_every_colour_stands_for_one_thing(page: str) -> None:
    """Arms, series, shades and text: no two of them share a value, light or dark."""
    for block in re.findall(r":root \{(.*?)\}", page, re.DOTALL)[:2]:
        colours = re.findall(r"--[\w-]+: (#[0-9a-f]{6})", block)
        assert len(colours) == len(set(colours))
    used = {name: set(re.findall(r"var\(--(arm|series|part)", svg)) for name, svg in svgs(page).items()}
    assert {name: used[name] for name in ("clocks", "start-up", "time")} == {
        "clocks": {"arm"}, "start-up": {"arm"}, "time": {"part"},
    }  # fmt: skip


@pytest.mark.usefixtures("undrawn")
def test_what_stands_in_backticks_is_code_and_the_rest_is_text(comparison: Comparison, tmp_path: Path) -> None:
    """A detail with markup in it stays text."""
    detail = {"verdict.batchStatistics": "set `syncBatchNorm` <b>now</b>"}
    page = render(replace(comparison, reasons=comparison.reasons | detail), "local", tmp_path)

    assert "set <code>syncBatchNorm</code> &lt;b&gt;now&lt;/b&gt;." in page


@pytest.mark.usefixtures("undrawn")
def test_a_break_even_that_never_comes_is_none_and_says_why(comparison: Comparison, tmp_path: Path) -> None:
    """In its row and below, against whom and why."""
    behind = BreakEven(probably=None, possibly=None, surely=None)
    reasons = comparison.reasons | {"breakEvenEpochs": "because"}
    never = replace(comparison, break_even={"wide": behind}, break_even_epochs=None, reasons=reasons)
    page = render(never, "local", tmp_path)

    none = words.none("epoch")
    assert f'<small class="muted">{none}</small>' in page  # not prose: HTML
    assert f"wide: {none}." in page
    assert "because." in page
