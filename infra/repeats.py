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
"""The number of repeats that an update adds while the measurement is not decided. With four arms, the effects of their
order cancel out over four repeats."""


def chosen(settings: Settings, plans: Sequence[RunPlan]) -> tuple[RunPlan, ...]:
    """Return the planned runs that the stack should have now. Raise RunError if the stack's outputs cannot be read."""
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
    """Return the number of repeats that the stack should have now.

    Args:
        comparison: The stack's last comparison, of any version; None without an earlier comparison.
        measurement: The hash of the measurement. A comparison of another measurement is ignored.
        at_a_time: The number of repeats to add if the comparison is not decided.
    """
    if comparison is None or comparison.get("measurement") != measurement:
        return FIRST_REPEATS
    finished = _repeats_of(comparison)
    added = at_a_time if comparison.get("auto") == GOES_ON else 0
    return min(max(finished + added, FIRST_REPEATS), MOST_AUTO_REPEATS)


def words(comparison: Mapping[str, Any] | None, measurement: str, number: int) -> str:
    """Return a text about the repeats that an update adds to an undecided measurement; empty for a new or decided one.

    Args:
        comparison: The stack's last comparison, of any version; None without an earlier comparison.
        measurement: The hash of the measurement.
        number: The number of repeats that the stack should have now.
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
    """Return the number of repeats to add: the usual number, but no more than will probably end within the budget,
    which is the budget of one update."""
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
    """Return the output `comparison` that the last update of this stack left; None if there is no such output. Raise
    RunError if the outputs cannot be read."""
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
