"""What a recipe asks for, found out: the script as it was recognised, its environment, the command of each arm."""

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.contract.arms import TUNED
from training.contract.provenance import PROJECT
from training.workloads.script import commands, source, their_python
from training.workloads.script.commands import ArmCommand, Sizes
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import Script, ScriptError, recognise

HERE = Path(__file__).resolve().parent
IMPORTS = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        print(f"{name} was not imported before the first run: {error!r}")
"""
SHOWN_VALUES = {"storage": "{storage}"}
"""What stands for a folder that each run has of its own."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A script that can be run."""

    recipe: ScriptRecipe
    script: Script
    python: str
    versions: Mapping[str, str]
    """Of Python, and of the packages of its environment."""

    @property
    def inputs(self) -> dict[str, Any]:
        """What decides beside the recipe what runs of it do: its files, its environment, what observes it."""
        folder = path_of(self.recipe.script_folder) if self.recipe.script_folder else None
        return {
            "script": self.script.path.name,
            "kind": self.script.kind,
            "files": source.digest(self.script, folder),
            "versions": dict(self.versions),
            "observer": observer_hash(),
        }

    def arms(self, values: Mapping[str, str], master_port: int = Sizes.master_port) -> dict[str, ArmCommand]:
        """Every arm that a script can have, by name; `values` replace {storage}."""
        sizes = Sizes(workers=self.recipe.workers, worker_cpus=int(self.recipe.worker_cpus), master_port=master_port)
        known = {"seed": str(self.recipe.seed), "epochs": str(self.recipe.epochs), **values}
        found = commands.commands(self.script, self.python, sizes, known, "ray" in self.versions)
        return {each.arm: each for each in found}


def asked(recipe: ScriptRecipe) -> Asked:
    """Raises ScriptError and PythonError, each with what to do."""
    if not recipe.script:
        raise ScriptError("script", "no script is named: it is the file that trains, as ../mine/train.py")
    python = interpreter(recipe.python)
    script = recognise(path_of(recipe.script), tuple(shlex.split(recipe.script_arguments)), recipe.script_kind)
    return Asked(recipe=recipe, script=script, python=python, versions=their_python.checked(python, script))


def path_of(text: str) -> Path:
    """Relative to the project's folder. Not resolved: an environment's Python is a link to one that is of none."""
    return Path(os.path.normpath(PROJECT / Path(text).expanduser()))


def interpreter(text: str) -> str:
    """Of the script's environment; without one, the project's own."""
    return str(path_of(text)) if "/" in text else text or sys.executable


def inputs(recipe: ScriptRecipe) -> dict[str, Any]:
    """As `Asked.inputs`."""
    return asked(recipe).inputs


def observer_hash() -> str:
    """Of what is loaded into the script's processes, and of the launchers in its own Python."""
    files = [path for part in ("observe", "ranks") for path in (HERE / part).rglob("*.py")]
    return source.hash_of((str(path.relative_to(HERE)), path) for path in files)


def warm_up(recipe: ScriptRecipe) -> list[str]:
    """Imports the frameworks that the script imports, and Ray Train, once, with its own Python."""
    found = asked(recipe)
    return [found.python, "-c", IMPORTS, *found.script.frameworks, "ray.train"]


def why_not(recipe: ScriptRecipe, arm: str) -> str:
    """Why there is no such arm of it; "": there is."""
    if arm == TUNED.name:
        return "what is tuned is this project's own use of Ray, and a script has one of its own"
    return asked(recipe).arms(SHOWN_VALUES)[arm].absent


def shown(recipe: ScriptRecipe, arm: str) -> str:
    """The whole command of an arm, for a review before anything is run."""
    found = asked(recipe)
    return f"cd {shlex.quote(str(commands.folder(found.script)))} && {found.arms(SHOWN_VALUES)[arm]}"
