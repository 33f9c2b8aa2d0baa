"""Decides whether `rwi up` adds another repeat with `repeats auto`: until it is decided, or the budget is used up."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from cli.setup.project import say
from compare.schema import Comparison
from compare.stopping import BUDGET, budget_seconds, open_words, repeat_seconds
from compare.words import duration
from training.contract.repeats import AT_A_TIME_VARIABLE, GOES_ON

ONE_AT_A_TIME = {AT_A_TIME_VARIABLE: "1"}
"""The environment that makes the program add one repeat at a time, so that the comparison can be checked after each,
where a plain `pulumi up` adds four."""
LONGER_BUDGET = "A longer budget goes on: none of its repeats fits into this one"


class Further:
    """Decides whether further repeats begin in one call of `rwi up` with `repeats auto`."""

    def __init__(self, then: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`then` is the text that tells a user what to do next if no further repeat begins."""
        self._clock, self._then = clock, then
        self._began = self._last = clock()
        self._longest = 0.0
        """Seconds of the longest update that added one repeat, with the time of pulumi itself."""
        self.repeats = 0
        """Number of complete repeats after the last update, while the comparison was undecided."""

    def is_due(self, text: str | None) -> bool:
        """Return whether another repeat begins, by the stack's comparison after an update (None if it has none). If the
        budget is too short for one, print that."""
        if not text or json.loads(text).get("auto") != GOES_ON:
            return False
        comparison, now = Comparison.from_json(text), self._clock()
        if comparison.repeats == self.repeats + 1:
            self._longest = max(self._longest, now - self._last)
        elif comparison.repeats == self.repeats:  # none was added: the program saw no time for one
            return False
        self._last, self.repeats = now, comparison.repeats
        budget, next_seconds = budget_seconds(comparison), max(self._longest, repeat_seconds(comparison))
        if budget is None or now - self._began + next_seconds <= budget:
            return True
        fits = next_seconds <= budget
        say(
            f"{open_words(comparison.answer, comparison.repeats)}. Another takes about {duration(next_seconds)}: it"
            f" would end later than {BUDGET} {comparison.settings[BUDGET]}. {self._then if fits else LONGER_BUDGET}"
        )
        return False
