"""Measures where the time of each step goes: one switch with one stamp, so that the parts of a step sum to it.

`between` is what lies outside of the other parts: validation, and reports and checkpoints other than by `torch.save`
and `ray.train.report`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

INPUT, COMPUTE, EXCHANGE, COLLECTIVE, OPTIMIZER, BETWEEN, SAVE, REPORT = PARTS = (
    "input",
    "compute",
    "exchange",
    "collective",
    "optimizer",
    "between",
    "save",
    "report",
)
MOST_STEPS = 20_000
"""Steps whose parts are kept: later ones say nothing new, and each takes memory."""


class StepParts:
    """Seconds of each step by its part, of the thread that steps."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: seconds, without what the observer took."""
        self._clock = clock
        self._stack = [BETWEEN]
        self._last = clock()
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self.of_steps = {part: array("d") for part in PARTS}
        self._batches = 0
        """Delivered since the last step, to learn from."""
        self._pass_batches = self._pass_steps = 0
        self.no_parts = ""
        """Reason why no part is known."""
        self.no_input = "no DataLoader of PyTorch delivered a batch"
        """Reason why `input` is not known; "" if it is."""
        self.no_exchange = "no exchange of DistributedDataParallel was seen"
        """Reason why `exchange` is not known; "" if it is."""
        self.synchronises = False
        """Whether the next backward exchanges gradients."""
        self._gradient_at: float | None = None

    def become(self, part: str) -> None:
        """Turn what is outside of every call to `part`, as when a batch was delivered."""
        self._charge(self._clock())
        self._stack[0] = part

    def enter(self, part: str) -> None:
        """Begin a call that belongs to `part`."""
        self._charge(self._clock())
        self._stack.append(part)

    def leave(self) -> None:
        """End the call that began last."""
        self._charge(self._clock())
        if len(self._stack) > 1:
            self._stack.pop()

    def deliver(self) -> None:
        """Note that a batch to learn from was delivered: what follows computes."""
        self._batches += 1
        self._pass_batches += 1
        self.no_input = ""
        self.become(COMPUTE)

    def begin_pass(self) -> None:
        """Note that a pass over data to learn from begins."""
        self._pass_batches = self._pass_steps = 0

    def end_pass(self) -> None:
        """Note that a loader has no more batches: one that was read ahead has a step to come."""
        if self._batches or self._pass_batches == self._pass_steps + 1:
            self._stack[0] = COMPUTE

    def gradient(self) -> None:
        """Note that a parameter has its gradient; the last of a backward is where its exchange begins."""
        self._gradient_at = self._clock()

    def leave_backward(self) -> None:
        """End a backward: its time since the last gradient is that of the exchange, where gradients are exchanged."""
        began, self._gradient_at = self._gradient_at, None
        if self.synchronises and began is not None and began >= self._last:
            self._charge(began)
            self._stack[-1] = EXCHANGE
            self.no_exchange = ""
        self.leave()

    def end_step(self, now: float) -> None:
        """End a step at `now`, seconds of the same clock."""
        self._charge(now)
        if len(self.of_steps[BETWEEN]) < MOST_STEPS:
            for part, seconds in self._seconds.items():
                self.of_steps[part].append(seconds)
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._stack = [BETWEEN]
        self._batches = 0
        self._pass_steps += 1

    def _charge(self, now: float) -> None:
        self._seconds[self._stack[-1]] += now - self._last
        self._last = now

    def to_dict(self) -> dict[str, Any]:
        """Return whole microseconds of each step by its part, and why a part is not known."""
        return {
            "microseconds": {part: [round(each * 1e6) for each in steps] for part, steps in self.of_steps.items()},
            "noParts": self.no_parts,
            "noInput": self.no_input,
            "noExchange": self.no_exchange,
        }
