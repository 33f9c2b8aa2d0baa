"""The part of the catalogue that only a search has: measures of its trials, and ratios of what stopping did. Pure."""

from collections.abc import Callable
from operator import attrgetter

from compare import run_numbers
from compare.entries import Measure, Ratio
from compare.measurement import Context
from compare.schema import Claim
from training.contract.workload import Workload

NO_SEARCH = "nothing was searched"
NOTHING_STOPPED = "no trial was stopped"
OF_ALTERNATIVES = {"": "baseline", "wide": "wide", "native": "native"}
"""Arms that Ray is compared with, by what the names of their ratios begin with."""
SPLIT = EPOCHS, SECONDS = "epochsRatio", "epochTimeRatio"
"""Ratios whose product is that of the whole clocks."""
IN_WHOLE_RUNS: tuple[Claim, ...] = ("same work", "same result", "same script")
"""Claims under which searches are compared by the epochs that they trained."""


SEARCHES: Callable[[Workload], bool] = attrgetter("searches")
"""Whether a workload has an entry that only searches have."""


def stops_trials(context: Context) -> bool:
    """Return whether a rule may stop trials of the search."""
    return bool(context.recipe.to_dict()["searchScheduler"] != "none")


def prefixed(prefix: str, name: str) -> str:
    """Return the name of a ratio against an alternative: `wideEpochTimeRatio`."""
    return f"{prefix}{name[0].upper()}{name[1:]}" if prefix else name


TRIALS = (
    Measure(
        name="trialSeconds", title="A trial, start to end", unit="s", better="lower", column="trial s", only=SEARCHES,
        of=run_numbers.of_search(lambda search: search.trial_seconds),
        meaning="mean of all trials, from the start of a trial's process to its end",
    ),
    Measure(
        name="betweenTrialsSeconds", title="Wait of a slot between two trials", unit="s", better="lower", only=SEARCHES,
        column="gap s", of=run_numbers.of_search(lambda search: search.between_trials_seconds),
        meaning="mean for each trial, from its end to the start of the slot's next; none after the last",
    ),
    Measure(
        name="epochsTrained", title="Epochs of all trials", digits=0, only=SEARCHES, because="search.epochsTrained",
        of=run_numbers.of_search(lambda search: search.epochs_trained),
        meaning="epochs of all trials but those that failed; fewer where the search stopped some",
    ),
)  # fmt: skip

STOPPING = tuple(
    Ratio(
        name=prefixed(prefix, name), title=f"{title}, {above}", above=above, below="ray", of=of, words=None,
        only=SEARCHES, claims=IN_WHOLE_RUNS, because="search.epochsTrained", otherwise=NOTHING_STOPPED,
        wanted_by=stops_trials,
        meaning=f"{above} / ray, {what}", detail=f"of a search that stops trials: {detail}",
    )
    for name, title, of, what, detail in (
        (
            EPOCHS, "Epochs trained", run_numbers.epochs_if_stopped, "epochs",
            "the rule for stopping decides it, and not where trials run",
        ),
        (
            SECONDS, "Seconds an epoch", run_numbers.epoch_seconds_if_stopped, "s / epoch",
            "the rest of the end-to-end ratio, which is where they ran",
        ),
    )
    for prefix, above in OF_ALTERNATIVES.items()
)  # fmt: skip
"""The two factors of an end-to-end ratio where a rule stopped trials: only the second is Ray's."""
