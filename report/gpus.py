"""The table of what the ranks' GPUs were and did, arm by arm. From the runs' files; pure."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from compare.schema import Comparison
from compare.words import names_by_reason
from report.plots import ShownRun
from training.contract.arms import counted
from training.contract.gpu_use import GpuUse

NO_FILE = "no file of its runs is left"
NO_GPU = "no GPU computed there"
NOT_SEEN = "no rank was seen"
NO_REASON = "its run does not say why"
ALONE = "one rank of one run"
"""Stands in place of the lowest and highest value, if only one rank of one run is known."""
BUSY, WATTS, MHZ = 1, 2, 3
"""Indexes of numbers in a sample of `GpuUse`."""
GIB = 2**30


class Cell(NamedTuple):
    """A number of the GPUs of an arm's ranks, as texts."""

    median: str
    """Median over ranks and runs. For the model of the GPU, the names of all models."""
    range: str
    """Lowest and highest value, as `412 to 466`. For the model, how many ranks in how many runs are known."""
    known_of: str
    """For how many ranks the number is known; "" if for all ranks."""


@dataclass(frozen=True)
class Row:
    """A row of the table: one number of the GPUs, by arm."""

    title: str
    unit: str
    cells: dict[str, Cell | None]
    """The cell of each arm; None if the number is not known."""


@dataclass(frozen=True)
class Gpus:
    """The table of GPUs, and notes that say why some numbers are not known."""

    rows: list[Row]
    """The rows of the table; empty if no result file of any run is left."""
    notes: list[str]


class _Rank(NamedTuple):
    """A rank of a run, with its GPU."""

    run: ShownRun
    gpu: GpuUse | None


class _Measure(NamedTuple):
    """A number of the GPUs that has a row in the table."""

    title: str
    unit: str
    of: Callable[[GpuUse], float | str | None]
    """Function that reads the number of one rank's GPU; it returns None if the number is not known."""
    because: tuple[str, ...]
    """Ends of the keys, after `workers.gpu.`, under which a run says why the number is not known."""
    digits: int = 0


def table(comparison: Comparison, runs: Sequence[ShownRun], arms: Sequence[str]) -> Gpus | None:
    """Return the table of GPUs for these arms; None if no GPU was asked for and no rank had one."""
    ranks = {arm: list(_ranks(runs, arm)) for arm in arms}
    everything = [rank for of_arm in ranks.values() for rank in of_arm]
    if not comparison.gpus and not any(rank.gpu for rank in everything):
        return None
    measures = [*_MEASURES, *_held_back(everything)] if everything else []
    rows = [Row(each.title, each.unit, {arm: _cell(each, ranks[arm]) for arm in arms}) for each in measures]
    return Gpus(rows, _notes(measures, ranks))


def _ranks(runs: Sequence[ShownRun], arm: str) -> Iterator[_Rank]:
    for run in runs:
        if run.result.arm == arm:
            yield from (_Rank(run, worker.gpu) for worker in run.result.workers)


def _peak_gib(gpu: GpuUse) -> float | None:
    return None if gpu.peak_memory_bytes is None else gpu.peak_memory_bytes / GIB


def _mean(place: int, gpu: GpuUse) -> float | None:
    """Return the mean of the number at `place` over all samples that have this number; None if none has."""
    values = [value for sample in gpu.samples if (value := sample[place]) is not None]
    return statistics.fmean(values) if values else None


def _of_highest(gpu: GpuUse) -> float | None:
    mhz = _mean(MHZ, gpu)
    return 100 * mhz / gpu.max_sm_mhz if mhz is not None and gpu.max_sm_mhz else None


_MEASURES = (
    _Measure("Model", "", lambda gpu: gpu.name, ("name",)),
    _Measure("Peak memory of PyTorch", "GiB", _peak_gib, ("peakMemoryBytes",), digits=2),
    _Measure("Time busy", "%", partial(_mean, BUSY), ("utilization",)),
    _Measure("Power", "W", partial(_mean, WATTS), ("power",)),
    _Measure("SM clock", "MHz", partial(_mean, MHZ), ("smClock",)),
    _Measure("Share of its highest SM clock", "%", _of_highest, ("maxSmMhz", "smClock"), digits=1),
)


def _held_back(ranks: Sequence[_Rank]) -> list[_Measure]:
    """Return a row for each reason for which GPUs were held back, most frequent first; one row if none was."""
    shares: dict[str, float] = {}
    for rank in ranks:
        for why, share in ((rank.gpu and rank.gpu.throttled) or {}).items():
            shares[why] = shares.get(why, 0.0) + share
    titles = {why: f"Held back: {why}" for why in sorted(shares, key=lambda why: (-shares[why], why))}
    unit, because = "% of samples", ("throttled",)
    return [
        _Measure(title, unit, partial(_share, why), because, digits=1)
        for why, title in (titles or {"": "Held back"}).items()
    ]


def _share(why: str, gpu: GpuUse) -> float | None:
    return None if gpu.throttled is None else 100 * gpu.throttled.get(why, 0.0)


def _cell(measure: _Measure, ranks: Sequence[_Rank]) -> Cell | None:
    values = [value for rank in ranks if (value := _value(measure, rank)) is not None]
    if not values:
        return None
    known_of = "" if len(values) == len(ranks) else f"known of {len(values)} of {counted(len(ranks), 'rank')}"
    names = sorted({value for value in values if isinstance(value, str)})
    if names:
        runs = counted(len({rank.run.name for rank in ranks}), "run")
        return Cell(", ".join(names), f"{counted(len(ranks), 'rank')} over {runs}", known_of)
    numbers = [value for value in values if not isinstance(value, str)]
    ends = (statistics.median(numbers), min(numbers), max(numbers))
    median, low, high = (f"{number:,.{measure.digits}f}" for number in ends)
    return Cell(median, f"{low} to {high}" if len(numbers) > 1 else ALONE, known_of)


def _value(measure: _Measure, rank: _Rank) -> float | str | None:
    return measure.of(rank.gpu) if rank.gpu else None


def _notes(measures: Sequence[_Measure], ranks: Mapping[str, Sequence[_Rank]]) -> list[str]:
    """Return the notes, one for each reason: what is not known for which arms."""
    unknown: list[tuple[str, str]] = []
    for arm, of_arm in ranks.items():
        if not of_arm:
            unknown.append((arm, NO_FILE))
        lacking = [
            [(each.title, _why(each, rank)) for each in measures if _value(each, rank) is None] for rank in of_arm
        ]
        for why in dict.fromkeys(why for of_rank in lacking for _, why in of_rank):
            titles = [[title for title, because in of_rank if because == why] for of_rank in lacking]
            unknown.append((_what(arm, titles, len(measures)), why))
    return [f"Not known of {'; '.join(whats)} – {why}." for why, whats in names_by_reason(unknown).items()]


def _what(arm: str, titles: Sequence[Sequence[str]], every: int) -> str:
    """Return what an arm's ranks lack: `ray (1 of 4 ranks): Power, SM clock`; without titles if they lack all."""
    lacking = [of_rank for of_rank in titles if of_rank]
    named = list(dict.fromkeys(title for of_rank in lacking for title in of_rank))
    who = arm if len(lacking) == len(titles) else f"{arm} ({len(lacking)} of {counted(len(titles), 'rank')})"
    return who if len(named) == every else f"{who}: {', '.join(named)}"


def _why(measure: _Measure, rank: _Rank) -> str:
    if rank.gpu is None:
        return NOT_SEEN if rank.run.result.world_size is None else NO_GPU
    reasons = rank.run.result.reasons
    keys = [*(f"workers.gpu.{key}" for key in measure.because), "workers.gpu"]
    return next((reasons[key] for key in keys if key in reasons), NO_REASON)
