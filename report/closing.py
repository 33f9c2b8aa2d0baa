"""The last lines of `rwi up`: the answer, a sentence, the machine, the report, what to type next. Pure.

Everything else stands above them, or in the report.
"""

import math
from collections.abc import Mapping
from pathlib import Path

from cli.setup.project import DEFAULT_STACK, ROOT
from compare.in_short import in_short, is_beyond_doubt, is_disturbed, machine_in_short, open_ratios
from compare.intervals import auto_would_decide
from compare.schema import Bound, Comparison
from compare.stopping import BUDGET, lacks_time, repeat_seconds
from compare.words import duration
from report import step_parts
from report.table import WIDTH, wrap
from training.contract.repeats import AUTO, FIRST_REPEATS, GOES_ON, MOST_AUTO_REPEATS, MOST_REPEATS, NOT_BESIDE_AUTO
from training.contract.workload import named
from training.machine.command_line import from_there, rwi

ROOM = 1.2
"""Factor by which an advised budget is longer than a repeat."""


def render(comparison: Comparison, stack: str, page: Path | None, settings: Mapping[str, str]) -> str:
    """Return the last lines of `rwi up`, without a newline at the end.

    Args:
        comparison: The result of the measurement.
        stack: The name of the stack.
        page: The report; None if there is no report.
        settings: The settings of this call, as `--set` has them.
    """
    machine = machine_in_short(comparison)
    lines = [comparison.answer, wrap(in_short(comparison)), *([wrap(machine)] if machine else [])]
    if page:
        lines.append(_report_line(page.resolve()))
    if step_parts.long_waits(comparison):
        lines.append(_why_line(stack, settings))
    return "\n".join([*lines, f"next: {next_step(comparison, stack, settings)}"])


def _report_line(page: Path) -> str:
    """Return the line with the report's address, or, if that is too long for a terminal, its path in this project."""
    line = f"report: {page.as_uri()}"
    if len(line) <= WIDTH or not page.is_relative_to(ROOT):
        return line
    return f"report: {from_there(str(page.relative_to(ROOT)))}"


def _why_line(stack: str, settings: Mapping[str, str]) -> str:
    """Return the line with the command that says more of waits, which needs `--stack` for the default stack, too."""
    command = f"why --stack {stack}" if stack == DEFAULT_STACK else "why"
    return f"why: {rwi(command, stack, settings)}    # steps wait for input or gradients: what is gained without"


def smoke(comparison: Comparison) -> str:
    """Return the line that ends `rwi up --stack smoke`: everything runs, and the runs are too small for an answer."""
    known = [passed for passed in comparison.checks.values() if passed is not None]
    return (
        f"smoke: all {len(comparison.arms)} arms ran, {sum(known)} of {len(known)} checks passed."
        " It is no measurement: it is too small for an answer"
    )


def next_step(comparison: Comparison, stack: str, settings: Mapping[str, str]) -> str:
    """Return the command that the user can type next, with a comment that says what the command is for."""
    if is_disturbed(comparison) and not is_beyond_doubt(comparison):
        repeats = {"repeats": str(FIRST_REPEATS)} if comparison.repeats < FIRST_REPEATS else {}
        again = f"{rwi('destroy', stack)} && {rwi('up', stack, {**settings, **repeats})}"
        return f"{again}    # when the machine is quiet; results stay"
    if comparison.answer == "Not comparable":
        return f"{rwi('report open', stack)}    # what differs, check by check"
    if comparison.auto == GOES_ON:  # also where the answer is a no that longer training might change
        return _to_go_on(comparison, stack, settings)
    if comparison.answer == "Not decided":
        return _to_decide(comparison, stack, settings)
    longer, trained = comparison.longer, named(comparison.workload)
    if longer and longer.probably and not longer.not_advised:
        line = rwi("up", stack, {**settings, trained.passes_key: str(longer.probably)})
        return f"{line}    # Ray probably gains 5 % then: about {duration(longer.seconds or 0.0)}"
    return f"{rwi('report open', stack)}    # where the time goes"


def _to_go_on(comparison: Comparison, stack: str, settings: Mapping[str, str]) -> str:
    if not lacks_time(comparison):
        is_open = comparison.answer == "Not decided"
        is_hopeless = is_open and any(each.repeats_to_decide is None for each in open_ratios(comparison))
        but = f"though {MOST_AUTO_REPEATS} repeats would probably not decide"
        line = rwi("up", stack, settings)
        return f"{line}    # goes on; {but if is_hopeless else 'runs that are there are kept'}"
    enough = {BUDGET: str(math.ceil(ROOM * repeat_seconds(comparison) / 60))}
    return f"{rwi('up', stack, {**settings, **enough})}    # goes on: so long takes a repeat, and the budget is less"


def _to_decide(comparison: Comparison, stack: str, settings: Mapping[str, str]) -> str:
    if comparison.bound:
        return _of_bound(comparison, comparison.bound, stack, settings)
    if comparison.claim in ("same script", "it finished"):
        return f"{rwi('report open', stack)}    # what is not known of the runs"
    still_open = open_ratios(comparison)
    repeats = max([FIRST_REPEATS, *(each.repeats_to_decide or MOST_REPEATS + 1 for each in still_open)])
    if not comparison.repeats < repeats <= MOST_REPEATS or comparison.auto:
        return f"{rwi('report open', stack)}    # how far the runs lie apart"
    if comparison.repeats == 1:  # it had no interval that could have been looked at
        return f"{rwi('up', stack, {**settings, 'repeats': str(repeats)})}    # runs that are there are kept"
    by_auto = all(auto_would_decide(each.values) for each in still_open)
    if by_auto and repeats <= MOST_AUTO_REPEATS and _may_be_auto(comparison):
        return f"{rwi('up', stack, {**settings, 'repeats': AUTO})}    # until it is decided; earlier runs are kept"
    restarted = f"{rwi('destroy', stack)} && {rwi('up', stack, {**settings, 'repeats': str(repeats)})}"
    return f"{restarted}    # from the start: repeats that are added until it is decided err more often"


def _of_bound(comparison: Comparison, bound: Bound, stack: str, settings: Mapping[str, str]) -> str:
    if bound.repeats_to_decide and _may_be_auto(comparison):
        return f"{rwi('up', stack, {**settings, 'repeats': AUTO})}    # until it is decided; earlier runs are kept"
    return f"{rwi('report open', stack)}    # what to write to know more, and when it could be worth it"


def _may_be_auto(comparison: Comparison) -> bool:
    return not comparison.auto and comparison.settings.keys().isdisjoint(NOT_BESIDE_AUTO)
