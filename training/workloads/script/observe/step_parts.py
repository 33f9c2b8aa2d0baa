"""Measures where the time of each step goes: one switch with one stamp, so that the parts of a step sum to it.

`between` is what lies outside of the other parts: validation, and reports and checkpoints other than by `torch.save`
and `ray.train.report`.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable
from contextlib import AbstractContextManager
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
CHANGING_GRADIENTS = "the gradients that come last differ from step to step"
OTHER_THREAD = "another thread than that of the steps reads the batches"


class _Part:
    """A call that belongs to one part of the step. A class: a context made of a generator takes twice as long."""

    def __init__(self, parts: StepParts, name: str) -> None:
        self._parts, self._name = parts, name

    def __enter__(self) -> None:
        self._parts.enter(self._name)

    def __exit__(self, *_: object) -> None:
        self._parts.leave()


class StepParts:
    """Seconds of each step by its part, of the thread that steps: that of the first backward, or step."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: seconds, without what the observer took."""
        self.thread: int | None = None
        """The thread whose time is measured; None before its first backward or step."""
        self.clock = clock
        self._stack = [BETWEEN]
        self._calls = {part: _Part(self, part) for part in PARTS}
        self._last = clock()
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self.of_steps = {part: array("d") for part in PARTS}
        self.forgotten = 0
        """First steps that are in `of_steps` no more."""
        self._batches = 0
        """Delivered since the last step, to learn from."""
        self._pass_batches = self._pass_steps = 0
        self._early: dict[int, int] = {}
        """Batches that a thread had in its pass before it is known which thread steps."""
        self.no_parts = ""
        """Reason why no part is known."""
        self.no_input = "no DataLoader of PyTorch delivered a batch"
        """Reason why `input` is not known; "" if it is."""
        self.no_exchange = "no exchange of DistributedDataParallel was seen"
        """Reason why `exchange` is not known; "" if it is."""
        self._lost_exchange = ""
        """Reason why it is not known of every step."""
        self.synchronises = False
        """Whether the next backward exchanges gradients."""
        self.backwards = 0
        """Depth of backwards in backwards, as of checkpointing that computes a forward again."""
        self.backwards_made = 0
        """Backwards that ended, without those within others."""
        self._gradient_at: float | None = None
        self._in_closure = False
        """Whether an optimizer's step computes a forward and a backward itself."""

    def here(self) -> bool:
        """Return whether this thread's time is measured."""
        return self.thread == threading.get_ident()

    def claim(self, now: float | None = None) -> None:
        """Measure this thread from now on, unless another one steps already."""
        if self.thread is not None:
            return
        self.thread, self._last = threading.get_ident(), self.clock() if now is None else now
        self._pass_batches = self._early.get(self.thread, 0)
        if self._pass_batches:
            self.no_input = ""
        elif any(self._early.values()):
            self.no_input = OTHER_THREAD

    def become(self, part: str) -> None:
        """Turn what is outside of every call to `part`, as when a batch was delivered."""
        self._charge(self.clock())
        self._stack[0] = part
        if part == COMPUTE and self._stack[-1] == OPTIMIZER:
            self._stack[-1], self._in_closure = COMPUTE, True

    def enter(self, part: str) -> None:
        """Begin a call that belongs to `part`."""
        self._charge(self.clock())
        self._stack.append(part)

    def leave(self) -> None:
        """End the call that began last."""
        self._charge(self.clock())
        if len(self._stack) > 1:
            self._stack.pop()

    def part(self, name: str) -> AbstractContextManager[None]:
        """Return what makes its body a call that belongs to the part."""
        return self._calls[name]

    def deliver(self) -> None:
        """Note that a batch to learn from was delivered, to any thread: what follows computes."""
        thread = threading.get_ident()
        if self.thread is None:
            self._early[thread] = self._early.get(thread, 0) + 1
        elif thread == self.thread:
            self._batches += 1
            self._pass_batches += 1
            self.no_input = ""
            self.become(COMPUTE)
        elif not self._pass_batches:
            self.no_input = OTHER_THREAD

    def begin_pass(self) -> None:
        """Note that a pass over data to learn from begins, in any thread."""
        if self.thread is None:
            self._early[threading.get_ident()] = 0
        elif self.here():
            self._pass_batches = self._pass_steps = 0

    def end_pass(self) -> None:
        """Note that a loader has no more batches: one that was read ahead has a step to come."""
        if self._batches or self._pass_batches == self._pass_steps + 1:
            self._stack[0] = COMPUTE

    def gradient(self) -> None:
        """Note that a parameter has its gradient; the last of a backward is where its exchange begins."""
        self._gradient_at = self.clock()

    def enter_backward(self) -> None:
        """Begin a backward, perhaps within another."""
        self.backwards += 1
        self.enter(COMPUTE)

    def leave_backward(self) -> bool:
        """End a backward; return whether that was the outermost.

        Its time since the last gradient is that of the exchange, where gradients are exchanged.
        """
        self.backwards -= 1
        if self.backwards > 0:
            self.leave()
            return False
        self.backwards_made += 1
        began, self._gradient_at = self._gradient_at, None
        if self.synchronises and began is not None:
            self.synchronises = False  # until the next forward
            if began >= self._last and len(self._stack) > 1:
                self._charge(began)
                self._stack[-1] = EXCHANGE
                self.no_exchange = self._lost_exchange
        self.leave()
        if self._in_closure:
            self._in_closure = False
            self._stack[-1] = OPTIMIZER if len(self._stack) > 1 else self._stack[-1]
        return True

    def end_step(self, now: float) -> None:
        """End a step at `now`, seconds of the same clock."""
        self.claim(now)
        if not self.here():
            self.no_parts = "the backward and the step are in different threads"
        self._charge(now)
        if len(self.of_steps[BETWEEN]) < MOST_STEPS:
            for part, seconds in self._seconds.items():
                self.of_steps[part].append(seconds)
        if self.synchronises and not self.backwards:
            self._lost_exchange = self.no_exchange = CHANGING_GRADIENTS
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._stack = [BETWEEN]
        self._batches = 0
        self._pass_steps += 1
        self._in_closure = False

    def forget(self, steps: int) -> None:
        """Forget the parts of so many steps, so that later ones are kept."""
        for seconds in self.of_steps.values():
            del seconds[: steps - self.forgotten]
        self.forgotten = max(steps, self.forgotten)

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
