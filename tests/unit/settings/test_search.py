"""The settings of a search: what can't be searched is said at preview, each with the line that fixes it."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from infra.settings.key import TARGETS
from infra.settings.search import INSTALLS_OPTUNA
from tests.golden import Wording
from tests.unit.settings_machine import machine, only_problem, parse, problems
from training.contract.arms import ARMS
from training.workloads.script import python_environment
from training.workloads.search.recipe import SearchRecipe

SPACE = '{"lr": {"log": [1e-5, 0.1]}}'
ALONE = "import argparse\n"
OF_TARGET: dict[str, dict[str, str]] = {
    "kubernetes": {"image": "a/b:1", "kubeContext": "mine"},
    "ray": {"rayAddress": "https://ray-head.example.com:8265"},
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """One that trains in one process, and knows of no other."""
    path = tmp_path / "train.py"
    path.write_text(ALONE)
    return path


def keys(script: Path, **more: str) -> dict[str, str]:
    """Those of a search over one argument of it."""
    own = {
        "workload": "search",
        "script": str(script),
        "scriptArguments": "--lr {lr} --epochs {epochs}",
        "searchSpace": SPACE,
        "metric": "val_accuracy",
    }
    return own | more


def test_a_script_of_one_process_is_searched_in_every_arm(script: Path) -> None:
    """Though it takes no number of workers; a preview shows the command of a trial."""
    found = parse(keys(script), machine())

    assert tuple(ARMS) == found.arms
    assert isinstance(found.recipe, SearchRecipe)
    assert f"{script} --lr {{lr}} --epochs 4" in "\n".join(found.commands).replace("'", "")  # not prose: a command


def test_blanks_and_order_of_the_space_are_no_other_search(script: Path) -> None:
    """The recipe has one text for one space."""
    arguments = "--lr {lr} --x {x} --epochs {epochs}"
    texts = ('{"lr":{"log":[1e-5,0.1]},"x":{"int":[1,2]}}', '{"x": {"int": [1, 2]}, "lr": {"log": [0.00001, 0.1]}}')
    first, second = (
        parse(keys(script, scriptArguments=arguments, searchSpace=text, searchTrials="2"), machine()).recipe
        for text in texts
    )

    assert first == second


def test_its_python_needs_neither_ray_nor_optuna(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the script imports itself."""
    monkeypatch.setattr(
        python_environment, "_probed", lambda _: {"versions": {"python": "3.11.0"}, "modules": [], "own": True}
    )

    parse(keys(script), machine())
    script.write_text("import torch\n")
    assert "python" == only_key(keys(script))


def only_key(values: dict[str, str]) -> str:
    """The key of the one problem."""
    (problem,) = problems(**values)
    return problem.what.split()[0]


def test_what_a_search_lacks_is_asked_for_at_once(script: Path, wording: Wording) -> None:
    """The space, the metric and the epochs; each line gives one of them."""
    refusals = problems(workload="search", script=str(script))

    assert {"scriptArguments", "searchSpace", "metric"} == {problem.what.split()[0] for problem in refusals}
    assert all(problem.fixes for problem in refusals)
    for problem in refusals:
        wording("settings", str(problem).replace(str(script), "train.py"))


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"searchSpace": ""}, id="no space"),
        pytest.param({"searchSpace": "lr"}, id="no JSON"),
        pytest.param({"searchSpace": '{"lr": {"log": [0.1, 1e-05]}}'}, id="reversed"),
        pytest.param({"searchSpace": '{"lr": {"log": [0, 1]}}'}, id="not positive"),
        pytest.param({"searchSpace": '{"lr": {"choice": []}}'}, id="empty"),
        pytest.param({"searchSpace": '{"lr": {"log": [1e-5, 0.1]}, "width": {"int": [1, 99]}}'}, id="not in arguments"),
        pytest.param({"scriptArguments": "--lr {lr} --to {width} --epochs {epochs}"}, id="not in the space"),
        pytest.param({"scriptArguments": "--lr {lr} --to {port} --epochs {epochs}"}, id="a name that is taken"),
        pytest.param({"scriptArguments": "--lr {lr}"}, id="no epochs"),
        pytest.param({"metric": ""}, id="no metric"),
        pytest.param({"metricPattern": "accuracy=.*"}, id="no group"),
        pytest.param({"metricPattern": "(a)(b)"}, id="two groups"),
        pytest.param({"metricPattern": "(a"}, id="no expression"),
        pytest.param({"searchGrace": "2"}, id="grace, and nothing stops"),
        pytest.param({"searchReduction": "4"}, id="reduction, and nothing stops"),
        pytest.param({"searchScheduler": "asha", "searchGrace": "4"}, id="grace of all epochs"),
        pytest.param({"searchScheduler": "asha", "epochs": "1"}, id="one epoch"),
        pytest.param({"searchTrials": "3", "workers": "4"}, id="fewer trials than workers"),
        pytest.param({"searchSpace": '{"lr": {"choice": [1, 2, 3]}}'}, id="fewer configurations"),
        pytest.param({"searchSpace": '{"lr": {"choice": [1]}}'}, id="one configuration"),
        pytest.param({"measureSteps": "50"}, id="steps"),
        pytest.param({"artifacts": "*.pt"}, id="artifacts"),
        pytest.param({"unit": "words"}, id="unit"),
        pytest.param({"workersCurve": "1"}, id="curve"),
        pytest.param({"searchScheduler": "pbt"}, id="pbt"),
        pytest.param({"searchAlgorithm": "grid"}, id="algorithm"),
        pytest.param({"workers": "9"}, id="more than the machine has"),
    ],
)
def test_what_cannot_be_searched_is_refused(script: Path, wording: Wording, more: dict[str, str]) -> None:
    """As one problem, each of whose lines makes a search that is accepted."""
    found = only_problem(**keys(script) | more)

    assert found.key in {*more, "searchSpace", "scriptArguments", "searchTrials", "searchGrace"}
    wording("settings", found)


@pytest.mark.parametrize(
    "text", ["from ray import train\n", "import torch.distributed, torch.multiprocessing as mp\nmp.spawn(main)\n"]
)
def test_a_script_that_starts_workers_of_its_own_needs_their_number(
    script: Path, wording: Wording, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every trial would be a training of as many workers as it has by default."""
    everything = {"python": "3.11.0", "ray": "2.60.0", "torch": "2.15.0"}
    probed = {"versions": everything, "modules": ["torch", "ray"], "own": True}
    monkeypatch.setattr(python_environment, "_probed", lambda _: probed)
    script.write_text(text)

    found = only_problem(**keys(script))
    assert (
        "pulumi config set scriptArguments -- '--lr {lr} --epochs {epochs} --num-workers {workers}'",
    ) == found.fixes
    wording("settings", found)


def test_names_that_differ_are_said_both_ways(script: Path) -> None:
    """What nothing replaces, and what the script never gets."""
    refusals = problems(**keys(script, searchSpace='{"rate": {"log": [1e-5, 0.1]}}'))

    assert 2 == len(refusals)
    assert all("scriptArguments" in problem.what and "searchSpace" in problem.what for problem in refusals)


def test_optuna_that_is_missing_is_installed_by_a_line(script: Path, wording: Wording) -> None:
    """It is in a default group, so only who took it away needs that."""
    (problem,) = problems(replace(machine(), optuna_installed=False), **keys(script))

    assert (INSTALLS_OPTUNA,) == problem.fixes
    wording("settings", str(problem))


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "local"])
def test_a_search_is_of_this_machine_so_far(script: Path, target: str) -> None:
    """Pods can't run trials: one problem, with the line that goes back."""
    given = keys(script, target=target, **OF_TARGET.get(target, {}))
    refusals = [problem for problem in problems(**given) if problem.what.startswith("target")]

    (problem,) = refusals
    assert ("pulumi config set target local",) == problem.fixes


@pytest.mark.parametrize("workload", ["cnn", "script"])
def test_keys_of_a_search_are_refused_outside_of_it(script: Path, workload: str) -> None:
    """They would have no effect."""
    own = {"workload": workload} | ({"script": "examples/keras_tf_config.py"} if workload == "script" else {})
    for key, value in {"searchSpace": SPACE, "searchTrials": "8", "metricPattern": "(a)"}.items():
        found = only_problem(**own | {key: value})

        assert (f"pulumi config rm {key}",) == found.fixes


def test_what_means_something_is_accepted(script: Path) -> None:
    """The other algorithm, stopping, a pattern with groups that are none, `repeats auto`, a kept baseline."""
    more = {"searchAlgorithm": "tpe", "searchScheduler": "asha", "searchGrace": "3", "searchReduction": "2"}
    parse(keys(script, metricPattern=r"(?:val_)?accuracy[ =:]+(\S+)", **more), machine())
    parse(keys(script, repeats="auto"), machine())
    parse(keys(script, keepBaseline="true", metricTarget="0.9", metricTolerance="0.01"), machine())
    parse(keys(script, searchSpace='{"lr": {"choice": ["a", "b c"]}}', searchTrials="2"), machine())


def test_a_search_has_as_many_trials_at_a_time_as_the_machine_has_cpus(script: Path) -> None:
    """Workers × workerCpus, as of every workload."""
    found = only_problem(machine(cores=4), **keys(script, workers="3", workerCpus="2"))

    assert shlex.split(found.fixes[0]) == ["pulumi", "config", "set", "workers", "2"]
