"""Decides which optimizer's steps are the steps of a PyTorch script: those that count.

The first that steps has the clock. An epoch, a fold or a phase may have an optimizer of its own, which takes the clock
with its first step. Of optimizers that step in turns, as a generator's and a discriminator's, one has it: the others
step with batches of which a step was counted already. All ranks decide alike: nothing here depends on when an object
is freed.
"""

from __future__ import annotations

from .state import State
from .work import Optimizer

LATE = 32
"""Steps between two that count, after which an optimizer takes the clock, whatever it is: the other one is left. What
it did so long is not known."""


def takes(now: State, optimizer: Optimizer) -> bool:
    """Return whether the step that an optimizer has just made counts, and those after it."""
    clock = now.clock_of
    if clock is None or clock is optimizer:
        return True
    if not isinstance(clock, Optimizer):  # of another framework
        return False
    if clock.is_over:
        return True
    if optimizer.steps > 1 and not optimizer.had_clock:
        return optimizer.between >= LATE
    has_batch = not (now.loaders and now.read_for_next)
    return (has_batch and (shares(optimizer, clock) or now.begins_pass())) or optimizer.between >= LATE


def shares(optimizer: Optimizer, other: Optimizer) -> bool:
    """Return whether one trains a parameter of the other."""
    theirs = {id(weight) for weight in (reference() for reference in other.weights) if weight is not None}
    return any(id(reference()) in theirs for reference in optimizer.weights)
