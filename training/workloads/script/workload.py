"""A user's own script as a workload. Standard library only."""

from collections.abc import Mapping
from typing import Any

from training.contract.workload import Target, Workload
from training.workloads.script import ray_start, resolve, same_work
from training.workloads.script.detail import ScriptDetail
from training.workloads.script.recipe import ScriptRecipe


def words(recipe: Mapping[str, Any]) -> str:
    """Return the script's name and arguments, as `train.py --epochs 1`; only {epochs} is replaced, because other
    placeholders differ between arms and runs."""
    arguments = recipe["scriptArguments"].replace("{epochs}", str(recipe["epochs"]))
    return f"{recipe['script'].rpartition('/')[2]} {arguments}".strip()


def remarks(recipe: ScriptRecipe) -> Mapping[str, str]:
    """Return a remark if the script was not trained to its end; {} if it was."""
    if not recipe.measure_steps:
        return {}
    steps = recipe.measure_steps
    return {
        "measureSteps": f"Each rank was ended after {steps} steps, so nothing is known of what the training reaches"
    }


def target(recipe: ScriptRecipe) -> Target | None:
    """Return the target that the metric keys of the recipe name; None without a metric, or for a training that is ended
    early, whose metric does not count."""
    if not recipe.metric or recipe.measure_steps:
        return None
    return Target(
        name=recipe.metric,
        better="higher" if recipe.metric_mode == "max" else "lower",
        value=recipe.metric_target,
        tolerance=recipe.metric_tolerance,
    )


WORKLOAD = Workload(
    name="script",
    framework="the framework",
    ray="as the script uses it",
    recipe=ScriptRecipe,
    launcher="training.workloads.script.launch",
    detail=ScriptDetail,
    unit="rows",
    words=words,
    scores=(),
    remarks=remarks,
    binds_ranks=False,
    files=resolve.files,
    by_path=(
        "training/workloads/script/observe",
        "training/workloads/script/ranks",
        "training/workloads/script/spread",
    ),
    inputs=resolve.inputs,
    modules=resolve.modules,
    why_not=resolve.why_not,
    command=resolve.shown,
    prepare=resolve.prepare,
    warm_up=resolve.warm_up,
    ports=ray_start.PORTS,
    target=target,
    work_checks=("rowsDisjoint", "weightsEqual"),
    same_work=same_work.of_results,
)
