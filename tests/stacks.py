"""The stack files: of places, of data in a bucket, and of the examples with the environment that some of them need."""

import os
from functools import cache
from pathlib import Path

import pytest
import yaml

from training.workloads.script import python_environment, resolve
from training.workloads.script.recipe import ScriptRecipe

ROOT = Path(__file__).resolve().parents[1]
OWN_PYTHON = "examples/.venv/bin/python"
_OWN = str(ROOT / OWN_PYTHON) if (ROOT / OWN_PYTHON).exists() else ""
TORCH = os.environ.get("TRY_PYTHON") or _OWN
"""The interpreter of an environment with PyTorch and Ray; "" where none is at hand."""
KERAS_TORCH = TORCH if TORCH and any(Path(TORCH).parents[1].glob("lib/python*/site-packages/keras")) else ""
"""The same where it has Keras 3, too."""
TREES = os.environ.get("TRY_TREES_PYTHON") or _OWN
"""That of one with XGBoost, LightGBM, pandas, pyarrow and Ray."""
RLLIB = os.environ.get("TRY_RLLIB_PYTHON") or _OWN
"""That of one with RLlib and PyTorch."""
_OTHERS = {"trees": TREES, "reinforcement": RLLIB}
"""By stack, where that is not TORCH."""


def given(stack: str) -> dict[str, str]:
    """The settings of a stack's file, by key."""
    return {key.rpartition(":")[2]: value for key, value in _config(stack).items()}


@cache
def _config(stack: str) -> dict[str, str]:
    text = (ROOT / f"stacks/Pulumi.{stack}.yaml").read_text(encoding="utf-8")
    config: dict[str, str] = yaml.safe_load(text)["config"]
    return config


STACKS = sorted(path.stem.removeprefix("Pulumi.") for path in (ROOT / "stacks").glob("Pulumi.*.yaml"))
OF_EXAMPLES = [stack for stack in STACKS if "script" in given(stack)]
OF_BUCKETS = [stack for stack in STACKS if "datasetPath" in given(stack)]
OF_PLACES = [stack for stack in STACKS if stack not in (*OF_EXAMPLES, *OF_BUCKETS)]
ON_KUBERNETES = [stack for stack in OF_PLACES if given(stack)["target"] not in ("local", "ray")]


def environment_of(stack: str) -> dict[str, str]:
    """The key `python` of an example whose file names one, with an environment that is at hand; else skips the test."""
    settings = given(stack)
    if "python" not in settings:
        return {}
    own = {key: settings[key] for key in ("script", "scriptArguments")}
    python = _OTHERS.get(stack, TORCH)
    try:
        resolve.resolve(ScriptRecipe.from_dict(own | {"python": python or OWN_PYTHON}))
    except python_environment.PythonError as error:
        pytest.skip(f"{error.why}; TRY_PYTHON, TRY_TREES_PYTHON and TRY_RLLIB_PYTHON name no other")
    return {"python": python}
