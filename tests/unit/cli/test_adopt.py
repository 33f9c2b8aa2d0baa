"""`rwi report adopt`: a stack of a search's best trial, in a new file that can be measured."""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml

from cli.adopt import adopt
from cli.setup import project
from cli.setup.project import ToolError
from compare.comparison import compare
from compare.schema import Comparison, Search
from report.publish import publish
from tests.golden import Wording
from tests.unit.results import make_context, make_runs
from tests.unit.settings_machine import machine, parse
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.search.recipe import SearchRecipe

BEST: dict[str, object] = {"batch": 64, "lr": 1e-05, "width": 128}
SETTINGS = {
    "target": "local",
    "workload": "search",
    "script": "examples/keras_spirals.py",
    "scriptArguments": "--epochs {epochs} --lr {lr} --width={width} --batch {batch}",
    "searchSpace": '{"lr": {"log": [1e-5, 0.1]}, "width": {"int": [8, 128]}, "batch": {"choice": [32, 64]}}',
    "searchTrials": "8",
    "searchScheduler": "asha",
    "metricPattern": "a=(.*)",
    "epochs": "20",
    "metric": "val_accuracy",
    "repeats": "2",
}
Measured = Callable[..., Comparison]


@cache
def compared() -> Comparison:
    """Of other runs."""
    return compare(make_runs(), make_context())


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of stack files, in a project of its own."""
    folder = tmp_path / "stacks"
    folder.mkdir()
    monkeypatch.setattr(project, "STACKS", folder)
    monkeypatch.setattr(adopt, "ROOT", tmp_path)
    monkeypatch.setattr("report.html.render", lambda comparison, stack, project: "")
    monkeypatch.setenv("STACK", "mine")
    return folder


@pytest.fixture
def measured(stacks: Path) -> Measured:
    """Makes a result of stack `mine`: a comparison of other runs, with the settings and the best trial of a search."""

    def make(best: dict[str, object] | None = BEST, **settings: str) -> Comparison:
        texts = {**SETTINGS, **settings}
        keys = SearchRecipe.settings()
        recipe = SearchRecipe(
            **{keys[key].name: keys[key].metadata["rule"].parse(texts[key]) for key in texts if key in keys}
        )
        came_to = Search(
            trials={"finished": 8, "stopped": 0, "failed": 0},
            best_config=None if best is None else json.dumps(best),
            best_metric=None if best is None else 0.96875,
            break_even={},
            break_even_trial_seconds=None,
        )
        found = replace(compared(), workload="search", recipe=recipe.to_dict(), settings=texts, search=came_to)
        publish(found, "mine", stacks.parent)
        return found

    return make


def written(stacks: Path) -> dict[str, str]:
    """The settings in the new file."""
    config: dict[str, str] = yaml.safe_load((stacks / "Pulumi.mine-best.yaml").read_text())["config"]
    return config


def result_name(stacks: Path) -> str:
    """The name of the one result, which ends with a hash of its recipe."""
    (folder,) = (stacks.parent / "results/mine").glob("2*")
    return folder.name


def test_the_best_trial_becomes_a_stack_of_its_script(
    measured: Measured, stacks: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """Its values stand in the arguments; keys of the search go, all others stay; it can be measured."""
    measured()
    assert 0 == adopt.adopt("mine", "latest")

    kept = {
        key: text for key, text in SETTINGS.items() if key in ScriptRecipe.settings() or key in ("target", "repeats")
    }
    arguments = "--epochs {epochs} --lr 0.00001 --width=128 --batch 64"
    assert kept | {"workload": "script", "scriptArguments": arguments} == written(stacks)
    assert tuple(parse(written(stacks), machine()).arms) == ("baseline", "wide", "native", "ray")
    text = f"{capsys.readouterr().out}\n{(stacks / 'Pulumi.mine-best.yaml').read_text()}"
    wording("adopt", text.replace(result_name(stacks), "RESULT"))


def test_the_best_of_a_population_trains_from_an_empty_folder(
    measured: Measured, stacks: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """Nobody hands one over; and its values are the last that it had."""
    arguments = f"{SETTINGS['scriptArguments']} --checkpoint {{checkpoint}}"
    measured(searchScheduler="pbt", scriptArguments=arguments)
    assert 0 == adopt.adopt("mine", "latest")

    assert written(stacks)["scriptArguments"].endswith("--checkpoint {storage}")
    parse(written(stacks), machine())
    wording("adopt", capsys.readouterr().out.replace(result_name(stacks), "RESULT"))


def test_workers_of_a_trial_are_those_of_its_training(measured: Measured, stacks: Path) -> None:
    """Not the trials at a time: the best trial was trained by so many."""
    measured(trialWorkers="3", workers="2")
    assert 0 == adopt.adopt("mine", "latest")

    assert ("3", True) == (written(stacks)["workers"], "trialWorkers" not in written(stacks))


def test_nothing_is_written_over(measured: Measured, stacks: Path, wording: Wording) -> None:
    """Not even what it wrote itself; the line that makes room is printed."""
    measured()
    adopt.adopt("mine", "latest")
    before = (stacks / "Pulumi.mine-best.yaml").read_bytes()

    with pytest.raises(ToolError) as refused:
        adopt.adopt("mine", "latest")
    assert before == (stacks / "Pulumi.mine-best.yaml").read_bytes()
    wording("adopt", str(refused.value))


def test_a_stack_without_a_result_is_told_what_makes_one(stacks: Path, wording: Wording) -> None:
    """By make, and for one that plain Pulumi measured."""
    with pytest.raises(ToolError) as refused:
        adopt.adopt("mine", "latest")
    assert [] == list(stacks.iterdir())
    wording("adopt", str(refused.value))


def test_what_is_no_search_has_no_best_trial(stacks: Path, wording: Wording) -> None:
    """It names the workload that was measured."""
    publish(compared(), "mine", stacks.parent)

    with pytest.raises(ToolError) as refused:
        adopt.adopt("mine", "latest")
    assert [] == list(stacks.iterdir())
    wording("adopt", str(refused.value).replace(result_name(stacks), "RESULT"))


def test_a_search_without_a_best_trial_writes_nothing(measured: Measured, stacks: Path, wording: Wording) -> None:
    """Because no trial ended with its metric."""
    measured(None)

    with pytest.raises(ToolError) as refused:
        adopt.adopt("mine", "latest")
    assert [] == list(stacks.iterdir())
    wording("adopt", str(refused.value))


def test_a_result_is_chosen_by_its_name(measured: Measured, stacks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by `rwi report open`; one that is not there is refused with those that are."""
    measured()
    adopt.adopt("mine", "1")
    assert (stacks / "Pulumi.mine-best.yaml").is_file()

    with pytest.raises(ToolError):
        adopt.adopt("mine", "7")


@pytest.mark.parametrize("values", [("it's", "a b", "$HOME"), ("", "*", "32")])
def test_values_that_a_shell_would_change_are_quoted(measured: Measured, stacks: Path, values: tuple[str, ...]) -> None:
    """They reach the script as the trial had them."""
    lr, width, batch = values
    measured({"lr": lr, "width": width, "batch": batch})
    adopt.adopt("mine", "latest")

    words = shlex.split(written(stacks)["scriptArguments"])
    assert ["--epochs", "{epochs}", "--lr", lr, f"--width={width}", "--batch", batch] == words


def test_secrets_stay_where_they_are(
    measured: Measured, stacks: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """The new stack has another key to encrypt them with; the line that sets one is printed."""
    measured()
    space = "  searchSpace:\n    lr:\n      log: [0.1, 1]\n"
    (stacks / "Pulumi.mine.yaml").write_text(f"config:\n{space}  secretEnvironment:\n    secure: v1:abc\n")
    adopt.adopt("mine", "latest")

    assert "secretEnvironment" not in written(stacks)
    wording("adopt", capsys.readouterr().out.replace(result_name(stacks), "RESULT"))


def test_a_script_of_one_process_is_said_to_be_measured_in_one(
    measured: Measured, stacks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """Its stack has a bound, until somebody distributes it."""
    script = tmp_path / "alone.py"
    script.write_text("import argparse\n")
    measured(script=str(script))
    adopt.adopt("mine", "latest")

    assert str(script) == written(stacks)["script"]
    wording("adopt", capsys.readouterr().out.splitlines()[-1])
