"""What a script is, from its text; and each that can't be measured is refused with what to do."""

import re
from pathlib import Path

import pytest

from tests.golden import Wording
from training.contract.provenance import PROJECT
from training.workloads.script import commands, ray_start
from training.workloads.script.recognise import ScriptError, Takes, recognise

WORKERS = ("--num-workers", "{workers}")
SPAWNS = "import torch.multiprocessing as mp\nimport torch.distributed\n"
FOLDER = Path(__file__).resolve().parents[3] / "examples"


def script(folder: Path, text: str, name: str = "train.py") -> Path:
    """A file with that text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("from ray.train.torch import TorchTrainer", "ray-torch"),
        ("import ray.train.torch", "ray-torch"),
        ("import torch, ray\nfrom ray import train\nray.train.torch.TorchTrainer", "ray-torch"),
        ("from ray.train.tensorflow import TensorflowTrainer\nimport tensorflow", "ray-tensorflow"),
        ("import xgboost\nfrom ray.train.xgboost import XGBoostTrainer", "ray-xgboost"),
        ("import ray.train.lightgbm", "ray-lightgbm"),
        ("import ray\nray.init()", "other"),
        ("import xgboost", "other"),
        ("import torch.distributed as dist", "torchrun"),
        ("from torch.nn.parallel import DistributedDataParallel", "torchrun"),
        ("from accelerate import Accelerator", "torchrun"),
        ("from transformers import Trainer", "torchrun"),
        ("import tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()", "tf-config"),
        ("import os\nos.environ['TF_CONFIG']", "tf-config"),
        ("from ray.rllib.algorithms.ppo import PPOConfig", "ray-rllib"),
        ("import torch", "other"),
        ("print('nothing')", "other"),
        # PyTorch's own launcher; who only says how DataLoaders start theirs starts no ranks.
        (f"{SPAWNS}mp.spawn(main, nprocs=2)", "spawn"),
        ("from torch.multiprocessing import start_processes\nimport torch.distributed\nstart_processes(main)", "spawn"),
        (f"{SPAWNS}mp.set_start_method('spawn')", "torchrun"),
        ("import torch.distributed, multiprocessing\nmultiprocessing.get_context('spawn')", "torchrun"),
        (f"from ray.train.torch import TorchTrainer\n{SPAWNS}mp.spawn(main)", "ray-torch"),
    ],
)
def test_the_kind_is_that_of_what_is_imported(tmp_path: Path, text: str, kind: str) -> None:
    """By imports and names, wherever they stand."""
    assert kind == recognise(script(tmp_path, text), WORKERS).kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("torch_ray.py", "ray-torch"),
        ("torch_ddp.py", "torchrun"),
        ("lightning_fit.py", "torchrun"),
        ("keras_ray.py", "ray-tensorflow"),
        ("keras_tf_config.py", "tf-config"),
        ("trees.py", "ray-xgboost"),
        ("reinforcement.py", "ray-rllib"),
    ],
)
def test_the_examples_are_recognised(name: str, kind: str) -> None:
    """Each as what it says it is, and none knows of this project."""
    path = FOLDER / name

    assert kind == recognise(path, WORKERS).kind
    assert not {"training", "cli", "compare"} & {name.partition(".")[0] for name in recognise(path, WORKERS).modules}


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ("import torch.distributed as dist, numpy", {"torch"}),
        ("from ray.train.torch import TorchTrainer", {"ray", "torch"}),
        ("from ray.train import torch", {"ray", "torch"}),
        ("try:\n    import torch\nexcept ImportError:\n    import tensorflow", set()),
        ("def train():\n    import xgboost", set()),
        ("import keras", set()),
        ("from ray.rllib.algorithms.ppo import PPOConfig", {"ray", "gymnasium", "torch"}),
    ],
)
def test_what_it_can_not_do_without_is_what_it_imports_at_once(tmp_path: Path, text: str, loads: set[str]) -> None:
    """Not what a condition or a function imports, nor a file of its own of that name."""
    script(tmp_path, "", "keras.py")

    assert loads == recognise(script(tmp_path, text), WORKERS).loads


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        ("import torch.distributed as dist, numpy as np, os", {"torch", "numpy"}),
        ("import torch.distributed\nfrom . import helpers\nimport keras", {"torch"}),
        ("import torch.distributed\ntry:\n    import pandas\nexcept ImportError:\n    pass", {"torch"}),
        ("import fast, torch.distributed, __main__", {"torch"}),
        ("import sys, torch.distributed, mine\nsys.path.insert(0, '..')", set()),
        ("import sys as s, torch.distributed, mine\ns.path.append('..')", set()),
        ("import site, torch.distributed, mine\nsite.addsitedir('lib')", set()),
        ("import paths, torch.distributed, mine", set()),
    ],
)
def test_packages_are_what_is_imported_at_once_and_lies_nowhere_near(
    tmp_path: Path, text: str, imports: set[str]
) -> None:
    """Where a script, or a module next to it, changes `sys.path`, nobody knows what it finds there."""
    script(tmp_path, "", "keras.py")
    script(tmp_path, "import sys\nsys.path.insert(0, 'lib')", "paths.py")
    (tmp_path / "fast.cpython-311-x86_64-linux-gnu.so").touch()

    assert imports == recognise(script(tmp_path, text), WORKERS).imports


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("dist.init_process_group('gloo')", False),
        ("dist.init_process_group('gloo', world_size=int(os.environ['WORLD_SIZE']))", False),
        ("local = int(os.environ.get('LOCAL_RANK', 0)); dist.init_process_group('gloo')", False),
        ("if int(os.environ.get('WORLD_SIZE', '1')) > 1: dist.init_process_group('gloo')", True),
        ("if 'RANK' in os.environ: dist.init_process_group('gloo')", True),
        ("if os.getenv('RANK'): dist.init_process_group('gloo')", True),
        ("if dist.is_torchelastic_launched(): dist.init_process_group('gloo')", True),
        ("import accelerate", True),
        ("import beside", True),
        ("import package", False),
    ],
)
def test_whether_it_asks_for_other_ranks_decides_how_it_runs_alone(tmp_path: Path, text: str, alone: bool) -> None:
    """In it, or in a module beside it."""
    script(tmp_path, "import os\nif 'WORLD_SIZE' not in os.environ: pass", "beside.py")
    (tmp_path / "package").mkdir()
    for name in ("__init__.py", "template.py"):
        script(tmp_path / "package", "{{" if name[0] == "t" else "", name)
    path = script(tmp_path, f"import os\nimport torch.distributed as dist\n{text}")

    assert alone == recognise(path, ()).trains_alone


def test_of_several_trainers_it_is_the_one_that_the_arguments_name() -> None:
    """One script may have several, by argument."""
    path = FOLDER / "trees.py"

    assert "ray-lightgbm" == recognise(path, (*WORKERS, "--booster", "lightgbm")).kind
    assert "ray-xgboost" == recognise(path, (*WORKERS, "--booster", "xgboost")).kind
    assert "ray-lightgbm" == recognise(path, WORKERS, "ray-lightgbm").kind


def test_neighbours_that_it_imports_are_read(tmp_path: Path) -> None:
    """The trainer may be in another file of its folder; two that import each other end, too."""
    script(tmp_path, "import train\nfrom ray.train.torch import TorchTrainer", "mine.py")

    path = script(tmp_path, "from mine import main")

    assert "ray-torch" == recognise(path, WORKERS).kind


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("from lib import load", {"lib/__init__.py", "lib/data.py", "lib/deep/more.py", "lib/old.py"}),
        ("import lib.data", {"lib/__init__.py", "lib/data.py", "lib/deep/more.py", "lib/old.py"}),
        ("import plain.data", {"plain/data.py", "plain/util.py"}),
        ("'a/b {}'.format(1)\nx = '" + "y" * 300 + "'.strip()", set()),
    ],
)
def test_packages_beside_it_belong_to_it(tmp_path: Path, text: str, files: set[str]) -> None:
    """A package with all its modules, since it may load any, also those that this Python can't read; relative imports
    lead to more. Not what is no import."""
    for name, content in {
        "lib/__init__.py": "from .data import load",
        "lib/data.py": "def load(): pass",
        "lib/deep/more.py": "",
        "lib/old.py": "print 'of Python 2'",
        "plain/data.py": "from .util import x\nfrom ..far import y",
        "plain/util.py": "import torch.distributed",
        "other/__init__.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    found = recognise(script(tmp_path, text), WORKERS)

    assert files | {"train.py"} == {path.relative_to(tmp_path).as_posix() for path in found.files}
    assert ("plain/util.py" in files) == found.uses("torch.distributed")


def test_the_user_has_the_last_word(wording: Wording, tmp_path: Path) -> None:
    """A kind that is given goes before what was recognised; one that there is not is refused with those there are."""
    path = script(tmp_path, "import torch")

    assert "torchrun" == recognise(path, (), "torchrun").kind
    with pytest.raises(ScriptError, match=r"'mpi'.* auto, ray-torch, torchrun") as refused:  # not prose: a pattern
        recognise(path, (), "mpi")
    wording("script", str(refused.value))


@pytest.mark.parametrize("kind", ["ray-torch", "ray-tensorflow", "ray-xgboost", "ray-lightgbm", "ray-rllib", "other"])
def test_a_number_of_workers_that_reaches_nobody_is_refused(wording: Wording, tmp_path: Path, kind: str) -> None:
    """All arms would be the same; torchrun and TF_CONFIG tell the ranks themselves."""
    path = script(tmp_path, "import ray")

    with pytest.raises(ScriptError, match=r"\{workers\}") as refused:
        recognise(path, ("--epochs", "1"), kind)
    wording("script", str(refused.value))
    for other in ("torchrun", "tf-config"):
        recognise(path, ("--epochs", "1"), other)


@pytest.mark.parametrize(
    ("text", "trainer", "shown"),
    [
        ("import xgboost", "xgboost", ["examples/trees.py"]),
        ("from lightgbm import train", "lightgbm", ["examples/trees.py"]),
        ("import torch, xgboost as xgb", "xgboost", ["examples/trees.py"]),
        ("from keras.models import Sequential", "tensorflow", ["examples/keras_tf_config.py"]),
        ("from tensorflow.keras import layers", "tensorflow", ["examples/keras_tf_config.py"]),
        ("import tf_keras", "tensorflow", ["examples/keras_tf_config.py"]),
        ("import torch, gymnasium", "torch", ["examples/torch_ray.py", "examples/torch_ddp.py"]),
        ("import gymnasium", "tasks", []),
        ("from sklearn.linear_model import SGDClassifier", "tasks", []),
        ("import numpy", "tasks", []),
    ],
)
def test_a_script_of_one_process_is_plain(tmp_path: Path, text: str, trainer: str, shown: list[str]) -> None:
    """It has what Ray starts for its framework, and what one writes for that; an example that it names is there."""
    found = recognise(script(tmp_path, text), ("--epochs", "2"))

    assert ("plain", trainer) == (found.kind, ray_start.trainer_of(found))
    assert shown == re.findall(r"examples/[\w.-]+\.py", ray_start.PORTS[trainer])
    for name in shown:
        assert "other" != recognise(PROJECT / name, WORKERS).kind


def test_what_takes_a_number_of_workers_or_starts_ray_is_not_plain(tmp_path: Path) -> None:
    """It is distributed somehow; and a trial of a search is one process, whatever the script is."""
    path = script(tmp_path, "import xgboost")

    assert ("other", "plain", "plain") == (
        recognise(path, WORKERS).kind,
        recognise(path, (), "plain").kind,
        recognise(path, (), "other").kind,
    )
    assert "other" == recognise(path, (), takes=Takes(one_process=True)).kind
    with pytest.raises(ScriptError, match=r"\{workers\}"):
        recognise(script(tmp_path, "import ray, xgboost"), ())


def test_a_plain_script_is_measured_alone_and_beside_a_start_of_ray(wording: Wording, tmp_path: Path) -> None:
    """Its workers import what the trainer is for, and the Python before them all that the script imports at once."""
    path = script(tmp_path, "import numpy, torch\nfrom sklearn.svm import SVC\n")
    arms = {arm.arm: arm for arm in commands.commands(recognise(path, ()), "python", commands.Sizes(workers=2), {})}
    start = [str(commands.RANKS / "ray_alone.py"), "2", "1", "torch"]
    modules = ["--frameworks", "torch", "--imports", "numpy", "sklearn", "torch"]

    assert {"native", "ray"} == {name for name, arm in arms.items() if arm.absent}
    wording("script", arms["ray"].absent)
    assert ("python", str(path)) == arms["baseline"].command == arms["wide"].command
    assert ("python", *start, *modules) == arms["raystart"].command
    assert (1, 2, 2) == tuple(arms[name].cpus for name in ("baseline", "wide", "raystart"))
    assert "raystart" not in {arm.arm for arm in commands.commands(recognise(path, (), "torchrun"), "python",
                                                                   commands.Sizes(workers=2), {})}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        pytest.param("train.py", "ScalingConfig(num_workers=2)", r"line 1: num_workers=2", id="a number"),
        pytest.param("train.py", "\nScalingConfig(num_workers=4)", r"line 2: num_workers=4", id="line 2"),
        pytest.param("train.py", "ScalingConfig(num_workers=n, use_gpu=True)", r"line 1: use_gpu", id="a GPU"),
        pytest.param("train.py", "def broken(:", r"train\.py", id="no Python"),
        pytest.param("train.py", "\0", r"train\.py", id="a null byte"),
        # Python would run its JSON as an expression, and end well.
        pytest.param("my notes.ipynb", '{"cells": []}', r"jupyter nbconvert", id="a notebook"),
    ],
)
def test_what_can_not_work_is_refused(wording: Wording, tmp_path: Path, name: str, text: str, message: str) -> None:
    """With its line, where it has one, and before a minute is spent."""
    with pytest.raises(ScriptError, match=message) as refused:
        recognise(script(tmp_path, text, name), WORKERS)
    if message != r"train\.py":  # else Python's own words, of each version
        wording("script", str(refused.value))


def test_what_may_work_is_not_refused(tmp_path: Path) -> None:
    """A number or a GPU that is decided when it runs."""
    text = "ScalingConfig(num_workers=args.n, use_gpu=torch.cuda.is_available())\nScalingConfig(use_gpu=False)"

    recognise(script(tmp_path, text), WORKERS)


def test_a_file_that_is_not_there(wording: Wording, tmp_path: Path) -> None:
    """The message has what is there instead."""
    script(tmp_path, "", "training.py")

    with pytest.raises(ScriptError, match=r"training\.py") as no_file:
        recognise(tmp_path / "train.py", ())
    with pytest.raises(ScriptError) as folder:
        recognise(tmp_path, ())
    wording("script", str(no_file.value), "no file")
    wording("script", str(folder.value), "a folder")


def test_where_every_run_is_one_process_no_number_of_workers_is_needed(wording: Wording, tmp_path: Path) -> None:
    """Of a script that starts none by itself; others need it still, and names are known that are replaced."""
    path, takes = script(tmp_path, "import argparse"), Takes(placeholders=("lr",), one_process=True)
    with pytest.raises(ScriptError, match=r"\{worker\}.*\{workers\}, \{seed\}") as refused:
        recognise(path, ("{worker}",))
    wording("script", str(refused.value), "a placeholder")

    assert "other" == recognise(path, ("{lr}", "{epochs}"), takes=takes).kind
    with pytest.raises(ScriptError) as refused:
        recognise(path, ("{rate}",), takes=takes)
    assert "placeholder" == refused.value.about
    for text in ("import ray", "from ray.train.torch import TorchTrainer", SPAWNS + "mp.spawn(main)"):
        with pytest.raises(ScriptError) as refused:
            recognise(script(tmp_path, text), ("{lr}",), takes=takes)
        assert "arguments" == refused.value.about
        wording("script", str(refused.value))
        recognise(script(tmp_path, text), ("{lr}", "{workers}"), takes=takes)


def test_ranks_that_a_script_starts_are_of_an_argument(tmp_path: Path) -> None:
    """One process alone is the script with one of them, without torchrun; native is the script as it is."""
    path = script(tmp_path, SPAWNS + "mp.spawn(main)\n")
    found = recognise(path, ("--gpus", "{workers}"))
    arms = {arm.arm: arm for arm in commands.commands(found, "python", commands.Sizes(workers=3), {})}

    assert ("python", str(path), "--gpus", "1") == arms["baseline"].command == arms["wide"].command
    assert ("python", str(path), "--gpus", "3") == arms["native"].command
    assert (3, 3) == (arms["native"].ranks, arms["native"].cpus)
    assert arms["ray"].absent
    with pytest.raises(ScriptError):
        recognise(path, ())
    in_pods = commands.commands(found, "python", commands.Sizes(workers=3, in_pods=True), {})
    assert {"native", "ray"} == {arm.arm for arm in in_pods if arm.absent}
