"""Ratios between arms, taken within a repeat, and the seconds that they are made of. Pure; standard library only.

What could not be measured is None here; the reason goes into a dict that the caller passes along.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from training.comparison_schema import RATIOS, Run, Spread

Repeat = dict[str, Run]
"""The runs of one repeat by arm, no arm missing."""

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


def idle_ray_cpus(repeats: Sequence[Repeat], reasons: dict[str, str]) -> Spread | None:
    """CPUs that all Ray pods together took between two Ray runs, while the other arms ran: one value a gap.

    From the last reading of a Ray run to the first of the next, in the same pods. None, with a reason, without a gap.
    """
    ends = [_readings(repeat["ray"], last=True) for repeat in repeats]
    starts = [_readings(repeat["ray"], last=False) for repeat in repeats]
    if not any(ends):
        reasons["idleRayCpus"] = "no Ray pods stand beside the other arms"
        return None
    found = [
        sum((starts[i][pod][1] - seconds) / (starts[i][pod][0] - at) for pod, (at, seconds) in ends[i - 1].items())
        for i in range(1, len(repeats))
        if ends[i - 1] and ends[i - 1].keys() == starts[i].keys() and _between(repeats[i]["baseline"], ends[i - 1])
    ]
    if not found:
        reasons["idleRayCpus"] = "read between two Ray runs of the same pods with the other arms between: set repeats 2"
        return None
    return spread(found)


def _readings(ray: Run, *, last: bool) -> dict[str, tuple[float, float]]:
    """When each Ray pod's CPU time was read, and the seconds; empty if that of one is not known."""
    cluster: dict[str, Any] = ray.summary["ray"] or {}
    read = {worker["node"]: worker.get("containerCpu") for worker in ray.summary["workers"]}
    read[cluster.get("head", "")] = cluster.get("headCpu")
    return {pod: tuple(both[-1 if last else 0]) for pod, both in read.items()} if all(read.values()) else {}


def _between(baseline: Run, ends: Mapping[str, tuple[float, float]]) -> bool:
    """Not so where a baseline was kept: its Ray run then followed another."""
    return started(baseline) > max(at for at, _ in ends.values()) - CLOCKS_SECONDS


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
