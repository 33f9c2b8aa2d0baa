"""Tells how far a search is: a line of progress for each trial that has ended."""

from pathlib import Path

from training.contract.progress import Progress
from training.workloads.search.detail import RECORD, Trial
from training.workloads.search.plan import TRIALS, Plan


def tell(plan: Plan, trial: Trial, ended: int | None = None) -> None:
    """Write that a trial has ended, beside the run's result.

    `ended`: trials that have ended, this one too; without it, those with a record in the run's folder.
    """
    recipe, folder = plan.settings, Path(plan.folder)
    is_fixed = not recipe.is_population or plan.arm == "ray"
    ended = ended or sum(1 for _ in (folder / TRIALS).glob(f"*/{RECORD}"))
    Progress(folder).write(
        "trial", trial=trial.number, ended=ended, trials=recipe.search_trials if is_fixed else None,
        state=trial.state, metric=recipe.metric, value=trial.metric,
    )  # fmt: skip
