"""Values of runs put together over the repeats: spreads of an arm's measures, estimates of ratios. Pure.

What could not be measured is None here; the reason goes into a dict that the caller passes along.
"""

import statistics
from collections.abc import Sequence

from compare import measures
from compare.clock import Clock, Pair, clock_of
from compare.intervals import Interval, decide, mean_interval, ratio_interval, repeats_to_decide
from compare.measurement import Measurement, Repeat, Run, why_absent
from compare.measures import Ratio
from compare.schema import Estimate, RunLink, Spread

ZERO = "it is 0 in some run, and nothing can be divided by it"


def spread(values: Sequence[float]) -> Spread:
    """Median and range over repeats; at least one value."""
    return Spread(
        median=float(statistics.median(values)),
        low=float(min(values)),
        high=float(max(values)),
        n=len(values),
        values=[float(value) for value in values],
    )


def estimate(values: Sequence[float], words: tuple[str, str] | None = ("slower", "faster")) -> Estimate:
    """Estimate from one or more positive ratios: the interval of their logarithms, and its decision in these words."""
    interval = ratio_interval(values)
    decision = decide(interval)
    is_open = decision == "not decided" and words is not None
    decision_word = {"below": words[0], "above": words[1]}.get(decision, decision) if words else ""
    return _estimate(values, interval, decision_word, repeats_to_decide(values) if is_open else None)


def _difference(values: Sequence[float]) -> Estimate:
    """Estimate from differences; they have no 1 to lie above or below, so nothing is decided."""
    return _estimate(values, mean_interval(values), "", None)


def _estimate(values: Sequence[float], interval: Interval | None, decision: str, repeats: int | None) -> Estimate:
    return Estimate(
        **vars(spread(values)),
        lower=interval.lower if interval else None,
        upper=interval.upper if interval else None,
        decision=decision,
        repeats_to_decide=repeats,
    )


def measures_of(arm: str, measurement: Measurement, reasons: dict[str, str]) -> dict[str, Spread | None]:
    """Return every measure of an arm by name; if none of its runs has it, `reasons` gets why."""
    spreads: dict[str, Spread | None] = {}
    for each in measures.measures_of(measurement.recipe.workload):
        values = [each.of(run, measurement) for run in measurement.of(arm)]
        present = [value for value in values if value is not None]
        spreads[each.name] = spread(present) if present else None
        if not present:
            run_reason = measurement.of(arm)[0].result.reasons.get(each.because or each.name)
            reasons[f"{arm}.{each.name}"] = run_reason or each.otherwise
    return spreads


def ratios_of(measurement: Measurement, reasons: dict[str, str]) -> dict[str, Estimate | None]:
    """Return every ratio by name, taken within the repeats; if a repeat lacks one, `reasons` gets why."""
    estimates: dict[str, Estimate | None] = {}
    for each in measures.ratios_of(measurement.recipe.workload):
        values = [_within(each, repeat, measurement) for repeat in measurement.repeats]
        present = [value for value in values if value is not None]
        estimates[each.name] = _put_together(each, present) if present else None
        if len(present) < len(measurement.repeats):
            reasons[each.name] = _why_no_ratio(each, measurement)
    return estimates


def _put_together(each: Ratio, values: Sequence[float]) -> Estimate:
    return _difference(values) if each.kind == "difference" else estimate(values, each.words)


def _within(each: Ratio, repeat: Repeat, measurement: Measurement) -> float | None:
    if each.above not in repeat or each.below not in repeat:
        return None
    return each.value(repeat[each.above], repeat[each.below], measurement)


def _why_no_ratio(each: Ratio, measurement: Measurement) -> str:
    absent = [name for name in (each.above, each.below) if name not in measurement.arms]
    if absent:
        return why_absent(absent[0], measurement.context)
    lacking = [
        run for name in (each.above, each.below) for run in measurement.of(name) if each.of(run, measurement) is None
    ]
    if not lacking and each.kind == "quotient":
        return ZERO
    run_reasons = [
        f"{run.name} has no {each.because}: {why}" for run in lacking if (why := run.result.reasons.get(each.because))
    ]
    return "; ".join(run_reasons) or each.otherwise


def clock_pairs(measurement: Measurement, alternative: str, subject: str) -> list[Pair]:
    """The whole clocks of an alternative and of the subject, repeat by repeat."""
    return [(_clock(repeat[alternative]), _clock(repeat[subject])) for repeat in measurement.repeats]


def _clock(run: Run) -> Clock:
    return clock_of(run.result)


def link(run: Run) -> RunLink:
    """Return the link to a run that was compared."""
    return RunLink(
        name=run.name,
        repeat=run.repeat,
        seed=run.result.recipe["seed"],
        path=run.path,
        sha256=run.sha256,
        started_at=run.result.started_at,
        wall_seconds=run.result.seconds.wall,
    )
