"""Notes where `torch.distributed.algorithms.Join` ends: within it ranks may make different numbers of steps.

A rank without batches waits there for the others, and then gets the weights of the one that made the last step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import guard, state


@guard.guarded("Joins can't be observed")
def observe_joins(module: Any) -> None:
    """Record the end of every Join. `module`: torch.distributed.algorithms.join."""
    module.Join.__exit__ = _leave(module.Join.__exit__)


@guard.around("the end of a Join could not be observed", *guard.STEPS)
def _leave(self: Any, *args: Any) -> Iterator[None]:
    ends = getattr(self, "_enable", True) and not any(args)
    if ends:
        state.current().look_in_join()
    yield
    if ends:
        state.current().end_join()
