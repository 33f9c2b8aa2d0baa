"""Made-up trials and runs of a search."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from training.contract.provenance import Host
from training.contract.result import Software, TrainingResult
from training.launch.foreign_command import End
from training.workloads.script.recognise import Script
from training.workloads.script.resolve import ResolvedScript
from training.workloads.search import summary
from training.workloads.search.brought import Brought
from training.workloads.search.detail import Trial
from training.workloads.search.plan import Plan
from training.workloads.search.recipe import SearchRecipe

RECIPE = SearchRecipe(
    script="train.py",
    script_arguments="--lr {lr} --epochs {epochs}",
    search_space='{"lr": {"log": [0.001, 0.1]}}',
    search_trials=4,
    metric="accuracy",
    epochs=3,
)
HOST = Host(cpu_model="a CPU", cpus_allowed=2, memory_bytes=2**34)


def trial(number: int, began: float, ended: float, **more: Any) -> Trial:
    """A trial that finished, of three epochs, with a metric of its own."""
    finished = Trial(
        number=number, config={"lr": 0.001 * (number + 1)}, state="finished", began=began, ended=ended, epochs=3,
        points=[[ended - began, 0.5 + 0.1 * number]], metric=0.5 + 0.1 * number, weights=f"{number:064x}", exit_code=0,
    )  # fmt: skip
    return replace(finished, **more)


def failed(number: int, began: float, ended: float) -> Trial:
    """A trial that raised in its first epoch."""
    nothing: dict[str, Any] = {"epochs": 0, "points": [], "metric": None, "weights": None}
    return trial(number, began, ended, state="failed", exit_code=1, why="it raised", **nothing)


ALONE = [trial(0, 10, 12), trial(1, 12.5, 14), trial(2, 14, 18), trial(3, 18, 20)]
TOGETHER = [trial(0, 10, 12), trial(1, 10, 14), trial(2, 13, 15), trial(3, 14, 20)]


def brought_of(trial: Trial, pod: str | None = None) -> Brought:
    """The trial as it is brought, unobserved."""
    return Brought(trial=trial, seen=[], node="node", pod=pod, cpu_model="a CPU")


def ended(arm: str, trials: Sequence[Trial], recipe: SearchRecipe = RECIPE) -> summary.EndedSearch:
    """A run that began at second 5 and ended at 21."""
    slots = 1 if arm in ("baseline", "wide") else recipe.workers
    plan = Plan(
        arm=arm, slots=slots, threads=recipe.workers if arm == "wide" else 1, folder="/absent", script_folder="/mine",
        command=["python", "train.py"], variables={}, recipe=recipe.to_dict(), configurations=None,
    )  # fmt: skip
    script = Script(path=Path("train.py"), kind="other", modules=frozenset(), arguments=())
    resolved = ResolvedScript(recipe=recipe, script=script, python="python", versions={"python": "3.11"})
    return summary.EndedSearch(
        resolved=resolved, plan=plan, command="python train.py",
        end=End(code=0, began=5, ended=21, left=0, processes=3), trials=trials, host=HOST, throttled_seconds=None,
        brought={each.number: brought_of(each) for each in trials},
    )  # fmt: skip


def result(arm: str, trials: Sequence[Trial], recipe: SearchRecipe = RECIPE) -> TrainingResult:
    """What came of it, without hashes of files."""
    run = ended(arm, trials, recipe)
    run.__dict__["software"] = Software(code_hash="c", versions={}, platform="p", kernel="k", environment={})
    return summary.result(run)
