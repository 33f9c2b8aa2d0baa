"""The blocks that the ranks of a run have written, as rounds. Reads files; judges nothing."""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compare.why import AS_IS, INPUT_READY, Round, Tried
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


NOT_GIVEN = "no DataLoader delivered batches while it was tried"


class Reader:
    """Reads what the ranks of a run add to their files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._plan: dict[str, Any] = {}
        self._files: list[_File] = []
        self._waiting: list[dict[tuple[int, str], Block]] = []
        """Blocks of each rank, by round and condition, of rounds that are not complete."""
        self._rounds: list[Round] = []
        self._complete = self._again = 0

    def read(self) -> Tried | None:
        """Read what was tried so far; None before there is a plan. A first round only warms up, and does not count."""
        if not self._plan and not self._read_plan():
            return None
        plan = self._plan
        for file, blocks in zip(self._files, self._waiting, strict=True):
            blocks.update({(block["round"], block["condition"]): block for block in file.new_blocks()})
        while all((self._complete, name) in blocks for name in plan["conditions"] for blocks in self._waiting):
            of_round = {
                name: [blocks.pop((self._complete, name)) for blocks in self._waiting] for name in plan["conditions"]
            }
            if self._complete:
                self._rounds.append(_round(of_round))
                self._again += sum(block["again"] for block in of_round.get(INPUT_READY, []))
            self._complete += 1
        is_given = self._again or not self._rounds or INPUT_READY not in plan["conditions"]
        return Tried(
            rounds=list(self._rounds),
            conditions=[name for name in plan["conditions"] if is_given or name != INPUT_READY],
            absent=plan["absent"] | ({} if is_given else {INPUT_READY: NOT_GIVEN}),
            rows=plan["rows"],
            threads=plan["threads"],
            loader_workers=plan["loader_workers"],
        )

    def _read_plan(self) -> bool:
        try:
            self._plan = json.loads((self._folder / experiment.PLAN).read_text(encoding="utf-8"))
        except OSError:
            return False
        ranks = range(self._plan["world"])
        self._files, self._waiting = [_File(self._folder / f"why-{rank}.jsonl") for rank in ranks], [{} for _ in ranks]
        return True


def tried(folder: Path) -> Tried | None:
    """Read what was tried in a run; None where there was no plan."""
    return Reader(folder).read()


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


class _File:
    """A file that grows by lines."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def new_blocks(self) -> Iterator[Block]:
        """Yield the blocks of whole lines that were not there before."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                lines, end, _ = file.read().rpartition(b"\n")  # what follows is being written
        except OSError:
            return
        self._read += len(lines + end)
        yield from map(json.loads, lines.splitlines())
