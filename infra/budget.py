"""Advice on what to leave out of a measurement that would exceed `budgetMinutes`: costs, and the command lines.

Pure but for `warnings`, which reads what earlier runs took.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from compare.intervals import CONFIDENCE, t_quantile
from infra import run_history
from infra.estimate import Estimate, Range, Wanted, estimate, wanted
from infra.settings.problem import set_line
from infra.settings.settings import Settings
from training.contract.arms import NATIVE, RAYDATA, WIDE
from training.contract.provenance import PROJECT
from training.contract.timed import Timed

LEAST_STEPS = 20
"""The smallest number of steps that the advice proposes, because fewer steps hardly reach beyond the warm-up."""
COSTS = {
    NATIVE: "no figures for the cost of Ray itself",
    WIDE: "no comparison with a bigger machine",
}
"""The arms that may be left out, the least needed first, each with what the verdict can then no longer say."""
OF_A_METRIC = ("metric", "metricTarget", "metricTolerance")


@dataclass(frozen=True, kw_only=True)
class Change:
    """A changed setting that makes a measurement shorter, and the shorter measurement with its probable duration."""

    line: str
    """The command line that changes the setting."""
    cost: str
    """What the verdict can no longer say after the change."""
    wanted: Wanted
    total: Range


def seconds_of(settings: Settings) -> float | None:
    """Return the budget in seconds; None if the settings have no budget."""
    return None if settings.run.budget_minutes is None else 60.0 * settings.run.budget_minutes


def warnings(settings: Settings, project: Path = PROJECT) -> list[str]:
    """Return a warning if the measurement will probably exceed its budget; empty if it fits, or if nothing is known."""
    budget = seconds_of(settings)
    if budget is None:
        return []
    request = wanted(settings).of(settings.run.repeats.least)  # those of `auto` beyond them begin only if they fit
    basis = run_history.known(settings, request, project)
    estimated = estimate(request, basis.runs)
    if estimated is None or estimated.total.high <= budget:
        return []
    return ["\n".join(advice(settings, request, basis.runs, estimated))]


def advice(settings: Settings, request: Wanted, known: Sequence[Timed], estimated: Estimate) -> list[str]:
    """Return lines that say that the measurement fits its budget, which has to be set, or what to leave out."""
    budget = seconds_of(settings) or math.inf
    if estimated.total.high <= budget:
        return [f"that is within budgetMinutes {settings.run.budget_minutes}"]
    first = (
        f"a whole measurement will probably take {estimated.total}: more than budgetMinutes"
        f" {settings.run.budget_minutes} (runs that have a result are not repeated)"
    )
    enough = changes(settings, request, known)
    fits = [change for change in enough if change.total.high <= budget]
    if fits:
        return [f"{first}. Each of these alone makes it fit:", *map(_line, fits)]
    return [f"{first}. No one change is enough; these together:", *_together(settings, request, known)]


def _line(change: Change) -> str:
    return f"  {change.line}    ({change.total}: {change.cost})"


def changes(settings: Settings, request: Wanted, known: Sequence[Timed]) -> list[Change]:
    """Return the changes of single settings that make the measurement shorter, cheapest for the verdict first."""
    budget = seconds_of(settings) or math.inf
    shorter = (
        *_fewer_sides(request),
        *_fewer_repeats(request, known, budget),
        *_fewer_steps(settings, request, known, budget),
    )
    totals = [estimate(less, known) for _, _, less in shorter]
    return [
        Change(line=line, cost=cost, wanted=less, total=estimated.total)
        for (line, cost, less), estimated in zip(shorter, totals, strict=True)
        if estimated
    ]


Shorter = tuple[str, str, Wanted]
"""A command line, what the verdict can no longer say after it, and the measurement that is then left."""


def _fewer_sides(request: Wanted) -> Iterator[Shorter]:
    arms = {side.arm for side in request.sides}
    if any(side.workers != request.recipe.workers for side in request.sides):
        cost = "no figures for fewer workers"
        yield "pulumi config rm workersCurve", cost, request.without(curve=False)
    if RAYDATA.name in arms:
        yield "pulumi config rm dataArguments", "no gain of Ray Data", request.without(RAYDATA.name)
    for arm, cost in COSTS.items():
        if arm.name in arms and not request.recipe.worker_gpus:  # with GPUs neither is optional
            yield set_line(arm.switch, "false"), cost, request.without(arm.name)


def _fewer_repeats(request: Wanted, known: Sequence[Timed], budget: float) -> Iterator[Shorter]:
    """Yield the change to the largest number of repeats that fits the budget; to one repeat if no number fits."""
    if request.repeats > 1:
        most = _most(1, request.repeats - 1, lambda count: _fits(request.of(count), known, budget))
        yield set_line("repeats", most), _certainty(most, request.repeats), request.of(most)


def _certainty(repeats: int, before: int) -> str:
    """Return a text about the precision of fewer repeats: Student's t divided by the root of their number."""
    if repeats == 1:
        return "one repeat decides nothing"
    wider = _half_width(repeats) / _half_width(before)
    return f"the interval is {wider:.1f} times as wide as that of {before} repeats if the runs vary as much"


def _half_width(repeats: int) -> float:
    return t_quantile((1 + CONFIDENCE) / 2, repeats - 1) / math.sqrt(repeats)


def _fewer_steps(settings: Settings, request: Wanted, known: Sequence[Timed], budget: float) -> Iterator[Shorter]:
    """Yield the change to the largest number of steps that fits, if the workload can stop after a number of steps."""
    if "measureSteps" not in request.recipe.settings():
        return
    steps_of_runs = [timed.steps for timed in known if timed.arm in {side.arm for side in request.sides}]
    now = request.recipe.to_dict()["measureSteps"] or max(steps_of_runs, default=0)
    if now <= LEAST_STEPS or estimate(_ended_after(LEAST_STEPS, request), known) is None:
        return
    steps = _rounded(_most(LEAST_STEPS, now - 1, lambda count: _fits(_ended_after(count, request), known, budget)))
    removed = [f"pulumi config rm {key}" for key in OF_A_METRIC if key in settings.explicit]
    cost = f"each rank ends after {steps} steps, so what the training reaches is unknown"
    yield " && ".join([*removed, set_line("measureSteps", steps)]), cost, _ended_after(steps, request)


def _ended_after(steps: int, request: Wanted) -> Wanted:
    recipe = request.recipe.from_dict(request.recipe.to_dict() | {"measureSteps": steps})
    return replace(request, recipe=recipe)


def _rounded(steps: int) -> int:
    """Return the number rounded down to its first two digits."""
    unit = int(10 ** max(0, len(str(steps)) - 2))
    return steps - steps % unit


def _most(least: int, most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number that fits, or `least` if none does. Below a number that fits, all have to fit."""
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least


def _fits(request: Wanted, known: Sequence[Timed], budget: float) -> bool:
    estimated = estimate(request, known)
    return estimated is not None and estimated.total.high <= budget


def _together(settings: Settings, request: Wanted, known: Sequence[Timed]) -> list[str]:
    """Return lines with one change after another until the measurement fits. The last line says so if it never does."""
    budget, lines, less = seconds_of(settings) or math.inf, list[str](), request
    total = Range(low=0.0, high=math.inf)
    while total.high > budget:
        left = [change for change in changes(settings, less, known) if change.wanted != less]
        if not left:
            return [
                *lines,
                f"  and even then it takes {total}: budgetMinutes {math.ceil(total.high / 60)} would do",
            ]
        change = left[0]
        less, total = change.wanted, change.total
        lines.append(_line(change))
    return lines
