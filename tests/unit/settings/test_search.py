"""The settings of a search: what can't be searched is said at preview, each with the line that fixes it."""

import platform
import shlex
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from infra.settings.key import TARGETS
from infra.settings.search import INSTALLS_OPTUNA
from tests.golden import Wording
from tests.unit.results import COMPARED
from tests.unit.settings_machine import machine, only_problem, parse, problems, settings
from tests.unit.settings_values import OF_TARGET
from training.workloads.script import python_environment
from training.workloads.search.recipe import SearchRecipe

SPACE = '{"lr": {"log": [1e-5, 0.1]}}'
ALONE = "import argparse\n"
ARGUMENTS = "--lr {lr} --epochs {epochs}"
POPULATION = {"searchScheduler": "pbt", "scriptArguments": f"{ARGUMENTS} --to {{checkpoint}}"}


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
        "scriptArguments": ARGUMENTS,
        "searchSpace": SPACE,
        "metric": "val_accuracy",
    }
    return own | more


def test_a_script_of_one_process_is_searched_in_every_arm(script: Path) -> None:
    """Though it takes no number of workers; a preview shows the command of a trial."""
    found = parse(keys(script), machine())

    assert COMPARED == found.arms
    assert isinstance(found.recipe, SearchRecipe)
    assert f"{script} --lr {{lr}} --epochs 4" in "\n".join(found.commands).replace("'", "")  # not prose: a command


def test_trials_have_the_secrets_of_the_script(script: Path) -> None:
    """As runs of the script alone have them."""
    given = keys(script, secretEnvironment="TOKEN=xyzzyx")

    assert {"TOKEN": "xyzzyx"} == parse(given, machine(secret=frozenset({"secretEnvironment"}))).secret_environment


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
        pytest.param({"searchScheduler": "pbt"}, id="pbt without a checkpoint"),
        pytest.param({"scriptArguments": f"{ARGUMENTS} --to {{checkpoint}}"}, id="a checkpoint without pbt"),
        pytest.param(POPULATION | {"searchAlgorithm": "tpe"}, id="pbt with tpe"),
        pytest.param(POPULATION | {"searchGrace": "4"}, id="pbt of one segment"),
        pytest.param(POPULATION | {"searchTrials": "3", "workers": "4"}, id="a population smaller than the workers"),
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
    has(monkeypatch)
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


def test_a_search_has_no_place_on_a_ray_cluster_that_exists(script: Path, wording: Wording) -> None:
    """One problem, with the lines that choose another place."""
    given = keys(script, target="ray", **OF_TARGET["ray"])
    (problem,) = [problem for problem in problems(**given) if problem.what.startswith("target")]

    others = [target for target in TARGETS if target != "ray"]
    assert tuple(f"pulumi config set target {target}" for target in others) == problem.fixes
    wording("settings", str(problem))


@pytest.mark.parametrize("target", ["minikube", "kubernetes"])
def test_a_search_in_pods_needs_optuna_in_their_image_alone(script: Path, target: str) -> None:
    """The program's own environment starts no trial there."""
    given = keys(script, target=target, **OF_TARGET.get(target, {}))

    assert target == settings(replace(machine(), optuna_installed=False), **given).target


OURS = {"python": platform.python_version(), "ray": version("ray"), "torch": "2.15.0"}
DISTRIBUTED = "import torch.distributed\n"


def has(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """The script's Python has these; "" for one that it lacks."""
    known = {name: text for name, text in {**OURS, **versions}.items() if text}
    probed = {"versions": known, "modules": ["torch", "ray"], "own": True}
    monkeypatch.setattr(python_environment, "_probed", lambda _: probed)


def test_a_trial_of_several_workers_is_the_script_as_ray_and_its_framework_distribute_it(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two workers in every arm; `wide` gives each of them the CPUs of all."""
    has(monkeypatch)
    script.write_text("import torch\n")
    of_one = parse(keys(script, trialWorkers="2"), machine(cores=4)).commands
    script.write_text(DISTRIBUTED)

    found = parse(keys(script, trialWorkers="2"), machine(cores=4))

    baseline, wide, native, ray = found.commands
    assert ["2", "1", "torchrun"] == ray.partition("under_ray.py ")[2].split()[:3]
    assert all("--nproc-per-node 2" in each for each in (baseline, wide, native))
    assert ["OMP_NUM_THREADS=2" in each for each in found.commands] == [False, True, False, False]
    assert [" ranks 2 " in each for each in of_one] == [True, True, True, False]
    assert " ray 2 1 " in of_one[-1]


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        pytest.param(ALONE, {}, id="a script of one process"),
        pytest.param(DISTRIBUTED, {"ray": ""}, id="no Ray"),
        pytest.param(DISTRIBUTED, {"ray": "2.59.0"}, id="another Ray"),
        pytest.param(DISTRIBUTED, {"python": "3.9.1"}, id="another Python"),
    ],
)
def test_workers_that_tune_s_ray_can_never_place_are_refused(
    script: Path, wording: Wording, monkeypatch: pytest.MonkeyPatch, text: str, versions: dict[str, str]
) -> None:
    """The trial would fail in the arm `ray` alone."""
    has(monkeypatch, **versions)
    script.write_text(text)

    (problem,) = problems(**keys(script, trialWorkers="2", workers="1"))

    assert problem.fixes
    shown = str(problem).replace(python_environment.uv(), "uv").replace(OURS["ray"], "<version>")
    shown = shown.replace(python_environment.near(sys.executable), ".venv/bin/python")
    wording("settings", shown.replace(str(script), "train.py"))


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"workers": "3"}, id="six CPUs of four"),
        pytest.param({"workers": "1", "trialWorkers": "5"}, id="a trial of five CPUs"),
    ],
)
def test_trials_of_more_cpus_than_there_are_are_refused(
    script: Path, wording: Wording, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]
) -> None:
    """All workers of all trials at a time have a CPU of their own."""
    has(monkeypatch)
    script.write_text(DISTRIBUTED)

    wording("settings", only_problem(machine(cores=4), **keys(script, trialWorkers="2") | more))


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "local"])
@pytest.mark.parametrize(
    ("key", "text", "more"),
    [("trialWorkers", DISTRIBUTED, {"trialWorkers": "2"}), ("searchScheduler", ALONE, POPULATION)],
    ids=["trials of several workers", "a population"],
)
def test_what_hands_files_or_ports_over_is_of_this_machine(
    script: Path, target: str, key: str, text: str, *, more: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods have no place for the drivers of trials; and trials of a population hand a folder over."""
    has(monkeypatch)
    script.write_text(text)
    given = keys(script, target=target, **OF_TARGET.get(target, {})) | more

    assert [problem for problem in problems(**given) if problem.what.startswith(key)]


def test_a_trial_of_a_population_is_one_process(
    script: Path, wording: Wording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker of several would leave a folder."""
    has(monkeypatch)
    script.write_text(DISTRIBUTED)

    wording("settings", only_problem(machine(cores=4), **keys(script, trialWorkers="2") | POPULATION))


def test_a_population_is_trained_with_its_folder(script: Path) -> None:
    """A preview shows the placeholders of what each start gets."""
    found = parse(keys(script) | POPULATION, machine())
    command = f"{script} --lr {{lr}} --epochs 4 --to {{checkpoint}}"

    assert all(command in each.replace("'", "") for each in found.commands)


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
