"""Where a step's time goes, arm by arm, as rows, sentences and bars, the same in the table and on the page. Pure."""

from collections.abc import Mapping

from compare.schema import Comparison, StepTimes
from compare.words import enumerated
from report.figures import MISSING
from training.contract.arms import NATIVE, RAY

WORDS = {
    "input": "input",
    "compute": "compute",
    "exchange": "exchange",
    "waiting": "waiting",
    "collective": "collectives",
    "optimizer": "optimizer",
    "save": "saving",
    "report": "reporting",
    "between": "between",
}
"""Heading of each part of a step, in the order of the columns. `exchange` is the time of the link between ranks; the
time in which rank 0 waits for slower ranks is `waiting`."""
SHOWN_SHARE = 0.01
"""A part that in every arm is shorter than this share of the step is left out."""
WAITS = ("input", "exchange", "waiting")
"""Parts in which a step waits for input or gradients."""
LONG_WAIT = 0.1
"""If these parts together take more than this share of a step, the report names the command `rwi why`."""
NOTED_WAIT = 0.05
"""If threads wait for a CPU for at least this share of a step, the report says so."""


def by_arm(comparison: Comparison) -> dict[str, dict[str, float]]:
    """Return the seconds of each part of a step, by arm. Arms without such times are left out."""
    arms = {name: comparison.arms[name].step_parts for name in comparison.shown_arms()}
    return large({name: times.parts for name, times in arms.items() if times})


def large(parts: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the parts of each arm in the order of `WORDS`, without parts that are short in all arms."""
    shown = [
        part
        for part in WORDS
        if any(of_arm.get(part, 0.0) >= SHOWN_SHARE * sum(of_arm.values()) > 0 for of_arm in parts.values())
    ]
    return {arm: {part: of_arm[part] for part in shown if part in of_arm} for arm, of_arm in parts.items()}


def shown_parts(parts: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the names of the parts that any arm has, in the order of `WORDS`."""
    return [name for name in WORDS if any(name in of_arm for of_arm in parts.values())]


def rows(comparison: Comparison) -> list[list[str]]:
    """Return the heading and a row of milliseconds of a step's parts for each arm; empty if no arm has them."""
    parts = by_arm(comparison)
    names = shown_parts(parts)
    if not names:
        return []
    heading = ["ms of a step", *(WORDS[name] for name in names)]
    return [heading, *([arm, *(milliseconds(of_arm.get(name)) for name in names)] for arm, of_arm in parts.items())]


def milliseconds(seconds: float | None) -> str:
    """Return a time in milliseconds: `1,234.5`, or a dash if the time is not known."""
    return MISSING if seconds is None else f"{1000 * seconds:,.1f}"


def remarks(comparison: Comparison) -> list[str]:
    """Return what the parts do not show: the slowest rank of an arm, and how long threads waited for a CPU."""
    arms = {name: comparison.arms[name].step_parts for name in comparison.shown_arms()}
    texts = [
        f"{name}: rank {times.slowest_rank} is the slowest. Its own work takes"
        f" {milliseconds(times.slower_seconds)} ms a step longer than that of the others, with 95 % confidence."
        for name, times in arms.items()
        if times and times.slowest_rank is not None
    ]
    waits = {name: times.cpu_wait_seconds for name, times in arms.items() if times and _waits_for_cpus(times)}
    if waits:
        shown = ", ".join(f"{name} {milliseconds(seconds)}" for name, seconds in waits.items())
        texts.append(f"Threads of rank 0 waited for a CPU, ms a step, added over them: {shown}.")
    return texts


def long_waits(comparison: Comparison) -> str:
    """Return how long steps wait for input or gradients: `ray waits 12.0 of 84.0 ms`; "" if no arm waits long."""
    times = {name: arm.step_parts for name in (NATIVE.name, RAY.name) if (arm := comparison.arms.get(name))}
    steps = {name: sum(of_arm.parts.values()) for name, of_arm in times.items() if of_arm}
    waits = {name: sum(of_arm.parts.get(part, 0.0) for part in WAITS) for name, of_arm in times.items() if of_arm}
    return enumerated(
        [
            f"{name} waits {milliseconds(seconds)} of {milliseconds(steps[name])} ms"
            for name, seconds in waits.items()
            if seconds > LONG_WAIT * steps[name]
        ]
    )


def _waits_for_cpus(times: StepTimes) -> bool:
    return (times.cpu_wait_seconds or 0.0) >= NOTED_WAIT * sum(times.parts.values())
