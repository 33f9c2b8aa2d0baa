"""Makes the record of a trial that has ended: from what its observer wrote, and from what it printed or asked. Pure."""

import math
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from training.launch.foreign_command import MOST_PRINTED
from training.workloads.script.observations import Observation
from training.workloads.script.ranks_work import together, weights_equal
from training.workloads.search.detail import COUNTED, Trial
from training.workloads.search.questions import Report


@dataclass(frozen=True, kw_only=True)
class EndedTrial:
    """What is known of a trial that has ended."""

    number: int
    config: dict[str, Any]
    workers: int
    """Number of processes that were to train together."""
    epochs_asked: int
    """Number of epochs that the trial was told to train."""
    metric: str
    pattern: str
    """Regular expression that finds the metric in what the trial printed; "" if the metric was not read there."""
    began: float
    """When the trial began, in seconds since the epoch."""
    clock_began: float
    """When the trial began, in seconds of the monotonic clock."""
    clock_ended: float
    code: int
    """Exit code; negative if a signal ended the trial."""
    ended_by_search: bool
    """True if the search told the trial to stop, or ended it with a signal, while it ran."""
    signalled: bool
    """True if the search ended the trial with a signal."""
    printed: int
    """Number of bytes that the trial printed."""
    matches: int
    """How often the pattern was found in what the trial printed, also where the match was not a number."""
    memory_kills: int
    """Number of processes that the system killed in that time because memory was short."""
    error: str
    """Reason why the trial could not be started; "" if it was."""
    reports: Sequence[Report]
    """Values of the metric that the trial printed, or asked about."""
    seen: Sequence[Observation]
    """Observations of the trial's ranks."""

    @property
    def observation(self) -> Observation | None:
        """Return the observation of the first rank that reported the metric, else of the first; None without ranks."""
        reporting = [rank for rank in self.seen if any(name == self.metric for _, name, _ in rank.metric_points)]
        return next(iter([*reporting, *self.seen]), None)

    @property
    def points(self) -> list[list[float]]:
        """Return [seconds since the trial began, value] of each report of the metric, as the trial printed it or the
        observer saw it."""
        observed = self.observation
        if observed and not self.pattern:
            points = [[at - self.began, value] for at, name, value in observed.metric_points if name == self.metric]
            if points:
                return points
        return [[report.at - self.clock_began, report.value] for report in self.reports]

    @property
    def epochs(self) -> int | None:
        """Return the number of epochs that were seen to finish, or else of reports; None if neither was seen."""
        passes = self.observation.passes if self.observation and not self.pattern else ()
        finished = sum(each.finished for each in passes)
        return finished or len(self.points) or None


def of(ended: EndedTrial) -> Trial:
    """Return the record of a trial."""
    observed, points = ended.observation, ended.points
    why = _why(ended)
    last = points[-1][1] if points else None
    return Trial(
        number=ended.number,
        config=ended.config,
        state="failed" if why else "stopped" if ended.ended_by_search else "finished",
        began=ended.began,
        ended=ended.began + ended.clock_ended - ended.clock_began,
        epochs=ended.epochs,
        points=[point for point in points if math.isfinite(point[1])],
        metric=last if last is not None and math.isfinite(last) else None,
        weights=observed.weights if observed else None,
        exit_code=ended.code,
        why=why,
        steps=len(observed.step_ends) if observed else None,
        counted=_counted(ended.seen),
        threads=observed.threads if observed else None,
        peak_memory_bytes=max((rank.peak_memory_bytes for rank in ended.seen if rank.peak_memory_bytes), default=None),
        waited_seconds=max((rank.waited_seconds for rank in ended.seen), default=0.0),
    )


def _counted(seen: Sequence[Observation]) -> dict[str, str]:
    items = together(seen).items if seen else {}
    return {name: items[name] for name in COUNTED if name in items}


def _why(ended: EndedTrial) -> str:
    """Return why a trial failed; "" if it did not."""
    if ended.error:
        return f"it could not be started: {ended.error}"
    if ended.printed > MOST_PRINTED:
        return f"it printed more than {MOST_PRINTED // 2**20} MiB and was ended"
    if ended.code and not ended.ended_by_search:  # else it is how the script takes its stop: a `finally` that raises
        return _how(ended)
    if ended.signalled:
        return ""  # its workers were at different steps then
    return _apart(ended) or ("" if ended.ended_by_search else _printed_by_several(ended) or _without_metric(ended))


def _apart(ended: EndedTrial) -> str:
    """Return why processes that were to train together did not; "" if they did, or nothing was seen of them."""
    if not ended.seen or ended.workers == 1:
        return ""
    if len(ended.seen) != ended.workers:
        return f"{len(ended.seen)} of its {ended.workers} workers trained"
    equal, words = weights_equal(ended.seen)
    return words if equal is False else ""


def _printed_by_several(ended: EndedTrial) -> str:
    """Return why nobody knows which worker's metric was printed; "" if it was at most once in each epoch."""
    if ended.workers == 1 or ended.matches <= ended.epochs_asked:
        return ""
    return (
        f"its {ended.workers} workers printed the metric {ended.matches} times in {ended.epochs_asked} epochs: "
        "one of them alone is to print it, once an epoch"
    )


def _how(ended: EndedTrial) -> str:
    if ended.memory_kills:
        return "the system ended it: it needs more memory than it may have (OOMKilled)"
    if ended.code > 0:
        return f"it ended with exit code {ended.code}"
    names = {each.value: f" ({each.name})" for each in signal.Signals}  # of those that have one
    return f"it ended with signal {-ended.code}{names.get(-ended.code, '')}"


def _without_metric(ended: EndedTrial) -> str:
    """Return why the trial has no valid metric at its end; "" if it has one."""
    if ended.points:
        last = ended.points[-1][1]
        return "" if math.isfinite(last) else f"{ended.metric} was {last} at its end"
    if ended.pattern:
        return f"nothing that it printed is a number by the pattern {ended.pattern}"
    without = f"it ended without the metric {ended.metric}"
    if lost := next((rank.lost["metrics"] for rank in ended.seen if "metrics" in rank.lost), ""):
        return f"{without}; {lost}"
    kinds = sorted({rank.no_numbers[ended.metric] for rank in ended.seen if ended.metric in rank.no_numbers})
    if kinds:
        return f"{without}; what it reported by that name is no number, but {' and '.join(kinds)}"
    names = sorted({name for rank in ended.seen for _, name, _ in rank.metric_points})
    if names:
        return f"{without}; it reported {', '.join(names)}"
    what = "its training reported none" if ended.seen else "nothing of its training was seen"
    return f"{without}; {what}: metricPattern reads it from what a script prints"
