"""How far predictions of more workers are off on published curves: `python -m tests.simulations.projection`.

tests/data/scaling-curves.csv has the curves: throughput, or time, by number of workers, as each `source` published it.
Each is taken as a user would have measured it: one worker and one more number, or all numbers up to one, and the
rest is to be predicted. It prints how far several models are off, the constants `ERRORS` of compare/projection.py, how
many points lie inside the bands when their own source is left out, of all sources and of small clusters, and how many
do with noise from run to run.
"""

import bisect
import csv
import itertools
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compare import projection
from compare.projection import Trend

CURVES = Path(__file__).parents[1] / "data" / "scaling-curves.csv"
SHARES = {(2, 2): 0.93, (2, 4): 0.97, (3, 2): 0.95, (3, 4): 0.97}
"""Of the average source's points those inside a band, by how many numbers are known (3: or more) and the distance: the
least hundredths with which 90 % of the average source that was left out, and of all such points, lie inside.
"""
SMALL = 8
"""The most workers of a small cluster."""
SEED = 20261129
Throughput = Mapping[int, float]
"""Over that of the fewest workers, by number of workers ÷ fewest, ascending."""
Band = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Curve:
    """A published curve."""

    name: str
    source: str
    """Of one repository or site all curves are one source."""
    is_strong: bool
    """Whether all workers share a step's work; else a step's work grows with them, or that is not known."""
    throughput: Throughput


@dataclass(frozen=True)
class Case:
    """What is known of a curve, and a point that is to be predicted."""

    curve: Curve
    known: Throughput
    workers: int
    truth: float

    @property
    def times(self) -> float:
        """How far away the point is: workers ÷ most known."""
        return self.workers / max(self.known)

    def trend(self) -> Trend:
        """The product's trend through what is known, as if each of two repeats had measured just that."""
        return Trend({number: [value, value] for number, value in self.known.items()})

    @property
    def error(self) -> float:
        """Of the exponent."""
        return math.log(self.truth / self.trend().band(self.workers).centre) / math.log(self.times)


def curves() -> list[Curve]:
    """Return the curves whose numbers of workers are multiples of their fewest."""
    with CURVES.open(encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    of_curve = itertools.groupby(rows, lambda row: (row["id"], row["source"].split()[0], row["scaling"] == "strong"))
    return [Curve(*names, _throughput([*points])) for names, points in of_curve]


def _throughput(points: Sequence[Mapping[str, str]]) -> Throughput:
    first, values = int(points[0]["n"]), {}
    for point in points:
        value, workers = float(point["value"]), int(point["n"])
        if point["unit"].endswith("/worker"):
            value *= workers
        elif point["higher_is_better"] == "0":
            value = (workers if point["scaling"] == "weak" else 1) / value
        values[workers] = value
    return {round(workers / first): value / values[first] for workers, value in values.items() if workers % first == 0}


def cases(numbers: int) -> list[Case]:
    """Return the cases in which two numbers of workers are known, or (3) more."""
    return [case for curve in curves() for case in _cases(curve, numbers)]


def _cases(curve: Curve, numbers: int) -> Iterator[Case]:
    workers = [*curve.throughput]
    for last in range(numbers - 1, len(workers) - 1):
        chosen = [workers[0], workers[last]] if numbers == 2 else workers[: last + 1]
        known = {number: curve.throughput[number] for number in chosen}
        yield from (Case(curve, known, number, curve.throughput[number]) for number in workers[last + 1 :])


def distance(case: Case) -> int:
    """Return 2 up to twice what is known, 4 up to four times, else 8."""
    return next((times for times in (2, 4) if case.times <= times), 8)


def calibrated(known: Sequence[Case], numbers: int) -> Band:
    """Return the errors of the exponent up to twice, and to four times: the shortest interval that holds a share of the
    average source's points.

    At four times the error itself is no smaller than at twice: there are fewer such points.
    """
    near, far = (_shortest([c for c in known if distance(c) == times], SHARES[numbers, times]) for times in (2, 4))
    return near, (min(far[0], round(near[0] / 2, 2)), max(far[1], round(near[1] / 2, 2)))


def _shortest(known: Sequence[Case], share: float) -> tuple[float, float]:
    counts = Counter(case.curve.source for case in known)
    pairs = sorted((case.error, 1 / counts[case.curve.source] / len(counts)) for case in known)
    until = [0.0, *itertools.accumulate(weight for _, weight in pairs)]
    ends = ((first, bisect.bisect_left(until, before + share - 1e-9) - 1) for first, before in enumerate(until[:-1]))
    errors = [(pairs[first][0], pairs[last][0]) for first, last in ends if last < len(pairs)]
    low, high = min(errors, key=lambda each: each[1] - each[0])
    return round(low, 2), round(high, 2)


def is_inside(case: Case, trend: Trend) -> bool:
    """Return whether the point lies in the band."""
    band = trend.band(case.workers)
    return band.lower <= case.truth * (1 + 1e-9) and case.truth <= band.upper * (1 + 1e-9)


def held_out(numbers: int) -> list[tuple[Case, bool]]:
    """Return each case up to four times, and whether it lies in the band that the other sources gave."""
    known, found, constants = [case for case in cases(numbers) if distance(case) <= 4], [], projection.ERRORS
    for source in sorted({case.curve.source for case in known}):
        others = calibrated([case for case in known if case.curve.source != source], numbers)
        projection.ERRORS = {numbers: others, 3: others}
        found += [(case, is_inside(case, case.trend())) for case in known if case.curve.source == source]
    projection.ERRORS = constants
    return found


def with_noise(numbers: int, spread: float, repeats: int = 4) -> list[tuple[Case, bool]]:
    """The same with the constants, where each run's throughput is off by some noise; every case once."""
    rng, found = random.Random(f"{SEED} {numbers} {spread}"), []  # noqa: S311 - no secret
    for case in (case for case in cases(numbers) if distance(case) <= 4):
        paired = [rng.gauss(0, spread / math.sqrt(2)) for _ in range(repeats)]
        noisy = {
            number: [
                value * math.exp(rng.gauss(0, spread / math.sqrt(2)) - one) if number > 1 else 1.0 for one in paired
            ]
            for number, value in case.known.items()
        }
        found.append((case, is_inside(case, Trend(noisy))))
    return found


def by_source(found: Sequence[tuple[Case, bool]], times: int) -> dict[str, list[bool]]:
    """Return whether the points at a distance lie inside, by source."""
    sources: dict[str, list[bool]] = {}
    for case, is_in in found:
        if distance(case) == times:
            sources.setdefault(case.curve.source, []).append(is_in)
    return sources


def share(found: Sequence[tuple[Case, bool]], times: int) -> tuple[float, int]:
    """Return the share of the points at a distance that lie inside, and how many there are."""
    inside = [is_in for points in by_source(found, times).values() for is_in in points]
    return statistics.fmean(inside), len(inside)


def of_sources(found: Sequence[tuple[Case, bool]], times: int) -> tuple[float, int]:
    """Return the share inside of the average source, which is what a user is, and how many there are."""
    shares = [statistics.fmean(points) for points in by_source(found, times).values()]
    return statistics.fmean(shares), len(shares)


def small(found: Sequence[tuple[Case, bool]]) -> list[tuple[Case, bool]]:
    """Return those of curves with at most eight workers."""
    return [(case, is_in) for case, is_in in found if max(case.curve.throughput) <= SMALL]


def least_squares(rows: Sequence[Sequence[float]], targets: Sequence[float]) -> list[float]:
    """Return the coefficients of 0 or more that fit best: of each choice of columns the fit without a negative one."""
    matrix, target, columns = np.array(rows), np.array(targets), len(rows[0])
    best, least = [0.0] * columns, float(target @ target)
    for size in range(1, columns + 1):
        for chosen in itertools.combinations(range(columns), size):
            values = np.linalg.lstsq(matrix[:, chosen], target, rcond=None)[0]
            rest = target - matrix[:, chosen] @ values
            if values.min() >= 0 and float(rest @ rest) < least - 1e-12:
                least, best = float(rest @ rest), [0.0] * columns
                for column, value in zip(chosen, values, strict=True):
                    best[column] = float(value)
    return best


Terms = Callable[[float], Sequence[float]]


def of_terms(weak: Terms, strong: Terms | None = None, free: float = 1.0) -> Callable[[Case], float]:
    """Return what a model predicts in which workers ÷ throughput is `free` and a sum of terms, of 0 or more each."""

    def predict(case: Case) -> float:
        terms = strong if strong and case.curve.is_strong else weak
        paces = {number: number / value for number, value in case.known.items()}
        rows = [[term / pace for term in terms(number)] for number, pace in paces.items()]
        fitted = least_squares(rows, [1 - free / pace for pace in paces.values()])
        return case.workers / (free + sum(a * b for a, b in zip(fitted, terms(case.workers), strict=True)))

    return predict


def of_line(case: Case) -> float:
    """Return what the line of the logarithms predicts by itself."""
    trend = case.trend()
    return math.exp(trend.now.centre + trend.slope.centre * math.log(case.times))


MODELS: Mapping[str, Callable[[Case], float]] = {
    "half-way between line and Amdahl": lambda case: case.trend().band(case.workers).centre,
    "line of the logarithms": of_line,
    "Amdahl's law": of_terms(lambda n: [n - 1]),
    "universal scalability law": of_terms(lambda n: [n - 1, n * (n - 1)]),
    "Ernest": of_terms(lambda n: [1, n, n * math.log(n), n * n], free=0.0),
    "ring of the projection until now, bandwidth": of_terms(lambda n: [(n - 1) / n], lambda n: [n - 1]),
    "ring of the projection until now, latency": of_terms(lambda n: [n - 1], lambda n: [n * (n - 1)]),
}
"""Predicted throughput by the model's name. The ring's latency and bandwidth were probed; no curve has a probe, so
either is fitted alone."""


def models_table(numbers: int, *, of_strong: bool = False) -> Iterator[str]:
    """Return how far predictions are off, median and 90th percentile of |predicted ÷ true - 1|, by distance; and the
    width of a band that holds 90 % of the points."""
    known = [case for case in cases(numbers) if case.curve.is_strong or not of_strong]
    by_distance = {times: [case for case in known if distance(case) == times] for times in (2, 4, 8)}
    points = [f"{words} ({len(by_distance[times])})" for times, words in ((2, "≤ 2"), (4, "2 to 4"), (8, "> 4"))]
    fitted_to = f"{_fitted_to(numbers)}{', strong scaling' * of_strong}"
    yield f"| model, fitted to {fitted_to} | {' | '.join(points)} | 90 % band, ≤ 2 | 2 to 4 |"
    yield "| --- " * 6 + "|"
    for name, predict in MODELS.items():
        logs = {times: [math.log(case.truth / predict(case)) for case in of] for times, of in by_distance.items()}
        errors = (np.quantile(np.abs(np.expm1(-np.array(each))), [0.5, 0.9]) for each in logs.values())
        cells = [f"{100 * median:.0f} / {100 * tail:.0f} %" for median, tail in errors]
        ends = (np.exp(np.quantile(logs[times], [0.05, 0.95])) for times in (2, 4))
        bands = [f"{low:.2f} to {high:.2f}" for low, high in ends]
        yield f"| {name} | {' | '.join([*cells, *bands])} |"


def coverage_table() -> Iterator[str]:
    """Return the constants, and which part of the points lies inside."""
    yield "| fitted to | distance | exponent's error | points | average source | strong scaling | noise 5 % | 10 % |"
    yield "| --- " * 8 + "|"
    for numbers, times in itertools.product((2, 3), (2, 4)):
        near, far = calibrated([case for case in cases(numbers) if distance(case) <= 4], numbers)
        low, high = near if times == 2 else far
        found = held_out(numbers)
        strong = [(case, is_in) for case, is_in in found if case.curve.is_strong]
        shares = (share(found, times), of_sources(found, times), share(strong, times))
        noisy = (share(with_noise(numbers, spread), times) for spread in (0.05, 0.10))
        cells = [f"{low:+.2f} to {high:+.2f}", *(_percent(*each) for each in (*shares, *noisy))]
        yield f"| {_fitted_to(numbers)} | {_distance(times)} | {' | '.join(cells)} |"


def small_table() -> Iterator[str]:
    """Return the same of small clusters by themselves."""
    yield "| fitted to | distance | points | average source |"
    yield "| --- " * 4 + "|"
    for numbers, times in itertools.product((2, 3), (2, 4)):
        found = small(held_out(numbers))
        cells = [_percent(*each) for each in (share(found, times), of_sources(found, times))]
        yield f"| {_fitted_to(numbers)} | {_distance(times)} | {' | '.join(cells)} |"


def _fitted_to(numbers: int) -> str:
    return f"{numbers}{' or more' * (numbers > 2)}"


def _distance(times: int) -> str:
    return "≤ 2" if times == 2 else "2 to 4"


def _percent(part: float, number: int) -> str:
    return f"{100 * part:.0f} % of {number}"


def main() -> None:
    """Print the tables as Markdown."""
    found = curves()
    sources = len({curve.source for curve in found})
    print(f"{len(found)} curves of {sources} sources; a point for each number of workers beyond those fitted to\n")
    strong = (models_table(numbers, of_strong=True) for numbers in (2, 3))
    for lines in (models_table(2), models_table(3), *strong, coverage_table(), small_table()):
        print("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
