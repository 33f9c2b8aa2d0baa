"""Ratios between arms, taken within a repeat, and the seconds that they are made of. Pure; standard library only.

What could not be measured is None here; the reason goes into a dict that the caller passes along.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from training.comparison_schema import NO_RAY_PODS, ONE_RAY_RUN, RATIOS, Run, Spread

Repeat = dict[str, Run]
"""The runs of one repeat by arm, no arm missing."""

BETWEEN_SECONDS = 30.0
"""Most that an arm takes in a measurement beside its wall seconds: its pod, and reading its result."""
CLOCKS_SECONDS = 2.0
"""How far the clocks of a cluster's nodes may be apart; a run's start is kept in whole seconds."""

Seconds = Callable[[dict[str, Any]], float | None]


def spread(values: Sequence[float]) -> Spread:
    """Median and range over repeats; at least one value."""
    return {
        "median": float(statistics.median(values)),
        "low": float(min(values)),
        "high": float(max(values)),
        "n": len(values),
    }


def step_seconds(summary: dict[str, Any]) -> float | None:
    """Mean timed step in seconds; None when every step was warm-up."""
    if not summary["trainSeconds"] or not summary["timedSteps"]:
        return None
    return float(summary["trainSeconds"] / summary["timedSteps"])


def epoch_seconds(summary: dict[str, Any]) -> float | None:
    """Steady-state seconds of a whole epoch: warm-up steps, which are not timed, count as the mean timed step."""
    mean = step_seconds(summary)
    return None if mean is None else float(mean * summary["stepsPerEpoch"])


def seconds_to_accuracy(summary: dict[str, Any], accuracy: float) -> float | None:
    """Training seconds until the first epoch whose validation accuracy is at least `accuracy`; None if none is."""
    mean = step_seconds(summary)
    if mean is None:
        return None
    seconds = 0.0
    for epoch in summary["history"]:
        timed = epoch["trainSeconds"] and epoch["timedSteps"]
        step = epoch["trainSeconds"] / epoch["timedSteps"] if timed else mean
        seconds += float(step * summary["stepsPerEpoch"])
        if epoch["validationAccuracy"] >= accuracy:
            return seconds
    return None


def best_validation_accuracy(summary: dict[str, Any]) -> float | None:
    """Of the best epoch; None without a finished epoch."""
    return max((float(epoch["validationAccuracy"]) for epoch in summary["history"]), default=None)


def common_accuracy(repeats: Sequence[Repeat]) -> float | None:
    """The validation accuracy that every run reached: what time to accuracy can be measured to."""
    reached = [best_validation_accuracy(run.summary) for repeat in repeats for run in repeat.values()]
    present = [value for value in reached if value is not None]
    return min(present) if present and len(present) == len(reached) else None


def measure(repeats: Sequence[Repeat], workers: int, reasons: dict[str, str]) -> dict[str, Spread | None]:
    """The values of `RATIOS` by name; where a repeat lacks one, `reasons` says why.

    Steps and not totals are divided: the same where arms made the same steps, and per epoch where they stopped at
    different epochs.
    """
    speedups = [_ratio(repeat, "baseline", "ray", step_seconds) for repeat in repeats]
    per_repeat = {
        "speedup": speedups,
        "endToEndSpeedup": [_ratio(repeat, "baseline", "ray", _wall_seconds) for repeat in repeats],
        "efficiency": [value / workers if value is not None else None for value in speedups],
        "rayOverhead": [_ratio(repeat, "ray", "native", step_seconds) for repeat in repeats],
        "accuracyGap": [_accuracy_gap(repeat) for repeat in repeats],
    }
    values: dict[str, Spread | None] = {}
    for name in RATIOS:
        present = [value for value in per_repeat[name] if value is not None]
        values[name] = spread(present) if present else None
        if len(present) < len(repeats):
            reasons[name] = _why_missing(name, repeats)
    return values


def break_even_epochs(repeats: Sequence[Repeat], speedup: Spread | None, reasons: dict[str, str]) -> float | None:
    """Epochs after which Ray's extra start-up is earned back: extra start-up / seconds saved an epoch, both medians.

    0 when Ray starts no later. None, with a reason, when Ray saves nothing that could be measured.
    """
    saved = [_difference(repeat, "baseline", "ray", epoch_seconds) for repeat in repeats]
    extra = [_difference(repeat, "ray", "baseline", _startup_seconds) for repeat in repeats]
    present_saved = [value for value in saved if value is not None]
    present_extra = [value for value in extra if value is not None]
    if speedup is None or not present_saved or not present_extra:
        reasons["breakEvenEpochs"] = "the speedup was not measured"
        return None
    if speedup["median"] <= 1 or speedup["low"] <= 1:
        reasons["breakEvenEpochs"] = f"Ray saves nothing: {_range(speedup)} as fast"
        return None
    return max(0.0, statistics.median(present_extra) / statistics.median(present_saved))


def idle_ray_cpus(repeats: Sequence[Repeat], reasons: dict[str, str], *, pods: bool) -> Spread | None:
    """CPUs that all Ray pods together took between two Ray runs, while the other arms ran: one value a gap.

    From the last reading of a Ray run to the first of the next. `pods`: whether Ray is in pods at all. Where a gap
    gives no value, `reasons` says why; None if none does.
    """
    found = [rate for before, after in pairwise(repeats) if (rate := _idle_rate(before, after)) is not None]
    if not pods:
        reasons["idleRayCpus"] = NO_RAY_PODS
    elif not all(_readings(repeat["ray"], last=True) for repeat in repeats):
        reasons["idleRayCpus"] = "the CPU time of the Ray pods could not be read"
    elif len(repeats) == 1:
        reasons["idleRayCpus"] = ONE_RAY_RUN
    elif len(found) < len(repeats) - 1:
        reasons["idleRayCpus"] = "in a gap between two Ray runs there was more than the other arms, or other pods"
    return spread(found) if found else None


def _idle_rate(before: Repeat, after: Repeat) -> float | None:
    """CPUs of all Ray pods from one Ray run to the next; None where more than the other arms was between."""
    ends, starts = _readings(before["ray"], last=True), _readings(after["ray"], last=False)
    if not ends or ends.keys() != starts.keys():
        return None
    ended, others = max(at for at, _ in ends.values()), [run for arm, run in after.items() if arm != "ray"]
    most = sum(float(run.summary["wallSeconds"]) + BETWEEN_SECONDS for run in others)
    kept = min(map(started, others)) < ended - CLOCKS_SECONDS
    used = {pod: starts[pod][1] - seconds for pod, (_, seconds) in ends.items()}
    if kept or max(at for at, _ in starts.values()) - ended > most or min(used.values()) < 0:
        return None  # an older arm; a run that was given up, or a pause; a container that began anew
    return sum(seconds / (starts[pod][0] - ends[pod][0]) for pod, seconds in used.items())


def _readings(ray: Run, *, last: bool) -> dict[str, tuple[float, float]]:
    """When each Ray pod's CPU time was read, and the seconds; empty if that of one is not known."""
    pods = [ray.summary.get("rayHead") or {}, *ray.summary["workers"]]
    read = {pod.get("pod"): pod.get("containerCpu") for pod in pods}
    return {pod: tuple(both[-1 if last else 0]) for pod, both in read.items()} if all(read.values()) else {}


def started(run: Run) -> float:
    """When a run started, in seconds since the epoch."""
    return datetime.fromisoformat(str(run.summary["startedAt"])).timestamp()


def _wall_seconds(summary: dict[str, Any]) -> float | None:
    return float(summary["wallSeconds"])


def _startup_seconds(summary: dict[str, Any]) -> float | None:
    return float(summary["startupSeconds"])


def _ratio(repeat: Repeat, above: str, below: str, seconds: Seconds) -> float | None:
    if above not in repeat or below not in repeat:
        return None
    numerator, denominator = seconds(repeat[above].summary), seconds(repeat[below].summary)
    return numerator / denominator if numerator and denominator else None


def _difference(repeat: Repeat, above: str, below: str, seconds: Seconds) -> float | None:
    more, less = seconds(repeat[above].summary), seconds(repeat[below].summary)
    return None if more is None or less is None else more - less


def _accuracy_gap(repeat: Repeat) -> float | None:
    without, with_ray = (repeat[arm].summary["testAccuracy"] for arm in ("baseline", "ray"))
    return None if without is None or with_ray is None else 100 * (without - with_ray)


def _why_missing(name: str, repeats: Sequence[Repeat]) -> str:
    if name == "rayOverhead" and "native" not in repeats[0]:
        return "nativeArm is off"
    key = {"endToEndSpeedup": "wallSeconds", "accuracyGap": "testAccuracy"}.get(name, "trainSeconds")
    why = [_reason(run, key) for repeat in repeats for run in repeat.values() if not run.summary[key]]
    return "; ".join(why) or "not measured in every repeat"


def _reason(run: Run, key: str) -> str:
    reasons: Mapping[str, str] = run.summary["reasons"]
    return f"{run.name} has no {key}" + (f": {reasons[key]}" if key in reasons else "")


def _range(speedup: Spread) -> str:
    return f"{speedup['median']:.2f}× ({speedup['low']:.2f}× to {speedup['high']:.2f}×, {speedup['n']} repeats)"
