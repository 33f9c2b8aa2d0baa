"""A search over the arguments of a user's own script, as a workload. Standard library only."""

from collections.abc import Mapping
from typing import Any

from training.contract.workload import Workload
from training.workloads.script import resolve
from training.workloads.script import workload as script
from training.workloads.search import same_work
from training.workloads.search.detail import SearchDetail
from training.workloads.search.recipe import SearchRecipe


def words(recipe: Mapping[str, Any]) -> str:
    """Return what is searched: `train.py --epochs 4 --lr {lr}`."""
    return f"search over {script.words(recipe)}"


WORKLOAD = Workload(
    name="search",
    framework="Optuna",
    recipe=SearchRecipe,
    launcher="training.workloads.search.launch",
    detail=SearchDetail,
    unit="trials",
    words=words,
    scores=(),
    packages=("optuna",),
    binds_ranks=False,
    by_path=("training/workloads/script/observe",),
    inputs=resolve.inputs,
    modules=resolve.modules,
    command=resolve.shown,
    warm_up=resolve.warm_up,
    target=script.target,
    work_checks=(),
    same_work=same_work.of_results,
    roles={"native": "alternative"},
    titles={
        "baseline": "Optuna, one trial at a time on {cpus}",
        "wide": "Optuna, one trial at a time on {cpus}",
        "native": "Optuna's processes, {workers} at a time",
        "ray": "Ray Tune, {workers} at a time",
    },
    passed="trial",
)
