"""What a search came to, and how long a trial has to be for Ray to be worth it. Pure: runs in, numbers and words out.

With fewer or longer trials the answer is another. Break-even in trials is what break-even in epochs is elsewhere
(`compare.answer`). Here the number of trials stays, and their length T, in seconds of a trial of the arm `baseline`,
changes. A run of N trials in S slots is taken to last

    whole(T) = fixed + N · (stretch · T + between) / S

- fixed: what lies before the first trial's start and after the last one's end, as measured.
- between: the mean wait of a slot between two trials, as measured: it is who searches that takes it.
- stretch: seconds of a slot for each trial, without that, by the mean trial of `baseline` in the same repeat. Trials
  that share a machine take longer, and slots that have none left wait for the last: both grow with T.

At the measured T this is the measured clock. Ratios of two clocks are taken within a repeat, and their interval is the
one that decides everywhere (`compare.intervals`).

Measures and ratios that only a search has are here, too; `compare.measures` takes them into the catalogue.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter

from compare import run_numbers
from compare.answer import first_that_stays
from compare.entries import Measure, Ratio
from compare.intervals import Interval, Rule, ratio_interval, rule_of
from compare.measurement import Context, Measurement, Run
from compare.run_numbers import whole_seconds
from compare.schema import Claim, Estimate, Search, TrialBreakEven
from compare.value import Missing
from compare.words import enumerated, factor, inverse, shown_seconds, sides
from training.contract.arms import BASELINE
from training.contract.result import SearchOutcome, TrainingResult
from training.contract.workload import Workload

MOST_TRIAL_SECONDS = 86_400
"""Length of a trial of one day. If Ray only wins with longer trials, there is no break-even."""
ONE_REPEAT = "one repeat has no interval"
NOT_CLOCKED = "no time of a trial was measured"
STATES = ("finished", "stopped", "failed")
OWN_RULES = "Rules stopped trials, and each arm has its own"
POPULATION = "In Ray trials took over from better ones, and elsewhere a rule stopped them"
LEAST_TRIAL_SECONDS = 0.01
"""A break-even at shorter trials than this is not reported as a number: Ray then wins with any trial."""
NO_SEARCH = "nothing was searched"
NOTHING_STOPPED = "no trial was stopped"
OF_ALTERNATIVES = {"": "baseline", "wide": "wide", "native": "native"}
"""The arms with which Ray is compared, by the prefix of the names of their ratios."""
SPLIT = EPOCHS, SECONDS = "epochsRatio", "epochTimeRatio"
"""The two ratios whose product is the ratio of the whole times."""
IN_WHOLE_RUNS: tuple[Claim, ...] = ("same work", "same result", "same script")
"""Claims that allow the comparison of searches by the epochs that they trained."""


SEARCHES: Callable[[Workload], bool] = attrgetter("searches")
"""Return whether a workload is a search. Entries of the catalogue that only searches have use this function."""


@dataclass(frozen=True)
class Line:
    """A run's whole time as a function of the length of a trial, with as many trials as the run made."""

    once: float
    """Seconds of the run that do not depend on the length of a trial."""
    lengths: float
    """The rest of the run's time, as a number of lengths of a trial of `baseline`."""

    def at(self, seconds: float) -> float:
        """Return the whole time of the run if a trial of `baseline` takes `seconds`."""
        return self.once + self.lengths * seconds


@dataclass(frozen=True)
class SearchFindings:
    """What the runs of a search say. A field whose value could not be found says why."""

    trials: Mapping[str, int]
    """How many trials all runs made, by state: `finished`, `stopped` or `failed`."""
    best: SearchOutcome | Missing
    """Outcome of the run that found the best configuration of all."""
    break_even: Mapping[str, TrialBreakEven | Missing]
    """Break-even against each alternative, by the arm of the alternative."""
    break_even_seconds: float | Missing
    """Length of a trial from which on Ray takes less time than each alternative, with 95 % confidence."""

    def summary(self) -> Search:
        """Return these findings in the form that the comparison has."""
        known = None if isinstance(self.best, Missing) else self.best
        seconds = self.break_even_seconds
        return Search(
            trials=dict(self.trials),
            best_config=known.best_config if known else None,
            best_metric=known.best_metric if known else None,
            break_even={arm: None if isinstance(each, Missing) else each for arm, each in self.break_even.items()},
            break_even_trial_seconds=None if isinstance(seconds, Missing) else seconds,
        )

    def missing(self) -> dict[str, Missing]:
        """Return why outputs are null, by name."""
        values: dict[str, object] = {"bestConfig": self.best, "bestMetric": self.best}
        values |= {"breakEvenTrialSeconds": self.break_even_seconds}
        values |= {f"search.breakEven.{arm}": each for arm, each in self.break_even.items()}
        return {name: value for name, value in values.items() if isinstance(value, Missing)}


def search_of(measurement: Measurement, claim: Claim | None, why_nothing: str) -> SearchFindings | Missing:
    """Return what the runs of a search say. `why_nothing`: why the runs' times are not compared; "" if they are."""
    outcomes = [run.result.search for run in measurement.runs]
    known = [outcome for outcome in outcomes if outcome]
    if not measurement.workload.searches or not known:
        return Missing(NO_SEARCH)
    if not why_nothing and claim != "same work":
        why_nothing = f"the claim is `{claim}`: lengths of trials are compared of the same work alone"
    each = {} if why_nothing else _break_evens(measurement)
    return SearchFindings(
        trials={state: sum(getattr(outcome, state) for outcome in known) for state in STATES},
        best=_best(measurement, known),
        break_even=each,
        break_even_seconds=Missing(why_nothing) if why_nothing else _against_all(measurement, each),
    )


def remarks(measurement: Measurement, ratios: Mapping[str, Estimate]) -> dict[str, str]:
    """Return the remarks that qualify the verdict on a search, by name. A remark that does not apply is ""."""
    searches = {run.name: run.result.search for run in measurement.runs if run.result.search}
    stopped = any(outcome.stopped for outcome in searches.values())
    return {
        "failedTrials": _failed_trials(searches),
        "stoppedTrials": _stopped_trials(measurement, ratios) if stopped else "",
    }


def _failed_trials(searches: Mapping[str, SearchOutcome]) -> str:
    """Return which runs had failed trials, and how many, even if each arm has as many; "" if none failed."""
    failed = {name: f"{each.failed} of {sum(getattr(each, state) for state in STATES)}"
              for name, each in searches.items() if each.failed}  # fmt: skip
    if not failed:
        return ""
    if len(failed) == len(searches) and len(set(failed.values())) == 1:
        return f"In every run {next(iter(failed.values()))} trials failed, and none was made again"
    texts = [f"{how_many} in {name}" for name, how_many in failed.items()]
    return f"Trials failed, and none was made again: {enumerated(texts)}"


def _stopped_trials(measurement: Measurement, ratios: Mapping[str, Estimate]) -> str:
    """Return the remark that splits the ratio of the whole times into epochs trained and time of an epoch. Rules of the
    same name stop trials differently in each arm, and only the second factor is due to where the trials run."""
    epochs: list[str] = []
    seconds: list[tuple[Estimate, str]] = []
    for prefix, arm in OF_ALTERNATIVES.items():
        of_epochs, of_seconds = (ratios.get(prefixed(prefix, name)) for name in SPLIT)
        if of_epochs and of_seconds:
            against = measurement.requests[arm].title
            epochs.append(f"{factor(inverse(of_epochs))} as many{' epochs' if not epochs else ''} as {against}")
            seconds.append((of_seconds, against))
    if not epochs:
        return "Rules stopped trials; how many epochs they left to each arm is not known"
    rules = POPULATION if measurement.recipe.is_population else OWN_RULES
    return (
        f"{rules}: Ray trained {enumerated(epochs)}. The rest of the ratio of "
        f"whole times is Ray's: for each epoch that was trained Ray {sides(seconds)}"
    )


def length_words(findings: SearchFindings) -> str:
    """Return how long a trial has to be for Ray to take less time than each alternative; "" if that is not compared."""
    known = [each for each in findings.break_even.values() if not isinstance(each, Missing)]
    if not known or len(known) < len(findings.break_even):
        return ""
    probably, possibly, surely = (
        _longest([getattr(each, end) for each in known]) for end in ("probably", "possibly", "surely")
    )
    if probably is None:
        why = findings.break_even_seconds.reason if isinstance(findings.break_even_seconds, Missing) else ""
        return "Ray wins at no length of a trial, in one repeat" if why == ONE_REPEAT else why
    if surely is not None and surely <= LEAST_TRIAL_SECONDS:
        return "Ray wins however short a trial is, with 95 % confidence"
    if possibly is None:
        interval = "one repeat cannot show how certain that is"
    else:
        upper = f"to {shown_length(surely)}" if surely else "or more"
        interval = f"{shown_length(possibly)} {upper}, with 95 % confidence"
    wins = "wins" if surely else "probably wins"
    return f"Ray {wins} where a trial takes about {shown_length(probably)} or longer ({interval})"


def shown_length(seconds: float) -> str:
    """Return a length of time as `40 ms`, `6.2 s` or `5.2 min`."""
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else shown_seconds(seconds)


def _longest(lengths: Sequence[float | None]) -> float | None:
    known = [length for length in lengths if length is not None]
    return max(known) if len(known) == len(lengths) else None


def _best(measurement: Measurement, outcomes: Sequence[SearchOutcome]) -> SearchOutcome | Missing:
    """Return the outcome with the best metric of all runs, or why there is no such outcome."""
    if measurement.target is None:
        return Missing("no metric says which trial is the best")
    sign = 1 if measurement.target.better == "higher" else -1
    finished = [outcome for outcome in outcomes if outcome.best_config is not None and outcome.best_metric is not None]
    return (
        max(finished, key=lambda each: sign * (each.best_metric or 0.0)) if finished else Missing("no trial finished")
    )


def line(result: TrainingResult, baseline_trial_seconds: float) -> Line | None:
    """Return a run's whole time as a function of the length of a trial; None if the run has no times of trials."""
    outcome, slots, trials = result.search, result.world_size, result.seconds.train
    if outcome is None or not slots or not trials or baseline_trial_seconds <= 0:
        return None
    between = result.epochs_completed * outcome.between_trials_seconds / slots
    return Line(
        once=whole_seconds(result) - trials + between,
        lengths=(trials - between) / baseline_trial_seconds,
    )


def break_even(pairs: Sequence[tuple[Line, Line]], rule: Rule) -> TrialBreakEven:
    """Return the trial's length from which on the second time stays below the first, to a millisecond."""

    @cache
    def at(milliseconds: int) -> tuple[list[float], Interval | None]:
        seconds = milliseconds / 1000
        ratios = [above.at(seconds) / below.at(seconds) for above, below in pairs]
        return ratios, ratio_interval(ratios, rule.confidence)

    def stays_from(end: Callable[[Interval], float], *, otherwise: bool = False) -> float | None:
        def is_ahead(milliseconds: int) -> bool:
            ratios, interval = at(milliseconds)
            return (end(interval) if interval else ratios[0] if otherwise else 0.0) > 1

        milliseconds = first_that_stays(is_ahead, 1000 * MOST_TRIAL_SECONDS)
        return None if milliseconds is None else milliseconds / 1000

    return TrialBreakEven(
        probably=stays_from(lambda interval: interval.centre, otherwise=True),
        possibly=stays_from(lambda interval: interval.upper),
        surely=stays_from(lambda interval: interval.lower),
    )


def _break_evens(measurement: Measurement) -> dict[str, TrialBreakEven | Missing]:
    """Return the break-even against each measured alternative, or why it is not known, by the alternative's name."""
    subject, rule = measurement.subject, rule_of(measurement)
    by_arm: dict[str, TrialBreakEven | Missing] = {}
    for name in measurement.alternatives if subject else ():
        lines = [[_line(repeat[arm], repeat) for arm in (name, subject or "")] for repeat in measurement.repeats]
        pairs = [(above, below) for above, below in lines if above and below]
        is_whole = bool(pairs) and len(pairs) == len(lines)
        by_arm[name] = break_even(pairs, rule) if is_whole else Missing(NOT_CLOCKED)
    return by_arm


def _line(run: Run, repeat: Mapping[str, Run]) -> Line | None:
    baseline = repeat[BASELINE.name].result.search if BASELINE.name in repeat else None
    return line(run.result, baseline.trial_seconds) if baseline else None


def _against_all(measurement: Measurement, each: Mapping[str, TrialBreakEven | Missing]) -> float | Missing:
    if not each:
        return Missing("Ray was not measured")
    if len(measurement.repeats) == 1:
        return Missing(ONE_REPEAT)
    lengths: list[float] = []
    for name, length in each.items():
        if isinstance(length, Missing):
            return length
        if length.surely is None:
            against = measurement.requests[name].title
            if length.possibly is None:
                return Missing(f"Ray does not stay ahead of {against}, however long a trial is, with 95 % confidence")
            return Missing(f"it is not proven that Ray stays ahead of {against}, however long a trial is")
        lengths.append(length.surely)
    return max(lengths)


def _stops_trials(context: Context) -> bool:
    """Return whether a rule may stop trials of the search."""
    return bool(context.recipe.to_dict()["searchScheduler"] != "none")


def prefixed(prefix: str, name: str) -> str:
    """Return the name of a ratio against an alternative, with the prefix of the alternative: `wideEpochTimeRatio`."""
    return f"{prefix}{name[0].upper()}{name[1:]}" if prefix else name


TRIALS = (
    Measure(
        name="trialSeconds", title="A trial, start to end", unit="s", better="lower", column="trial s", only=SEARCHES,
        of=run_numbers.of_search(lambda search: search.trial_seconds),
        meaning="mean of all trials, from the start of the process",
    ),
    Measure(
        name="betweenTrialsSeconds", title="Wait of a slot between two trials", unit="s", better="lower", only=SEARCHES,
        column="gap s", of=run_numbers.of_search(lambda search: search.between_trials_seconds),
        meaning="mean, from a trial's end to the start of the slot's next",
    ),
    Measure(
        name="epochsTrained", title="Epochs of all trials", digits=0, only=SEARCHES, because="search.epochsTrained",
        of=run_numbers.of_search(lambda search: search.epochs_trained),
        meaning="without those that failed",
    ),
)  # fmt: skip

STOPPING = tuple(
    Ratio(
        name=prefixed(prefix, name), title=f"{title}, {above}", above=above, below="ray", of=of, words=None,
        only=SEARCHES, claims=IN_WHOLE_RUNS, because="search.epochsTrained", otherwise=NOTHING_STOPPED,
        wanted_by=_stops_trials,
        meaning=f"{above} / ray, {what}", detail=f"of a search that stops trials, {detail}",
    )
    for name, title, of, what, detail in (
        (
            EPOCHS, "Epochs trained", run_numbers.epochs_if_stopped, "epochs",
            "by its rule for stopping",
        ),
        (
            SECONDS, "Seconds an epoch", run_numbers.epoch_seconds_if_stopped, "s / epoch",
            "the rest of the end-to-end ratio",
        ),
    )
    for prefix, above in OF_ALTERNATIVES.items()
)  # fmt: skip
"""The two factors of an end-to-end ratio if a rule stopped trials. Only the second one is due to Ray."""
