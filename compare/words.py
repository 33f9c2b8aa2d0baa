"""Words for numbers and lists: durations, and how many times as long or as fast something is. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from compare.schema import Estimate

WIDE = 2.0
"""If the ends of an interval differ by more than this factor, the runs differed a lot."""


@dataclass(frozen=True)
class Compared:
    """A ratio in words: how many times as long something takes, or how many times as fast it is."""

    times: str
    low: str
    """Lower end of the interval, as text; "" with one repeat."""
    high: str
    """Upper end of the interval, as text; "" with one repeat."""
    is_longer: bool
    differed: bool
    """Whether the runs differed a lot."""

    @property
    def unit(self) -> str:
        """Return the words that follow the number: `times as long` or `times as fast`."""
        return "times as long" if self.is_longer else "times as fast"

    def words(self) -> str:
        """Return a ratio as `4.2 times as long (3.9 to 4.5)`."""
        if not self.low:
            return f"{self.times} {self.unit}"
        return f"{self.times} {self.unit} ({self.low} to {self.high}{', the runs differed a lot' * self.differed})"

    @property
    def verb(self) -> str:
        """Return the verb that stands before the words: `takes` or `is`."""
        return "takes" if self.is_longer else "is"


def compared(ratio: Estimate) -> Compared:
    """Return a ratio of two times in words. Above 1 the denominator is that many times as fast."""
    is_certain, is_longer = ratio.lower is not None and ratio.upper is not None, ratio.median < 1
    low, high = ratio.lower or 0.0, ratio.upper or 0.0
    ends = (reciprocal(high), reciprocal(low)) if is_longer else (low, high)
    times, *shown = shown_times(reciprocal(ratio.median) if is_longer else ratio.median, *(ends if is_certain else ()))
    return Compared(
        times=times,
        low=shown[0] if is_certain else "",
        high=shown[1] if is_certain else "",
        is_longer=is_longer,
        differed=is_certain and ends[1] > WIDE * ends[0],
    )


def sides(ratios: Sequence[tuple[Estimate, str]]) -> str:
    """Return Ray's time against others': `takes 3.0 times as long (2.9 to 3.1) as one process on 1 CPU and …`."""
    texts, verb = [], ""
    for ratio, against in ratios:
        text = compared(ratio)
        texts.append(f"{text.verb if text.verb != verb else ''} {text.words()} as {against}".strip())
        verb = text.verb
    return " and ".join(texts)


def least_sides(ratios: Sequence[tuple[Estimate, str]]) -> str:
    """Return the least time of Ray compared with several others: `is at most 1.3 times as fast (1.2 to 1.4) as …`."""
    texts = []
    for ratio, against in ratios:
        text = compared(ratio)
        texts.append(f"{text.verb} {'at least' if text.is_longer else 'at most'} {text.words()} as {against}")
    return " and ".join(texts)


def inverse(ratio: Estimate) -> Estimate:
    """Return the ratio with numerator and denominator exchanged. The result has no decision."""
    return replace(
        ratio,
        median=reciprocal(ratio.median),
        low=reciprocal(ratio.high),
        high=reciprocal(ratio.low),
        values=[reciprocal(value) for value in ratio.values],
        lower=None if ratio.upper is None else reciprocal(ratio.upper),
        upper=None if ratio.lower is None else reciprocal(ratio.lower),
        decision="",
        repeats_to_decide=None,
    )


def factor(value: Estimate) -> str:
    """Return a ratio as text, with its interval if it has one: 1.87× (1.85× to 1.90×)."""
    if value.lower is None or value.upper is None:
        return f"{value.median:.2f}×"
    return f"{value.median:.2f}× ({value.lower:.2f}× to {value.upper:.2f}×)"


def shown_times(*values: float) -> list[str]:
    """Return ratios as texts such as `1.41`, `4.1` or `23`, each with as many decimals as the least of them needs."""
    least = min(values)
    digits = 2 if least < 2 else 1 if least < 10 else 0
    return [f"{value:,.{digits}f}" for value in values]


def shown_seconds(seconds: float | None) -> str:
    """Return a time as text: `8.3 s`, `5.2 min` or `3.1 h`."""
    if seconds is None:
        return "an unknown time"
    unit, name = time_unit(seconds)
    return f"{seconds / unit:.1f} {name}"


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit in which a time of this length is shown: its seconds, and its name `s`, `min` or `h`."""
    units: Sequence[tuple[float, float, str]] = ((180, 1, "s"), (7200, 60, "min"))
    return next(((unit, name) for least, unit, name in units if seconds < least), (3600.0, "h"))


def names_by_reason(reasons: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the names that share a reason, by reason, in their order. `reasons`: pairs of name and reason."""
    names: dict[str, list[str]] = {}
    for name, why in reasons:
        names.setdefault(why, []).append(name)
    return names


def enumerated(texts: Sequence[str]) -> str:
    """Return the texts as one list: `a`, `a and b` or `a, b and c`; "" without texts."""
    *first, last = texts or [""]
    return f"{', '.join(first)} and {last}" if first else last


def reciprocal(value: float) -> float:
    """Return 1 / value; infinity for 0, which an interval may have as its end if the runs differed a lot."""
    return 1 / value if value else math.inf


def duration(low: float, high: float | None = None) -> str:
    """Return a time, or a range of times, in the unit that fits: `40 s`, `14 to 17 min`, `2.0 h`."""
    is_range, high = high is not None, low if high is None else high
    longest_in_seconds = 180 if is_range else 90  # both ends in whole minutes would be too coarse
    unit, name, digits = (1, "s", 0) if high < longest_in_seconds else (60, "min", 0) if high < 5400 else (3600, "h", 1)
    first, last = (f"{value / unit:.{digits}f}" for value in (low, high))
    return f"{first} {name}" if first == last else f"{first} to {last} {name}"
