"""`repeats auto` through the real engine: it goes on while it is not decided, and then changes nothing."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.program.conftest import NewProject
from tests.program.engine import Project
from training.contract.repeats import AT_A_TIME_VARIABLE

ARMS = ("baseline", "native", "ray")


def created(*repeats: int) -> dict[str, str]:
    """A preview that adds these repeats and nothing else."""
    return dict(sorted((f"{arm}-{repeat}", "create") for arm in ARMS for repeat in repeats))


def begin(project: Project, **config: str) -> None:
    """A stack in which Ray loses, and of an epoch alone that is known after six repeats, or later."""
    project.create_stack(**{"repeats": "auto", "epochs": "3"} | config)
    for repeat in range(1, 13):
        project.control(f"baseline-{repeat}", f"seconds {2.75 if repeat == 3 else 2.0}")


def go_on(project: Project) -> list[dict[str, Any]]:
    """Add one repeat at a time, as `rwi up` does, until it ends; the comparison after each update."""
    comparisons: list[dict[str, Any]] = []
    project.environment[AT_A_TIME_VARIABLE] = "1"
    while not comparisons or comparisons[-1]["auto"] == "goes on":
        project.up()
        comparisons.append(project.comparison())
    return comparisons


def without_runs(comparison: dict[str, Any]) -> Any:
    """What the numbers of a comparison say, without the names and times of its runs."""
    return {key: comparison[key] for key in ("answer", "auto", "ratios", "breakEven")}


@pytest.mark.slow
def test_plain_pulumi_adds_four_and_a_decided_stack_stays(project: Project, tmp_path: Path) -> None:
    """Wherever it is previewed: in a clone with the same backend and no run's file, too. Another recipe begins anew."""
    begin(project)
    project.up()
    assert ("goes on", 4) == (project.comparison()["auto"], len(project.comparison()["arms"]["ray"]["runs"]))
    assert created(5, 6, 7, 8) == project.preview()

    shown = project.up()

    assert shown.index("repeats auto:") < shown.index("-5: starts")
    assert "decided" == project.comparison()["auto"]
    project.up("--expect-no-changes")
    project.pulumi("preview", "--expect-no-changes")
    project.pulumi("refresh", "--yes", "--skip-preview", "--expect-no-changes")
    shutil.rmtree(project.folder / "runs")
    clone = tmp_path / "clone"
    shutil.copytree(project.folder, clone, symlinks=True)
    project.folder = clone
    project.pulumi("stack", "select", "local")
    assert {} == project.preview()

    project.configure(epochs="4")
    changed = project.preview()
    assert {"replace"} == {op for run, op in changed.items() if int(run[-1]) <= 4}
    assert {"delete"} == {op for run, op in changed.items() if int(run[-1]) > 4}

    project.configure(epochs="3", repeats="8")
    assert {} == project.preview()


@pytest.mark.slow
def test_it_goes_on_after_a_failure_as_if_there_had_been_none(new_project: NewProject) -> None:
    """The outputs stay those of the last whole repeat, and in the end every number is as of one that went through."""
    through, stopped = new_project(), new_project()
    for project in (through, stopped):
        begin(project)
    stopped.environment[AT_A_TIME_VARIABLE] = "1"
    stopped.up()
    stopped.control("ray-5", "fail")
    stopped.up(ok=False)
    assert 4 == len(stopped.comparison()["arms"]["ray"]["runs"])
    kept = {run for run in stopped.ids() if run.endswith("-5")}
    assert set(created(5)) - kept == {run for run, op in stopped.preview().items() if op == "create"}
    stopped.control("ray-5", "")

    whole, continued = go_on(through), go_on(stopped)

    assert [4, 5, 6] == [len(each["arms"]["ray"]["runs"]) for each in whole]
    assert without_runs(whole[-1]) == without_runs(continued[-1])
    assert "decided" == continued[-1]["auto"]


@pytest.mark.slow
def test_a_fixed_number_becomes_auto_without_a_new_run(project: Project) -> None:
    """What was measured is kept, and looked at with the confidence of `auto`; only then it goes on."""
    begin(project, repeats="5")
    project.up()
    before = project.comparison()["ratios"]["endToEndSpeedup"]

    project.configure(repeats="auto")

    assert {} == project.preview()
    project.up()
    after = project.comparison()
    assert "goes on" == after["auto"]
    assert before["values"] == after["ratios"]["endToEndSpeedup"]["values"]
    assert after["ratios"]["endToEndSpeedup"]["lower"] < before["lower"]
    assert created(6, 7, 8, 9) == project.preview()

    project.configure(budgetMinutes="2")  # a repeat of these takes 49 s by its results
    assert created(6, 7) == project.preview()


@pytest.mark.slow
def test_a_program_that_runs_to_refresh_or_destroy_needs_no_run_that_is_not_made_yet(project: Project) -> None:
    """It declares the next repeats, which neither makes."""
    begin(project)
    project.up()
    before = project.comparison()
    assert "goes on" == before["auto"]

    project.pulumi("refresh", "--yes", "--skip-preview", "--run-program")
    assert before == project.comparison()
    assert created(5, 6, 7, 8) == project.preview()
    project.pulumi("destroy", "--yes", "--skip-preview", "--run-program")
    assert {} == project.ids()


def test_outputs_hold_what_was_measured(project: Project) -> None:
    """The hash that the runs share, with any number of repeats: by it the next update knows its own outputs."""
    begin(project, repeats="1")
    project.up()

    measurements = {entry["inputs"]["measurement"] for entry in project.state()["resources"]
                    if "training:Run" in entry["urn"]}  # fmt: skip

    assert measurements == {json.loads(project.outputs()["comparison"])["measurement"]}
