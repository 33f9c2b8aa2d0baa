"""How a trial of each arm is started: as one arm of the script is. Standard library only."""

from dataclasses import replace

from training.contract.arms import ARMS
from training.workloads.search.recipe import SearchRecipe


def of_trial(recipe: SearchRecipe, arm: str) -> tuple[SearchRecipe, str]:
    """Return the recipe and the arm of the script by which a trial is started in an arm of a search.

    A trial of several workers is the script with Ray in the arm `ray`, and as its framework distributes it elsewhere.
    """
    own = ARMS[arm]
    if recipe.trial_workers == 1:
        return recipe, "wide" if own.all_cpus and recipe.workers > 1 else "baseline"
    cpus = recipe.worker_cpus * (recipe.workers if own.all_cpus else 1)
    of_one = replace(recipe, workers=recipe.trial_workers, worker_cpus=cpus)
    return of_one, "ray" if own.start == "ray" else "native"
