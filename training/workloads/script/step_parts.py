"""The parts of the timed steps, over all ranks. Pure."""

import statistics
from collections.abc import Sequence
from itertools import pairwise

from training.contract.result import StepParts
from training.workloads.script.observations import Parts

EXCHANGE = "exchange"
WAITS = (EXCHANGE, "collective", "report")
"""Parts of a step in which a rank waits for others."""
BLOCKS = 10
"""Number of groups of timed steps over which a rank's own work is averaged. There are enough for an interval, and each
is longer than what one step disturbs in the next."""


def step_parts(ranks: Sequence[Parts | None], timed_steps: Sequence[int]) -> StepParts | None:
    """Return where the time of `timed_steps` went; None if a rank has no parts of these steps."""
    last = min((len(parts.seconds["between"]) for parts in ranks if parts), default=0)
    steps = [step for step in timed_steps if step < last]
    known = [parts for parts in ranks if parts and not parts.no_parts]
    if not steps or len(known) < len(ranks):
        return None
    exchanges = all(not parts.no_exchange for parts in known)
    missing = {"input"} if known[0].no_input else set()
    missing |= set() if exchanges else {EXCHANGE}
    return StepParts(
        seconds={
            part: statistics.fmean(seconds[step] for step in steps)
            for part, seconds in known[0].seconds.items()
            if part not in missing
        },
        exchange=[statistics.fmean(parts.seconds[EXCHANGE][step] for step in steps) for parts in known]
        if exchanges
        else [],
        link=statistics.fmean(min(parts.seconds[EXCHANGE][step] for parts in known) for step in steps)
        if exchanges
        else None,
        own_work=[_blocks([_own_work(parts.seconds, step) for step in steps]) for parts in known],
    )


def _own_work(seconds: dict[str, list[float]], step: int) -> float:
    """Return the seconds of a step in which this rank did not wait for others."""
    return sum(of_part[step] for part, of_part in seconds.items() if part not in WAITS)


def _blocks(seconds: Sequence[float]) -> list[float]:
    blocks = min(BLOCKS, len(seconds))
    ends = [round(number * len(seconds) / blocks) for number in range(blocks + 1)]
    return [statistics.fmean(seconds[start:end]) for start, end in pairwise(ends)]
