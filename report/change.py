"""What changed from one comparison to another: measures with their ranges, and what the two were made with. Pure.

A change counts only when its range leaves out "no change", which it does when the two ranges do not overlap.
"""

from collections.abc import Iterator
from math import comb
from typing import Any, NamedTuple, cast

from training.comparison_schema import ArmSummary, ComparisonData, Spread
from training.config import ARMS

UNDECIDED = "not decided"
UNCHANGED = "no measurable difference"


class Measure(NamedTuple):
    """A value that two comparisons have: `points` are subtracted, all others divided."""

    title: str
    key: str
    unit: str
    digits: int
    words: tuple[str, str]
    """Lower, higher."""
    points: bool = False
    factor: float = 1


RATIOS = (
    Measure("speedup", "speedup", "×", 2, ("slower", "faster")),
    Measure("end-to-end speedup", "endToEndSpeedup", "×", 2, ("slower", "faster")),
    Measure("Ray overhead", "rayOverhead", "×", 2, ("less", "more")),
    Measure("accuracy gap", "accuracyGap", " points", 2, ("smaller", "larger"), points=True),
)
OF_ARMS = (
    Measure("steady state", "trainSeconds", " s", 2, ("faster", "slower")),
    Measure("start-up", "startupSeconds", " s", 1, ("faster", "slower")),
    Measure("end to end", "wallSeconds", " s", 1, ("faster", "slower")),
    Measure("test accuracy", "testAccuracy", " %", 2, ("worse", "better"), points=True, factor=100),
)


class Change(NamedTuple):
    """One measure in both comparisons; None where it was not measured."""

    arm: str
    """"" for a ratio between arms."""
    measure: Measure
    before: Spread | None
    after: Spread | None

    @property
    def difference(self) -> Spread | None:
        """The change as share of the value before, or in points; its range is the widest that the two ranges allow."""
        if self.before is None or self.after is None:
            return None
        before, after, factor = dict[str, Any](self.before), dict[str, Any](self.after), self.measure.factor
        pairs = {end: (before[against], after[end]) for end, against in _WIDEST.items()}
        if self.measure.points:
            ends = {end: factor * (new - old) for end, (old, new) in pairs.items()}
        elif all(old > 0 for old, _ in pairs.values()):
            ends = {end: new / old - 1 for end, (old, new) in pairs.items()}
        else:
            return None
        return cast("Spread", {**ends, "n": min(before["n"], after["n"])})

    @property
    def verdict(self) -> str:
        """In a word: the measure's own, or that there is no difference, or that one repeat can't tell."""
        difference = self.difference
        if difference is None or difference["n"] < 2:
            return UNDECIDED
        lower, higher = self.measure.words
        return higher if difference["low"] > 0 else lower if difference["high"] < 0 else UNCHANGED

    @property
    def is_decided(self) -> bool:
        """Whether the ranges do not overlap."""
        return self.verdict not in (UNDECIDED, UNCHANGED)


_WIDEST = {"median": "median", "low": "high", "high": "low"}


def changes(before: ComparisonData, after: ComparisonData) -> list[Change]:
    """Every measure that at least one of the two has."""
    both = (cast("dict[str, Any]", before), cast("dict[str, Any]", after))
    ratios = [Change("", measure, both[0][measure.key], both[1][measure.key]) for measure in RATIOS]
    of_arms = [
        Change(arm, measure, _of_arm(both[0][arm], measure), _of_arm(both[1][arm], measure))
        for measure in OF_ARMS
        for arm in ARMS
    ]
    return [change for change in ratios + of_arms if change.before or change.after]


def _of_arm(summary: ArmSummary | None, measure: Measure) -> Spread | None:
    return summary["spread"].get(measure.key) if summary else None


def chance_of_apart(before: ComparisonData, after: ComparisonData) -> str:
    """How a change that counts is to be read: how often ranges of equal things do not overlap.

    Of n + m equal values in random order, all n lie on one side of the m in 2 of (n + m choose n) orders.
    """
    repeats = [data["speedup"]["n"] if data["speedup"] else 0 for data in (before, after)]
    if min(repeats) < 2:
        return "A change counts where the ranges over the repeats do not overlap; one repeat has no range."
    chance = 2 / comb(sum(repeats), repeats[0])
    return (
        f"A change counts where the ranges over the repeats do not overlap. With {repeats[0]} and {repeats[1]} "
        f"repeats, chance alone does that to {100 * chance:.0f} % of the measures of two equal measurements."
    )


def speedup_change(before: ComparisonData, after: ComparisonData) -> Change:
    """The headline alone."""
    return Change("", RATIOS[0], before["speedup"], after["speedup"])


def made_differently(before: ComparisonData, after: ComparisonData) -> list[str]:
    """What differs in recipe, code, dependencies, data, versions and host, each `name old -> new`."""
    recipes = _differences(before["recipe"], after["recipe"])
    return [*recipes, *dict.fromkeys(text for arm in ARMS for text in _provenance(arm, before, after))]


def _provenance(arm: str, before: ComparisonData, after: ComparisonData) -> Iterator[str]:
    both = [cast("ArmSummary | None", data[arm]) for data in (before, after)]  # type: ignore[literal-required]
    if both[0] is None or both[1] is None:
        return
    old, new = both[0]["provenance"], both[1]["provenance"]
    if old["codeHash"] != new["codeHash"]:
        yield f"code of {arm} {old['codeHash'][:7]} -> {new['codeHash'][:7]}"
    for key, title in (("dependenciesHash", "dependencies"), ("datasetHash", "data set")):
        if old[key] != new[key]:
            yield f"{title} {old[key][:7]} -> {new[key][:7]}"
    yield from _differences(old["versions"], new["versions"])
    host = ("cpuModel", "cpusAllowed", "platform")
    yield from _differences({key: old[key] for key in host}, {key: new[key] for key in host})


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    keys = [*old, *(key for key in new if key not in old)]
    return [f"{key} {_shown(old, key)} -> {_shown(new, key)}" for key in keys if old.get(key) != new.get(key)]


def _shown(values: dict[str, Any], key: str) -> str:
    value = values.get(key, "absent")
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def show_spread(value: Spread | None, measure: Measure, single: str = " (one repeat)") -> str:
    """`1.53× (1.50 to 1.57)`; `1.53×` and `single` where there is no range; a dash for what was not measured."""
    if value is None:
        return "–"
    median, low, high = (f"{value[end] * measure.factor:,.{measure.digits}f}" for end in ("median", "low", "high"))
    return f"{median}{measure.unit}" + (f" ({low} to {high})" if value["n"] > 1 else single)


def show_difference(change: Change) -> str:
    """`+4.1 % (-1.0 to +9.6)`, points for accuracies; a dash where one side was not measured."""
    value = dict[str, Any](change.difference or {})
    if not value:
        return "–"
    points = change.measure.points
    median, low, high = (f"{value[end] * (1 if points else 100):+.{2 if points else 1}f}" for end in _WIDEST)
    text = f"{median} {'points' if points else '%'}"
    return f"{text} ({low} to {high})" if value["n"] > 1 else text
