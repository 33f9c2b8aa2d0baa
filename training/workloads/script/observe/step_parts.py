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
"""Most steps whose parts are kept: later steps say nothing new, and each takes memory."""
CHANGING_GRADIENTS = "the gradients that come last differ from step to step"
OTHER_THREAD = "another thread than that of the steps reads the batches"


class _Part:
    """Context manager of a call that belongs to one part of the step. A class, because a context manager made of a
    generator takes twice as long."""

    def __init__(self, parts: StepParts, name: str) -> None:
        self._parts, self._name = parts, name

    def __enter__(self) -> None:
        self._parts.enter(self._name)

    def __exit__(self, *_: object) -> None:
        self._parts.leave()


class StepParts:
    """Seconds of each part of each step, in the thread of the first backward pass or step."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start the clock. `clock` returns seconds, without the time that the observer took."""
        self.thread: int | None = None
        """The thread whose time is measured; None before the first backward pass or step."""
        self.clock = clock
        self._stack = [BETWEEN]
        self._calls = {part: _Part(self, part) for part in PARTS}
        self._last = clock()
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self.of_steps = {part: array("d") for part in PARTS}
        self.forgotten = 0
        """Number of first steps that were removed from `of_steps`."""
        self._batches = 0
        """Number of training batches delivered since the last step."""
        self._pass_batches = self._pass_steps = 0
        self._early: dict[int, int] = {}
        """Batches that each thread has read in its pass, while the thread of the steps is not known yet."""
        self.no_parts = ""
        """Reason why no part is known; "" if the parts are known."""
        self.no_input = "no DataLoader of PyTorch delivered a batch"
        """Reason why `input` is not known; "" if it is."""
        self.no_exchange = "no exchange of DistributedDataParallel was seen"
        """Reason why `exchange` is not known; "" if it is."""
        self._lost_exchange = ""
        """Reason why `exchange` is not known for some of the steps; "" if it is known for every step."""
        self.synchronises = False
        """Whether the next backward exchanges gradients."""
        self.backwards = 0
        """Depth of nested backward passes, as in activation checkpointing, which computes a forward again."""
        self.backwards_made = 0
        """Number of backward passes that ended, without nested ones."""
        self._gradient_at: float | None = None
        self._in_closure = False
        """Whether the present step of the optimizer computes a forward and a backward pass itself."""

    def here(self) -> bool:
        """Return whether the time of this thread is measured."""
        return self.thread == threading.get_ident()

    def claim(self, now: float | None = None) -> None:
        """Measure this thread's time from now on, unless another thread makes the steps already."""
        if self.thread is not None:
            return
        self.thread, self._last = threading.get_ident(), self.clock() if now is None else now
        self._pass_batches = self._early.get(self.thread, 0)
        if self._pass_batches:
            self.no_input = ""
        elif any(self._early.values()):
            self.no_input = OTHER_THREAD

    def become(self, part: str) -> None:
        """Count the time outside of all calls as that of `part` from now on, as of computing after a batch."""
        self._charge(self.clock())
        self._stack[0] = part
        if part == COMPUTE and self._stack[-1] == OPTIMIZER:
            self._stack[-1], self._in_closure = COMPUTE, True

    def enter(self, part: str) -> None:
        """Begin a call that belongs to `part`."""
        self._charge(self.clock())
        self._stack.append(part)

    def leave(self) -> None:
        """End the call that began last, and return to the part that was measured before it."""
        self._charge(self.clock())
        if len(self._stack) > 1:
            self._stack.pop()

    def part(self, name: str) -> AbstractContextManager[None]:
        """Return a context manager that counts the time of its body as the time of the part `name`."""
        return self._calls[name]

    def deliver(self) -> None:
        """Record that a training batch was delivered; in the thread of the steps, what follows counts as computing."""
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
        """Record that a pass over training data begins in this thread."""
        if self.thread is None:
            self._early[threading.get_ident()] = 0
        elif self.here():
            self._pass_batches = self._pass_steps = 0

    def end_pass(self) -> None:
        """Record that a loader has no more batches. If a batch was read ahead, its step is still to come, and the time
        counts as computing."""
        if self._batches or self._pass_batches == self._pass_steps + 1:
            self._stack[0] = COMPUTE

    def gradient(self) -> None:
        """Record that a parameter has got its gradient: the exchange begins at the last gradient of a backward pass."""
        self._gradient_at = self.clock()

    def enter_backward(self) -> None:
        """Begin a backward pass, perhaps within another one."""
        self.backwards += 1
        self.enter(COMPUTE)

    def leave_backward(self) -> bool:
        """End a backward pass, and return whether it was the outermost one. Where gradients are exchanged, the time
        since the last gradient counts as the time of the exchange."""
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
        """End a step at `now`, in seconds of `clock`."""
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
        """Forget the parts of the first `steps` steps, so that there is room for later steps."""
        for seconds in self.of_steps.values():
            del seconds[: steps - self.forgotten]
        self.forgotten = max(steps, self.forgotten)

    def _charge(self, now: float) -> None:
        self._seconds[self._stack[-1]] += now - self._last
        self._last = now

    def to_dict(self) -> dict[str, Any]:
        """Return whole microseconds of each step by part, and the reasons why a part is not known."""
        return {
            "microseconds": {part: [round(each * 1e6) for each in steps] for part, steps in self.of_steps.items()},
            "noParts": self.no_parts,
            "noInput": self.no_input,
            "noExchange": self.no_exchange,
        }
