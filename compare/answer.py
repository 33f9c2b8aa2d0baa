"""What may be said of Ray, and what is said: the claim, Ray's clock against each alternative's, and the answer. Pure.

A claim is derived from what was observed of the arms. A, *same work*: every item of a finite list is known to be alike;
everything may be said. B, *same result*: a named score reached its target in every run; the time to it is compared. C,
*same script*: steps are known, but not that they are the same work; throughput is compared, and nothing is decided. D,
*it finished*: start and end alone are known. Arms that are known to have done other work have no claim.

The answer goes by one rule over whole clocks. R(E) is an alternative's whole clock at E epochs divided by Ray's, within
a repeat, with the 95 % t interval of its logarithms. *Worth it*: R(epochs) lies above 1 for each alternative. *Worth it
from E epochs on*: so does R of an epoch alone, and from E on every R stays above 1. *Not worth it here*: R(epochs) lies
below 1.05 for one of them. Else it is not decided. The control is no alternative: Ray contains it, and could never win.
In a search Ray contains nothing of the arm `native`, which is one of the alternatives there; an epoch is a trial.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from compare.fairness import Fairness
from compare.intervals import MARGIN, ONCE, Interval, Rule, estimate, ratio_interval, rule_of
from compare.measurement import Measurement, seconds_to_target
from compare.run_numbers import ONE_EPOCH, Clock, clock_of
from compare.schema import Answer, BreakEven, Claim, Estimate
from compare.value import Check, Missing
from compare.words import sides
from training.contract.result import PROOF

MOST_EPOCHS = 10_000
"""The most that the setting `epochs` allows. A break-even at more epochs counts as no break-even."""

AN_EPOCH_ALONE = 0
"""Stands, as a number of epochs, for the limit of a ratio with ever more epochs."""

NOT_SAID: dict[Claim | None, str] = {
    "same work": "the arms did the same work, so the speedup says it",
    "same result": "the claim is `same result`: the time to that is compared",
    "same script": "the runs do not show that the arms did the same work: the claim is `same script`",
    "it finished": "the runs do not show that the arms did the same work: the claim is `it finished`",
}
"""Why a ratio is not given, by the claim that the runs have."""
CLAIM_WORDS: dict[Claim, str] = {
    "same result": "It is only known that every arm reached the same result",
    "same script": "The runs do not show all of it",
    "it finished": "Only start and end of the runs are known",
}
"""How the verdict qualifies what it says, by claim. The strongest claim needs no qualification."""
DECIDES: tuple[Claim, ...] = ("same work", "same result")
"""Claims with which the answer may decide anything."""
WITHOUT_FIXED = "without the fixed time"
"""Begins what is said of an epoch alone, or of a search's trials alone. The glossary has *fixed time*."""
UNKNOWN = Check(None, "")

Pair = tuple[Clock, Clock]
"""The clocks of the runs of two arms in one repeat."""


def claim_of(measurement: Measurement, fairness: Fairness) -> tuple[Claim | None, str]:
    """Return the claim, and in words what the claim lacks of *same work* ("" if nothing). The claim is None if a check
    failed. With one worker there is no shared work, so the workload's checks of shared work are not needed."""
    checks = fairness.checks
    if fairness.failed:
        return None, f"not comparable: {', '.join(fairness.failed)} failed"
    if not all(run.result.steps.per_epoch and run.result.epochs_completed for run in measurement.runs):
        return "it finished", "some run counted no step"
    needed = ("sameWork", *(measurement.workload.work_checks if measurement.recipe.workers > 1 else ()))
    unknown = [name for name in needed if checks.get(name, UNKNOWN).passed is None]
    proof = fairness.work.get(PROOF)
    is_reached = measurement.is_target_reached and (proof is None or bool(proof.passed))
    claim = strongest(steps=True, same_work=None if unknown else True, same_result=is_reached)
    why = checks.get("sameWork", UNKNOWN).why
    lacks = f"not verified: {', '.join(unknown)}" + (f" ({why})" if why and "sameWork" in unknown else "")
    return claim, lacks if unknown else ""


def strongest(*, steps: bool, same_work: bool | None, same_result: bool | None = None) -> Claim | None:
    """Return the strongest claim that may be made. `steps`: whether every run counted its steps. `same_work` and
    `same_result` are None where that is not known."""
    if same_work is False and not same_result:
        return None
    if not steps:
        return "it finished"
    return "same work" if same_work else "same result" if same_result else "same script"


@dataclass(frozen=True)
class Contest:
    """Ray's end-to-end time compared with one alternative's."""

    against: str
    """The alternative, in words."""
    now: Estimate | Missing
    """R, the alternative's whole time ÷ Ray's, at the number of epochs that were trained."""
    per_epoch: Estimate | Missing
    """R of the time of one epoch, without the fixed time of start, test and end."""
    meets: BreakEven | Missing
    pairs: Sequence[Pair] = ()
    """The alternative's clock and Ray's clock, for each repeat."""
    rule: Rule = ONCE
    passed: str = "epoch"
    """Word for an epoch."""
    passing: str = "one epoch of Ray"
    """Words for what is compared with an epoch of the alternative, such as `one epoch of Ray`."""

    @property
    def is_won(self) -> bool:
        """Return whether Ray takes less time from start to result, with 95 % confidence."""
        return _lower(self.now) > 1

    @property
    def is_lost(self) -> bool:
        """Return whether Ray gains less than the least gain that matters (`MARGIN`), with 95 % confidence."""
        return upper(self.now) < MARGIN

    @property
    def epochs_to_win(self) -> int | Missing:
        """Return the epochs from which on Ray takes less time, with 95 % confidence, or why there is no such number."""
        if isinstance(self.per_epoch, Missing):
            return self.per_epoch
        if self.per_epoch.lower is None:
            return Missing("one repeat has no interval")
        if self.per_epoch.lower > 1 and isinstance(self.meets, BreakEven) and self.meets.surely is not None:
            return self.meets.surely
        return Missing(f"{WITHOUT_FIXED}, {self.passing} {sides([(self.per_epoch, self.against)])}{self._why_none()}")

    def _why_none(self) -> str:
        """Return why no number of epochs is certainly enough for Ray to take less time. `break_even` may still have a
        number that is probably enough."""
        if upper(self.per_epoch) < 1:
            return f", so there is no number of {self.passed}s from which on Ray stays ahead"
        if _lower(self.per_epoch) <= 1:
            return f": it is not proven faster, so no number of {self.passed}s is certain to be enough"
        start = f"to make up for its fixed time within {MOST_EPOCHS:,} {self.passed}s"
        if isinstance(self.meets, BreakEven) and self.meets.possibly is None:
            return f": too little {start}, with 95 % confidence"
        return f": it is not certain that this is enough {start}"

    @property
    def is_lost_for_good(self) -> bool:
        """Return whether Ray loses now, and also gains too little in an epoch alone, both with 95 % confidence. With
        more epochs the ratio moves from that of the whole clocks to that of an epoch, so Ray then stays behind."""
        return self.is_lost and upper(self.per_epoch) < MARGIN

    @property
    def is_lost_later(self) -> bool:
        """Return whether an epoch alone takes longer with Ray, with 95 % confidence: in time it loses any lead."""
        return upper(self.per_epoch) < 1

    def is_lost_at(self, epochs: int) -> bool:
        """Return whether Ray gains less than `MARGIN` over this number of epochs, with 95 % confidence."""
        interval = self._interval_at(epochs)
        return interval is not None and interval.upper < MARGIN

    def is_probably_lost_at(self, epochs: int) -> bool:
        """Return whether Ray probably gains less than `MARGIN` over this number of epochs, by the interval's centre."""
        interval = self._interval_at(epochs)
        return interval is not None and interval.centre < MARGIN

    def _interval_at(self, epochs: int) -> Interval | None:
        return ratio_interval(ratios_at(self.pairs, epochs), self.rule.confidence)


def compare_clocks(measurement: Measurement, claim: Claim | None) -> dict[str, Contest]:
    """Return the comparison of Ray with each measured alternative, by the alternative's name; empty if Ray was not
    measured.

    If the arms only have the same result, the times until that result are compared. If less is known of the arms, their
    whole times are compared as they are, and the comparison decides nothing.
    """
    subject, contests, rule = measurement.subject, {}, rule_of(measurement)
    passed, passing = measurement.workload.passed, measurement.workload.passing
    for name in measurement.alternatives if subject else ():
        runs = [(repeat[name].result, repeat[subject or ""].result) for repeat in measurement.repeats]
        pairs = [(clock_of(above), clock_of(below)) for above, below in runs]
        contest = contest_of(pairs, measurement.epochs_trained[0], measurement.requests[name].title, rule)
        contest = replace(contest, passed=passed, passing=passing)
        if claim != "same work":
            of_other_work = Missing(f"the claim is `{claim}`: {passed}s are compared of the same work alone")
            contest = replace(contest, per_epoch=of_other_work, meets=of_other_work, pairs=())
        if claim == "same result":
            times = [[seconds_to_target(result, measurement.target) or 0.0 for result in pair] for pair in runs]
            contest = replace(contest, now=estimate([above / below for above, below in times], rule=rule))
        elif claim != "same work" and isinstance(contest.now, Estimate):
            contest = replace(contest, now=replace(contest.now, decision="", repeats_to_decide=None))
        contests[name] = contest
    return contests


def contest_of(pairs: Sequence[Pair], epochs: int, against: str, rule: Rule = ONCE) -> Contest:
    """Return the comparison of Ray's clocks with an alternative's. In each pair Ray's clock is the second."""
    return Contest(
        against=against,
        now=_estimated(ratios_at(pairs, epochs), "no time was measured", rule),
        per_epoch=_estimated(ratios_per_epoch(pairs), ONE_EPOCH, rule),
        meets=break_even(pairs, rule),
        pairs=pairs,
        rule=rule,
    )


def _estimated(ratios: Sequence[float], otherwise: str, rule: Rule) -> Estimate | Missing:
    return estimate(ratios, rule=rule) if ratios else Missing(otherwise)


def ratios_at(pairs: Sequence[Pair], epochs: int) -> list[float]:
    """Return first clock ÷ second clock at this number of epochs, for each pair; empty unless all clocks have a time
    above 0: without some pairs the interval would be that of another measurement."""
    both = [(above.at(epochs), below.at(epochs)) for above, below in pairs]
    ratios = [above / below for above, below in both if above and below and above > 0 and below > 0]
    return ratios if len(ratios) == len(pairs) else []


def ratios_per_epoch(pairs: Sequence[Pair]) -> list[float]:
    """Return the limit of the ratio of the clocks for many epochs, for each pair; empty if a pair has no such limit."""
    ratios = [above.per_epoch / below.per_epoch for above, below in pairs if above.per_epoch and below.per_epoch]
    return ratios if len(ratios) == len(pairs) else []


def break_even(pairs: Sequence[Pair], rule: Rule = ONCE) -> BreakEven | Missing:
    """Return the epoch from which on the second clock stays below the first, up to `MOST_EPOCHS` epochs and in an epoch
    alone, or why that is not known."""
    if not (limits := ratios_per_epoch(pairs)):
        return Missing(ONE_EPOCH)

    @cache  # the three are looked for at mostly the same numbers of epochs
    def at(epochs: int) -> tuple[list[float], Interval | None]:
        ratios = ratios_at(pairs, epochs) if epochs else limits
        return ratios, ratio_interval(ratios, rule.confidence)

    def stays_from(end: Callable[[Interval], float]) -> int | None:
        def is_ahead(epochs: int) -> bool:
            ratios, interval = at(epochs)
            return (end(interval) if interval else ratios[0] if end is _centre and ratios else 0.0) > 1

        return first_that_stays(is_ahead, MOST_EPOCHS) if is_ahead(AN_EPOCH_ALONE) else None

    return BreakEven(
        probably=stays_from(_centre),
        possibly=stays_from(lambda interval: interval.upper),
        surely=stays_from(lambda interval: interval.lower),
    )


def _centre(interval: Interval) -> float:
    return interval.centre


def first_that_stays(is_ahead: Callable[[int], bool], most: int) -> int | None:
    """Return the least number, from 1, from which on `is_ahead` is true up to `most`; None if `is_ahead` is false at
    `most`. The numbers are tried downwards in steps of 5 %, and the last step is then searched by halving."""
    ahead, behind = most, 0
    if not is_ahead(ahead):
        return None
    while ahead > 1 and not behind:
        before = max(1, min(ahead - 1, int(ahead / 1.05)))
        ahead, behind = (before, 0) if is_ahead(before) else (ahead, before)
    while ahead - behind > 1 and behind:
        middle = (ahead + behind) // 2
        ahead, behind = (middle, behind) if is_ahead(middle) else (ahead, middle)
    return ahead


def answer(contests: Sequence[Contest], claim: Claim | None) -> Answer:
    """Return the answer for runs that may be compared. The answer is *Not decided* if a time was not measured, or if
    the claim does not say that the arms did the same work or had the same result."""
    if not contests or claim not in DECIDES or any(isinstance(each.now, Missing) for each in contests):
        return "Not decided"
    if all(each.is_won for each in contests):
        return "Worth it"
    if not isinstance(epochs_to_win(contests), Missing):
        return "Worth it from"
    return "Not worth it here" if any(each.is_lost for each in contests) else "Not decided"


def epochs_to_win(contests: Sequence[Contest]) -> int | Missing:
    """Return the number of epochs from which on Ray takes less time than each alternative, with 95 % confidence; or why
    there is no such number."""
    each_alone = [contest.epochs_to_win for contest in contests]
    reasons = [epochs.reason for epochs in each_alone if isinstance(epochs, Missing)]
    if reasons or not contests:
        return Missing("; ".join(dict.fromkeys(reasons)))
    return max(epochs for epochs in each_alone if not isinstance(epochs, Missing))


def repeats_to_decide(contests: Sequence[Contest]) -> int | None:
    """Return how many repeats would probably decide what is open; None if more than allowed are needed."""
    open_contests = [each for each in contests if not (each.is_won or each.is_lost)]
    numbers = [each.now.repeats_to_decide for each in open_contests if isinstance(each.now, Estimate)]
    known = [number for number in numbers if number is not None]
    return max(known) if known and len(known) == len(numbers) else None


def _lower(value: Estimate | Missing) -> float:
    return value.lower if isinstance(value, Estimate) and value.lower is not None else 0.0


def upper(value: Estimate | Missing) -> float:
    """Return the upper end of the interval of `value`; infinite if there is no interval."""
    return value.upper if isinstance(value, Estimate) and value.upper is not None else math.inf
