"""How many repeats a stack has now: as set, or with `repeats auto` as its own last outputs say.

Outputs are in the backend, and no file of this machine is asked: a preview elsewhere plans the same runs.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from compare.measurement import CompareError
from compare.schema import Comparison
from compare.stopping import open_words, repeat_seconds
from infra import budget, own_state
from infra.plan import RunPlan
from infra.settings.settings import Settings
from training.contract.repeats import AT_A_TIME_VARIABLE, AUTO, FIRST_REPEATS, GOES_ON, MOST_AUTO_REPEATS

AT_A_TIME = 4
"""Repeats that an update adds while it is not decided: with four arms the order of their turns cancels out in four."""


def chosen(settings: Settings, plans: Sequence[RunPlan]) -> tuple[RunPlan, ...]:
    """Return those of the planned runs that the stack is to have now. Raises RunError if its outputs cannot be read."""
    if not settings.run.repeats.is_auto:
        return tuple(plans)
    comparison = _last_comparison()
    number = repeats_now(comparison, plans[0].measurement, _at_a_time(settings, comparison))
    # `rwi up` shows its preview, which has told it.
    is_told = AT_A_TIME_VARIABLE in os.environ and not pulumi.runtime.is_dry_run()
    if (text := words(comparison, plans[0].measurement, number)) and not is_told:
        pulumi.log.info(text)
    return tuple(plan for plan in plans if plan.repeat <= number)


def repeats_now(comparison: Mapping[str, Any] | None, measurement: str, at_a_time: int) -> int:
    """Return how many repeats there are to be.

    Args:
        comparison: The stack's last one, of any version; None if there is none.
        measurement: What is to be measured. What another one found decides nothing of it.
        at_a_time: Repeats to add where it is not decided.
    """
    if comparison is None or comparison.get("measurement") != measurement:
        return FIRST_REPEATS
    finished = _repeats_of(comparison)
    added = at_a_time if comparison.get("auto") == GOES_ON else 0
    return min(max(finished + added, FIRST_REPEATS), MOST_AUTO_REPEATS)


def words(comparison: Mapping[str, Any] | None, measurement: str, number: int) -> str:
    """Return what an update adds to a measurement that goes on; "" of another one, which begins anew.

    Args:
        comparison: The stack's last one, of any version; None if there is none.
        measurement: What is to be measured.
        number: How many repeats there are to be.
    """
    if comparison is None or comparison.get("measurement") != measurement or comparison.get("auto") != GOES_ON:
        return ""
    finished = _repeats_of(comparison)
    until_now = f"repeats {AUTO}: {open_words(str(comparison.get('answer')), finished)}"
    if number <= finished:
        return f"{until_now}; another would not end within budgetMinutes"
    next_ones = f"repeat {number} is" if number == finished + 1 else f"repeats {finished + 1} to {number} are"
    return f"{until_now}; {next_ones} next, of at most {MOST_AUTO_REPEATS}"


def _at_a_time(settings: Settings, comparison: Mapping[str, Any] | None) -> int:
    """Return how many repeats to add: as many as probably end within the budget, which is of one update."""
    number = int(os.environ.get(AT_A_TIME_VARIABLE) or AT_A_TIME)
    seconds = budget.seconds_of(settings)
    if seconds is None or comparison is None:
        return number
    try:
        of_one = repeat_seconds(Comparison.from_json(json.dumps(comparison)))
    except CompareError:  # of another version: how long it took is not known
        return number
    return min(number, int(seconds / of_one)) if of_one else number


def _repeats_of(comparison: Mapping[str, Any]) -> int:
    return max((len(arm["runs"]) for arm in comparison["arms"].values()), default=0)


def _last_comparison() -> dict[str, Any] | None:
    """Return the output `comparison` of this stack as its last update left it; None if there is none."""
    try:
        outputs = own_state.outputs()
        return json.loads(outputs["comparison"]) if "comparison" in outputs else None
    except Exception as error:  # noqa: BLE001 - of the engine, of any kind
        raise pulumi.RunError(
            f"repeats {AUTO}: the outputs of stack {own_state.name()} say how many there are, and cannot be read:"
            f" {error}\n"
            f"Nothing was changed: try again. A number needs no outputs, and leaves out the repeats beyond it:\n"
            f"  pulumi config set repeats {FIRST_REPEATS}"
        ) from None
