"""The comparison: finished runs of all arms in, ratios within a repeat, a verdict and its reasons out.

Pure: the same runs give the same JSON. It reads no file, and does not run or print anything. Standard library only.
"""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from training import fairness, ratios, verdict
from training.comparison_schema import RATIOS, SCHEMA_VERSION, CompareError, ComparisonData, Context, Run, RunLink
from training.config import ARMS, canonical
from training.projection import project
from training.ratios import Repeat

__all__ = ["CompareError", "Comparison", "Context", "Run", "compare"]

_NUMBERS = (*RATIOS, "breakEvenEpochs")
_IDLE = "idleRayCpus"
_COPIED = (
    "trainSeconds",
    "imagesPerSecond",
    "startupSeconds",
    "warmupSeconds",
    "evaluationSeconds",
    "reportSeconds",
    "wallSeconds",
    "testAccuracy",
    "testLoss",
    "epochsCompleted",
)
_OVER_WORKERS: dict[str, Callable[[Sequence[float]], float]] = {
    "peakMemoryBytes": max,
    "throttledSeconds": max,
    "meanCpus": statistics.fmean,
}


@dataclass(frozen=True)
class Comparison:
    """A comparison, and its two forms in the outputs."""

    data: ComparisonData

    def to_json(self) -> str:
        """Canonical JSON, without NaN: equal comparisons give equal text."""
        return canonical(self.data)

    def scalars(self) -> dict[str, float | str | None]:
        """Medians and the verdict by output name; None for what was not measured."""
        values: dict[str, float | str | None] = {}
        for name in _NUMBERS:
            value = cast("Mapping[str, Any]", self.data)[name]
            values[name] = value["median"] if isinstance(value, dict) else value
        return values | {"verdict": self.data["verdict"]}

    @classmethod
    def from_json(cls, text: str) -> "Comparison":
        """Raises CompareError saying what is wrong with the text."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise CompareError(f"no comparison, but {text.strip()[:40]!r}: {error}") from None
        if not isinstance(data, dict) or data.get("schemaVersion") != SCHEMA_VERSION:
            version = data.get("schemaVersion") if isinstance(data, dict) else None
            raise CompareError(
                f"the comparison's schemaVersion is {version!r} and this program reads {SCHEMA_VERSION}: "
                "run `make up` to compare again"
            )
        if _IDLE not in data:  # which the first comparisons of this version had not
            data[_IDLE], data["reasons"] = None, {_IDLE: "measured before it was read"} | data.get("reasons", {})
        missing = sorted(set(ComparisonData.__annotations__) - set(data))
        if missing:
            raise CompareError(f"the comparison lacks {', '.join(missing)}: run `make up` to compare again")
        return cls(cast("ComparisonData", data))


def compare(runs: Sequence[Run], context: Context) -> Comparison:
    """Compare finished runs.

    Repeats that lack an arm are left out, with a reason. Raises CompareError, naming the field, when a run was not
    trained with the recipe of the others.
    """
    arms = [arm for arm in ARMS if arm != "native" or context.native_arm]
    wanted = [run for run in runs if run.arm in arms]
    fairness.refuse_different_recipes(wanted, context)
    repeats, reasons = _complete_repeats(wanted, arms, context.repeats)
    checks = fairness.verify(repeats, context.recipe) if repeats else {}
    reasons |= {f"checks.{name}": why for name, (passed, why) in checks.items() if passed is not True}
    if not context.native_arm:
        reasons["native"] = "nativeArm is off"
    values = _values(repeats, context, checks, reasons)
    qualifiers = verdict.qualifiers(values, repeats, checks, context)
    reasons |= {f"verdict.{name}": text for name, text in qualifiers.items()}
    data = {
        "schemaVersion": SCHEMA_VERSION,
        **values,
        **{arm: _arm_summary(arm, repeats, reasons) if repeats and arm in arms else None for arm in ARMS},
        "verdict": verdict.sentence(values, repeats, checks, qualifiers, context),
        "recipe": context.recipe,
        "settings": context.settings,
        "checks": {name: passed for name, (passed, _) in checks.items()},
        "projection": project(repeats, context.recipe, reasons),
        "reasons": reasons,
    }
    return Comparison(cast("ComparisonData", data))


def _complete_repeats(runs: Sequence[Run], arms: Sequence[str], wanted: int) -> tuple[list[Repeat], dict[str, str]]:
    """The repeats that have every arm, in order, and why the others are left out."""
    found: dict[int, Repeat] = {repeat: {} for repeat in range(1, wanted + 1)}
    for run in sorted(runs, key=lambda run: (run.repeat, ARMS.index(run.arm))):
        there = found.setdefault(run.repeat, {}).setdefault(run.arm, run)
        if there is not run:
            raise CompareError(f"repeat {run.repeat} has two runs of {run.arm}: {there.name} and {run.name}")
    lacking = {number: [arm for arm in arms if arm not in found[number]] for number in sorted(found)}
    reasons = {f"repeats.{n}": f"left out: no run of {' and '.join(gap)}" for n, gap in lacking.items() if gap}
    if len(reasons) == len(lacking):
        reasons |= dict.fromkeys(arms, "no repeat has a run of every arm")
    return [found[number] for number, gap in lacking.items() if not gap], reasons


def _values(
    repeats: Sequence[Repeat], context: Context, checks: Mapping[str, fairness.Check], reasons: dict[str, str]
) -> dict[str, Any]:
    """Ratios and break-even. A failed fairness check leaves none: a ratio of unlike things is not a measurement."""
    failed = [name for name, (passed, _) in checks.items() if passed is False]
    if failed or not repeats:
        why = f"not comparable: {', '.join(failed)} failed" if failed else "no repeat has a run of every arm"
        reasons |= dict.fromkeys((*_NUMBERS, _IDLE), why)
        return dict.fromkeys((*_NUMBERS, _IDLE))
    values: dict[str, Any] = {**ratios.measure(repeats, context.recipe["workers"], reasons)}
    return values | {
        "breakEvenEpochs": ratios.break_even_epochs(repeats, values["speedup"], reasons),
        _IDLE: ratios.idle_ray_cpus(repeats, reasons, pods=context.target != "local"),
    }


def _arm_summary(arm: str, repeats: Sequence[Repeat], reasons: dict[str, str]) -> dict[str, Any]:
    runs = [repeat[arm] for repeat in repeats]
    accuracy = ratios.common_accuracy(repeats)
    measured = [_measures(run.summary, accuracy) for run in runs]
    first, spreads = runs[0].summary, {}
    for key in measured[0]:
        present = [value for values in measured if (value := values[key]) is not None]
        if present:
            spreads[key] = ratios.spread(present)
        else:
            reasons[f"{arm}.{key}"] = _why_null(key, first)
    if arm != "ray":
        reasons[f"{arm}.ray"] = "this arm runs without Ray"
    same = ("worldSize", "parameters", "layers", "stepsPerEpoch", "trainImages", "validationImages", "testImages")
    return {
        **{key: spreads[key]["median"] if key in spreads else None for key in measured[0]},
        **{key: first[key] for key in (*same, "provenance", "ray")},
        "spread": spreads,
        "startupPhases": _median_phases(runs),
        "computeThreads": first["workers"][0]["computeThreads"],
        "runs": [_link(run) for run in runs],
    }


def _why_null(key: str, summary: dict[str, Any]) -> str:
    of_run = {"secondsPerEpoch": "trainSeconds", "timeToAccuracySeconds": "trainSeconds"}.get(key, key)
    of_run = "stepSeconds" if key.startswith("stepSeconds") else of_run
    given: dict[str, str] = summary["reasons"]
    return given.get(of_run) or "no repeat measured it"


def _measures(summary: dict[str, Any], accuracy: float | None) -> dict[str, float | None]:
    steps: dict[str, float] = summary["stepSeconds"] or {}
    return {
        **{key: summary[key] for key in _COPIED},
        **{f"stepSeconds{name.capitalize()}": steps.get(name) for name in ("mean", "p50", "p95", "max")},
        **{key: _over_workers(summary["workers"], key) for key in _OVER_WORKERS},
        "secondsPerEpoch": ratios.epoch_seconds(summary),
        "bestValidationAccuracy": ratios.best_validation_accuracy(summary),
        "timeToAccuracySeconds": None if accuracy is None else ratios.seconds_to_accuracy(summary, accuracy),
    }


def _over_workers(workers: Sequence[dict[str, Any]], key: str) -> float | None:
    """One number for the workers of a run; None unless all of them measured it."""
    values = [worker[key] for worker in workers if worker[key] is not None]
    return _OVER_WORKERS[key](values) if values and len(values) == len(workers) else None


def _median_phases(runs: Sequence[Run]) -> dict[str, float]:
    phases: dict[str, list[float]] = {}
    for run in runs:
        for name, seconds in run.summary["startupPhases"].items():
            phases.setdefault(name, []).append(seconds)
    return {name: float(statistics.median(seconds)) for name, seconds in phases.items()}


def _link(run: Run) -> RunLink:
    summary = run.summary
    return {
        "name": run.name,
        "repeat": run.repeat,
        "seed": summary["recipe"]["seed"],
        "path": summary["path"],
        "sha256": summary["sha256"],
        "startedAt": summary["startedAt"],
        "wallSeconds": summary["wallSeconds"],
    }
