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
"""Parts of a step that contain the work done at the end of an epoch, or every so many steps."""
RARE = 0.2
"""Extra time in the OUTSIDE parts, as a share of a usual step, from which on a step is left out of comparisons of
conditions, because it is chance in which block an epoch ends. The parts' own times include such steps."""


NOT_GIVEN = "no DataLoader delivered batches while it was tried"


class Reader:
    """Reads the results that the ranks of a run append to their files. A block is a number of steps under one
    condition, a round has one block of each condition."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._plan: dict[str, Any] = {}
        self._files: list[_File] = []
        self._waiting: list[dict[tuple[int, str], Block]] = []
        """Blocks of each rank, by round and condition, of rounds that are not complete."""
        self._rounds: list[Round] = []
        self._complete = self._again = 0

    def read(self) -> Tried | None:
        """Return the complete rounds so far, but the first, which warms up; None before the run's plan exists."""
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
    """Return the complete rounds of a run; None if the run has no plan."""
    return Reader(folder).read()


def _round(blocks: dict[str, list[Block]]) -> Round:
    as_is = [_steps(block) for block in blocks[AS_IS]]
    return Round(
        seconds={name: _slowest(blocks[name]) for name in blocks},
        whole_step=max(map(statistics.fmean, as_is)),
        parts=_parts(blocks[AS_IS]),
    )


def _slowest(of_ranks: list[Block]) -> float:
    """Return the mean seconds of a step in the slowest rank. Steps with rare extra work in any rank are left out."""
    steps = [_steps(block) for block in of_ranks]
    rare = set().union(*map(_rare, of_ranks))
    return max(
        statistics.fmean([seconds for number, seconds in enumerate(of_rank) if number not in rare] or of_rank)
        for of_rank in steps
    )


def _steps(block: Block) -> list[float]:
    """Return the seconds of each step of a block; if the parts of steps are not known, only their mean."""
    parts = block["microseconds"]
    if not parts:
        return [block["seconds"] / (block["steps"] or block["turns"])]
    return [sum(of_step) / 1e6 for of_step in zip(*parts.values(), strict=True)] or [block["seconds"] / block["turns"]]


def _rare(block: Block) -> set[int]:
    """Return the numbers of the steps before which an epoch ended, or other rare work was done."""
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
    """A file to which lines are appended."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def new_blocks(self) -> Iterator[Block]:
        """Yield the blocks from complete lines that were appended since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                lines, end, _ = file.read().rpartition(b"\n")  # what follows is being written
        except OSError:
            return
        self._read += len(lines + end)
        yield from map(json.loads, lines.splitlines())
