"""Records in which steps each parameter has a gradient: always, in a phase, or now and then.

Layers that are dropped at random and experts that rows choose have one now and then, in every run in other steps.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any

LEAST_PHASE = 8
"""Least number of steps with a gradient, and of steps without, that make a phase of the training."""
LEAST_CERTAIN = 12
"""A parameter with fewer steps with a gradient may have no gradient at all in another run, by chance."""
NOTHING = {
    "always": 0,
    "atFirst": 0,
    "later": 0,
    "atTimes": 0,
    "seldom": 0,
    "phaseShare": 0.0,
    "share": 1.0,
    "shareError": 0.0,
}
MOST_TRACKED = 100_000
"""Most parameters that are recorded one by one: a script may create parameters in every step."""


class _Tracked:
    """The record of one parameter."""

    def __init__(self, parameter: Any) -> None:
        self.of = weakref.ref(parameter)
        self.numbers = int(parameter.numel())
        self.had = False
        self.steps = self.changes = self.last = 0
        """Number of steps with a gradient, of changes between steps with and without, and the number of the last step
        with a gradient."""

    def step(self, number: int, has: bool) -> None:
        """Record whether the parameter has a gradient in step `number`, counted from 1."""
        if has != self.had and number > 1:
            self.changes += 1
        if has:
            self.steps += 1
            self.last = number
        self.had = has

    def kind(self, steps: int) -> str:
        """Return when it had a gradient in `steps` steps: `always`, `atFirst`, `later`, `atTimes`; "" if never."""
        changes = self.changes + (self.had and self.last < steps)  # nobody trains it any more
        without = steps - self.steps
        if not self.steps or not changes:
            return "always" if self.steps else ""
        if changes == 1:
            if min(self.steps, without) >= LEAST_PHASE:
                return "later" if self.last == steps else "atFirst"
            if without < LEAST_PHASE:
                return "always"
        return "atTimes"


class Gradients:
    """The records of all parameters of a rank."""

    def __init__(self) -> None:
        self._tracked: dict[int, _Tracked] = {}
        self._gone: list[_Tracked] = []
        self.always_trained: int | None = None
        """How many numbers (elements of parameters) are trained in every step, where gradients are not watched."""
        self._steps = 0
        self._shares = [0.0, 0.0]
        """Sum over the steps of the share of numbers with a gradient, and sum of the squares of these shares."""

    def step(self, parameters: Sequence[Any]) -> None:
        """Note which parameters have a gradient in this step."""
        self._steps += 1
        having = every = 0
        for parameter in parameters:
            tracked = self._of(parameter)
            if tracked is None:
                continue
            has = parameter.grad is not None
            tracked.step(self._steps, has)
            every += tracked.numbers
            having += tracked.numbers if has else 0
        share = having / every if every else 0.0
        self._shares = [self._shares[0] + share, self._shares[1] + share * share]

    def _of(self, parameter: Any) -> _Tracked | None:
        tracked = self._tracked.get(id(parameter))
        if tracked is not None and tracked.of() is parameter:
            return tracked
        if len(self._tracked) + len(self._gone) >= MOST_TRACKED:
            return None
        if tracked is not None:  # another one was there, and is gone
            self._gone.append(tracked)
        self._tracked[id(parameter)] = tracked = _Tracked(parameter)
        return tracked

    def to_dict(self) -> dict[str, Any] | None:
        """Return how many numbers (elements of parameters) are trained always, at first, later and at times, and the
        share that has a gradient in a step; None if no step was made."""
        if not self._steps:
            return None if self.always_trained is None else {**NOTHING, "always": self.always_trained}
        every = [*self._gone, *self._tracked.values()]
        kinds = Counter[str]()
        for tracked in every:
            kinds[tracked.kind(self._steps)] += tracked.numbers
        in_phases = [each for each in every if each.kind(self._steps) in ("atFirst", "later")]
        of_phases = sum(each.numbers for each in in_phases)
        mean = self._shares[0] / self._steps
        variance = max(0.0, self._shares[1] / self._steps - mean * mean)
        return {
            **{kind: kinds[kind] for kind in ("always", "atFirst", "later", "atTimes")},
            "seldom": sum(each.numbers for each in every if 0 < each.steps < LEAST_CERTAIN),
            "phaseShare": sum(each.numbers * each.steps for each in in_phases) / of_phases / self._steps
            if of_phases
            else 0.0,
            "share": mean,
            "shareError": math.sqrt(variance / self._steps),
        }
