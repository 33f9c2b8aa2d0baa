"""The result in one sentence, for somebody who decides and reads no table. Pure: a comparison in, a sentence out.

Ray is compared with the fastest of what one would use instead. What decides is in `compare.answer`; this repeats it.
"""

from collections.abc import Callable
from typing import Literal

from compare import quiet
from compare.intervals import ENOUGH_TO_ESTIMATE, MARGIN
from compare.schema import ArmSummary, Bound, Comparison, Estimate
from compare.words import compared, least_sides, shown_seconds
from training.contract.arms import RAY, counted

Kind = Literal["clocks", "to target", "as written"]
"""What the sentence compares: times from start to end, times to the target, or times of runs whose work is not known to
be the same."""

RATIOS = {"clocks": {"baseline": "endToEndSpeedup", "wide": "endToEndWideSpeedup", "native": "endToEndNativeSpeedup"},
          "to target": {"baseline": "timeToTargetSpeedup"}}  # fmt: skip
"""Name of the ratio of an alternative's time to Ray's time, by kind and arm."""
CLOCKS = {"clocks": "wallSeconds", "as written": "wallSeconds", "to target": "secondsToTarget"}
"""Name of the measure that is compared, by kind."""
ALTERNATIVES = ("reference", "alternative")
QUIET = "machineQuiet"
"""Name of the check that says whether others kept CPU time from runs."""


def in_short(comparison: Comparison) -> str:
    """Return the sentence that sums up a comparison."""
    failed = [name for name, passed in comparison.checks.items() if passed is False]
    if failed:
        return f"The runs cannot be compared, because these checks failed: {', '.join(failed)}."
    if comparison.bound:
        return _bounded(comparison, comparison.bound)
    kind = _kind(comparison)
    alternative = _alternative(comparison, kind)
    if not {RAY.name, alternative} <= comparison.arms.keys():
        return "No repeat has a run of every arm, so nothing is compared yet."
    return _sentence(comparison, kind, comparison.arms[alternative], _ratio(comparison, kind, alternative))


def machine_in_short(comparison: Comparison) -> str:
    """Return what others took of the machine, and whether that slowed runs; "" if it is not noticeable."""
    return " ".join(f"{text}." for name in quiet.OTHERS if (text := comparison.reasons.get(f"verdict.{name}")))


def is_disturbed(comparison: Comparison) -> bool:
    """Return whether others may have slowed runs noticeably."""
    remarks = {name.removeprefix("verdict.") for name in comparison.reasons}
    return quiet.is_disturbed(comparison.checks.get(QUIET), remarks)


def is_beyond_doubt(comparison: Comparison) -> bool:
    """Return whether the answer would be the same on a quiet machine: even if each run of the loser ended sooner by all
    CPU seconds that other programs took meanwhile, and no run of the winner did."""
    names = RATIOS["clocks"] if _kind(comparison) == "clocks" else {}
    ratios = {name: ratio for name, key in names.items() if (ratio := comparison.ratios.get(key))}
    if not ratios:  # such as where nothing distributes a script, and Ray has no run
        return False
    if comparison.answer == "Not worth it here":
        left = 1 - _most_taken(comparison, RAY.name)
        return any(ratio.upper is not None and ratio.upper < left for ratio in ratios.values())
    lowest = [(ratio.lower or 0.0) * (1 - _most_taken(comparison, name)) for name, ratio in ratios.items()]
    return comparison.answer == "Worth it" and min(lowest) > 1


def _most_taken(comparison: Comparison, arm: str) -> float:
    """Return the most CPUs that other programs took in a run of an arm; 1 if more, or not known of each run, or if the
    host took some."""
    cpus, runs = comparison.arms[arm].measures.get("otherCpus"), comparison.arms[arm].runs
    is_known = cpus is not None and cpus.n == len(runs) and "verdict.stolen" not in comparison.reasons
    return min(1.0, cpus.high) if cpus and is_known else 1.0


def _bounded(comparison: Comparison, bound: Bound) -> str:
    """Return the sentence on the least time of Ray, compared with the alternative that leaves Ray the smallest gain."""
    ratios = {name: ratio for name, ratio in bound.at_most.items() if name in comparison.arms}
    if not ratios:
        return "No time was measured, so nothing is compared yet."
    alternative = min(ratios, key=lambda name: ratios[name].median)
    least, other = shown_seconds(bound.least_seconds), comparison.arms[alternative]
    start = shown_seconds(bound.least_seconds - bound.shared_seconds.low / bound.workers)
    seconds = other.median("wallSeconds")
    certain = ", in one repeat" if ratios[alternative].n == 1 else ""
    return (
        f"{other.title[:1].upper()}{other.title[1:]} takes {shown_seconds(seconds)}; whatever is written to distribute"
        f" the script, with {counted(bound.workers, 'worker')} Ray takes at least {least}, of which"
        f" {start} are its start: Ray"
        f" {least_sides([(ratios[alternative], other.title)])}{certain}."
    )


def _kind(comparison: Comparison) -> Kind:
    if comparison.claim in ("same script", "it finished"):
        return "as written"
    return "to target" if comparison.claim == "same result" else "clocks"


def _alternative(comparison: Comparison, kind: Kind) -> str:
    """Return the fastest of the alternatives from which the answer follows; "" if none was measured."""
    clock = CLOCKS[kind]
    measured = {
        name: arm for name, arm in comparison.arms.items() if arm.role in ALTERNATIVES and arm.median(clock) is not None
    }
    is_meant = _about(comparison.answer)
    meant = [name for name in measured if (ratio := _ratio(comparison, kind, name)) and is_meant(ratio)]
    return min(meant or measured, key=lambda name: measured[name].median(clock) or 0.0, default="")


def _about(answer: str) -> Callable[[Estimate], bool]:
    """Return a function that says whether this answer follows from a ratio of times."""
    if answer == "Not worth it here":
        return lambda ratio: ratio.upper is not None and ratio.upper < MARGIN
    if answer == "Not decided":
        return lambda ratio: ratio.lower is None or ratio.lower <= 1 < (ratio.upper or 0.0)
    return lambda _: True


def _ratio(comparison: Comparison, kind: Kind, alternative: str) -> Estimate | None:
    """Return the ratio of the times in the sentence. None if there is none, also if runs stopped at different epochs,
    because the ratio is then not that of these times."""
    if kind == "clocks" and not comparison.has_equal_epochs:
        return None
    return comparison.ratios.get(RATIOS.get(kind, {}).get(alternative, ""))


def _sentence(comparison: Comparison, kind: Kind, other: ArmSummary, ratio: Estimate | None) -> str:
    ray, clock = comparison.arms[RAY.name], CLOCKS[kind]
    alternative_seconds, ray_seconds = (shown_seconds(arm.median(clock)) for arm in (other, ray))
    text = f"{_until(comparison, kind)}{other.title} takes {alternative_seconds}, Ray {ray_seconds}"
    startup = ray.median("startupSeconds")
    if kind != "to target" and startup:
        text += f", of which {shown_seconds(startup)} are start-up"
    parts = [f"{text}{_how_much(ratio)}.", _outlook(comparison, ratio), _cluster_start(ray)]
    sentence = " ".join(part for part in parts if part)
    return sentence[:1].upper() + sentence[1:]


def _until(comparison: Comparison, kind: Kind) -> str:
    if kind == "clocks":
        return "" if comparison.has_equal_epochs else "trained to different epochs, "
    if kind == "as written":
        return "as written, "
    return f"until {comparison.recipe.get('metric')} reaches {comparison.recipe.get('metricTarget'):g}, "


def _how_much(ratio: Estimate | None) -> str:
    """Return how many times as long Ray takes, or how many times as fast it is, in the words of the verdict."""
    if ratio is None:
        return ""
    text = compared(ratio)
    return f": Ray {text.verb} {text.words()}, {'with 95 % confidence' if text.low else 'in one repeat'}"


def _outlook(comparison: Comparison, ratio: Estimate | None) -> str:
    """Return what the reader has to know beside the times; "" if that is nothing."""
    if comparison.claim in ("same script", "it finished"):
        return "The runs do not show that both did the same work."
    if comparison.answer.startswith("Worth it from "):
        return f"From {comparison.answer.removeprefix('Worth it from ')} Ray takes less time, with 95 % confidence."
    if comparison.answer == "Not decided" and ratio is not None:
        if ratio.lower is None:
            return "One repeat cannot show how certain that is."
        repeats = _repeats_to_decide(comparison)
        would = f": {repeats} repeats probably would" if repeats and not is_disturbed(comparison) else ""
        if ratio.n < ENOUGH_TO_ESTIMATE and not is_disturbed(comparison):
            would = f": measure at least {repeats} repeats"
        is_last = comparison.auto == "most repeats"
        return f"That is too uncertain to decide{' in as many repeats as there may be' if is_last else would}."
    return ""


def open_ratios(comparison: Comparison) -> list[Estimate]:
    """Return the ratios that the answer needs and that are not decided yet."""
    is_open, names = _about("Not decided"), RATIOS.get(_kind(comparison), {}).values()
    return [ratio for name in names if (ratio := comparison.ratios.get(name)) and is_open(ratio)]


def _repeats_to_decide(comparison: Comparison) -> int | None:
    """Return the number of repeats that would probably decide all open ratios, as the verdict says it; None if there
    would be too many."""
    numbers = [ratio.repeats_to_decide for ratio in open_ratios(comparison)]
    known = [number for number in numbers if number is not None]
    return max(known) if known and len(known) == len(numbers) else None


def _cluster_start(ray: ArmSummary) -> str:
    seconds = ray.median("rayClusterStartSeconds")
    return f"Ray's cluster itself takes {shown_seconds(seconds)} to start, once." if seconds else ""
