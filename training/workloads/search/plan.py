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
"""Name of the folder of the trials, in the run's folder; each trial has a folder in it, named by its number."""
PORT = "{port}"
"""Placeholder for a port at which the ranks of a trial meet (even if the trial has a single rank)."""

STORES = "ray-worth-it/search-"
"""Beginning of the keys that any search has in Ray's own key-value store."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a run of a search in one arm."""

    arm: str
    slots: int
    """Number of trials that run at the same time."""
    threads: int
    """Number of CPUs of a trial, or of each worker of the trial."""
    folder: str
    """Folder of the run."""
    script_folder: str
    """Folder in which each trial is started."""
    command: list[str]
    """Command of a trial, with placeholders: the names of the search space, {storage} and {port}."""
    variables: dict[str, str]
    """Environment of a trial, without secret variables and without what differs between trials."""
    recipe: dict[str, Any]
    """Recipe of the run, with camelCase keys."""
    configurations: list[dict[str, Any]] | None
    """Configurations of all trials, in order; None where an algorithm chooses each one by earlier results."""
    in_pods: bool = False
    """True if trials run in pods, whose specification says what their environment is."""
    member: int = 0
    """Number of this pod, where each process of Optuna has a pod of its own."""
    meeting: str = ""
    """`host:port` at which the first of those pods serves the study to the others; "" without several pods."""
    store: str = ""
    """Beginning of the keys under which trials store their records in Ray's own key-value store; "" if Ray's workers
    are on this machine."""
    package: str = ""
    """File with the script's package, for Ray's workers in other pods; "" if there are no such workers."""

    @property
    def settings(self) -> SearchRecipe:
        """Return the recipe as a SearchRecipe."""
        return SearchRecipe.from_dict(self.recipe)

    def trial_folder(self, number: int) -> Path:
        """Return the folder of a trial."""
        return Path(self.folder) / TRIALS / f"{number}"

    @property
    def trials_made(self) -> int:
        """Return how many trials an ended run has made; with pbt, as many as the allowed epochs made possible."""
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
    """Return the plan in a file that `Plan.write` wrote."""
    return cast("Plan", decode(Plan, json.loads(path.read_text(encoding="utf-8")), NAME))
