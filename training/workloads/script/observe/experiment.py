"""Changes one condition of the training at a time, for some steps, equally on all ranks: what removing it would gain.

For `./rwi why` alone, never in a measurement: the weights are of no use afterwards. A *block* is some steps under one
condition, a *round* a block of each condition in an order of its own. The first steps of a block are not timed.

Ranks count the forwards that exchange gradients, because these are the same on all of them; steps of an optimizer may
differ. In each round there is a block that exchanges, so no rank is a round ahead of another: that is why a rank that
reads in a file in which round to end finds it there.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import files, state
from .step_parts import PARTS

WHY = "TRAINING_OBSERVE_WHY"
"""Environment variable: set if this run tries conditions for `./rwi why`."""
AS_IS, INPUT_READY, NO_EXCHANGE, THREADS = "as is", "input ready", "no exchange", "threads "
"""The conditions of the training that are tried; a number of threads follows the last one."""
PLAN, ENOUGH, LAST = "why-plan.json", "why-enough", "why-last"
"""Names of files: the plan that rank 0 writes for all ranks; the sign from outside that no more rounds are needed; and
the number of the round after which all ranks end."""
PLANNED_AT, BEGIN = 10, 12
"""Turns (steps, or forwards that exchange gradients) before rank 0 writes the plan, and before the first block: each
rank finds the plan then, because all ranks have exchanged gradients since."""
BLOCK_SECONDS, LEAST_STEPS, MOST_STEPS = 0.4, 6, 40
"""Length in seconds, and least and most steps, of the timed part of a block."""
LEAST_DROPPED, MOST_DROPPED = 2, 60
"""Least and most steps at the beginning of a block that are not timed."""
WAIT_SECONDS, POLL_SECONDS = 60.0, 0.01
NO_LOADER = "no DataLoader of PyTorch delivers the batches"


@dataclass
class Plan:
    """The conditions that can be tried, and the length of a block (some steps under one condition)."""

    conditions: list[str]
    absent: dict[str, str]
    """Conditions that can't be tried, and why."""
    dropped: int
    timed: int
    threads: int
    """Number of threads of a rank, as the script has it."""
    world: int
    loader_workers: int | None
    """Number of the loader's worker processes on rank 0; None if no loader was seen."""
    rows: float | None
    """Rows of a step over all ranks; None if not known."""

    @property
    def block(self) -> int:
        """Return how many turns a block has: those that are not timed, and those that are."""
        return self.dropped + self.timed


@dataclass
class Facts:
    """What the framework's hooks have seen when the plan is made."""

    loader_workers: int | None = None
    ahead: int = 0
    """Number of batches that the loader reads ahead."""
    no_input: str = NO_LOADER
    """Why batches can't be given again; "" if they can."""
    no_exchange: str = "no gradients are exchanged by DistributedDataParallel"
    uneven: str = ""
    """Reason why ranks would not change the condition together; "" if they do."""
    threads: int = 1
    set_threads: Callable[[int], Any] = field(default=lambda _: None)


class Experiment:
    """The blocks of this rank: each is some steps under one condition."""

    def __init__(self, folder: Path) -> None:
        self.pid = os.getpid()
        self.facts = Facts()
        self.condition = AS_IS
        self.counts_forwards = False
        """Whether a turn (the unit of a block) is a forward that exchanges gradients; otherwise it is a step."""
        self.again = 0
        """Number of batches that were delivered again in this block."""
        self._folder = folder
        self._at: list[float] = []
        """Time at which each turn began, in seconds of the script's clock."""
        self._steps: list[int] = []
        """Number of steps made before each turn."""
        self._plan: Plan | None = None
        self._failed = False
        self._round = -1

    @property
    def is_input_ready(self) -> bool:
        """Return whether the loader is to deliver batches again that it has delivered before."""
        return self.condition == INPUT_READY

    @property
    def exchanges(self) -> bool:
        """Return whether gradients are exchanged where the script does so: under every condition except NO_EXCHANGE."""
        return self.condition != NO_EXCHANGE

    def turn(self) -> None:
        """Begin a turn (a step, or a forward that exchanges gradients), and change the condition if it is the first
        turn of a block. Raises state.Enough after the last round. After a failure the script trains as without an
        experiment."""
        if self._failed:
            return
        try:
            self._begin_turn()
        except Exception:
            self._failed = True
            self._change(AS_IS)
            raise

    def _begin_turn(self) -> None:
        now = state.current()
        with now.hook():
            self._at.append(now.parts.clock())
            self._steps.append(len(now.step_ends))
            number = len(self._at) - 1
            if number == PLANNED_AT and now.rank == 0:
                files.write(self._folder / PLAN, json.dumps(vars(self._planned(now))))
            if number < BEGIN:
                return
            if self._plan is None:
                self._plan = Plan(**json.loads(self._awaited(PLAN)))
            block, within = divmod(number - BEGIN, self._plan.block)
            is_over = within == 0 and self._begin_block(block, self._plan)
        if is_over:
            self._change(AS_IS)
            now.ended_early = True
            state.write()
            raise state.Enough(0)

    def _begin_block(self, block: int, plan: Plan) -> bool:
        """Write the record of the block that ended, and change the condition for the next block; return whether the
        last round is over and no block begins."""
        if block:
            self._keep(plan)
        number, index = divmod(block, len(plan.conditions))
        if index == 0:
            self._round = number
            last = files.read(self._folder / LAST)
            if last is not None and number > int(last):
                return True
            if state.current().rank == 0 and last is None and (self._folder / ENOUGH).exists():
                files.write(self._folder / LAST, str(number))
        self._change(order(plan.conditions, number)[index])
        return False

    def _change(self, condition: str) -> None:
        plan, self.again = self._plan, 0
        if plan and self.condition.startswith(THREADS):
            self.facts.set_threads(plan.threads)
        self.condition = condition
        if condition.startswith(THREADS):
            self.facts.set_threads(int(condition.removeprefix(THREADS)))

    def _keep(self, plan: Plan) -> None:
        """Write the timed part of the block that just ended: its length, its steps, and their parts."""
        first, end = len(self._at) - 1 - plan.timed, len(self._at) - 1
        parts, bounds = state.current().parts, (self._steps[first], self._steps[end])
        parts.forget(bounds[0])
        steps = range(bounds[1] - bounds[0])
        known = not parts.no_parts and len(steps) <= len(parts.of_steps[PARTS[0]])
        line = {
            "round": self._round,
            "condition": self.condition,
            "seconds": self._at[end] - self._at[first],
            "turns": plan.timed,
            "steps": len(steps),
            "microseconds": {part: [round(parts.of_steps[part][step] * 1e6) for step in steps] for part in PARTS}
            if known
            else {},
            "again": self.again,
            "noParts": parts.no_parts,
            "noInput": parts.no_input,
            "noExchange": parts.no_exchange,
        }
        with (self._folder / f"why-{state.current().rank}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _planned(self, now: state.State) -> Plan:
        facts = self.facts
        turns = [after - before for before, after in itertools.pairwise(self._at[4:])]
        seconds = max(1e-6, statistics.median(turns))
        per_step = math.ceil(PLANNED_AT / max(1, self._steps[-1]))  # several, where an optimizer makes many forwards
        wishes = {INPUT_READY: facts.no_input, NO_EXCHANGE: facts.no_exchange}
        threads = sorted({1, facts.threads // 2} - {0, facts.threads})
        wishes |= {f"{THREADS}{number}": "" for number in threads} or {f"{THREADS}1": "it has no more"}
        wishes = {name: facts.uneven or reason for name, reason in wishes.items()}
        loader = now.training()
        rows = loader.rows_at_step if loader and not loader.is_ahead else []
        return Plan(
            conditions=[AS_IS, *(name for name, reason in wishes.items() if not reason)],
            absent={name: reason for name, reason in wishes.items() if reason},
            dropped=per_step * min(MOST_DROPPED, max(LEAST_DROPPED, facts.ahead + 1)),
            timed=max(per_step * LEAST_STEPS, min(MOST_STEPS, math.ceil(BLOCK_SECONDS / seconds))),
            threads=facts.threads,
            world=now.world,
            loader_workers=facts.loader_workers,
            rows=now.world * statistics.median(after - before for before, after in itertools.pairwise(rows))
            if len(rows) > 2
            else None,
        )

    def _awaited(self, name: str) -> str:
        deadline = time.monotonic() + WAIT_SECONDS
        while (text := files.read(self._folder / name)) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"rank 0 did not write {name} within {WAIT_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)
        return text


def order(conditions: Sequence[str], number: int) -> list[str]:
    """Return the conditions in a shuffled order for the round `number`; the order is the same on all ranks."""
    shuffled = list(conditions)
    random.Random(number).shuffle(shuffled)  # noqa: S311 (nothing secret)
    return shuffled


_experiments: list[Experiment] = []


def is_wanted() -> bool:
    """Return whether this process is to try conditions for `rwi why`."""
    return bool(os.environ.get(WHY)) and state.FOLDER in os.environ


def current() -> Experiment:
    """Return the experiment of this process; a forked child starts with a new experiment."""
    if not _experiments or _experiments[0].pid != os.getpid():
        _experiments[:] = [Experiment(Path(os.environ[state.FOLDER]))]
    return _experiments[0]
