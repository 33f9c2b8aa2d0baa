"""What a backward pass counts: the share of rows, of the batch that its loss was computed from."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Any

from torch.utils._python_dispatch import _disable_current_modes

from .batches import Batch, Loaders
from .traces import Follower, Traces, mapped

RECENT = 8
"""Number of successive batches with equal weight that make this weight the usual one."""
MOST_WAITING = 64
"""Number of batches after which a batch with another weight is taken to be unused by the script."""


class Weights:
    """The weights of batches: how much the loss of this rank's rows counts in the loss of the whole batch."""

    def __init__(self, torch: Any, loaders: Loaders) -> None:
        """Start recording each batch that is split among ranks."""
        self._torch, self.loaders = torch, loaders
        self._traces = Traces(torch.nn.Parameter)
        self._follower: Follower | None = None
        self._usual: float | None = None
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._waiting: dict[tuple[int, int], Batch] = {}
        """Batches with an unusual weight from which no loss was computed before the last batch."""
        self._used: set[tuple[int, int]] = set()
        self._thread = threading.get_ident()
        """The thread that computes, in which alone operations are followed; another one may read ahead."""
        loaders.at_delivery.append(self._deliver)

    def _deliver(self, batch: Batch, content: Any) -> Any:
        if not batch.iteration.splits:
            return content
        self._recent.append(batch.weight)
        if self._usual is None or (len(self._recent) == RECENT and len(set(self._recent)) == 1):
            self._usual = batch.weight
        for key in list(self._used):
            self._waiting.pop(key, None)
        self._used.clear()
        while len(self._waiting) > MOST_WAITING:
            self._waiting.pop(next(iter(self._waiting)))
        if batch.weight != self._usual:
            self._mark(batch, content)
        if self._thread == threading.get_ident():
            self._follow()
        elif self._waiting:
            self._follow_in_model()
        return content

    def _mark(self, batch: Batch, content: Any) -> None:
        key = (self.loaders.iterations.index(batch.iteration), batch.number)
        self._waiting[key] = batch

        def mark(tensor: Any) -> Any:
            self._traces.mark(tensor, frozenset([key]))
            return tensor

        with _disable_current_modes():
            mapped(self._torch, content, mark)

    def _follow(self) -> None:
        """Follow operations in this thread while a batch with an unusual weight waits."""
        if self._waiting and self._follower is None:
            self._follower = Follower(self._traces)
            self._follower.__enter__()
        elif not self._waiting and self._follower is not None:
            self._follower.__exit__(None, None, None)
            self._follower = None
            self._traces.clear()

    def _follow_in_model(self) -> None:
        """Start following operations when the computing thread calls a module."""

        def begin(*_: Any) -> None:
            if threading.get_ident() == self._thread:
                hook.remove()
                self._follow()

        hook = self._torch.nn.modules.module.register_module_forward_pre_hook(begin)

    def of(self, roots: Iterable[Any]) -> float:
        """Return the weight of the batch from which a loss was computed."""
        latest, self._thread = self.loaders.latest, threading.get_ident()
        if latest is None or self._usual is None:
            return 1.0
        if latest.iteration.guessed:
            return latest.weight
        if self._follower is None:
            self._follow()  # of batches that were read ahead
            return self._usual
        with _disable_current_modes():
            keys = {key for root in roots for key in self._traces.of(root)} & set(self._waiting)
        self._used |= keys
        weights = [self._waiting[key].weight for key in sorted(keys)]
        return weights[-1] if weights else self._usual
