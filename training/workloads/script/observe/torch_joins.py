"""Notes where `torch.distributed.algorithms.Join` ends: within it ranks may make different numbers of steps.

A rank without batches waits there for the others, and then gets the weights of the one that made the last step.
"""

from __future__ import annotations

import functools
from typing import Any

from . import state


def observe_joins(module: Any) -> None:
    """Note the end of every Join. `module`: torch.distributed.algorithms.join."""
    leave = module.Join.__exit__

    @functools.wraps(leave)
    def leave_observed(self: Any, *args: Any) -> Any:
        result = leave(self, *args)
        if getattr(self, "_enable", True) and not any(args):
            try:
                state.current().end_join()
            except Exception as error:  # noqa: BLE001 (the script goes on)
                state.note(f"the end of a Join could not be observed: {error!r}")
        return result

    module.Join.__exit__ = leave_observed
