"""The verdict: the answer in its first words, then compared with what, how sure, where the time goes, and what would
change it. Pure: numbers in, words out; it computes no ratio.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from compare.answer import DECIDES, Held, repeats_to_decide, won_from
from compare.claims import WORDS
from compare.fairness import Check
from compare.intervals import ENOUGH_TO_ESTIMATE
from compare.measurement import Measurement, why_absent
from compare.qualifiers import ACCURACY_POINTS
from compare.schema import Answer, ArmSummary, Claim, Estimate, Projection, Spread, WorkersCurve
from training.contract.arms import ARMS, NATIVE, WIDE

WORTH_SAYING = 1.1
"""A predicted speedup is said where it is so many times what the model gives for today's workers."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a verdict is made of."""

    measurement: Measurement
    answer: Answer
    claim: Claim | None
    """None: the arms are not comparable."""
    claim_lacks: str
    held: Mapping[str, Held]
    ratios: dict[str, Estimate | None]
    arms: dict[str, ArmSummary]
    checks: Mapping[str, Check]
    qualifiers: Mapping[str, str]
    idle_ray_cpus: Spread | None
    projection: Projection | None
    workers_curve: WorkersCurve | None


def first_words(answer: Answer, held: Sequence[Held], measurement: Measurement) -> str:
    """The answer as it is read: `Worth it from 12 epochs on`."""
    return f"{answer} {measurement.passes(won_from(held) or 0)} on" if answer == "Worth it from" else answer


def verdict(findings: Findings) -> str:
    """The whole text."""
    first = first_words(findings.answer, list(findings.held.values()), findings.measurement)
    if findings.answer == "Not comparable":
        failed = "; ".join(
            f"{name} failed: {why}" for name, (passed, why) in findings.checks.items() if passed is False
        )
        return f"{first}: {failed}. No ratio is given, because the arms did not do the same work."
    parts = [f"{first}: {_reason(findings)}.", _claim(findings)]
    parts += [_an_epoch(findings), _whats_next(findings), _time(findings), _over_native(findings)]
    parts += [_curve(findings.workers_curve), _model(findings)]
    parts += [_accuracy(findings.ratios.get("accuracyGap")), _not_measured(findings)]
    return " ".join(part for part in [*parts, *(f"{text}." for text in findings.qualifiers.values())] if part)


def factor(value: Estimate, label: str = "") -> str:
    """A ratio with its interval, where it has one: 1.87× (1.85× to 1.90×)."""
    if value.lower is None or value.upper is None:
        return f"{value.median:.2f}×"
    return f"{value.median:.2f}× ({label}{value.lower:.2f}× to {value.upper:.2f}×)"


def _reason(findings: Findings) -> str:
    """What was compared, over how many epochs, and how sure."""
    measurement = findings.measurement
    known = [each for each in findings.held.values() if each.now]
    if not measurement.repeats or not known:
        return "no repeat has a run of every arm" if not measurement.repeats else "no time was measured"
    if findings.claim not in DECIDES:
        return _as_written(findings)
    labels = ["95 % interval ", *[""] * len(known)]
    sides = " and ".join(
        f"{factor(each.now, label)} as fast as {each.against}"
        for each, label in zip(known, labels, strict=False)
        if each.now
    )
    if findings.claim == "same result" and measurement.target:
        text = f"until {measurement.target.name} reached {measurement.target.value:g}, start-up included"
        text += f", {_subject(measurement)} is {sides}{_in_repeats(measurement)}"
        return text + (f"; {_would_decide(findings)}" if findings.answer == "Not decided" else "")
    text = f"over {measurement.passes(measurement.epochs_trained[0])}, start to end, {_subject(measurement)} is {sides}"
    text += _in_repeats(measurement)
    return text + (f"; {_would_decide(findings)}" if findings.answer == "Not decided" else "")


def _as_written(findings: Findings) -> str:
    """Of runs that are not known to have done the same: what each took, and how fast each went through its rows."""
    measurement = findings.measurement
    arms = [measurement.subject or "", *findings.held]
    seconds = {name: findings.arms[name].median("wallSeconds") for name in arms}
    took = " and ".join(
        f"{ARMS[name].words(measurement.recipe)} {value:.1f} s" for name, value in seconds.items() if value is not None
    )
    rates = [
        f"{factor(ratio)} as many {measurement.unit} a second as {findings.held[name].against}"
        for name, key in (("baseline", "throughputRatio"), ("wide", "wideThroughputRatio"))
        if name in findings.held and (ratio := findings.ratios.get(key))
    ]
    text = f"that the arms did the same work is not known; as written, start to end, {took}{_in_repeats(measurement)}"
    return text + (f"; in its timed steps Ray goes through {' and '.join(rates)}" if rates else "")


def _in_repeats(measurement: Measurement) -> str:
    repeats = len(measurement.repeats)
    return f", in {repeats} repeats" if repeats > 1 else ", in one repeat, so how sure that is cannot be told"


def _would_decide(findings: Findings) -> str:
    repeats = repeats_to_decide(list(findings.held.values()))
    if len(findings.measurement.repeats) < ENOUGH_TO_ESTIMATE:
        return f"measure at least {repeats} repeats"
    return f"{repeats} repeats would probably decide" if repeats else "not even 100 repeats would probably decide"


def _subject(measurement: Measurement) -> str:
    return ARMS[measurement.subject or ""].words(measurement.recipe)


def _claim(findings: Findings) -> str:
    if findings.claim is None or findings.claim == "same work":
        return ""
    return f"{WORDS[findings.claim]}: {findings.claim_lacks}."


def _an_epoch(findings: Findings) -> str:
    known = [(each.per_epoch, each.against) for each in findings.held.values() if each.per_epoch]
    what = "An epoch by itself, without start-up, is"
    if not known:  # what follows an epoch's steps was not seen
        steps = {"baseline": "speedup", "wide": "wideSpeedup"}
        found = [(findings.ratios.get(steps.get(name, "")), held.against) for name, held in findings.held.items()]
        known = [(ratio, against) for ratio, against in found if ratio]
        what = "The steps by themselves, without start-up, are"
    sides = " and ".join(f"{factor(value)} as fast as {against}" for value, against in known)
    return f"{what} {sides}." if known else ""


def _whats_next(findings: Findings) -> str:
    """Whether longer training could change a no."""
    if findings.answer != "Not worth it here":
        return ""
    never = [each.against for each in findings.held.values() if each.longer_cannot_win]
    if never:
        return f"Longer training does not change that: against {' and '.join(never)} an epoch gains nothing either."
    more = "epochs" if findings.measurement.has_whole_epochs else "steps"
    return f"Longer training might change that: more {more} or more repeats would tell."


def _time(findings: Findings) -> str:
    """Where the subject's time goes, beside the start-up of what it is held against."""
    ray = findings.arms.get(findings.measurement.subject or "")
    if ray is None:
        return ""
    whole, start, steps = (ray.median(name) for name in ("wallSeconds", "startupSeconds", "trainSeconds"))
    if whole is None or start is None or steps is None:
        return ""
    others = []
    for name, held in findings.held.items():
        before, total = (findings.arms[name].median(key) or 0.0 for key in ("startupSeconds", "wallSeconds"))
        others.append(f"{before:.1f} s of {total:.1f} s in {held.against}")
    text = f"Of its {whole:.1f} s, {start:.1f} s pass before the first step ({', '.join(others)}) and {steps:.1f} s are"
    evaluation = ray.median("evaluationSeconds")
    return f"{text} timed steps" + (f"; evaluation takes {evaluation:.1f} s." if evaluation is not None else ".")


def _over_native(findings: Findings) -> str:
    overhead = findings.ratios.get("rayOverhead")
    if overhead is None:
        return ""
    return f"Its steps take {factor(overhead)} the time of {NATIVE.words(findings.measurement.recipe)}."


def _curve(curve: WorkersCurve | None) -> str:
    """What more workers gained as measured, and from where on they do not pay."""
    if curve is None:
        return ""
    gains = [
        f"{point.workers} workers are {factor(point.gain)} as fast as {before.workers}"
        for before, point in pairwise(curve.points)
        if point.gain
    ]
    text = f"Start to end, {' and '.join(gains)}" if gains else ""
    if text and curve.stops_paying_at is not None:
        text += f", so with {curve.stops_paying_at} a gain is not sure any more"
    number = curve.costs_more_from
    dearer = f"Beyond {number}, what one more costs is surely more than what it saves" if number else ""
    return " ".join(f"{part}." for part in (text, dearer) if part)


def _model(findings: Findings) -> str:
    """What the projection says of more workers, where that is news."""
    model = findings.projection
    if model is None:
        return ""
    link = model.links[0]
    today = link.speedup.get(str(model.workers), 1.0)
    if link.best_workers <= model.workers or link.best_speedup < WORTH_SAYING * today:
        return f"By the model, not measured, more than {model.workers} workers gain less than 10 % on this link."
    return (
        f"By the model, not measured, {link.best_workers} workers on this link, each with CPUs of its own, would train "
        f"{link.best_speedup:.1f}× as fast as one process, but for what Ray adds."
    )


def _accuracy(gap: Estimate | None) -> str:
    if gap is None or abs(gap.median) > ACCURACY_POINTS:
        return ""  # a large gap is a qualifier
    return f"The accuracy gap is {gap.median:+.1f} percentage points."


def _not_measured(findings: Findings) -> str:
    """A bigger single process is what most people would try first."""
    measurement = findings.measurement
    if WIDE.name in measurement.arms or not measurement.repeats or measurement.recipe.workers == 1:
        return ""
    why = why_absent(WIDE.name, measurement.context)
    return f"A bigger single process ({WIDE.words(measurement.recipe)}) was not measured: {why}."
