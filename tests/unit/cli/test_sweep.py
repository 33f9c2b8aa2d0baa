"""A sweep: what is asked for, what is kept when something fails, and the report of it. The engine is elsewhere."""

import html
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cli.door import parse
from cli.look.update import alone
from cli.setup.project import ToolError
from cli.sweep import sweep as sweeping
from cli.sweep.engine import UpdateFailedError, UpdateInterruptedError
from cli.sweep.plan import key_of, parse_axes, points_of
from compare.comparison import compare
from compare.measurement import Run
from report import sweep as reports
from report.errors import PublishError
from report.sweep import Sweep, numbers
from report.sweep_page import render
from tests.unit.results import make_context, make_recipe, make_result
from training.contract.result import TrainingResult, summarise
from training.machine import machine_lock

AXES = {"workers": ["1", "2"], "epochs": ["3"]}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["workers=1 2 3"], {"workers": ["1", "2", "3"]}),
        (["precision=float32 bfloat16", "seed=7"], {"precision": ["float32", "bfloat16"], "seed": ["7"]}),
        (["workers=2 2 1"], {"workers": ["2", "1"]}),
    ],
)
def test_axes_are_what_was_named(words: list[str], expected: dict[str, list[str]]) -> None:
    """Any key, with its values in one word."""
    assert expected == parse_axes(parse(["sweep", *words]).params["assignments"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["wrokers=1 2"], "wrokers is no setting; did you mean workers?"),
        (["workers="], 'workers="" names no value'),
        (["workers=1,2"], 'sweep workers="1 2 3"'),
    ],
)
def test_what_cannot_be_swept_is_refused_with_an_example(words: list[str], message: str) -> None:
    """A typo would otherwise be a sweep of the defaults."""
    with pytest.raises(ToolError) as error:
        parse_axes(parse(["sweep", *words]).params["assignments"])
    assert message in str(error.value)


def test_the_page_s_command_measures_the_same_again(tmp_path: Path) -> None:
    """Typed into a shell: JSON and blanks come back as they were."""
    axes = {"scriptArguments": ['[{"key": "a$b", "operator": "Exists"}]', "[]"], "workers": ["1", "2"]}
    base = {"environment": '{"kubernetes.io/arch": "amd64"}', "datasetPath": "it's $HOME\\here"}
    sweep = Sweep("sweep-local", "k", axes, base, points_of(axes))
    command = html.unescape(re.findall(r"<pre><code>(.*)</code></pre>", render(sweep, numbers(sweep, tmp_path)))[0])
    given = parse(shlex.split(command)[1:]).params

    assert axes == parse_axes(given["assignments"])
    assert base == given["settings"]


def test_points_are_every_combination_in_order() -> None:
    """The last axis changes first."""
    points = points_of({"workers": ["1", "2"], "epochs": ["1", "3"]})

    assert ["workers=1 epochs=1", "workers=1 epochs=3", "workers=2 epochs=1", "workers=2 epochs=3"] == [
        point.label for point in points
    ]


def test_the_key_changes_with_whatever_the_points_share() -> None:
    """Another order of values is another sweep, other code too."""
    one, other = {"workers": ["1", "2"]}, {"workers": ["2", "1"]}
    points = [(one, {}, "a"), (other, {}, "a"), (one, {"epochs": "1"}, "a"), (one, {}, "b")]

    assert 4 == len({key_of(axes, base, {"code": code}) for axes, base, code in points})


def written(project: Path, result: TrainingResult, repeat: int) -> Run:
    """A run whose file lies in `project`."""
    name = f"{result.arm}-{repeat}-{result.recipe.get('workers', 'one')}"
    path = project / "runs/sweep-local" / name / "result.json"
    result.write(path)
    return Run.from_summary(f"{result.arm}-{repeat}", repeat, json.loads(summarise(path, project)))


def measured(project: Path, workers: int, ray_step_seconds: float) -> str:
    """A published measurement with so many workers; the comparison as JSON."""
    recipe = make_recipe(workers=workers)
    paces = {"baseline": 0.1, "native": ray_step_seconds, "ray": ray_step_seconds}
    runs = [
        written(project, make_result(arm, repeat, recipe, step_seconds_mean=pace), repeat)
        for repeat in (1, 2)
        for arm, pace in paces.items()
    ]
    return compare(runs, make_context(recipe, repeats=2)).to_json()


def in_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sweep write into a project of its own; drawing the points' pages is tested elsewhere."""
    monkeypatch.setattr("report.html.render", lambda comparison, stack, project: "")
    monkeypatch.setattr(sweeping, "ROOT", folder)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own for what a sweep writes."""
    in_project(tmp_path, monkeypatch)
    return tmp_path


class FakeStack:
    """Measures at once: more workers are faster; settings in `failing` fail, `interrupting` is Ctrl-C."""

    name = "sweep-local"

    def __init__(self, project: Path, failing: str = "", interrupting: str = "") -> None:
        self._project, self._failing, self._interrupting = project, failing, interrupting
        self.asked: list[dict[str, str]] = []

    def measure(self, overrides: dict[str, str]) -> str:
        """The comparison of a measurement with these settings."""
        self.asked.append(overrides)
        if overrides["workers"] == self._interrupting:
            raise UpdateInterruptedError
        if overrides["workers"] == self._failing:
            raise UpdateFailedError("it broke")
        workers = int(overrides["workers"])
        return measured(self._project, workers, 0.1 / workers)


def begun(axes: dict[str, list[str]] | None = None) -> Sweep:
    """A sweep of which nothing is measured."""
    axes = axes or AXES
    return Sweep("sweep-local", key_of(axes, {}, {}), axes, {"seed": "1"}, points_of(axes))


def run(sweep: Sweep, folder: Path, stack: FakeStack) -> Sweep:
    """Measure what is open."""
    return sweeping._measure_all(sweep, folder, stack)  # type: ignore[arg-type]


def test_every_point_is_measured_with_the_shared_settings_and_published(project: Path) -> None:
    """As an ordinary result of the sweep's stack, so that its history lists them."""
    stack, folder = FakeStack(project), project / "sweep"
    done = run(begun(), folder, stack)

    assert [{"seed": "1", "workers": n, "epochs": "3"} for n in ("1", "2")] == stack.asked
    assert done.is_complete
    assert done == Sweep.read(folder)
    assert all(
        (project / "results/sweep-local" / str(point.result) / "comparison.json").is_file() for point in done.points
    )


def test_what_succeeded_is_kept_when_a_point_fails_and_the_rest_is_tried(project: Path) -> None:
    """The next time only what failed is measured."""
    axes, folder = {"workers": ["1", "2", "4"]}, project / "sweep"
    first = run(begun(axes), folder, FakeStack(project, failing="2"))
    again = FakeStack(project)
    second = run(Sweep.read(folder), folder, again)

    assert [None, "it broke", None] == [point.error for point in first.points]
    assert [True, False, True] == [point.result is not None for point in first.points]
    assert ["2"] == [asked["workers"] for asked in again.asked]
    assert second.is_complete
    assert [None] * 3 == [point.error for point in second.points]


def test_an_interrupted_sweep_goes_on_where_it_stopped(project: Path) -> None:
    """The interrupted point is measured again, those before it are not."""
    asked = begun({"workers": ["1", "2", "4"]})
    folder, sweep = sweeping._find_or_begin("local", asked)
    with pytest.raises(UpdateInterruptedError):
        run(sweep, folder, FakeStack(project, interrupting="2"))

    same, earlier = sweeping._find_or_begin("local", asked)
    again = FakeStack(project)
    run(earlier, same, again)

    assert folder == same
    assert ["2", "4"] == [asked["workers"] for asked in again.asked]


def test_a_finished_sweep_and_one_of_other_code_begin_anew(project: Path) -> None:
    """Whoever asks again wants to measure again, and never mixes code."""
    asked = begun()
    folder, sweep = sweeping._find_or_begin("local", asked)
    other, fresh = sweeping._find_or_begin("local", replace(asked, key="f" * 64))
    run(sweep, folder, FakeStack(project))

    assert folder != other
    assert [None, None] == [point.result for point in fresh.points]
    assert not sweeping._find_or_begin("local", asked)[1].is_complete


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    """With what to remove."""
    (tmp_path / "sweep.json").write_text("{")

    with pytest.raises(PublishError, match=r"can't be read.*remove"):
        Sweep.read(tmp_path)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sweep, Path]]:
    """A sweep in its project: workers 1, 2 and 4 measured, 3 failed."""
    folder = tmp_path_factory.mktemp("swept")
    with pytest.MonkeyPatch.context() as patch:
        in_project(folder, patch)
        yield run(begun({"workers": ["1", "2", "3", "4"]}), folder / "sweep", FakeStack(folder, failing="3")), folder


def test_numbers_of_each_point(swept: tuple[Sweep, Path]) -> None:
    """Speedup, time to an accuracy that all runs reached, and cost: reserved CPUs × hours of the median run."""
    shown = numbers(*swept)
    one, two, three, four = shown.rows

    assert [1.0, 2.0, 4.0] == [pytest.approx(row.ratio("speedup").median) for row in (one, two, four)]  # type: ignore[union-attr]
    assert three.ratio("speedup") is None
    assert three.median("ray", "cpuHours") is None
    assert pytest.approx(0.9) == shown.accuracy
    assert pytest.approx(60 * 0.1) == two.seconds_to_accuracy["baseline"].median
    assert pytest.approx(60 * 0.05) == two.seconds_to_accuracy["ray"].median
    assert pytest.approx(2 * (12 + 60 * 0.05 + 1) / 3600) == two.median("ray", "cpuHours")
    assert pytest.approx((4 + 60 * 0.1 + 1) / 3600) == two.median("baseline", "cpuHours")


@pytest.mark.usefixtures("undrawn")
def test_without_its_runs_a_sweep_has_no_time_to_accuracy(swept: tuple[Sweep, Path], tmp_path: Path) -> None:
    """One accuracy for all points, or none: with some runs gone the times would be to another."""
    done, _ = swept
    project = shutil.copytree(swept[1], tmp_path / "project")
    next((project / "runs").rglob("result.json")).unlink()
    shown = numbers(done, project)

    assert shown.accuracy is None
    assert [{}] * 4 == [row.seconds_to_accuracy for row in shown.rows]
    assert "not known" in reports.text(done, shown)
    assert 3 == render(done, shown).count("<svg ")  # of four


def test_the_text_has_a_row_a_point(swept: tuple[Sweep, Path]) -> None:
    """Numbers, the failure and the verdicts."""
    shown = reports.text(swept[0], numbers(*swept))
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.startswith("workers=")}

    assert ["2.00×", "2.00 to 2.00", "0.69×", "1.00", "6.00 / 3.00", "97.50 / 97.30", "0.0031 / 0.0089"] == next(
        re.split(r"  +", line)[1:] for line in shown.splitlines() if line.startswith("workers=2 ")
    )
    assert any(line.startswith("workers=3 ") and line.endswith(": it broke") for line in shown.splitlines())
    assert {"workers=1", "workers=2", "workers=3", "workers=4", "workers=1:", "workers=2:", "workers=4:"} == set(rows)


def test_the_page_has_every_picture_and_the_ideal_line(swept: tuple[Sweep, Path]) -> None:
    """Self-contained; the failed point says why; the command measures it again."""
    page = render(swept[0], numbers(*swept))

    assert 4 == page.count("<svg ")
    assert 2 == page.count(">ideal<")
    assert "failed: it broke" in page
    assert "./rwi sweep workers=&#39;1 2 3 4&#39; --set seed=1" in page
    assert "http" not in page


def test_other_axes_are_lines_of_their_own(project: Path) -> None:
    """Speedup against the workers, a line for each combination of the rest."""
    sweep = begun({"workers": ["1", "2"], "seed": ["1", "2"]})
    done = run(replace(sweep, base={}), project / "sweep", FakeStack(project))
    page = render(done, numbers(done, project))

    (speedup,) = (svg for svg in re.findall(r"<svg .*?</svg>", page, re.DOTALL) if "sweep-speedup-" in svg)
    assert {">seed=1<": 1, ">seed=2<": 1} == {text: speedup.count(text) for text in (">seed=1<", ">seed=2<")}


def test_nothing_measured_is_a_page_without_pictures(project: Path) -> None:
    """An interruption before the first result still leaves a readable report."""
    page = render(begun(), numbers(begun(), project))

    assert "<svg" not in page
    assert 2 == page.count("not measured yet")


@pytest.mark.parametrize(("target", "held"), [("minikube", True), ("local", False), ("kubernetes", False)])
def test_a_sweep_on_minikube_has_the_machine_to_itself(target: str, held: bool) -> None:
    """From its first setting to its last; on local each run takes the machine for itself."""
    with alone(target):
        taken = machine_lock.take_name(machine_lock.NAME)

    assert held == isinstance(taken, machine_lock.Holder)
    if not isinstance(taken, machine_lock.Holder):
        taken.close()
