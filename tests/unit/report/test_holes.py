"""A result with holes is published all the same: numbers first, then a page whose pictures show what there is."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compare.comparison import compare
from compare.schema import Comparison
from report import html, plots
from report.__main__ import main
from report.errors import PageError
from report.pictures import drawn
from report.plots import ShownRun
from report.publish import publish
from report.stored import COMPARISON, PAGE
from report.sweep import numbers
from report.sweep_page import render as render_sweep
from tests.unit.cli.test_sweep import FakeStack, begun, project, run  # noqa: F401 (project is a fixture)
from tests.unit.report.test_html import PICTURES, measured, svgs
from tests.unit.results import RUN, make_context, make_result, make_runs, written_run

NOT_DRAWN = "could not be drawn"
NAN = float("nan")

Hole = Callable[[str, int], dict[str, Any]]
"""What is changed in the result of an arm's run in a repeat."""


def sampled(arm: str, *samples: list[float]) -> dict[str, Any]:
    """The workers of an arm, each with these samples: second, CPUs, bytes."""
    return {"workers": [replace(worker, samples=list(samples)) for worker in make_result(arm).workers]}


def of_less_than_a_second(arm: str, repeat: int) -> dict[str, Any]:
    """All of repeat 1 ended before the first sample; of repeat 2 Ray's run alone lived to have one."""
    return sampled(arm, [1.0, 0.9, 6e8]) if (arm, repeat) == ("ray", 2) else sampled(arm)


def nothing_learned(arm: str, _: int) -> dict[str, Any]:
    """No sample, no step that was timed, no epoch with a score, no phase of the start."""
    untimed: dict[str, Any] = {"train_seconds": None, "steps_timed": 0, "steps_seconds": None, "steps_trace": []}
    learned = {"history": [], "curve": [], "class_accuracy": [None] * 10, "phases_seconds": {}}
    return sampled(arm) | untimed | learned


def one_step(arm: str, _: int) -> dict[str, Any]:
    """One sample of each worker, all of it zero, none of the native arm; one timed step; other work in Ray's arm."""
    samples = () if arm == "native" else ([1.0, 0.0, 0.0],)
    return sampled(arm, *samples) | {"steps_trace": [0.05]} | ({"work": {"layers": 26}} if arm == "ray" else {})


def of_a_script(arm: str, _: int) -> dict[str, Any]:
    """Nothing is known of its epochs, and it reports no metric."""
    return sampled(arm) | {
        "detail": None, "curve": [], "schedule": [], "steps_gaps": 0, "steps_whole_epochs": False, "steps_trace": [],
        "phases_seconds": {},
    }  # fmt: skip


CLASSES = ("class-accuracy", "confusion-baseline", "confusion-native", "confusion-ray")
LEARNING = {"accuracy-epochs", "accuracy-seconds", "loss-epochs", "loss-seconds", "rate"}
HOLES: dict[str, tuple[Hole, tuple[str, ...], set[str]]] = {
    "of less than a second": (of_less_than_a_second, RUN, PICTURES),
    "nothing learned, no ray": (nothing_learned, ("baseline", "native"), {"time", *LEARNING, *CLASSES[:-1]}),
    "not comparable": (one_step, RUN, PICTURES - {"clocks", "scaling"}),
    "a script without epochs, no native": (of_a_script, ("baseline", "ray"), {"time", "scaling"}),
}
"""What is missing, the arms that are measured, and the pictures that are left."""


def with_hole(folder: Path, hole: Hole, arms: tuple[str, ...] = RUN, **context: Any) -> Comparison:
    """A measurement of three repeats whose files lie in `folder`."""
    runs = [written_run(folder, make_result(arm, r, **hole(arm, r)), r) for r in (1, 2, 3) for arm in arms]
    return compare(runs, make_context(arms=arms, **context))


@pytest.mark.parametrize("name", HOLES)
def test_a_result_with_holes_is_published_with_every_picture_that_is_left(name: str, tmp_path: Path) -> None:
    """No reason stands in place of a picture: what cannot be drawn is not tried."""
    hole, arms, left = HOLES[name]
    folder = publish(with_hole(tmp_path, hole, arms), "local", tmp_path)

    page = (folder / PAGE).read_text()
    assert NOT_DRAWN not in page
    assert set(svgs(page)) == left


@pytest.mark.parametrize(
    ("with_samples", "repeat"),
    [
        ({1: RUN, 2: RUN, 3: RUN}, 1),
        ({1: (), 2: ("ray",), 3: RUN}, 3),
        ({1: (), 2: ("ray",), 3: ()}, 2),
        ({1: ("baseline",), 2: ("ray",), 3: ()}, 1),
        ({1: (), 2: (), 3: ()}, None),
    ],
)
def test_the_machine_is_drawn_of_the_first_repeat_with_samples(
    with_samples: dict[int, tuple[str, ...]], repeat: int | None
) -> None:
    """Of every run, if there is such a repeat; all runs of it are handed on."""
    sample = [1.0, 0.9, 6e8]
    runs = [
        ShownRun(f"{arm}-{number}", number, make_result(arm, **sampled(arm, *[sample] * (arm in sampled_arms))))
        for number, sampled_arms in with_samples.items()
        for arm in RUN
    ]

    assert [(run.repeat, run.result.arm) for run in plots.sampled_runs(runs)] == [
        (repeat, arm) for arm in RUN if repeat
    ]


def test_a_single_sample_is_a_point() -> None:
    """A line needs two."""
    point, line = ([shown("baseline", [[float(second), 0.9, 6e8] for second in range(number)])] for number in (1, 2))
    drawn_points = [svgs(plots.cpu_over_time(runs))["cpu"].count("<use ") for runs in (point, line)]

    assert drawn_points[0] > drawn_points[1]


def shown(arm: str, samples: list[list[float]]) -> ShownRun:
    """A run with such samples as no result file may hold."""
    return ShownRun(f"{arm}-1", 1, make_result(arm, **sampled(arm, *samples)))


@pytest.mark.parametrize("samples", [[[NAN, NAN, NAN]] * 2, [[1.0, NAN, NAN], [2.0, 0.9, 6e8]]])
def test_numbers_that_are_none_leave_gaps(samples: list[list[float]]) -> None:
    """Axes of numbers that are none still have limits."""
    runs = [shown(arm, samples) for arm in RUN]

    assert "cpu" in svgs(plots.cpu_over_time(runs))
    assert "memory" in svgs(plots.memory_over_time(runs))


@pytest.mark.usefixtures("undrawn")
def test_a_picture_that_fails_is_replaced_by_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Escaped, in its place, and every other picture is there."""

    def fail(*_: Any) -> str:
        raise ValueError("it is <NaN>")

    monkeypatch.setattr(plots, "cpu_over_time", fail)
    page = html.render(measured(tmp_path), "local", tmp_path)

    assert "cpu" not in svgs(page)
    assert {"memory", "time", "scaling"} < set(svgs(page))
    assert page.count(NOT_DRAWN) == 1
    assert "it is &lt;NaN&gt;" in page


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), KeyError("x"), OverflowError("x"), MemoryError()])
def test_whatever_a_drawing_fails_of_is_its_reason(error: Exception) -> None:
    """The kind of error is part of it: some say nothing else."""

    def fail() -> str:
        raise error

    panel = drawn("title", fail)

    assert panel.svg is None
    assert panel.problem.startswith(type(error).__name__)


@pytest.mark.parametrize("part", ["_ratio", "_by_arm"])
def test_a_sweep_loses_no_more_than_the_picture(
    part: str,
    project: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its table and the other pictures stay."""
    sweep = run(begun({"workers": ["1", "2"]}), project / "sweep", FakeStack(project))

    def fail(*_: Any) -> str:
        raise ValueError("nothing")

    whole = render_sweep(sweep, numbers(sweep, project))
    monkeypatch.setattr(f"report.sweep_page.{part}", fail)
    page = render_sweep(sweep, numbers(sweep, project))

    assert NOT_DRAWN not in whole
    assert page.count("ValueError: nothing") == 2
    assert len(svgs(page)) == len(svgs(whole)) - 2
    assert re.findall("<tr>", page) == re.findall("<tr>", whole)


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A page that fails whole."""

    def fail(*_: Any) -> str:
        raise ImportError("no module named matplotlib")

    monkeypatch.setattr("report.html.render", fail)
    return monkeypatch


@pytest.mark.usefixtures("undrawn")
def test_without_a_page_the_result_is_whole(tmp_path: Path, no_page: pytest.MonkeyPatch) -> None:
    """Comparison, text and links are there before anything is drawn; the next call draws the page into them."""
    comparison = compare(make_runs(), make_context())
    with pytest.raises(PageError) as failure:
        publish(comparison, "local", tmp_path)
    folder = failure.value.folder
    files = {path.name for path in folder.iterdir()}
    no_page.undo()

    assert files == {COMPARISON, "report.txt", "runs.json"}
    assert Comparison.from_json((folder / COMPARISON).read_text()) == comparison
    assert (tmp_path / "results/local/latest").readlink() == Path(folder.name)
    assert publish(comparison, "local", tmp_path) == folder
    assert (folder / PAGE).is_file()


@pytest.mark.parametrize(
    ("stack", "again"),
    [("local", "./rwi report open`"), ("sweep-local", "report publish --stack sweep-local")],
)
def test_the_command_fails_of_it_and_says_where_the_result_is(
    stack: str,
    again: str,
    tmp_path: Path,
    no_page: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The folder on stdout as ever, one line on stderr, and a status that is not 0."""
    no_page.setattr("sys.stdin", io.StringIO(compare(make_runs(), make_context()).to_json()))

    status = main(["publish", "--stack", stack, "--project", str(tmp_path)])

    out, err = capsys.readouterr()
    assert status == 1
    assert Path(out.strip(), COMPARISON).is_file()
    assert err.count("\n") == 1
    for part in ("ImportError: no module named matplotlib", out.strip(), again):
        assert part in err
