"""When an accelerator has computed a step: the script's own clock goes on while it computes.

The device is waited for at the window's edges (the first step, the end of a pass and the step after it, the last
wanted step) and after every k steps. A wait costs at most what the program takes to hand over a step, because the
device is idle until it has the next one. So k is chosen in the first steps for less than a hundredth of a step, as a
power of two: ranks that choose differently wait at steps of each other.

What the observer's hooks take while the device computes delays nobody: without them the program would wait longer. So
it is none of the observer's time, and stays in the script's clock, as far as a wait is longer than after a single step.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Protocol

from .gpu_use import GpuUse
from .work import is_looked_at

MOST_COST = 0.007
"""Largest share of a step's time that the waits after every k steps may take. The rest, up to a hundredth, is for the
waits before the weights are looked at."""
FIRST_STEPS = 9
"""Number of first steps after each of which the device is waited for. k is chosen from the lengths of these steps,
which are not timed."""


class _Observer(Protocol):
    hook_seconds: float
    """Seconds that the observer's hooks took, which are not in the script's clock."""


class DeviceClock:
    """The steps after which the device was waited for, and the times at which the device had computed them."""

    def __init__(self, now: Callable[[], float], observer: _Observer) -> None:
        self.marks: list[tuple[int, float]] = []
        """(steps, seconds of the script's clock at which the device had computed them)."""
        self.every = 1
        """Steps from one wait to the next."""
        self.gpu: GpuUse | None = None
        self.no_gpu = ""
        """Reason why it is not known which GPU computes the steps; "" if it is known."""
        self._now, self._observer = now, observer
        self._synchronise: Callable[[], Any] | None = None
        self._handed_over: list[float] = []
        """Seconds from the end of a wait until the program had handed over the next step."""
        self._waits: list[float] = []
        """Seconds of the wait for each mark."""
        self._usual_wait = 0.0
        """Seconds of a wait after a single step."""
        self._busy_since = 0.0
        """Seconds that the hooks had taken when the device got its first step after a wait."""
        self._is_after_edge = False

    @property
    def is_used(self) -> bool:
        """Return whether the steps are computed by a device that has to be waited for."""
        return self._synchronise is not None

    def begin(self, synchronise: Callable[[], Any]) -> None:
        """Wait for the device with `synchronise` from now on, which returns when all that it was given is computed."""
        self._synchronise = synchronise

    def end_step(self, steps: int, last: int | None = None) -> None:
        """Record that the program has handed over step number `steps` to the device, out of `last` steps if that is
        known; wait for the device if a wait is due."""
        if self._synchronise is None:
            return
        since = steps - (self.marks[-1][0] if self.marks else 0)
        if since == 1:
            self._busy_since = self._observer.hook_seconds
        if self.marks and steps <= FIRST_STEPS:
            self._handed_over.append(self._now() - self.marks[-1][1])
        if steps <= FIRST_STEPS or since >= self.every or self._is_after_edge or steps == last or is_looked_at(steps):
            if self.gpu is not None:
                self.gpu.sample(time.monotonic())  # while the device is busy with what it was handed
            self._wait(steps)
            self._is_after_edge = False
        if steps == FIRST_STEPS:
            self._choose()

    def end_pass(self, steps: int) -> None:
        """Wait for the device at the end of a pass over a data set, after `steps` steps: the time before the next step
        belongs to another window."""
        if self._synchronise is not None and self.marks:
            self._wait(steps)
            self._is_after_edge = True

    def _wait(self, steps: int) -> None:
        assert self._synchronise is not None  # noqa: S101
        began = self._now()
        self._synchronise()
        waited = self._now() - began
        if steps > FIRST_STEPS:
            beside = self._observer.hook_seconds - self._busy_since
            self._observer.hook_seconds -= min(beside, max(0.0, waited - self._usual_wait))
        self._busy_since = self._observer.hook_seconds
        if not self.marks or steps > self.marks[-1][0]:
            self._waits.append(waited)
            self.marks.append((steps, self._now()))

    def _choose(self) -> None:
        """Choose k, the number of steps from one wait to the next, from the later half of the first steps: so large
        that the cost of a wait is at most MOST_COST of k steps."""
        later = self.marks[FIRST_STEPS // 2 :]
        waited_step = statistics.median(b[1] - a[1] for a, b in zip(later, later[1:]))  # noqa: B905, RUF007
        handed_over = statistics.median(self._handed_over[FIRST_STEPS // 2 :])
        self._usual_wait = statistics.median(self._waits[FIRST_STEPS // 2 :])
        step = max(handed_over, waited_step - handed_over)  # without a wait one goes on beside the other
        while self.every * MOST_COST * step < handed_over:
            self.every *= 2

    def to_dict(self) -> dict[str, Any] | None:
        """Return the clock as plain data; None if no device has to be waited for."""
        if not self.is_used:
            return None
        gpu = self.gpu.to_dict() if self.gpu else None
        marks = [list(mark) for mark in self.marks]
        return {"every": self.every, "marks": marks, "gpu": gpu, "noGpu": self.no_gpu}
