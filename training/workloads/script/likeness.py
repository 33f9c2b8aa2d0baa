"""Whether the arms of a repeat did the same work, from their results: what a claim of a script rests on. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from training.contract.result import TrainingResult
from training.workloads.script import facts

ROWS_PER_EPOCH = "rowsPerEpoch"
"""Key of a result's `work`."""
WEAK = (
    "weak scaling: each worker has as many rows a step as one process alone, so N workers take N times as many rows "
    "for each update of the weights; divided by the number of workers, the batch would be that of every arm"
)


@dataclass(frozen=True, kw_only=True)
class _Work:
    ranks: int
    rows_per_step: float | None
    rows_per_epoch: int | None
    weights: str | None
    expected_ranks: int
    threads: tuple[int, ...]
    learning_rates: tuple[tuple[float, float], ...]


def same_work(results: Sequence[TrainingResult]) -> tuple[bool | None, str]:
    """Of one repeat. False: rows of an epoch differ by more than padding. None: it can't be known, or only the steps
    were cut otherwise, and why."""
    several = len({result.arm for result in results}) < len(results)
    names = (f"{each.arm} with {each.recipe['workers']}" if several else each.arm for each in results)
    together = facts.together(dict(zip(names, map(_work, results), strict=True)))
    of_step, of_epoch = together.same_rows_per_step, together.same_rows_per_epoch
    if of_epoch[0] is False:
        return of_epoch
    if together.weak_scaling:
        return None, WEAK
    if of_step[0] is not True:
        return None, of_step[1]
    if together.same_learning_rate[0] is False:
        return None, together.same_learning_rate[1]
    if any(result.amount.known != "counted" for result in results):
        return None, "rows are not counted, but as the script says"
    return (True, "") if of_epoch[0] else of_epoch


def _work(result: TrainingResult) -> _Work:
    rows = result.work.get(ROWS_PER_EPOCH)
    return _Work(
        ranks=result.world_size or len(result.workers),
        rows_per_step=result.amount.per_step,
        rows_per_epoch=None if rows is None else int(rows),
        weights=result.weights,
        expected_ranks=len(result.workers),
        threads=(),  # a check of every workload
        learning_rates=((result.schedule[0], result.schedule[-1]),) if result.schedule else (),
    )
