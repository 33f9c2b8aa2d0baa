"""The plan of a run of a search: all that its driver and starters of trials have to know. Standard library only."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from training.contract.arms import RAY
from training.contract.codec import decode, encode, write_whole
from training.workloads.search.recipe import SearchRecipe

NAME = "plan.json"
TRIALS = "trials"
"""Folder of the trials, in the run's own: one each, by number."""
PORT = "{port}"
"""Placeholder of a port at which the ranks of a trial meet, or its one rank meets itself."""

STORES = "ray-worth-it/search-"
"""Beginning of the keys of every search in Ray's own store."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run of a search in one arm."""

    arm: str
    slots: int
    """Trials at a time."""
    threads: int
    """CPUs of a trial, or of each of its workers."""
    folder: str
    """Folder of the run."""
    script_folder: str
    """Folder in which each trial is started."""
    command: list[str]
    """Command of a trial, with the placeholders of the space, {storage} and {port}."""
    variables: dict[str, str]
    """Environment of a trial, without secret variables and what each trial has of its own."""
    recipe: dict[str, Any]
    """Recipe of the run, with camelCase keys."""
    configurations: list[dict[str, Any]] | None
    """Configurations of all trials, in order; None where an algorithm chooses each by the results before it."""
    in_pods: bool = False
    """True if trials run in pods, whose environment is what their specification says."""
    member: int = 0
    """Number of this pod, where Optuna's processes are pods of their own."""
    meeting: str = ""
    """`host:port` at which the first of those pods has the study for the others; "" if there is one pod, or none."""
    store: str = ""
    """Beginning of the keys by which trials bring their records through Ray's own store; "" if Ray's workers are on
    this machine."""
    package: str = ""
    """File with the script's package, for Ray's workers in other pods; "" if there are none."""

    @property
    def settings(self) -> SearchRecipe:
        """Return the recipe, typed."""
        return SearchRecipe.from_dict(self.recipe)

    def trial_folder(self, number: int) -> Path:
        """Return the folder of a trial."""
        return Path(self.folder) / TRIALS / f"{number}"

    @property
    def trials_made(self) -> int:
        """Return the number of trials of the run, once it has ended: with pbt as many as the epochs allowed."""
        recipe, folder = self.settings, Path(self.folder) / TRIALS
        if not recipe.is_population or not folder.is_dir():
            return recipe.search_trials
        return max(recipe.search_trials if self.arm == RAY.name else 0, len(list(folder.iterdir())))

    def write(self) -> Path:
        """Write the plan into the run's folder; return its path."""
        path = Path(self.folder) / NAME
        write_whole(path, json.dumps(encode(self)))
        return path


def read(path: Path) -> Plan:
    """Return the plan in a file that `write` wrote."""
    return cast("Plan", decode(Plan, json.loads(path.read_text(encoding="utf-8")), NAME))
