"""The settings of a script of one's own: what is wrong is said at preview, each with the line that fixes it."""

import re
import secrets
import shlex
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.golden import Wording
from tests.unit.settings_machine import machine, only_problem, parse, plan_runs, problems, settings
from training.workloads.script import python_environment, ray_layer, resolve
from training.workloads.script.recipe import ScriptRecipe

RAY = "from ray.train.tensorflow import TensorflowTrainer\nfrom ray.train import ScalingConfig\n"
TORCHRUN = "def train():\n    import torch.distributed\n"
"""Refused by no environment without PyTorch: it is imported later."""
TORCH = "import torch\nimport torch.distributed\n"
KERAS = "import os\nimport tensorflow as tf\nW = os.environ.get('TF_CONFIG')\ntf.keras.Model()"
RLLIB = "import os\nimport ray.rllib\nW = os.environ.get('TF_CONFIG')"
SECRET = frozenset({"secretEnvironment"})
IN_PODS = machine(stack="minikube")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """One for torchrun, which takes its ranks from variables."""
    path = tmp_path / "train.py"
    path.write_text(TORCHRUN)
    return path


def keys(script: Path, **more: str) -> dict[str, str]:
    """Those of a script."""
    return {"workload": "script", "script": str(script)} | more


def test_a_script_of_torchrun_needs_its_file_alone(script: Path) -> None:
    """Every arm is measured, and a preview shows the command of each; the CNN is the project's own."""
    found = parse(keys(script), machine())

    assert ("baseline", "wide", "native", "ray") == found.arms
    assert () == parse({}, machine()).commands
    shown = "\n".join(found.commands)
    assert f"--nproc-per-node 2 --master-addr 127.0.0.1 --master-port 29500 {script}" in shown  # not prose: a command
    assert "under_ray.py 2 1 torchrun" in shown  # not prose: a command


def test_a_file_that_is_not_there_is_told_from_those_that_are(wording: Wording, script: Path) -> None:
    """With the names beside it."""
    (problem,) = problems(**keys(script.with_name("trian.py")))

    assert "train.py" in problem.why
    assert "script = " in problem.what
    wording("settings", str(problem))


@pytest.mark.parametrize("name", ["~nobody-of-this-name/y.py", "a" * 300, "\ud800.py"])
@pytest.mark.parametrize("key", ["script", "scriptFolder"])
def test_a_path_of_no_file_is_a_problem(script: Path, key: str, name: str) -> None:
    """A user that there is none of, a name that no file system holds, or one that can't be printed."""
    refusals = problems(**keys(script) | {key: name})

    assert any(problem.what.startswith(f"{key} = ") for problem in refusals)
    assert "".join(map(str, refusals)).encode()


def test_a_script_that_can_t_be_read_is_a_problem(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root reads it all the same, so the refusal is the test's."""

    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    (problem,) = problems(**keys(script))

    assert problem.what.startswith("script = ")


@pytest.mark.parametrize("target", ["local", "minikube"])
def test_a_file_beside_it_that_can_t_be_read_is_one_problem(
    script: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """At preview: its hash, or its package, would be a traceback in the update."""
    file = script.with_name("rows.txt")
    file.touch()
    opened = Path.open

    def refuse(path: Path, *how: Any, **more: Any) -> Any:
        if path == file:
            raise PermissionError(13, "Permission denied")
        return opened(path, *how, **more)

    monkeypatch.setattr(Path, "open", refuse)
    (problem,) = problems(**keys(script, target=target, scriptFolder=str(script.parent)))

    assert problem.what.startswith("scriptFolder")
    assert f"{file} " in problem.why


def test_a_workload_without_a_script_says_how_one_is_named() -> None:
    """Before anything else is looked at."""
    (problem,) = problems(workload="script")

    assert ("pulumi config set script ../mine/train.py",) == problem.fixes


ARTIFACTS = {"artifacts": "*.pt", "scriptArguments": "--out {storage}"}
OF_THE_CNN = {"globalBatchSize": "32", "datasetPath": ".", "model": "cnn", "rayDashboard": "true"}
OF_A_SCRIPT = dict.fromkeys(("script", "scriptArguments", "python", "metric"), "x")
OF_A_SCRIPT |= {"environment": "A=1", "measureSteps": "20"}
MENDED: dict[str, tuple[str, dict[str, str], str]] = {
    "workers that reach nobody": (
        RAY,
        {"scriptArguments": "--epochs 1"},
        "set scriptArguments -- '--epochs 1 --num-workers {workers}'",
    ),
    "an unknown placeholder": (
        TORCHRUN,
        {"scriptArguments": "--n {worker}"},
        "set scriptArguments -- '--n worker --num-workers {workers}'",
    ),
    "epochs that reach nobody": (TORCHRUN, {"epochs": "7"}, "set epochs 4"),
    "no ranks": ("print(1)\n", {"scriptArguments": "{workers}"}, "set scriptKind torchrun"),
    "artifacts without storage": (TORCHRUN, ARTIFACTS, "set storage kept"),
    "artifacts in no folder": (
        TORCHRUN,
        {"artifacts": "*.pt", "storage": "kept", "scriptArguments": "--epochs 1"},
        "set scriptArguments -- '--epochs 1 --storage {storage}'",
    ),
    "a target of no metric": (TORCHRUN, {"metricTarget": "0.5"}, "set metric val_accuracy"),
    "a tolerance of no metric": (TORCHRUN, {"metricTolerance": "0.5"}, "set metric val_accuracy"),
    "a metric of a training that is ended": (TORCHRUN, {"metric": "loss", "measureSteps": "20"}, "rm metric"),
    **{f"{key} of the CNN": (TORCHRUN, {key: value}, f"rm {key}") for key, value in OF_THE_CNN.items()},
}
"""By what is wrong: the script's text, its settings, and the first line that mends it, without `pulumi config`."""


@pytest.mark.parametrize("case", MENDED)
def test_what_would_mean_nothing_is_mended_by_a_line(wording: Wording, script: Path, case: str) -> None:
    """Every arm would be the same, a change would measure the same again, or a key would have no effect."""
    text, given, line = MENDED[case]
    script.write_text(text)
    found = only_problem(**keys(script, **given))

    assert f"pulumi config {line}" == found.fixes[0]
    wording("settings", found)


@pytest.mark.parametrize("key", OF_A_SCRIPT)
def test_keys_of_a_script_are_removed_beside_the_cnn(key: str) -> None:
    """Each with its line."""
    assert f"pulumi config rm {key}" == only_problem(workload="cnn", **{key: OF_A_SCRIPT[key]}).fixes[0]


def test_what_reaches_the_script_is_accepted(script: Path) -> None:
    """Epochs and artifacts, where its arguments take them."""
    assert 7 == parse(keys(script, epochs="7", scriptArguments="--epochs {epochs}"), machine()).recipe.epochs
    assert "*.pt" == parse(keys(script, **ARTIFACTS, storage="kept"), machine()).recipe.to_dict()["artifacts"]


@pytest.mark.parametrize(
    ("installed", "text", "package"),
    [
        pytest.param({"python": "3.11.0"}, RAY, "ray", id="no Ray"),
        pytest.param({"python": "3.11.0", "ray": "2.40.0"}, RAY, "ray", id="old Ray"),
        pytest.param({"python": "3.11.0", "ray": "2.60.0"}, "import torch.distributed", "torch", id="no PyTorch"),
    ],
)
def test_an_environment_that_has_not_what_it_takes_is_one_line(
    wording: Wording,
    monkeypatch: pytest.MonkeyPatch,
    script: Path,
    *,
    installed: dict[str, str],
    text: str,
    package: str,
) -> None:
    """No Ray, or one that is too old: what installs it."""
    script.write_text(text)
    monkeypatch.setattr(python_environment, "versions", lambda _: installed)
    monkeypatch.setattr(python_environment, "modules", lambda _: frozenset({"pip", "ray", "tensorflow"}))
    monkeypatch.setattr(python_environment, "is_environment", lambda _: True)
    (problem,) = problems(**keys(script, scriptArguments="--num-workers {workers}", python="/bin/true"))

    assert problem.fixes[0].startswith("/bin/true -m pip install ")  # not prose: a command
    assert package in problem.fixes[0]
    wording("settings", str(problem))


def test_an_environment_that_is_not_there_is_one_line_that_makes_it(wording: Wording, script: Path) -> None:
    """With the requirements beside the script, or what it imports; nothing in it has to be looked for."""
    (by_imports,) = problems(**keys(script, python="../mine/.venv/bin/python"))
    (script.parent / "requirements.txt").write_text("torch\n")
    (by_file,) = problems(**keys(script, python=str(script.parent / ".venv/bin/python")))

    wording("settings", str(by_imports).replace(python_environment.uv(), "uv"))
    made, installed = by_imports.fixes[0].split(" && ")
    assert ["venv", "--python", "3.11", "../mine/.venv"] == shlex.split(made)[1:]
    assert ["pip", "install", "--python", "../mine/.venv/bin/python", "--torch-backend", "cpu", "torch"] == (
        shlex.split(installed)[1:]
    )
    assert by_file.fixes[0].endswith(f" -r {python_environment.near(script.parent / 'requirements.txt')}")


def test_a_python_that_was_mistyped_is_named_as_it_is_there(script: Path) -> None:
    """Nothing is to be made beside it."""
    python = script.parent / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    (problem,) = problems(**keys(script, python=str(python.with_name("pyton"))))

    assert (f"pulumi config set python {python_environment.near(python)}",) == problem.fixes


def test_the_projects_own_environment_stays_as_it_is_locked(
    wording: Wording, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it lacks goes into one of the script's own, which is named in the same line."""
    monkeypatch.setattr(python_environment, "modules", lambda _: frozenset({"ray"}))
    script.write_text("import torch.distributed\n")
    (problem,) = problems(**keys(script))

    wording("settings", problem.why)
    folder = script.parent / ".venv"
    assert f" venv --python 3.11 {python_environment.near(folder)} && " in problem.fixes[0]  # not prose: a command
    assert problem.fixes[0].endswith(f" && pulumi config set python {python_environment.near(folder / 'bin/python')}")


def test_what_is_no_python_is_refused(wording: Wording, script: Path) -> None:
    """With what it said."""
    (problem,) = problems(**keys(script, python="/bin/true"))

    wording("settings", str(problem))


def test_an_arm_that_a_kind_cannot_have_is_absent_with_the_reason(wording: Wording, script: Path) -> None:
    """Ray Data has no native arm; the preview says why."""
    script.write_text(RAY + "import ray.data\n")

    found = parse(keys(script, scriptArguments="--num-workers {workers}"), machine())

    assert ("baseline", "wide", "ray") == found.arms
    assert "Ray Data" in found.absent_arms["native"]
    (absent,) = [line for line in found.commands if line.startswith("native")]
    wording("settings", absent)


def on_minikube(script: Path, **more: str) -> dict[str, str]:
    """Keys of a script in pods."""
    return keys(script, target="minikube", **more)


def pinned(script: Path, text: str) -> dict[str, str]:
    """The key of a file beside the script with these requirements."""
    (file := script.with_name("requirements.txt")).write_text(text)
    return {"requirements": str(file)}


def test_a_cluster_runs_a_script_with_the_python_of_the_image(script: Path) -> None:
    """A preview shows what pods run: no path of this machine."""
    script.write_text("import os\nimport tensorflow\nRANKS = os.environ.get('TF_CONFIG')\n")
    found = parse(on_minikube(script, scriptArguments="--epochs 1"), IN_PODS)
    shown = "\n".join(found.commands)

    assert ("baseline", "wide", "native", "ray") == found.arms
    assert " python train.py --epochs 1\n" in shown  # not prose: a command
    assert str(script.parent) not in shown


def test_a_module_that_no_package_of_the_image_brings_is_named(script: Path) -> None:
    """The image has NumPy and tf-keras, whose module has another name; with requirements, one of these may bring it."""
    script.write_text("import numpy, tf_keras, tiktoken, torch.distributed\n")
    (problem,) = problems(IN_PODS, **on_minikube(script))

    assert {"tiktoken", "torch"} == {"numpy", "tf_keras", "tiktoken", "torch"} & set(re.findall(r"\w+", problem.why))
    assert parse(on_minikube(script, **pinned(script, "torch==2.15.0\n")), IN_PODS).requirements


LATER = """
import contextlib, json, numpy, helper
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import hints
try:
    import tensorboard
except ImportError:
    tensorboard = None
with contextlib.suppress(AttributeError, ImportError):
    import flash_attn
try:
    import wandb
finally:
    pass
def train():
    import tiktoken, yaml, helper.parts, csv
    if 1:
        from datasets import load
"""
"""A plain script that imports what the image has and what it lacks, at once and later."""


def warnings(script: Path, **more: str) -> list[str]:
    """What a preview of a script in pods warns of, in which it names the script."""
    found = parse(on_minikube(script, **more), IN_PODS)
    return [each.replace(str(script.parent), "..") for each in found.warnings if each.startswith(script.name)]


def test_what_the_image_may_lack_is_a_warning(wording: Wording, script: Path) -> None:
    """An import that may never be reached, or whose module one of `requirements` may bring; no other module."""
    script.write_text(LATER)
    script.with_name("helper.py").write_text("def train():\n    import outlines\n")
    given = pinned(script, "datasets==4.0.0\n")
    (without,), (also,) = warnings(script), warnings(script, **given)
    script.write_text("import cv2, datasets, tiktoken\n")
    (at_once,) = warnings(script, **given)

    names = without.partition(" imports ")[2].partition(" in a ")[0]
    assert ["datasets", "outlines", "tiktoken", "wandb"] == names.split(", ")
    for label, text in {"later": without, "later, with requirements": also, "at once": at_once}.items():
        wording("settings", text, label)


def test_nothing_is_claimed_of_an_image_that_this_project_did_not_build(script: Path) -> None:
    """Nor of the cluster of others: what they have is asked there."""
    script.write_text(LATER)
    script.with_name("helper.py").write_text("import tiktoken\n")
    kubernetes = {"kubeContext": "staging", "image": "registry.example.com/mine:1"}
    of_image = settings(machine(stack="kubernetes"), **keys(script, target="kubernetes", **kubernetes))
    of_cluster = settings(machine(stack="ray"), **keys(script, target="ray", rayAddress="http://127.0.0.1:8265"))

    assert not [text for each in (of_image, of_cluster) for text in each.warnings if script.name in text]


def test_what_requirements_pin_is_in_the_image(script: Path) -> None:
    """And nothing is asked of this machine's environments. Keras of before is in it anyway."""
    script.write_text(TORCH)
    given = pinned(script, "torch==2.15.0\n")
    found = parse(on_minikube(script, **given), IN_PODS)

    assert given["requirements"] == found.requirements
    assert any("torch.distributed.run" in line or "native" in line for line in found.commands)
    script.write_text(KERAS)
    parse(on_minikube(script, environment="TF_USE_LEGACY_KERAS=1"), IN_PODS)


MINE = "set requirements ../mine/requirements.txt"
NO_VARIABLE = {"environment": "no variable"}
REFUSED_IN_PODS: dict[str, tuple[str, str, dict[str, str], str, str]] = {
    "a package that the image lacks": (TORCH, "", {}, "torch", MINE),
    "a module beside it imports one": ("import helper\n", "", {}, "tiktoken", MINE),
    "RLlib": (RLLIB, "", {"scriptKind": "tf-config"}, "ray.rllib or ray.llm", MINE),
    "Keras 3": (KERAS, "", {"scriptKind": "tf-config"}, "tf.keras", MINE),
    "no one version": (TORCHRUN, "torch>=2\n", {}, "'torch>=2'", ""),
    "another Ray": (TORCHRUN, "ray==2.51.0\n", {}, "ray==2.60", ""),
    "too old to be observed": (TORCH, "torch==2.0.1\n", {}, "torch 2.0.1", MINE),
    "no such file": (TORCHRUN, "", {"requirements": "nowhere.txt"}, "nowhere.txt", "rm requirements"),
    "an interpreter of this machine": (TORCHRUN, "", {"python": "/usr/bin/python3"}, "", "rm python"),
    "no environment": (KERAS, "", NO_VARIABLE, "", "set environment 'DATA=/data HF_HOME=/models'"),
}
"""By what is wrong: the script, its requirements, other settings, what the reason names, and a line that mends it."""


@pytest.mark.parametrize("case", REFUSED_IN_PODS)
def test_what_pods_would_end_with_is_said_before_there_is_one(wording: Wording, script: Path, case: str) -> None:
    """As one problem, and not by a build some minutes later, or an hour later by a pod."""
    text, required, given, names, line = REFUSED_IN_PODS[case]
    script.write_text(text)
    script.with_name("helper.py").write_text("import tiktoken\n")
    given = given | (pinned(script, required) if required else {})
    (problem,) = problems(IN_PODS, **on_minikube(script, **given))

    assert names in problem.why
    assert f"pulumi config {line}" in problem.fixes if line else "pip compile" in problem.fixes[0]
    wording("settings", str(problem).replace(python_environment.uv(), "uv"))


def test_an_image_that_is_used_as_it_is_takes_no_requirements(wording: Wording, script: Path) -> None:
    """They would change nothing; and nobody here knows what it has."""
    script.write_text(TORCH)
    there = machine(stack="kubernetes")
    given = keys(script, target="kubernetes", image="registry.example.com/a:1", kubeContext="test")
    (problem,) = problems(there, **given, **pinned(script, "torch==2.15.0\n"))

    assert "pulumi config rm requirements" in problem.fixes
    wording("settings", str(problem))
    assert "registry.example.com/a:1" == parse(given, there).of_cluster.image


@pytest.mark.parametrize(
    ("config", "cpus", "refused"),
    [
        ("num_workers=n", "2", True),
        ("num_workers=n", "1", False),
        ("num_workers=n, resources_per_worker={'CPU': 2}", "2", False),
        ("num_workers=n, **more", "2", False),
    ],
)
def test_ranks_that_ray_would_pack_into_one_pod_are_refused(
    wording: Wording, script: Path, config: str, cpus: str, refused: bool
) -> None:
    """They would share the CPUs of one worker; where the text does not tell, the result does."""
    script.write_text(f"{RAY}def main(n, **more):\n    ScalingConfig({config})\n")
    given = on_minikube(script, scriptArguments="--num-workers {workers}", workerCpus=cpus, minikubeCpus="8")

    if refused:
        (problem,) = problems(IN_PODS, **given)
        wording("settings", str(problem))
    else:
        parse(given, IN_PODS)


@pytest.mark.parametrize("what", ["900 KiB", "a link"])
def test_a_folder_that_pods_cannot_have_is_refused(
    wording: Wording, script: Path, what: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What a ConfigMap holds is the limit, and noise is not compressed; of a link out of it there is nothing at its
    end."""
    if what == "a link":
        (script.parent / "data.bin").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    else:
        (script.parent / "data.bin").write_bytes(secrets.token_bytes(2**20))
    (problem,) = problems(IN_PODS, **on_minikube(script, scriptFolder=str(script.parent)))

    assert "scriptFolder" in problem.what
    assert "data.bin" in problem.why
    assert what in problem.why or what == "a link"
    wording("settings", str(problem))


def test_a_secret_that_is_none_is_refused(script: Path) -> None:
    """And its value is in no message."""
    (problem,) = problems(**keys(script, secretEnvironment="TOKEN=xyzzyx"))

    assert ("pulumi config set --secret secretEnvironment",) == problem.fixes
    assert "xyzzy" not in str(problem)


@pytest.mark.parametrize("value", ["1", "xyzzy", "", "'ab\nxyzzy\n}'"], ids=["1", "five", "none", "lines"])
def test_a_secret_that_stands_everywhere_by_chance_is_refused(script: Path, wording: Wording, value: str) -> None:
    """The message names the variable alone."""
    given = keys(script, secretEnvironment=f"TOKEN=xyzzyx PIN={value}")
    (problem,) = problems(machine(secret=SECRET), **given)

    assert "xyzzy" not in str(problem)
    wording("settings", str(problem))


def test_a_secret_decides_and_is_nowhere(script: Path) -> None:
    """Another value is another measurement; neither is in the settings' text, and two stacks have nothing in common.

    One of several lines may have short ones, as a key in JSON has.
    """
    plain = parse(keys(script), machine())
    one = parse(keys(script, secretEnvironment="TOKEN=xyzzyx"), machine(secret=SECRET))
    other = parse(keys(script, secretEnvironment="TOKEN=xyzzyz"), machine(secret=SECRET))
    elsewhere = parse(keys(script, secretEnvironment="TOKEN=xyzzyx"), machine(stack="b", secret=SECRET))

    assert 4 == len({plan_runs(each)[0].measurement for each in (plain, one, other, elsewhere)})
    assert "xyzzy" not in repr(one)
    assert "xyzzy" not in repr(plan_runs(one))
    assert {"TOKEN": "xyzzyx"} == one.secret_environment
    lines = parse(keys(script, secretEnvironment='KEY=\'{\n"key": "xyzzy"\n}\''), machine(secret=SECRET))
    assert ["{", '"key": "xyzzy"', "}"] == lines.secret_environment["KEY"].splitlines()


def test_a_variable_stands_once(script: Path) -> None:
    """Which of two values holds would be a guess."""
    both = keys(script, environment="A=1 B='2 3'", secretEnvironment="A=234567")
    (problem,) = problems(machine(secret=SECRET), **both)

    assert [shlex.join(["pulumi", "config", "set", "environment", "'B=2 3'"])] == list(problem.fixes)


def test_a_folder_full_of_data_is_refused(wording: Wording, script: Path, tmp_path: Path) -> None:
    """It would be hashed at every preview."""
    with (tmp_path / "data.bin").open("wb") as data:
        data.truncate(300 * 2**20)

    (problem,) = problems(**keys(script, scriptFolder=str(tmp_path)))

    assert "data.bin" in problem.why
    assert "256 MiB" in problem.why
    wording("settings", str(problem))


def measurement(*_: object, script: Path, **more: str) -> str:
    """What all its runs belong to."""
    return plan_runs(parse(keys(script, **more), machine()))[0].measurement


def test_what_a_script_is_made_of_measures_again(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text, a module that it imports, a file of its folder, a version of its environment; and nothing else."""
    first = measurement(script=script)
    (script.parent / "unrelated.py").write_text("1")
    (script.parent / "model.py").write_text("1")
    beside = measurement(script=script)
    folder = measurement(script=script, scriptFolder=str(script.parent))
    script.write_text(f"{TORCHRUN}import model\n")
    changed = measurement(script=script)
    (script.parent / "model.py").write_text("2")
    imported = measurement(script=script)
    (script.parent / "unrelated.py").write_text("2")
    folder_changed = measurement(script=script, scriptFolder=str(script.parent))
    versions = python_environment.versions("python3")
    monkeypatch.setattr(python_environment, "versions", lambda _: {**versions, "ray": "9.9"})
    upgraded = measurement(script=script)

    assert first == beside
    assert 6 == len({first, folder, changed, imported, folder_changed, upgraded})


def test_where_it_lies_and_what_is_made_of_it_measure_nothing_again(script: Path, tmp_path: Path) -> None:
    """A moved script, and the keys of its metric."""
    elsewhere = tmp_path / "elsewhere" / "train.py"
    elsewhere.parent.mkdir()
    elsewhere.write_text(script.read_text())

    named = measurement(script=script, metric="loss", metricMode="min", metricTarget="0.1", metricTolerance="1")

    assert 1 == len({measurement(script=script), measurement(script=elsewhere), named})


@pytest.mark.parametrize("in_git", [True, False])
def test_what_git_ignores_is_no_part_of_a_folder(script: Path, tmp_path: Path, *, in_git: bool) -> None:
    """Outside a repository what is hidden is none, and what Python compiled."""
    ignored = tmp_path / ("data.csv" if in_git else ".data")
    if in_git:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        (tmp_path / ".gitignore").write_text("*.csv\n")
    ignored.write_text("1")
    before = measurement(script=script, scriptFolder=str(tmp_path))
    ignored.write_text("2")
    after = measurement(script=script, scriptFolder=str(tmp_path))
    (tmp_path / "more.txt").write_text("1")

    assert before == after
    assert before != measurement(script=script, scriptFolder=str(tmp_path))


def test_a_script_without_workload_is_what_is_trained() -> None:
    """It could mean nothing else; with `workload cnn` it is refused as before, and an empty one is none."""
    file = "examples/keras_tf_config.py"

    assert ["cnn", "cnn"] == [settings(script=empty).recipe.workload for empty in ("", " ")]
    assert "script" == settings(script=file).recipe.workload
    assert "script" == settings(script=file, workload="").recipe.workload
    (problem,) = problems(script=file, workload="cnn")
    assert "pulumi config rm script" in problem.fixes


def test_a_script_that_nothing_distributes_is_measured_alone_and_beside_a_start(tmp_path: Path) -> None:
    """As it is, with one worker's CPUs and with all; the preview shows why the others are absent."""
    path = tmp_path / "plain.py"
    path.write_text("import argparse\n")
    found = parse(keys(path, scriptArguments="--epochs {epochs}", epochs="2"), machine())

    assert ("baseline", "wide", "raystart") == found.arms
    assert {"native", "ray"} == set(found.absent_arms)
    assert len({*found.absent_arms.values()}) == 1
    assert "ray_alone.py 2 1 tasks" in "\n".join(found.commands)  # not prose: a command
    assert "raystart" not in settings().arms
    assert "raystart" not in parse(keys(path, scriptKind="torchrun"), machine()).arms


def test_a_curve_of_a_script_that_nothing_distributes_is_refused(wording: Wording, tmp_path: Path) -> None:
    """No number of workers trains it."""
    path = tmp_path / "plain.py"
    path.write_text("import argparse\n")
    (problem,) = problems(**keys(path, workersCurve="1,2"))

    assert ("pulumi config set workersCurve none",) == problem.fixes
    wording("settings", str(problem).replace(str(path), "plain.py"))


@pytest.mark.parametrize("text", ["import argparse\n", TORCHRUN])
def test_an_environment_without_ray_has_it_as_a_layer(
    wording: Wording, script: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """`up` makes it: a preview shows which arms are run in it, and the version has its mark."""
    script.write_text(text)
    monkeypatch.setattr(python_environment, "versions", lambda _: {"python": "3.11.7"})
    monkeypatch.setattr(ray_layer, "FOLDER", script.parent)
    found = parse(keys(script), machine())
    assert isinstance(found.recipe, ScriptRecipe)
    resolved = resolve.resolve(found.recipe)
    assert resolved.layer is not None
    in_layer = {line.partition(":")[0] for line in found.commands if f" {resolved.layer.python} " in line}

    assert {"raystart" if "argparse" in text else "ray"} == in_layer
    assert resolved.layer.version == resolved.versions["ray"]
    (remark,) = {line.partition("    # ")[2] for line in found.commands if "# " in line}
    wording("settings", remark.replace(version("ray"), "<version>"))


def test_an_environment_over_which_ray_can_be_no_layer_is_refused(
    wording: Wording, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can be said of Ray then, and the line that installs it is shown."""
    script.write_text("import argparse\n")
    monkeypatch.setattr(python_environment, "versions", lambda _: {"python": "3.11.7"})
    monkeypatch.setattr(python_environment, "packages", lambda _: {"packaging": "23.2"})
    monkeypatch.setattr(python_environment, "line_that_gives", lambda *_: "LINE")
    (problem,) = problems(**keys(script))

    assert ("LINE",) == problem.fixes
    wording("settings", str(problem).replace(version("ray"), "<version>"))
