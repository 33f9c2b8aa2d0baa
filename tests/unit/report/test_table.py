"""The table for a terminal: what it shows, and where it must fit."""

import io
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compare.comparison import compare
from compare.schema import Comparison
from report import terminal
from report.table import WIDTH, render
from tests.golden import Wording
from tests.unit.results import COMPARED, RUN, make_context, make_recipe, make_run, make_runs
from training.contract.arms import ARMS, RAY

PROJECT = Path(__file__).parents[3]


LEAN = replace(RAY, name="lean", usual_role="variant", switch="leanRay")


def with_lean(name: str = LEAN.name) -> Comparison:
    """A whole measurement with one arm more, as fast as Ray."""
    runs = make_runs()
    more = [replace(run, name=f"{name}-{run.repeat}", result=replace(run.result, arm=name)) for run in runs[2::3]]
    return compare([*runs, *more], make_context(arms=(*RUN, name)))


def table(arms: Sequence[str] = RUN) -> str:
    """The table of a whole measurement."""
    return render(compare(make_runs(arms=arms), make_context(arms=tuple(arms))))


def test_arms_stand_in_aligned_rows(wording: Wording) -> None:
    """One row an arm that was measured, medians with their units in the heading."""
    text = table(COMPARED)
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("arm "))

    assert [line.split() for line in lines[start + 1 : start + 5]] == [
        ["baseline", "5.76", "634", "4.0", "11.1", "97.50", "572"],
        ["wide", "3.45", "1,056", "4.5", "9.1", "97.50", "572"],
        ["native", "2.99", "1,219", "6.0", "10.2", "97.50", "573"],
        ["ray", "3.05", "1,196", "12.0", "16.2", "97.30", "573"],
    ]
    assert 1 == len({len(line) for line in lines[start : start + 5]})
    wording("table", text.rpartition(f"\n{lines[0]}: ")[0])  # without the verdict


def test_ratios_stand_with_their_interval() -> None:
    """Median, 95 % interval and word of each ratio of the measured arms, and what it means."""
    rows = [line.split()[:9] for line in table().splitlines()]
    assert ["speedup", "1.89×", "1.89", "to", "1.89", "faster", "baseline", "/", "ray,"] in rows
    assert ["rayOverhead", "1.02×", "1.02", "to", "1.02", "slower", "ray", "/", "native,"] in rows
    assert "breakEvenEpochs       9" in table()
    assert "wideSpeedup" not in table()


def test_verdict_and_fairness_are_said() -> None:
    """The answer is the first line, before any number; the verdict is whole, and how many checks passed under it."""
    comparison = compare(make_runs(), make_context())

    text = render(comparison)

    assert " 9 " in text.splitlines()[0]
    assert comparison.verdict.startswith(text.splitlines()[0])
    assert comparison.verdict in " ".join(text.split())
    assert "11 of 11" in text


def test_an_absent_arm_has_its_reason_and_no_row() -> None:
    """No zero anywhere, and why stands below."""
    text = table(("baseline", "ray"))

    assert not any(line.startswith(("native ", "wide ", "rayOverhead")) for line in text.splitlines())
    assert "native: nativeArm is" in text
    assert "wide: no" in text


def test_a_variant_that_nobody_asked_for_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is about it. Where it was measured it has a row."""
    monkeypatch.setitem(ARMS, "lean", LEAN)

    assert "lean" not in table()
    assert any(line.startswith("lean ") for line in render(with_lean()).splitlines())


def test_a_failed_check_is_named() -> None:
    """A comparison that is none shows no ratio, and names the rule and the run."""
    runs = [*make_runs()[:-1], make_run("ray", 3, world_size=1)]

    text = render(compare(runs, make_context()))

    assert "failed: replicasAsAsked" in text
    assert re.search(r"\bray-3\b.*\b1\b.*\b2\b", " ".join(text.split()))
    assert "speedup               –" in text


@pytest.mark.parametrize("arms", [RUN, ("baseline", "ray"), COMPARED])
def test_fits_eighty_columns(arms: tuple[str, ...]) -> None:
    """Nothing wraps in the narrowest terminal that people use."""
    assert max(map(len, table(arms).splitlines())) <= WIDTH


def test_a_break_even_in_many_words_fits_too() -> None:
    """Ray leads, and does not stay ahead; the words go on below."""
    clocks: dict[str, Any] = {"baseline": {"step_seconds_mean": 0.05, "startup_seconds": 60.0}, "ray": {}}
    runs = [make_run(arm, repeat, **clocks[arm]) for repeat in (1, 2, 3) for arm in clocks]

    text = render(compare(runs, make_context(arms=("baseline", "ray"))))

    assert "though Ray is" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= WIDTH


def test_nothing_to_compare_is_said() -> None:
    """No run at all still gives a readable table."""
    nothing = compare([], make_context())
    assert nothing.reasons["speedup"] in render(nothing)


def test_one_of_each_reads_in_the_singular() -> None:
    """One epoch, one worker, one repeat."""
    recipe = make_recipe(workers=1, epochs=1)

    text = render(compare(make_runs(recipe, repeats=1), make_context(recipe, repeats=1)))

    assert "1 epoch," in text
    assert "1 worker of" in text
    assert "of 1 repeat" in text
    assert not re.search(r"\b1 (epochs|workers|CPUs|repeats)\b", text)


SHOWN = "1.89× ± 0.1 – α 漢"


@pytest.mark.parametrize(("encoding", "expected"), [("ascii", "1.89x +- 0.1 - alpha ?"), ("utf-8", SHOWN)])
def test_a_terminal_gets_what_it_can_show(encoding: str, expected: str) -> None:
    """Where × does not exist, x stands for it and nothing fails; nothing is replaced where it need not be."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding)

    terminal.write(SHOWN, out)
    out.flush()

    assert f"{expected}\n" == raw.getvalue().decode()


def run_report(*arguments: str, text: str) -> subprocess.CompletedProcess[str]:
    """`python -m report` with `text` on stdin."""
    command = [sys.executable, "-m", "report", *arguments]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, cwd=PROJECT, check=False, encoding="utf-8"
    )


def test_command_reads_stdin_and_prints_the_table() -> None:
    """The way `rwi up` calls it."""
    comparison = compare(make_runs(), make_context())

    done = run_report("table", text=comparison.to_json())

    assert done.stdout == render(comparison) + "\n"
    assert (done.returncode, done.stderr) == (0, "")


def test_command_refuses_what_is_no_comparison() -> None:
    """One line that says what came instead; no traceback."""
    done = run_report("table", text="null")

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "schemaVersion" in done.stderr
