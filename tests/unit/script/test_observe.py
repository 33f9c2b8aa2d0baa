"""The observer in a process of its own: it loads everywhere, on the standard library alone, and hurts no script."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.limits import LONGEST_SECONDS
from training.workloads.script.environment import SITE

OBSERVER = sorted(SITE.parent.rglob("*.py"))
RANKS = sorted((SITE.parents[1] / "ranks").glob("*.py"))
TORCH = {
    "torch/__init__.py": "import torch.optim.optimizer\nget_num_threads = lambda: 3\n",
    "torch/optim/__init__.py": "",
    "torch/optim/optimizer.py": (
        "hooks = []\nregister_optimizer_step_post_hook = hooks.append\n"
        "class Optimizer:\n    param_groups = []\n    def step(self):\n        [hook(self, (), {}) for hook in hooks]\n"
    ),
}
"""What the observer asks of PyTorch, and no more."""


def run(folder: Path, text: str, python: str = sys.executable, **variables: str) -> subprocess.CompletedProcess[str]:
    """A script in `folder`, observed into `folder/out`."""
    (folder / "out").mkdir(exist_ok=True)
    (folder / "train.py").write_text(text, encoding="utf-8")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(SITE),
        "TRAINING_OBSERVE": str(folder / "out"),
    } | variables
    return subprocess.run(
        [python, "train.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )


def with_torch(folder: Path, more: Mapping[str, str] | None = None) -> Path:
    """`folder` with a stand-in for PyTorch, whose optimizer calls what was registered, and with other modules."""
    for name, text in {**TORCH, **(more or {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def written(folder: Path) -> list[dict[str, Any]]:
    """Return what was written of each rank."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in (folder / "out").glob("rank-*.json")]


@pytest.mark.parametrize("path", [*OBSERVER, *RANKS], ids=lambda path: path.name)
def test_it_is_python_3_9(path: Path) -> None:
    """What is loaded into the user's Python has no newer syntax, and imports the standard library or a neighbour; the
    commands of ranks import what they start, too.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
    absolute = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
    absolute |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}

    beside = {"ray", "variables", "xgboost"} if path in RANKS else set()
    assert not {name for name in absolute if name and name.partition(".")[0] not in {*sys.stdlib_module_names, *beside}}
    names_ray = any(name and name.startswith("ray") for name in absolute)
    assert path.name in ("under_ray.py", "ray_alone.py") or not names_ray


def test_it_loads_in_the_oldest_python(tmp_path: Path, oldest_python: str) -> None:
    """Users' scripts run in it."""
    done = run(with_torch(tmp_path), "import torch\ntorch.optim.optimizer.Optimizer().step()", oldest_python)

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert 1 == len(list((tmp_path / "out").glob("rank-*.json")))


def test_every_rank_ends_after_the_steps_that_are_wanted(tmp_path: Path) -> None:
    """`finally` blocks run, the exit code is 0, and nothing is printed."""
    text = (
        "import torch\no = torch.optim.optimizer.Optimizer()\ntry:\n    while True: o.step()\nfinally: print('finally')"
    )
    done = run(with_torch(tmp_path), text, TRAINING_OBSERVE_STEPS="5")
    (seen,) = written(tmp_path)

    assert (0, "finally\n", "") == (done.returncode, done.stdout, done.stderr)
    assert (0, 5) == (seen["rank"], len(seen["stepEnds"]))
    assert (3, True) == (seen["threads"], seen["endedEarly"])


def test_a_script_with_fewer_steps_is_seen_to_its_end(tmp_path: Path) -> None:
    """Without the word that it was ended; a child that was forked and trains is a rank of its own."""
    text = (
        "import torch, multiprocessing as mp\no = torch.optim.optimizer.Optimizer()\no.step()\n"
        "def child():\n    o.step(); o.step()\np = mp.get_context('fork').Process(target=child)\np.start(); p.join()\n"
    )
    run(with_torch(tmp_path), text)

    assert [1, 2] == sorted(len(one["stepEnds"]) for one in written(tmp_path))
    assert not any(one["endedEarly"] for one in written(tmp_path))


def test_the_first_optimizer_is_the_clock(tmp_path: Path) -> None:
    """A second one, as in adversarial training, makes no second step."""
    text = (
        "import torch\na, b = [torch.optim.optimizer.Optimizer() for _ in 'ab']\nfor _ in range(3): a.step(); b.step()"
    )
    run(with_torch(tmp_path), text)

    assert [3] == [len(one["stepEnds"]) for one in written(tmp_path)]


def test_the_environments_own_sitecustomize_is_called(tmp_path: Path) -> None:
    """Which ours stands before."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('own', __name__)", encoding="utf-8")
    done = run(tmp_path, "import sitecustomize; print(sitecustomize.__file__)", PYTHONPATH=f"{SITE}{os.pathsep}{own}")

    assert f"own sitecustomize\n{own}/sitecustomize.py\n" == done.stdout


def test_the_scripts_modules_are_its_own(tmp_path: Path) -> None:
    """Nothing of this project is on its path: modules named as ours are found where the script has them."""
    for name in ("training", "cli", "state", "hooks"):
        (tmp_path / f"{name}.py").write_text(f"print('mine {name}')", encoding="utf-8")
    done = run(tmp_path, "import training, cli, state, hooks")

    assert [f"mine {name}" for name in ("training", "cli", "state", "hooks")] == done.stdout.splitlines()


def test_a_framework_that_nobody_tried_trains_unobserved(tmp_path: Path) -> None:
    """Whatever it lacks or whatever breaks in a hook, the script runs to its end."""
    with_torch(tmp_path)
    (tmp_path / "torch/optim/optimizer.py").write_text(
        "def register_optimizer_step_post_hook(f): raise RuntimeError('no')\n"
    )
    done = run(tmp_path, "import torch; print('trained')", TRAINING_OBSERVE_STEPS="5")

    assert (0, "trained\n", "") == (done.returncode, done.stdout, done.stderr)


def test_a_script_whose_warnings_are_errors_gets_none(tmp_path: Path) -> None:
    """Nothing of the observer warns, nor leaves a file that Python warns of at the end."""
    text = "import torch\ntorch.optim.optimizer.Optimizer().step()\nprint('trained')"
    done = run(with_torch(tmp_path), text, PYTHONWARNINGS="error", TRAINING_OBSERVE_HANG_SECONDS="60", RANK="first")

    assert (0, "trained\n", "") == (done.returncode, done.stdout, done.stderr)
    assert 1 == len(list((tmp_path / "out").glob("rank-0-*.json")))


def test_a_step_that_cannot_be_observed_is_said_in_the_log(tmp_path: Path) -> None:
    """There is no observation then, and the script goes on."""
    text = "import torch\no = torch.optim.optimizer.Optimizer()\no.param_groups = None\no.step()\no.step()\n"
    done = run(with_torch(tmp_path), text + "print('trained')")

    assert (0, "trained\n") == (done.returncode, done.stdout)
    assert 1 == done.stderr.count("observer: ")
    assert 1 == done.stderr.count("TypeError")


def test_a_process_that_is_not_observed_is_left_alone(tmp_path: Path) -> None:
    """Without a folder to write into, nothing waits for any import."""
    done = run(tmp_path, "import sys; print([type(finder).__name__ for finder in sys.meta_path])", TRAINING_OBSERVE="")
    plain = subprocess.run(
        [sys.executable, "-c", "print()"], env={"PYTHONPATH": str(SITE)}, capture_output=True, check=True
    )

    assert b"" == plain.stderr
    assert done.returncode == 0
