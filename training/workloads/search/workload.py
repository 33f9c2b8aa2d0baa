"""A search over the arguments of a user's own script, as a workload. Standard library only."""

from collections.abc import Mapping
from typing import Any

from training.contract.workload import Installed, Workload
from training.workloads.script import resolve
from training.workloads.script import workload as script
from training.workloads.search import same_work
from training.workloads.search.detail import SearchDetail
from training.workloads.search.of_trial import of_trial
from training.workloads.search.recipe import SearchRecipe
from training.workloads.search.space import Space
from training.workloads.search.words import CHECKS, ENTRIES, LACKS, ROLES, TITLES

OPTUNA = {"optuna": "optuna>=5,<6", "grpc": "grpcio", "google.protobuf": "protobuf"}
"""Modules of Optuna's searches with the packages that have them; its processes in pods meet by gRPC."""


def words(recipe: Mapping[str, Any]) -> str:
    """Return what is searched: `train.py --epochs 4 --lr {lr}`."""
    return f"search over {script.words(recipe)}"


def shown(recipe: SearchRecipe, arm: str, image: Installed = None) -> str:
    """Return the command of a trial in an arm, for a review before anything is run."""
    return resolve.shown(*of_trial(recipe, arm), image)


def modules(recipe: SearchRecipe) -> Mapping[str, str]:
    """Return what an image of somebody else's has to have: what the script imports at its start, and who searches."""
    return {**resolve.modules(recipe), **OPTUNA}


WORKLOAD = Workload(
    name="search",
    framework="Optuna",
    recipe=SearchRecipe,
    launcher="training.workloads.search.launch",
    detail=SearchDetail,
    unit="trials",
    words=words,
    scores=(),
    searches=True,
    roles=ROLES,
    titles=TITLES,
    passed="trial",
    passing="Ray's search",
    passes_key="searchTrials",
    most_passes=lambda recipe: Space.parse(recipe.search_space).count,
    longer="A search of more trials",
    replica="slot",
    entries=ENTRIES,
    lacks=LACKS,
    checks=CHECKS,
    packages=("optuna",),
    binds_ranks=False,
    files=resolve.files,
    by_path=script.WORKLOAD.by_path,
    inputs=resolve.inputs,
    modules=modules,
    command=shown,
    warm_up=resolve.warm_up,
    target=script.target,
    work_checks=(),
    same_work=same_work.of_results,
)
