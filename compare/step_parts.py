"""Where the time of an arm's step goes, over its repeats, and which rank the others wait for. Pure.

The shortest exchange of all ranks in a step is the time of the link; where a rank's takes longer, that rank waits for
slower ones. So no barrier and no common clock is needed.
"""

import statistics
from collections.abc import Sequence

from compare.intervals import corrected, mean_interval
from compare.schema import StepTimes
from compare.value import Missing
from compare.words import enumerated
from training.contract.result import StepParts, TrainingResult

NOT_CLOCKED = "the parts of a step are clocked in scripts of PyTorch"
LEAST_SLOWER = 0.02
"""Share of a step. A rank that works longer by less than this is not named, however certain that is."""
LEAST_TOLD = 0.05
"""Share of a step below which a wait is not reported."""


def step_times(results: Sequence[TrainingResult], confidence: float) -> StepTimes | Missing:
    """Return the times of the parts of a step, over the runs of an arm; `Missing` unless all runs have parts.
    `confidence`: the confidence with which the slowest rank is named."""
    parts = [result.step_parts for result in results if result.step_parts]
    if len(parts) < len(results):
        reasons = (result.reasons.get("stepParts") for result in results)
        return Missing(next((why for why in reasons if why), NOT_CLOCKED))
    by_name = [_with_waiting(each) for each in parts]
    slowest, slower = slowest_rank(parts, confidence)
    return StepTimes(
        parts={
            name: statistics.median(each[name] for each in by_name)
            for name in by_name[0]
            if all(name in each for each in by_name)
        },
        waiting_seconds=[
            statistics.median(each.waiting(rank) or 0.0 for each in parts)
            for rank in range(min(len(each.exchange) for each in parts))
        ],
        slowest_rank=slowest,
        slower_seconds=slower,
        cpu_wait_seconds=_cpu_wait(results),
    )


def waits(times: StepTimes) -> str:
    """Return what a step waits for, as `5 ms for gradients and 4 ms for rank 1`; "" if hardly for anything."""
    step = sum(times.parts.values())
    slower = "slower ranks" if times.slowest_rank is None else f"rank {times.slowest_rank}"
    reasons = {"input": "input", "exchange": "gradients", "waiting": slower}
    seconds = {words: times.parts.get(part, 0.0) for part, words in reasons.items()}
    long = {words: of_it for words, of_it in seconds.items() if of_it >= LEAST_TOLD * step}
    return enumerated([f"{1000 * of_it:.0f} ms for {words}" for words, of_it in long.items()])


def _with_waiting(parts: StepParts) -> dict[str, float]:
    """Return the parts of a step on rank 0. The wait for slower ranks is a part of its own, and `exchange` is the rest
    of the exchange."""
    waiting = parts.waiting(0)
    if parts.link is None or waiting is None:
        return parts.seconds
    return {**parts.seconds, "exchange": parts.link, "waiting": waiting}


def slowest_rank(parts: Sequence[StepParts], confidence: float) -> tuple[int | None, float | None]:
    """Return the rank that certainly works longer than the median of the others, and by how many seconds; None for both
    if there is none.

    Each of `parts` is one observation: a run, since a rank is slow or fast for as long as the run lasts. Blocks of
    steps within a run are no observations, so one run alone shows nothing. The rank is the largest of several, and only
    *slower* is said of it: one end of each rank's interval may err, and all of them together as often as one interval
    of `confidence`.
    """
    ranks = min(len(each.own_work) for each in parts)
    if ranks < 2:
        return None, None
    by_rank = [[_excess(each, rank) for each in parts] for rank in range(ranks)]
    slowest = max(range(ranks), key=lambda rank: statistics.fmean(by_rank[rank]))
    interval = mean_interval(by_rank[slowest], corrected(confidence, ranks / 2))
    step = statistics.fmean(sum(each.seconds.values()) for each in parts)
    if interval is None or interval.lower <= 0 or interval.centre < LEAST_SLOWER * step:
        return None, None
    return slowest, interval.centre


def _excess(parts: StepParts, rank: int) -> float:
    """Return by how many seconds a rank's own work is longer than the median of the other ranks."""
    means = [statistics.fmean(blocks) for blocks in parts.own_work]
    return means[rank] - statistics.median(means[:rank] + means[rank + 1 :])


def _cpu_wait(results: Sequence[TrainingResult]) -> float | None:
    """Return how many seconds threads of rank 0 were ready in a step and had no CPU, added over the threads; None if
    that was not counted."""
    waits = [result.workers[0].training_wait for result in results]
    steps = [result.steps.seconds for result in results]
    shares = [
        step.mean * wait.waited_seconds / wait.seconds
        for wait, step in zip(waits, steps, strict=True)
        if wait and step and wait.seconds > 0
    ]
    return statistics.median(shares) if len(shares) == len(results) else None
