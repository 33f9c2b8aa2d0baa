"""The verdict: the answer in its first words, then compared with what, how sure, where the time goes, and what would
change it; and the details that stand below it. Pure: numbers in, words out; it computes no ratio.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from compare.answer import DECIDES, Contest, epochs_to_win, repeats_to_decide
from compare.claims import WORDS
from compare.compared import inverse, sides
from compare.fairness import Check
from compare.intervals import ENOUGH_TO_ESTIMATE
from compare.measurement import Measurement, why_absent
from compare.projection import doubt_of
from compare.qualifiers import ACCURACY_POINTS
from compare.schema import Answer, ArmSummary, Claim, Estimate, Projection, Spread, WorkersCurve
from training.contract.arms import ARMS, NATIVE, WIDE

DETAILS = (
    "epoch", "native", "curve", "model", "accuracyGap", "wide", "order", "checks", "batchStatistics",
)  # fmt: skip
"""What stands below the verdict and not in it, in this order; every other qualifier stands in it."""

LONGER = 5
"""Times as many epochs, where longer training may change the answer."""

WORTH_SAYING = 1.1
"""A predicted speedup is said where it is so many times what the model gives for today's workers."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The findings that a verdict is made of."""

    measurement: Measurement
    answer: Answer
    claim: Claim | None
    """None if the arms are not comparable."""
    claim_lacks: str
    contests: Mapping[str, Contest]
    """By the arm of the alternative."""
    ratios: dict[str, Estimate | None]
    arms: dict[str, ArmSummary]
    checks: Mapping[str, Check]
    qualifiers: Mapping[str, str]
    idle_ray_cpus: Spread | None
    projection: Projection | None
    workers_curve: WorkersCurve | None


def first_words(answer: Answer, contests: Sequence[Contest], measurement: Measurement) -> str:
    """Return the answer in words: `Worth it from 12 epochs on`."""
    return f"{answer} {measurement.passes(epochs_to_win(contests) or 0)} on" if answer == "Worth it from" else answer


def verdict(findings: Findings) -> str:
    """The text that is read first: a paragraph of some eight lines where nothing is unusual."""
    first = first_words(findings.answer, list(findings.contests.values()), findings.measurement)
    if findings.answer == "Not comparable":
        failed = "; ".join(
            f"{name} failed: {why}" for name, (passed, why) in findings.checks.items() if passed is False
        )
        return f"{first}: {failed}. No ratio is given, because the arms did not do the same work."
    qualifiers = [f"{text}." for name, text in findings.qualifiers.items() if name not in DETAILS]
    parts = [f"{first}: {_reason(findings)}.", _claim(findings), _whats_next(findings), _time(findings), *qualifiers]
    return " ".join(part for part in parts if part)


def details(findings: Findings) -> dict[str, str]:
    """Return the details below the verdict, by name, as sentences without full stops; `qualifiers` has more."""
    if findings.answer == "Not comparable":
        return {}
    texts = {
        "epoch": _an_epoch(findings),
        "native": _over_native(findings),
        "curve": _curve(findings.workers_curve),
        "model": _model(findings),
        "accuracyGap": _accuracy(findings.ratios.get("accuracyGap")),
        "wide": _not_measured(findings),
    }
    return {name: text for name, text in texts.items() if text}


def factor(value: Estimate, label: str = "") -> str:
    """A ratio with its interval, where it has one: 1.87× (1.85× to 1.90×)."""
    if value.lower is None or value.upper is None:
        return f"{value.median:.2f}×"
    return f"{value.median:.2f}× ({label}{value.lower:.2f}× to {value.upper:.2f}×)"


def _reason(findings: Findings) -> str:
    """Return what was compared, over how many epochs, and with what confidence."""
    measurement = findings.measurement
    known = [(each.now, each.against) for each in findings.contests.values() if each.now]
    if not measurement.repeats or not known:
        return "no repeat has a run of every arm" if not measurement.repeats else "no time was measured"
    if findings.claim not in DECIDES:
        return _as_written(findings)
    if findings.claim == "same result" and measurement.target:
        over = f"until {measurement.target.name} reaches {measurement.target.value:g}, start-up included,"
    else:
        over = f"over {measurement.passes(measurement.epochs_trained[0])}, from start to result,"
    text = f"{over} {_subject(measurement)} {sides(known)}{_certainty(measurement)}"
    return text + (f"; {_would_decide(findings)}" if findings.answer == "Not decided" else "")


def _as_written(findings: Findings) -> str:
    """Return the time and the throughput of runs that are not known to have done the same."""
    measurement = findings.measurement
    arms = [measurement.subject or "", *findings.contests]
    seconds = {name: findings.arms[name].median("wallSeconds") for name in arms}
    took = " and ".join(
        f"{ARMS[name].words(measurement.recipe)} takes {value:.1f} s"
        for name, value in seconds.items()
        if value is not None
    )
    rates = [
        f"{factor(ratio)} as many {measurement.unit} a second as {findings.contests[name].against}"
        for name, key in (("baseline", "throughputRatio"), ("wide", "wideThroughputRatio"))
        if name in findings.contests and (ratio := findings.ratios.get(key))
    ]
    text = f"it is not known whether the arms did the same work. Whatever they did, from start to result {took}"
    text += _in_repeats(measurement)
    return text + (f". In its timed steps Ray goes through {' and '.join(rates)}" if rates else "")


def _certainty(measurement: Measurement) -> str:
    confidence = ", with 95 % confidence" if len(measurement.repeats) > 1 else ""
    return f"{confidence}{_in_repeats(measurement)}"


def _in_repeats(measurement: Measurement) -> str:
    repeats = len(measurement.repeats)
    return f", in {repeats} repeats" if repeats > 1 else ", in one repeat, which cannot show how certain that is"


def _would_decide(findings: Findings) -> str:
    repeats = repeats_to_decide(list(findings.contests.values()))
    if len(findings.measurement.repeats) < ENOUGH_TO_ESTIMATE:
        return f"measure at least {repeats} repeats"
    return f"{repeats} repeats would probably decide" if repeats else "even 100 repeats would probably not decide"


def _subject(measurement: Measurement) -> str:
    return ARMS[measurement.subject or ""].words(measurement.recipe)


def _claim(findings: Findings) -> str:
    if findings.claim is None or findings.claim == "same work":
        return ""
    return f"{WORDS[findings.claim]}: {findings.claim_lacks}."


def _an_epoch(findings: Findings) -> str:
    known = [(each.per_epoch, each.against) for each in findings.contests.values() if each.per_epoch]
    if known:
        return f"Without start-up, one epoch of Ray {sides(known)}"
    # What follows an epoch's steps was not seen.
    steps = {"baseline": "speedup", "wide": "wideSpeedup"}
    contests = findings.contests.items()
    ratios = [(findings.ratios.get(steps.get(name, "")), contest.against) for name, contest in contests]
    known = [(ratio, against) for ratio, against in ratios if ratio]
    return f"Without start-up, a step of Ray {sides(known)}" if known else ""


def _whats_next(findings: Findings) -> str:
    """Return whether longer training could change a no."""
    if findings.answer != "Not worth it here":
        return ""
    slower = [(each.per_epoch, each.against) for each in findings.contests.values() if each.longer_cannot_win]
    slower_epochs = [(per_epoch, against) for per_epoch, against in slower if per_epoch]
    if slower_epochs:
        return f"Longer training does not change that: without start-up, one epoch of Ray {sides(slower_epochs)}."
    epochs = getattr(findings.measurement.recipe, "epochs", 0)
    if not findings.measurement.has_whole_epochs or not epochs:
        return "Longer training might change that: try more steps or more repeats."
    return f'Longer training might change that: try `SET="epochs={LONGER * epochs}"`, or more repeats.'


def _time(findings: Findings) -> str:
    """Return how much of the subject's time is start-up, and how much of each alternative's."""
    ray = findings.arms.get(findings.measurement.subject or "")
    whole, start = (ray.median(name) if ray else None for name in ("wallSeconds", "startupSeconds"))
    if whole is None or start is None:
        return ""
    others = []
    for name, contest in findings.contests.items():
        before, total = (findings.arms[name].median(key) or 0.0 for key in ("startupSeconds", "wallSeconds"))
        others.append(f"{contest.against} {before:.1f} of {total:.1f}")
    return f"Ray spends {start:.1f} of its {whole:.1f} s starting" + "".join(f", {text}" for text in others) + "."


def _over_native(findings: Findings) -> str:
    overhead = findings.ratios.get("rayOverhead")
    if overhead is None:
        return ""
    native = NATIVE.words(findings.measurement.recipe)
    return f"Without start-up, a step of Ray {sides([(inverse(overhead), native)])}"


def _curve(curve: WorkersCurve | None) -> str:
    """Return the measured gains of more workers, and from how many on they do not pay."""
    if curve is None:
        return ""
    gains = [
        f"{point.workers} workers are {factor(point.gain)} as fast as {before.workers}"
        for before, point in pairwise(curve.points)
        if point.gain
    ]
    text = f"From start to result, {' and '.join(gains)}" if gains else ""
    if text and curve.stops_paying_at is not None:
        text += f", so the gain of {curve.stops_paying_at} is not certain any more"
    number = curve.costs_more_from
    dearer = f"Beyond {number}, one more costs more than it saves, with 95 % confidence" if number else ""
    return ". ".join(part for part in (text, dearer) if part)


def _model(findings: Findings) -> str:
    """Return the projection for more workers, if it adds to what was measured."""
    model = findings.projection
    if model is None:
        return ""
    link = model.links[0]
    today = link.speedup.get(str(model.workers), 1.0)
    doubt = doubt_of(findings.checks.get("machineQuiet", (None, ""))[0], findings.qualifiers)
    estimate = f"Estimate, {doubt}" if doubt else "Estimate, not measured"
    if link.best_workers <= model.workers or link.best_speedup < WORTH_SAYING * today:
        return f"{estimate}: more than {model.workers} workers would gain less than 10 % here"
    return (
        f"{estimate}: {link.best_workers} workers, each with CPUs of its own, would train "
        f"{link.best_speedup:.1f} times as fast as one process, before what Ray adds"
    )


def _accuracy(gap: Estimate | None) -> str:
    if gap is None or abs(gap.median) > ACCURACY_POINTS:
        return ""  # a large gap is a qualifier
    return f"The accuracy gap is {gap.median:+.1f} percentage points"


def _not_measured(findings: Findings) -> str:
    """A bigger single process is what most people would try first."""
    measurement = findings.measurement
    if WIDE.name in measurement.arms or not measurement.repeats or measurement.recipe.workers == 1:
        return ""
    why = why_absent(WIDE.name, measurement.context)
    return f"A bigger single process ({WIDE.words(measurement.recipe)}) was not measured: {why}"
