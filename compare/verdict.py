"""Writes the verdict (the answer, compared with what, how sure, where the time goes, what would change it), and the
details below it. Pure: numbers in, words out; it computes no ratio."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from compare import bound
from compare.answer import (
    CLAIM_WORDS,
    DECIDES,
    MOST_EPOCHS,
    WITHOUT_FIXED,
    Contest,
    epochs_to_win,
    repeats_to_decide,
    upper,
)
from compare.bound import BoundFindings
from compare.curve import Curve
from compare.fairness import Fairness
from compare.intervals import ENOUGH_TO_ESTIMATE, MARGIN, auto_would_decide
from compare.measurement import NO_REPEAT, Measurement
from compare.projection import headline
from compare.qualifiers import ACCURACY_POINTS
from compare.quiet import MORE_DO_NOT_HELP, is_disturbed
from compare.ray_data import DataPair
from compare.schema import Answer, ArmSummary, Claim, Ending, Estimate, LongerRun, Projection, Spot, Spread
from compare.search import SearchFindings, length_words, shown_length
from compare.step_parts import waits
from compare.stopping import next_up
from compare.value import Missing, Summary
from compare.words import duration, factor, inverse, sides
from training.contract.arms import ARMS, BASELINE, NATIVE, RAY, WIDE, counted
from training.contract.repeats import GOES_ON, MOST_AUTO_REPEATS, NOT_BESIDE_AUTO
from training.contract.workload import Workload

DETAILS = (
    "epoch", "step", "native", "curve", "model", "accuracyGap", "wide", "order", "checks", "batchStatistics",
)  # fmt: skip
"""Names of the qualifiers that stand below the verdict, in this order. All other qualifiers stand in the verdict."""


@dataclass(frozen=True)
class MeasuredArm:
    """What the runs of one arm say."""

    summary: ArmSummary
    missing: Mapping[str, Missing]
    """Why parts of the summary are null, by the part's name."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What was found of a measurement. A field whose value could not be found says why."""

    measurement: Measurement
    fairness: Fairness
    claim: Claim | None
    """How much may be said of the arms; None if the arms are not comparable."""
    claim_lacks: str
    answer: Answer
    contests: Mapping[str, Contest]
    """The comparison of Ray with each alternative, by the arm of the alternative."""
    search: SearchFindings | Missing
    break_even_epochs: int | Missing
    arms: Mapping[str, MeasuredArm]
    ratios: Mapping[str, Summary[Estimate]]
    longer: LongerRun | Missing
    """What might change the answer *Not worth it here*."""
    idle_ray_cpus: Summary[Spread]
    projection: Projection | Missing
    workers_curve: Curve | Missing
    spot: Spot | Missing
    qualifiers: Mapping[str, str]
    with_data: DataPair | None
    """The comparison of the arm with Ray Data and the subject; None if that arm was not measured. The verdict does not
    use this comparison."""
    bound: BoundFindings | None
    """The least time that Ray could take for a script that nothing distributes yet; None if Ray trained the script."""
    ending: Ending | None
    """Why a measurement with `repeats auto` ends; None if the number of repeats is fixed."""

    def ratio(self, name: str) -> Estimate | None:
        """Return the ratio of this name; None if it is not known."""
        value = self.ratios[name].value if name in self.ratios else None
        return value if isinstance(value, Estimate) else None

    def median(self, arm: str, measure: str) -> float | None:
        """Return the median of a measure of an arm; None if it is not known."""
        spread = self.arms[arm].summary.measures.get(measure) if arm in self.arms else None
        return spread.median if spread else None


def first_words(answer: Answer, contests: Sequence[Contest], measurement: Measurement) -> str:
    """Return the answer in words, such as `Worth it from 12 epochs on`."""
    epochs = epochs_to_win(contests)
    if answer != "Worth it from" or isinstance(epochs, Missing):
        return answer
    return f"{answer} {measurement.passes(epochs)} on"


def verdict(findings: Findings) -> str:
    """Return the text that a user reads first. It is a paragraph of some eight lines if nothing is unusual."""
    first = first_words(findings.answer, list(findings.contests.values()), findings.measurement)
    if findings.answer == "Not comparable":
        checks = findings.fairness.checks
        failed = "; ".join(f"{name} failed: {checks[name].why}" for name in findings.fairness.failed)
        return f"{first}: {failed}. No ratio is given, because the arms were not alike."
    qualifiers = [f"{text}." for name, text in findings.qualifiers.items() if name not in DETAILS]
    of_bound, passed = findings.bound, findings.measurement.workload.passed
    then = bound.whats_next(of_bound, passed) if of_bound else _whats_next(findings)
    parts = [f"{first}: {_reason(findings)}.", _claim(findings), then, _trial_length(findings)]
    parts += [_time(findings), *qualifiers]
    return " ".join(part for part in parts if part)


def details(findings: Findings) -> dict[str, str]:
    """Return the details below the verdict, by name, without full stops. More are in the qualifiers."""
    if findings.answer == "Not comparable":
        return {}
    texts = {
        "epoch": _an_epoch(findings),
        "step": _a_step(findings),
        "native": _over_native(findings),
        "curve": _curve(findings.workers_curve),
        "model": _model(findings),
        "accuracyGap": _accuracy(findings.ratio("accuracyGap")),
        "wide": _not_measured(findings),
    }
    return {name: text for name, text in texts.items() if text}


def _a_step(findings: Findings) -> str:
    """Return what a step of the subject waits for; "" if that was not timed, or if the step hardly waits."""
    times = findings.arms[RAY.name].summary.step_parts if RAY.name in findings.arms else None
    if times is None or not (waited := waits(times)):
        return ""
    return f"Of the {1000 * sum(times.parts.values()):.0f} ms that a step of Ray takes, it waits {waited}"


def _reason(findings: Findings) -> str:
    """Return what was compared, over how many epochs, and with what confidence."""
    measurement = findings.measurement
    if findings.bound:
        return bound.reason(findings.bound) + _certainty(findings)
    known = [(each.now, each.against) for each in findings.contests.values() if isinstance(each.now, Estimate)]
    if not measurement.repeats or not known:
        return NO_REPEAT if not measurement.repeats else "no time was measured"
    if findings.claim not in DECIDES:
        return _as_written(findings)
    if findings.claim == "same result" and measurement.target:
        over = f"until {measurement.target.name} reaches {measurement.target.value:g}, start-up included,"
    else:
        over = f"over {measurement.passed}, from start to result,"
    text = f"{over} {_subject(measurement)} {sides(known)}{_certainty(findings)}"
    return text + (f"; {_would_decide(findings)}" if findings.answer == "Not decided" else _near_tie(findings))


def _as_written(findings: Findings) -> str:
    """Return the times and the throughput of runs that are not known to have done the same work."""
    measurement = findings.measurement
    arms = [measurement.subject or "", *findings.contests]
    seconds = {name: findings.median(name, "wallSeconds") for name in arms}
    took = " and ".join(
        f"{measurement.requests[name].title} takes {value:.1f} s"
        for name, value in seconds.items()
        if value is not None
    )
    keys = {"baseline": "throughputRatio", "wide": "wideThroughputRatio", "native": "nativeThroughputRatio"}
    rates = [
        f"{factor(ratio)} as many {measurement.unit} a second as {findings.contests[name].against}"
        for name, key in keys.items()
        if name in findings.contests and (ratio := findings.ratio(key))
    ]
    text = f"the runs do not show that the arms did the same work. Whatever they did, from start to result {took}"
    text += _in_repeats(findings)
    when = "From its first trial to its last" if measurement.workload.searches else "In its timed steps"
    return text + (f". {when} Ray goes through {' and '.join(rates)}" if rates else "")


def _certainty(findings: Findings) -> str:
    confidence = ", with 95 % confidence" if len(findings.measurement.repeats) > 1 else ""
    return f"{confidence}{_in_repeats(findings)}"


def _in_repeats(findings: Findings) -> str:
    repeats = len(findings.measurement.repeats)
    if repeats <= 1:
        return ", in one repeat, which cannot show how certain that is"
    if findings.answer == "Not decided" and findings.ending == "most repeats":
        return ""  # what would decide says it
    return f", in {repeats} repeats" + (", as many as it took" if findings.ending == "decided" else "")


def _would_decide(findings: Findings) -> str:
    """Return how many repeats would probably decide, if others did not slow the runs. The text says to measure again
    from the start, because adding repeats to a fixed number of them gives more errors than 95 % confidence allows."""
    repeats, finished = repeats_to_decide(list(findings.contests.values())), len(findings.measurement.repeats)
    if findings.ending == "most repeats":
        return f"not decided in {finished} repeats, and more are not made"
    if _is_disturbed(findings):
        return MORE_DO_NOT_HELP
    if findings.ending == GOES_ON:
        would = f"{repeats} would probably decide" if repeats else f"{MOST_AUTO_REPEATS} would probably not decide"
        return f"{would}, and {next_up(findings.measurement)}"
    if finished < ENOUGH_TO_ESTIMATE:
        return f"measure at least {repeats} repeats"
    if not repeats:
        return "even 100 repeats would probably not decide"
    or_auto = ", or with `repeats auto`" if _auto_would_decide(findings) else ""
    return f"{repeats} repeats would probably decide: measure again from the start{or_auto}"


def _is_disturbed(findings: Findings) -> bool:
    return is_disturbed(findings.fairness.checks["machineQuiet"].passed, findings.qualifiers)


def _auto_would_decide(findings: Findings) -> bool:
    """Return whether `repeats auto` may be set, and would probably decide all comparisons that are open."""
    if not findings.measurement.context.settings.keys().isdisjoint(NOT_BESIDE_AUTO):
        return False
    nows = [each.now for each in findings.contests.values() if not (each.is_won or each.is_lost)]
    return all(auto_would_decide(now.values) for now in nows if isinstance(now, Estimate))


def _near_tie(findings: Findings) -> str:
    """Return a remark if *Worth it* and *Not worth it here* may both be true: there is a gain, and it is too small to
    matter.

    That is so if the alternative against which Ray gains least takes 1 to 1.05 times as long as Ray. Other answers,
    such as *Worth it from*, have no such remark.
    """
    other = {"Worth it": "Not worth it here", "Not worth it here": "Worth it"}.get(findings.answer)
    nows = [each.now for each in findings.contests.values() if isinstance(each.now, Estimate)]
    ends = [(now.lower, now.upper) for now in nows if now.lower and now.upper]
    lower, upper = min(ends, key=math.prod, default=(0.0, 0.0))
    if other is None or not 1 < math.sqrt(lower * upper) < MARGIN:
        return ""
    gain = "the gain" if lower > 1 else "a gain, if any,"
    probably = "" if upper < MARGIN else "probably "
    return f"; {gain} is {probably}below 5 %, so another measurement may answer *{other}*"


def _subject(measurement: Measurement) -> str:
    return measurement.requests[measurement.subject or ""].title


def _claim(findings: Findings) -> str:
    if findings.claim is None or findings.claim == "same work":
        return ""
    return f"{CLAIM_WORDS[findings.claim]}: {findings.claim_lacks}."


def _an_epoch(findings: Findings) -> str:
    contests = findings.contests
    known = [(each.per_epoch, each.against) for each in contests.values() if isinstance(each.per_epoch, Estimate)]
    if known:
        return f"{WITHOUT_FIXED.capitalize()}, {findings.measurement.workload.passing} {sides(known)}"
    known = _steps(findings)  # what follows an epoch's steps was not seen
    return f"A step of Ray {sides(known)}" if known else ""


def _steps(findings: Findings) -> list[tuple[Estimate, str]]:
    """Return the known ratios of the step times, each with the title of the alternative."""
    steps = {"baseline": "speedup", "wide": "wideSpeedup"}
    ratios = [(findings.ratio(steps.get(name, "")), contest.against) for name, contest in findings.contests.items()]
    return [(ratio, against) for ratio, against in ratios if ratio]


def _whats_next(findings: Findings) -> str:
    """Return whether longer training could change the answer; "" if nothing is said of that."""
    if findings.claim != "same work":  # the time to a result is what it is
        return ""
    contests, trained = findings.contests.values(), findings.measurement.workload
    if findings.answer == "Worth it":
        return _longer("may change that", trained, [each for each in contests if each.is_lost_later])
    if findings.answer != "Not worth it here":
        return ""
    if isinstance(findings.longer, Missing):
        return _stays(findings, findings.longer)
    if findings.ending != GOES_ON:
        return f"{trained.longer} {_outlook(findings, findings.longer)}."
    longer = trained.longer[0].lower() + trained.longer[1:]
    return f"Whether {longer} changes that is not known yet: {next_up(findings.measurement)}."


def _stays(findings: Findings, longer: Missing) -> str:
    """Return why longer training does not change the answer *Not worth it here*, or that this is not known."""
    contests, trained = findings.contests.values(), findings.measurement.workload
    lost = [each for each in contests if each.is_lost_for_good]
    if slower := [each for each in lost if each.is_lost_later]:
        return _longer("does not change that", trained, slower)
    if lost:
        return _longer("does not bring a gain of 5 %", trained, lost)
    if any(isinstance(each.per_epoch, Missing) for each in contests):
        return _by_steps(findings)
    return f"{trained.longer} does not change that: {longer.reason}."


def _longer(what: str, trained: Workload, because: Sequence[Contest]) -> str:
    """Return what longer training does, and why: how long an epoch of Ray takes; "" without such a ratio."""
    epochs = [(each.per_epoch, each.against) for each in because if isinstance(each.per_epoch, Estimate)]
    return f"{trained.longer} {what}: {WITHOUT_FIXED}, {trained.passing} {sides(epochs)}." if epochs else ""


def _outlook(findings: Findings, longer: LongerRun) -> str:
    """Return what longer training probably changes, what it takes, and below which length that is certain."""
    trained, passes = findings.measurement.workload, findings.measurement.passes
    of_all = " against one of the alternatives" if len(findings.contests) > 1 else ""
    surely = f"With fewer than {passes(longer.passes)} that is certain"
    if longer.probably is None:
        number = f"with any number of {trained.passed}s up to {MOST_EPOCHS:,}"
        return f"most likely does not bring a gain of 5 %: {number} Ray probably gains less{of_all}. {surely}"
    # With `repeats auto` there are no more of them. No answer that is proven is changed by more of them.
    is_open = all(upper(each.per_epoch) > 1 for each in findings.contests.values()) and not findings.ending
    before = ". More repeats tell first whether it does" * (is_open and not _is_disturbed(findings))
    if longer.not_advised or longer.seconds is None:
        how = f", but probably only from {passes(longer.probably)} on, and {longer.not_advised}"
    else:
        how = f": try `--set {trained.passes_key}={longer.probably}` (about {duration(longer.seconds)})"
    is_sure = longer.probably == longer.passes
    fewer = f"With fewer {trained.passed}s Ray {'' if is_sure else 'probably '}gains less than 5 %{of_all}"
    return f"may change that{how}{before}. {fewer}{'' if is_sure else f'. {surely}'}"


def _by_steps(findings: Findings) -> str:
    """Return whether longer training could change the answer *Not worth it here*, judged by the steps alone, because
    the time that follows the steps of an epoch was not seen."""
    trained = findings.measurement.workload
    slower = [(ratio, against) for ratio, against in _steps(findings) if ratio.upper is not None and ratio.upper < 1]
    if slower:
        return f"More steps do not change that: a step of Ray {sides(slower)}."
    if not findings.measurement.has_whole_epochs:
        return "More steps might change that."
    may_be_set = trained.has_key_for_passes(findings.measurement.recipe.to_dict())
    show = f": two {trained.passed}s would show how long one takes (`--set {trained.passes_key}=2`)"
    return f"{trained.longer} might change that{show * may_be_set}."


def _trial_length(findings: Findings) -> str:
    """Return from which length of a trial on Ray takes less time; "" if this is no search, or not compared."""
    if isinstance(findings.search, Missing) or not (text := length_words(findings.search)):
        return ""
    took = findings.median(BASELINE.name, "trialSeconds")
    here = f"; here one takes {shown_length(took)}" if took is not None else ""
    return f"With {findings.measurement.passed} {text}{here}."


def _time(findings: Findings) -> str:
    """Return how much of the subject's time is start-up, and how much of each alternative's."""
    subject = findings.measurement.subject or ""
    whole, start = (findings.median(subject, name) for name in ("wallSeconds", "startupSeconds"))
    if whole is None or start is None:
        return ""
    others = []
    for name, contest in findings.contests.items():
        before, total = (findings.median(name, key) or 0.0 for key in ("startupSeconds", "wallSeconds"))
        others.append(f"{contest.against} {before:.1f} of {total:.1f}")
    # A time to a result ends before its run does
    of_whole = f"of the {whole:.1f} s of its whole run" if findings.claim == "same result" else f"of its {whole:.1f} s"
    return f"Ray spends {start:.1f} {of_whole} starting" + "".join(f", {text}" for text in others) + "."


def _over_native(findings: Findings) -> str:
    overhead = findings.ratio("rayOverhead")
    if overhead is None or NATIVE.name in findings.contests:
        return ""
    native = findings.measurement.requests[NATIVE.name].title
    return f"A step of Ray {sides([(inverse(overhead), native)])}"


def _curve(curve: Curve | Missing) -> str:
    """Return the measured gains of more workers, and the number of workers from which on more of them do not pay."""
    if isinstance(curve, Missing):
        return ""
    gains = [
        f"{point.workers} workers are {factor(point.gain)} as fast as {before.workers}"
        for before, point in pairwise(curve.points)
        if point.gain
    ]
    text = f"From start to result, {' and '.join(gains)}" if gains else ""
    if text and not isinstance(curve.stops_paying_at, Missing):
        text += f", so the gain of {curve.stops_paying_at} is not certain any more"
    dearer = [
        f"A run with {counted(point.workers, 'worker')} costs more than one with {before.workers}, with 95 % confidence"
        for before, point in pairwise(curve.points)
        if before.workers == curve.costs_more_from
    ]
    return ". ".join(part for part in (text, *dearer) if part)


def _model(findings: Findings) -> str:
    """Return what more workers would give, as a range, or what to measure to know that."""
    model = findings.projection
    if isinstance(model, Missing):
        return ""
    doubt = doubt_of(findings.fairness.checks["machineQuiet"].passed, findings.qualifiers)
    return f"{f'Estimate, {doubt}' if doubt else 'Estimate, not measured'}: {headline(model)}"


def doubt_of(machine_quiet: bool | None, qualifiers: Mapping[str, str]) -> str:
    """Return why a projection may be far off: the runs were, or may have been, disturbed; "" if not."""
    if machine_quiet:
        return ""
    if is_disturbed(machine_quiet, qualifiers):
        return "from runs that others may have slowed, so it may be far off"
    return "from runs of a machine that may not have been quiet, so it may be far off"


def _accuracy(gap: Estimate | None) -> str:
    if gap is None or abs(gap.median) > ACCURACY_POINTS:
        return ""  # a large gap is a qualifier
    if (points := f"{abs(gap.median):.1f}") == "0.0":
        return "Ray's test accuracy is that of one process, to 0.1 percentage points"
    if gap.lower is not None and gap.upper is not None and gap.lower <= 0 <= gap.upper:
        return "Ray's test accuracy is not proven to differ from that of one process"
    direction = "lower" if gap.median > 0 else "higher"
    return f"Ray's test accuracy is {points} percentage points {direction} than that of one process"


def _not_measured(findings: Findings) -> str:
    """Return which alternatives that most people would use were not measured, and why: a bigger single process, and for
    a search also several processes."""
    measurement = findings.measurement
    if not measurement.repeats or measurement.recipe.workers == 1:
        return ""
    alternatives = {WIDE.name: "A bigger single process", NATIVE.name: "What most people would use"}
    texts = [
        f"{what} ({measurement.requests[name].title}) was not measured: {measurement.absent[name]}"
        for name, what in alternatives.items()
        if name in measurement.absent
        and ARMS[name].role(measurement.workload.name, measurement.recipe.worker_gpus) == "alternative"
    ]
    return ". ".join(texts)
