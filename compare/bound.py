"""The least that Ray could take, of a script that nothing distributes yet. Pure.

With N workers Ray takes at least S + T / N, whatever is written: S is its fastest start of all repeats, of workers that
import the script's framework and do nothing, less what starts differ by; and T is the least of all repeats that one
process with one worker's CPUs does after its imports, as if all of it could be split. It is no run of Ray's: it can say
that Ray is not worth it, never that it is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from compare.answer import Contest, contest_of
from compare.fairness import Fairness
from compare.intervals import MARGIN, Rule, ratio_interval, repeats_to_decide, rule_of, spread
from compare.measurement import Measurement
from compare.run_numbers import Clock, clock_of, whole_seconds
from compare.schema import Answer, Bound, Ending, Estimate
from compare.stopping import first_after
from compare.value import Missing
from compare.words import least_sides, shown_seconds
from training.contract.arms import BASELINE, RAYSTART, counted
from training.contract.repeats import MOST_AUTO_REPEATS
from training.contract.result import TRAINER

MOST_WORKERS = 1_000
"""The most workers for which it is tested whether Ray could be worth it."""
STARTS_DIFFER = 0.2
"""Share by which a start of Ray may be shorter than the shortest measured start (docs/own-script.md)."""
NOT_DISTRIBUTED = "nothing distributes the script yet: Ray did not train it, and only the least that it takes is known"
RAY_TRAINED = "it is of a script that nothing distributes"
"""Why there is no bound, if Ray trained the script."""


@dataclass(frozen=True, kw_only=True)
class Least:
    """What is known of the time of Ray in one repeat, in seconds."""

    start: float
    """S, the time of Ray's start."""
    shared: float
    """T, the time of one process that could be split between workers."""
    clock: Clock
    """A clock whose whole time is S + T / N for N workers. An epoch takes an N-th of one process's time."""


def shared_of(whole: float, imports: float) -> float:
    """Return the part of one process's time that could be split. It is all but the time of a Python that imports the
    same modules and ends."""
    return max(0.0, whole - imports)


def least_of(baseline: Clock, start: float, shared: float, workers: int) -> Least:
    """Return the least time of a run with Ray, from the clock of one process. `start`: the time of Ray's start, or the
    shortest of several; `shared`: the time that can be split."""
    fastest = (1 - STARTS_DIFFER) * start
    per_epoch = None if baseline.per_epoch is None else baseline.per_epoch / workers
    return Least(start=fastest, shared=shared, clock=Clock(baseline.epochs, fastest + shared / workers, per_epoch))


@dataclass(frozen=True, kw_only=True)
class BoundFindings:
    """What the least time of Ray says about each alternative."""

    summary: Bound
    contests: Mapping[str, Contest]
    """The comparison of the least time of Ray with each alternative, by the alternative's name. `is_lost` means that
    Ray loses whatever is written; `is_won` does not mean that Ray wins."""
    is_same_work: bool
    """Whether the alternatives are known to do the same work as the baseline, from which the least time is computed."""

    @property
    def answer(self) -> Answer:
        """Return *Not worth it here* if even the least time of Ray loses, else *Not decided*."""
        return "Not worth it here" if any(each.is_lost for each in self.contests.values()) else "Not decided"

    def ending(self, repeats: int) -> Ending:
        """Return why a measurement with `repeats auto` ends, or "goes on"."""
        if self.answer != "Not decided":
            return "decided"
        if all(_stays_open(each) for each in self.contests.values()):
            return "nothing to decide"
        return "most repeats" if repeats >= MOST_AUTO_REPEATS else "goes on"


def _stays_open(contest: Contest) -> bool:
    """Return whether more repeats would hardly show a loss."""
    return isinstance(contest.now, Missing) or (contest.now.lower is not None and contest.now.lower > MARGIN)


def bound_of(measurement: Measurement, fairness: Fairness) -> BoundFindings | None:
    """Return the least time of Ray, from all complete repeats. None if Ray trained the script, if no start of Ray was
    measured, or if the arms cannot be compared."""
    if fairness.failed:
        return None
    if measurement.subject or RAYSTART.name not in measurement.variants:
        return None
    workers, starts = measurement.recipe.workers, [run.result for run in measurement.by_arm[RAYSTART.name]]
    baselines = [run.result for run in measurement.by_arm[BASELINE.name]]
    seconds = [whole_seconds(start) for start in starts]
    shared = [
        shared_of(whole_seconds(baseline), start.seconds.probe)
        for baseline, start in zip(baselines, starts, strict=True)
    ]
    least = [least_of(clock_of(baseline), min(seconds), min(shared), workers) for baseline in baselines]
    alternatives = [name for name in measurement.alternatives if _has_steps(name, measurement)]
    contests = {name: _contest(name, least, measurement) for name in alternatives}
    at_most = {name: each.now for name, each in contests.items() if isinstance(each.now, Estimate)}
    trainer = starts[0].did[TRAINER]
    summary = Bound(
        workers=workers,
        trainer=trainer,
        start_seconds=spread(seconds),
        shared_seconds=spread(shared),
        least_seconds=least[0].clock.whole,
        at_most=at_most,
        open_from_epochs=_open_from_epochs(contests.values()),
        open_from_workers=_open_from_workers(list(map(clock_of, baselines)), least, rule_of(measurement), workers),
        repeats_to_decide=_repeats_to_decide(contests.values(), rule_of(measurement)),
        write=measurement.workload.ports.get(trainer, ""),
    )
    is_same_work = len(contests) == 1 or fairness.checks["sameWork"].passed is True
    return BoundFindings(summary=summary, contests=contests, is_same_work=is_same_work)


def _has_steps(name: str, measurement: Measurement) -> bool:
    """Return whether an arm has steps, or the baseline has none either. An arm without a step beside a baseline with
    steps may have resumed from a file of the baseline and ended at once."""
    counted = {arm: all(run.result.steps.per_epoch for run in measurement.by_arm[arm]) for arm in (BASELINE.name, name)}
    return counted[name] or not counted[BASELINE.name]


def _contest(name: str, least: Sequence[Least], measurement: Measurement) -> Contest:
    clocks = [clock_of(run.result) for run in measurement.by_arm[name]]
    pairs = [(clock, each.clock) for clock, each in zip(clocks, least, strict=True)]
    epochs, title = measurement.epochs_trained[0], measurement.requests[name].title
    contest = contest_of(pairs, epochs, title, rule_of(measurement))
    if isinstance(contest.now, Missing):
        return contest
    return replace(contest, now=replace(contest.now, decision="", repeats_to_decide=None))


def _repeats_to_decide(contests: Collection[Contest], rule: Rule) -> int | None:
    """Return the fewest repeats that would probably show that Ray loses; None if that is already shown, or if the
    ratios do not suggest it."""
    if any(each.is_lost for each in contests):
        return None
    nows = [each.now for each in contests if isinstance(each.now, Estimate) and each.now.median < MARGIN]
    numbers = [repeats_to_decide([value / MARGIN for value in now.values], rule) for now in nows]
    return min((number for number in numbers if number), default=None)


def _open_from_epochs(contests: Collection[Contest]) -> int | None:
    """Return the fewest epochs at which these runs do not exclude, for any alternative, that Ray is worth it. None if
    there is no such number, with one repeat, or if the time of an epoch is not known."""
    if any(isinstance(each.per_epoch, Missing) or each.per_epoch.lower is None for each in contests):
        return None
    return first_after(0, lambda epochs: not any(each.is_lost_at(epochs) for each in contests))


def _open_from_workers(baselines: Sequence[Clock], least: Sequence[Least], rule: Rule, workers: int) -> int | None:
    """Return the fewest workers at which these runs do not exclude that Ray is faster than one process with one
    worker's CPUs, if more workers start as fast. None if there is no such number, or with one repeat."""

    def is_open(number: int) -> bool:
        clocks = [
            (alone.whole, each.start + each.shared / number) for alone, each in zip(baselines, least, strict=True)
        ]
        interval = ratio_interval([alone / ray for alone, ray in clocks], rule.confidence)
        return interval is not None and interval.upper >= MARGIN

    return next((number for number in range(workers, MOST_WORKERS + 1) if is_open(number)), None)


def reason(findings: BoundFindings) -> str:
    """Return what is compared and with what outcome: `with 2 workers Ray takes at least 9.8 s: …`."""
    bound, contests = findings.summary, findings.contests
    start, shared = shown_seconds(bound.start_seconds.low), shown_seconds(bound.shared_seconds.low)
    against = contests[BASELINE.name].against
    started = "workers that import its framework and do nothing"
    text = (
        f"nothing distributes the script yet. Whatever is written to do that, with {counted(bound.workers, 'worker')}"
        f" Ray takes at least {shown_seconds(bound.least_seconds)} from start to result: {start} to start {started},"
        f" less {100 * STARTS_DIFFER:.0f} % by which starts differ, and"
        f" 1/{bound.workers} of the {shared} that {against} takes after its imports"
    )
    known = [(each.now, each.against) for each in contests.values() if isinstance(each.now, Estimate)]
    doubt = "" if findings.is_same_work else " (that both do the same work is not verified)"
    return f"{text}. So Ray {least_sides(known)}{doubt}"


def whats_next(findings: BoundFindings, passed: str) -> str:
    """Return when Ray could be worth it, and what the user writes to find out."""
    bound, texts = findings.summary, list[str]()
    if repeats := bound.repeats_to_decide:  # nobody is told to write what probably loses
        return f"By these runs even the least that Ray takes is too long, which {repeats} repeats would probably show."
    could = [f"from {counted(bound.open_from_epochs, passed)} on"] if bound.open_from_epochs else []
    if bound.open_from_workers and bound.open_from_workers > bound.workers:
        of_one = "against one process with the CPUs of one worker"
        could.append(f"{of_one} from {bound.open_from_workers:,} workers on, if they start as fast")
    if could:
        texts.append(f"A distributed version could be worth it {', or '.join(could)}; only a run of it would show that")
    if findings.answer == "Not decided":
        texts.append(f"To write: {bound.write}")
    return " ".join(f"{text}." for text in texts)
