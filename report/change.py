"""The changes from one comparison to another: values with their intervals, and what the two were made with. Pure.

Many values are shown and three decide, because one of twenty equal values is told apart by chance: the interval of each
of the three is one of 98.3 % (Bonferroni), so that all three together err as often as one of 95 %; with `repeats auto`,
whose number of repeats follows from them, of 99.6 %. Two measurements share no repeats, so their values are unpaired.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from compare import measures
from compare.entries import Measure, Ratio
from compare.intervals import MARGIN, ONCE, WHENEVER, Interval, Rule, corrected, difference_interval
from compare.schema import ArmSummary, Comparison, Spread
from report import figures
from training.contract.arms import ARMS, BASELINE, counted

UNDECIDED = "not decided"
UNCHANGED = "no measurable difference"
DECIDING = (("", "speedup"), ("", "endToEndSpeedup"), (BASELINE.name, "trainSeconds"))
"""The values that decide: the name of the arm ("" for a ratio between arms), and the name of the value."""
LEAST_REPEATS = 4
"""With fewer repeats nothing is decided: the interval of three repeats is wider than any change that matters."""


class Change(NamedTuple):
    """The values of one number in two comparisons. A side is None if the number was not measured there."""

    arm: str
    """Name of the arm; "" for a ratio between arms."""
    entry: Measure | Ratio
    before: Spread | None
    after: Spread | None
    rule: Rule = ONCE
    """The rule by which the change is decided. If the two comparisons have different rules, it is the stricter one."""

    @property
    def title(self) -> str:
        """Return the title of the number for a row of a table, in lower case unless it begins with Ray."""
        return self.entry.title[0].lower() + self.entry.title[1:] if self.entry.title[:3] != "Ray" else self.entry.title

    @property
    def in_points(self) -> bool:
        """Return whether the change is a difference in percentage points instead of a quotient, as for accuracies."""
        return self.entry.unit in (" points", "%")

    @property
    def decides(self) -> bool:
        """Return whether this is one of the three numbers that decide."""
        return (self.arm, self.entry.name) in DECIDING

    @property
    def interval(self) -> Interval | None:
        """Return the interval of the later value ÷ the earlier, or of their difference in points; None if not known."""
        if self.before is None or self.after is None:
            return None
        confidence = corrected(self.rule.confidence, len(DECIDING) if self.decides else 1)
        old, new = self.before.values, self.after.values
        if self.in_points:
            factor = 1.0 if isinstance(self.entry, Ratio) else self.entry.factor
            points = difference_interval(old, new, confidence)
            return points.mapped(lambda value: value * factor) if points else None
        if min(*old, *new) <= 0:
            return None
        logs = difference_interval([math.log(value) for value in old], [math.log(value) for value in new], confidence)
        return logs.mapped(math.exp) if logs else None

    @property
    def decision(self) -> str:
        """Return the decision in words for the three numbers that decide; "" for all others."""
        if not self.decides:
            return ""
        interval = self.interval
        if interval is None or min(len(side.values) for side in (self.before, self.after) if side) < LEAST_REPEATS:
            return UNDECIDED
        lower, higher = _words(self.entry)
        if interval.lower > 1 or interval.upper < 1:
            return higher if interval.lower > 1 else lower
        return UNCHANGED if interval.lower >= 1 / MARGIN and interval.upper <= MARGIN else UNDECIDED

    @property
    def is_decided(self) -> bool:
        """Return whether the decision says that the two values differ."""
        return self.decision not in ("", UNDECIDED, UNCHANGED)


def _words(entry: Measure | Ratio) -> tuple[str, str]:
    """Return the words for a lower and a higher value."""
    if isinstance(entry, Ratio):
        return entry.words or ("lower", "higher")
    return ("faster", "slower") if entry.better == "lower" else ("worse", "better")


def changes(before: Comparison, after: Comparison) -> list[Change]:
    """Return the change of every number that either comparison has, those that decide first."""
    both, rule = (before, after), _rule(before, after)
    ratios = [_of_ratio(each, *both) for each in measures.RATIOS if each.in_changes]
    of_arms = [
        Change(arm, each, _of_arm(before.arms.get(arm), each), _of_arm(after.arms.get(arm), each), rule)
        for each in measures.measures_of(after.workload)
        if each.in_changes
        for arm in ARMS
    ]
    present = [change for change in ratios + of_arms if change.before or change.after]
    return sorted(present, key=lambda change: not change.decides)


def _of_ratio(each: Ratio, before: Comparison, after: Comparison) -> Change:
    return Change("", each, before.ratios.get(each.name), after.ratios.get(each.name), _rule(before, after))


def _rule(before: Comparison, after: Comparison) -> Rule:
    return WHENEVER if before.auto or after.auto else ONCE


def _of_arm(summary: ArmSummary | None, each: Measure) -> Spread | None:
    return summary.measures.get(each.name) if summary else None


def how_decided(before: Comparison, after: Comparison) -> str:
    """Return a text that explains how the words for the changes are to be read."""
    repeats = min(before.repeats, after.repeats)
    text = (
        f"Three values decide: {', '.join(_named(*which) for which in DECIDING)}. *Faster* or *slower*: the interval "
        "of the change excludes 0, in at most 5 % of comparisons of equal measurements. Other values decide nothing."
    )
    few = (
        f" With {counted(repeats, 'repeat')} nothing is decided: it takes {LEAST_REPEATS}."
        if repeats < LEAST_REPEATS
        else ""
    )
    return text + few


def _named(arm: str, name: str) -> str:
    entry: Measure | Ratio = measures.measure(name) if arm else measures.ratio(name)
    return f"{arm} {Change(arm, entry, None, None).title}".strip()


def speedup_change(before: Comparison, after: Comparison) -> Change:
    """Return the change of the speedup."""
    return _of_ratio(measures.ratio("speedup"), before, after)


def made_differently(before: Comparison, after: Comparison) -> list[str]:
    """Return where recipe, code, dependencies, data, versions or host differ, each as `name old -> new`."""
    recipes = _differences(before.recipe, after.recipe)
    return [*recipes, *dict.fromkeys(text for arm in ARMS for text in _provenance(arm, before, after))]


def _provenance(arm: str, before: Comparison, after: Comparison) -> Iterator[str]:
    if arm not in before.arms or arm not in after.arms:
        return
    old, new = before.arms[arm].provenance, after.arms[arm].provenance
    if old.code_hash != new.code_hash:
        yield f"code of {arm} {old.code_hash[:7]} -> {new.code_hash[:7]}"
    if old.dependencies_hash != new.dependencies_hash:
        yield f"dependencies {old.dependencies_hash[:7]} -> {new.dependencies_hash[:7]}"
    if old.dataset_hash != new.dataset_hash and old.dataset_hash and new.dataset_hash:
        yield f"data set {old.dataset_hash[:7]} -> {new.dataset_hash[:7]}"
    yield from _differences(dict(old.versions), dict(new.versions))
    hosts = [
        {"cpuModel": each.cpu_model, "cpusAllowed": each.cpus_allowed, "platform": each.platform} for each in (old, new)
    ]
    yield from _differences(*hosts)


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    keys = [*old, *(key for key in new if key not in old)]
    return [f"{key} {_shown(old, key)} -> {_shown(new, key)}" for key in keys if old.get(key) != new.get(key)]


def _shown(values: dict[str, Any], key: str) -> str:
    value = values.get(key, "absent")
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def show_difference(change: Change) -> str:
    """Return the change as text: `+4.1 % (-1.0 to +9.6)`, of accuracies in points; a dash without one of the sides."""
    before, after, interval = change.before, change.after, change.interval
    if before is None or after is None or (not change.in_points and before.median <= 0):
        return figures.MISSING
    if change.in_points:
        factor = 1.0 if isinstance(change.entry, Ratio) else change.entry.factor
        text = f"{factor * (after.median - before.median):+.2f} points"
        return text + (f" ({interval.lower:+.2f} to {interval.upper:+.2f})" if interval else "")
    text = f"{100 * (after.median / before.median - 1):+.1f} %"
    return text + (f" ({100 * (interval.lower - 1):+.1f} to {100 * (interval.upper - 1):+.1f})" if interval else "")
