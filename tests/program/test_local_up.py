"""A measurement on this machine through the real engine; the arms train nothing, but for one test."""

import base64
import json
import shutil
from typing import Any

import pytest

from tests.program.conftest import NewProject
from tests.program.engine import Project

ALL = ("baseline-1", "native-1", "ray-1")
REVIEWED_LINES = 40
"""What a preview of a changed setting may have with a repeat of three arms."""


def replaced(*names: str) -> dict[str, str]:
    """A preview that repeats these runs and nothing else."""
    return dict.fromkeys(names, "replace")


def runs_of(state: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs that a state has."""
    return [entry for entry in state["resources"] if "training:Run" in entry["urn"]]


def test_up_measures_once_and_destroy_leaves_nothing(project: Project) -> None:
    """Outputs as promised; a second `up`, a removed folder and a refresh change nothing; files outlive `destroy`.

    Every arm takes its turn: one process with all CPUs by default. The state names the provider's module and class, in
    under 100 bytes and not encrypted: so it can for ever.
    """
    project.create_stack(repeats="2", epochs="3", wideArm="auto")

    shown = project.up()

    outputs = project.outputs()
    assert 1.6 == pytest.approx(outputs["speedup"], abs=0.01)
    assert 2 == json.loads(outputs["comparison"])["ratios"]["speedup"]["n"]
    assert outputs["verdict"].startswith(outputs["answer"])
    printed = shown.partition("\nOutputs:\n")[2].partition("\n\n")[0].splitlines()
    assert outputs.keys() == {line.partition(":")[0].strip() for line in printed}  # a line each, the comparison's, too
    first = ("baseline", "wide", "ray", "native")
    second = ("wide", "native", "baseline", "ray")
    order = [
        shown.index(f"{name}: starts") for name in (*(f"{arm}-1" for arm in first), *(f"{arm}-2" for arm in second))
    ]
    assert sorted(order) == order
    assert "ray-2: epoch 3/3" in shown
    (pickled,) = {base64.b64decode(run["inputs"]["__provider"]) for run in runs_of(project.state())}
    assert b"infra.places.local.run" in pickled
    assert b"TrainingRunProvider" in pickled
    assert 100 > len(pickled)

    shutil.rmtree(project.folder / project.ids()["ray-1"])
    project.up("--expect-no-changes")
    project.pulumi("refresh", "--yes", "--skip-preview", "--expect-no-changes")
    assert "unknown" not in project.pulumi("preview", "--diff", "--expect-no-changes")
    assert outputs == project.outputs()
    folders = project.ids()

    project.pulumi("destroy", "--yes", "--skip-preview")

    assert [] == project.state().get("resources", [])
    assert (project.folder / folders["ray-2"] / "result.json").is_file()


def test_storage_outlives_the_stack(project: Project) -> None:
    """Each run has its own folder in it, of the measurement; `destroy` and a second `up` delete nothing there."""
    kept = project.folder / "kept"
    project.create_stack(repeats="1", storage="kept")
    project.up()
    before = sorted(path.relative_to(kept) for path in kept.rglob("result.json"))

    project.pulumi("destroy", "--yes", "--skip-preview")
    project.up()

    after = sorted(path.relative_to(kept) for path in kept.rglob("result.json"))
    stack, measurement = before[0].parts[:2]
    assert set(ALL) == {path.parts[2].rsplit("-", 2)[0] for path in before}
    assert {(stack, measurement)} == {path.parts[:2] for path in after}
    assert set(before) < set(after)
    assert 2 * len(before) == len(after)


def test_preview_shows_which_runs_a_change_repeats(project: Project) -> None:
    """The engine shows what the provider's diff says; of which change that is, tests/unit/test_plan.py has the list.

    A reviewer reads what differs of each run, and neither its old result nor the rest of its recipe.
    """
    project.create_stack(repeats="1", epochs="3")
    project.up()

    project.configure(epochs="4")
    shown = project.pulumi("preview", "--diff")

    assert REVIEWED_LINES >= len(shown.splitlines()), shown
    assert len(ALL) == shown.count('~ epochs: "3" => "4"'), shown  # not prose: Pulumi's display
    assert "breakEvenEpochs" in shown
    assert 1 == shown.count("[unknown]"), shown  # no number of epochs is known of one repeat
    project.configure(epochs="3")

    for changes, expected in (
        ({"repeats": "2", "runTimeoutMinutes": "7"}, dict.fromkeys(("baseline-2", "native-2", "ray-2"), "create")),
        ({"repeats": "1", "nativeArm": "false"}, replaced("baseline-1", "ray-1") | {"native-1": "delete"}),
    ):
        project.configure(**changes)
        assert (changes, expected) == (changes, project.preview())

    entry = project.folder / "training/ray.py"
    entry.write_text(entry.read_text() + "# changed\n")
    project.configure(nativeArm="true")
    assert replaced(*ALL) == project.preview()


@pytest.mark.slow
def test_a_kept_baseline_is_measured_again_when_it_is_no_longer_kept(project: Project) -> None:
    """`keepBaseline` saves the baseline's run while `workers` changes, and the state remembers what it was made for."""
    project.create_stack(repeats="1", keepBaseline="true", allowOversubscription="true")
    project.up()
    before = project.ids()

    project.configure(workers="3")
    project.up()

    after = project.ids()
    assert before["baseline-1"] == after["baseline-1"]
    assert before["native-1"] != after["native-1"]
    assert before["ray-1"] != after["ray-1"]
    assert 3 == project.comparison()["recipe"]["workers"]
    assert {} == project.preview()

    project.configure(keepBaseline="false")
    assert replaced("baseline-1") == project.preview()


def test_a_failed_run_is_explained_and_made_again(project: Project) -> None:
    """The error has the arm, the cause and the end of the log; what was made stays, and the outputs from before too."""
    project.create_stack(repeats="1")
    project.up()
    before = project.outputs()
    project.configure(epochs="2")
    project.control("native-1", "fail")

    shown = project.up(ok=False)

    assert "native-1 failed: " in shown
    assert "exit code 3" in shown
    assert "| the stub" in shown
    assert "/log.txt" in shown
    assert "Traceback" not in shown
    assert before == project.outputs()
    assert replaced("native-1", "ray-1") == project.preview()

    project.control("native-1", "silent")
    assert "native-1 failed: " in (shown := project.up(ok=False))
    assert "result.json is absent" in shown

    project.control("native-1", "")
    project.up()
    assert 2 == project.comparison()["recipe"]["epochs"]


def test_a_wrong_setting_is_one_message(project: Project) -> None:
    """No traceback, exit code not zero, nothing changed."""
    project.create_stack(workers="0")

    shown = project.pulumi("preview", ok=False)

    assert "pulumi config rm workers" in shown
    assert "Traceback" not in shown
    assert [] == project.state().get("resources", [])


def test_real_training_is_measured(new_project: NewProject) -> None:
    """The arms themselves, as small as they can be, from settings to outputs."""
    project = new_project(stub=False)
    project.create_stack(
        repeats="1",
        epochs="1",
        model="cnn-half",
        trainImages="128",
        globalBatchSize="32",
        warmupSteps="1",
        allowOversubscription="true",
    )

    project.up()

    comparison = project.comparison()
    assert comparison["ratios"]["speedup"]["median"] > 0
    assert 2 == comparison["arms"]["ray"]["worldSize"]
    assert [] == project.survivors()
    assert {} == project.preview()
