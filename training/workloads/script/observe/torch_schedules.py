"""Records who sets PyTorch's learning rates: the schedules of torch.optim.lr_scheduler, or the script by itself.

A rate that follows a metric differs between two correct runs, so what set it is compared, and not what it was.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from . import guard, state
from .torch_parts import compiles
from .work import Optimizer, Schedule

MODULE = "torch.optim.lr_scheduler"
OF_A_METRIC = {
    "ReduceLROnPlateau": ("mode", "factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lrs", "eps")
}
"""Schedules that follow a metric, each with the constants that decide how they follow it."""
OF_A_FUNCTION = ("LambdaLR", "MultiplicativeLR")
"""Schedules that follow a function of the script, which may depend on anything."""


COUNTERS = ("last_epoch", "_step_count", "_last_lr", "T_cur", "T_i", "_get_lr_called_within_step", "_is_initial")
"""Attributes of schedules that change from step to step."""


_seen: dict[int, tuple[Callable[[], Any], Schedule]] = {}
"""The records of schedules, each with a weak reference to the schedule, by its id."""


@guard.guarded("PyTorch's learning rate schedules can't be observed", "learningRate")
def observe_schedules(module: Any) -> None:
    """Have the observer called at each step of each schedule. `module`: torch.optim.lr_scheduler."""
    unless = functools.partial(compiles, sys.modules["torch"])
    for kind in list(vars(module).values()):
        if isinstance(kind, type) and callable(vars(kind).get("step")):
            kind.step = _step(kind.step, unless=unless)  # type: ignore[attr-defined]


@guard.around("a learning rate schedule could not be observed", "learningRate")
def _step(self: Any, *_: Any, **__: Any) -> Iterator[None]:
    yield
    _note(self)


def _note(schedule: Any) -> None:
    """Record a step of a schedule, but not before its optimizer's first: until then it sets the first rates."""
    work = state.current().work
    optimizer = work.known(schedule.optimizer)
    if optimizer is None:
        return
    optimizer.expected_rates = rates_of(schedule.optimizer)
    reference, seen = _seen.get(id(schedule), (None, None))
    rule, follows = _rule(schedule)
    if seen is None or reference is None or reference() is not schedule:
        seen = work.add_schedule(rule, follows)
        _seen[id(schedule)] = weakref.ref(schedule), seen
    if follows == "metric" and rule != seen.rule:  # the script has changed it since
        seen.follows = ""
    seen.step(optimizer)


def _rule(schedule: Any) -> tuple[str, str]:
    """Return a schedule's class with its constants, and what it follows: `metric`, `steps`, or "" if not known."""
    kind = type(schedule)
    if kind.__module__ != MODULE or kind.__name__ in OF_A_FUNCTION:
        return kind.__name__, ""
    of_a_metric = OF_A_METRIC.get(kind.__name__)
    names = of_a_metric or sorted(name for name, value in vars(schedule).items() if _is_constant(name, value))
    constants = ", ".join(f"{name}={getattr(schedule, name, None)}" for name in names)
    return f"{kind.__name__}({constants})", "metric" if of_a_metric else "steps"


def _is_constant(name: str, value: Any) -> bool:
    """Return whether an attribute is a number, a text or several of them, and does not count the schedule's steps."""
    several = list(value) if isinstance(value, (list, tuple, dict)) else [value]
    return name not in COUNTERS and all(isinstance(each, (int, float, str)) for each in several)


def see(optimizer: Optimizer, rates: list[float]) -> None:
    """Record a step of an optimizer with the learning rates of its groups; note if something other than a schedule has
    changed a rate. The script may have added groups."""
    expected = optimizer.expected_rates or rates
    both = min(len(rates), len(expected))
    if rates[:both] != expected[:both]:
        state.current().work.rates_by_hand = True
    optimizer.expected_rates = rates


def rates_of(optimizer: Any) -> list[float]:
    """Return the learning rates of an optimizer's groups."""
    return [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
