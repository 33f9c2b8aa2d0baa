"""The blocks that the ranks of a run have written, as rounds. Reads files; judges nothing."""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compare.why import AS_IS, Round, Tried
from training.contract.result import StepParts
from training.workloads.script.observations import Parts
from training.workloads.script.observe import experiment
from training.workloads.script.step_parts import step_parts

Block = dict[str, Any]
OUTSIDE = ("between", "save", "report")
"""Parts in which lies what is done at the end of an epoch, or every so many steps."""
RARE = 0.2
"""Share of a step beyond what is usual there, from which on a step is left out where conditions are compared: in which
block an epoch ends is luck. Its time is in the parts of the step."""


def tried(folder: Path) -> Tried | None:
    """Read what was tried so far; None before there is a plan. A first round only warms up, and does not count."""
    try:
        plan = json.loads((folder / experiment.PLAN).read_text(encoding="utf-8"))
    except OSError:
        return None
    ranks = [list(_blocks(folder / f"why-{rank}.jsonl")) for rank in range(plan["world"])]
    by_round = [{(block["round"], block["condition"]): block for block in blocks} for blocks in ranks]
    complete = 0
    while all((complete, name) in blocks for name in plan["conditions"] for blocks in by_round):
        complete += 1
    rounds = range(1, complete)
    return Tried(
        rounds=[
            _round({name: [blocks[number, name] for blocks in by_round] for name in plan["conditions"]})
            for number in rounds
        ],
        conditions=plan["conditions"],
        absent=plan["absent"],
        rows=plan["rows"],
        threads=plan["threads"],
        loader_workers=plan["loader_workers"],
    )


def _round(blocks: dict[str, list[Block]]) -> Round:
    as_is = [_steps(block) for block in blocks[AS_IS]]
    return Round(
        seconds={name: _slowest(blocks[name]) for name in blocks},
        whole_step=max(map(statistics.fmean, as_is)),
        parts=_parts(blocks[AS_IS]),
    )


def _slowest(of_ranks: list[Block]) -> float:
    """Return the mean step of the slowest rank, without steps that have on any rank what most steps have not."""
    steps = [_steps(block) for block in of_ranks]
    rare = set().union(*map(_rare, of_ranks))
    return max(
        statistics.fmean([seconds for number, seconds in enumerate(of_rank) if number not in rare] or of_rank)
        for of_rank in steps
    )


def _steps(block: Block) -> list[float]:
    """Return the seconds of each step; of a rank whose parts are not known, of the mean one."""
    parts = block["microseconds"]
    if not parts:
        return [block["seconds"] / (block["steps"] or block["turns"])]
    return [sum(of_step) / 1e6 for of_step in zip(*parts.values(), strict=True)] or [block["seconds"] / block["turns"]]


def _rare(block: Block) -> set[int]:
    """Return the steps before which an epoch ended, or something else was done that is not done before most steps."""
    parts = block["microseconds"]
    outside = [sum(of_step) for of_step in zip(*(parts[name] for name in OUTSIDE if name in parts), strict=True)]
    if not outside:
        return set()
    usual = statistics.median(outside)
    step = statistics.median([1e6 * seconds for seconds in _steps(block)])
    return {number for number, each in enumerate(outside) if each > usual + RARE * step}


def _parts(of_ranks: list[Block]) -> StepParts | None:
    parts = [
        Parts(
            seconds={name: [each / 1e6 for each in steps] for name, steps in block["microseconds"].items()},
            no_parts=block["noParts"],
            no_input=block["noInput"],
            no_exchange=block["noExchange"],
        )
        if block["microseconds"]
        else None
        for block in of_ranks
    ]
    return step_parts(parts, range(min(block["steps"] for block in of_ranks)))


def _blocks(path: Path) -> Iterator[Block]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):  # else it is being written
            yield json.loads(line)
