"""How often `repeats auto` errs, by simulation: `python -m tests.simulations.sequential`. No process is measured.

Made-up runs go through the project's own functions: intervals, answer, the end of a measurement, luck that lasts. The
logarithm of a run's clock is off by its luck, with a standard deviation of s / √2; that of a ratio of two by s. What is
simulated is fixed by the seed.
"""

import argparse
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compare.answer import Contest, answer, break_even, ratios_at, ratios_per_epoch
from compare.intervals import (
    CONFIDENCE,
    MARGIN,
    ONCE,
    WHENEVER,
    Rule,
    decide,
    estimate,
    ratio_interval,
)
from compare.lasting import LEVEL, chance
from compare.run_numbers import Clock
from compare.schema import Answer, BreakEven
from compare.stopping import ending
from compare.value import Missing
from training.contract.repeats import FIRST_REPEATS

SEED, PATHS = 20261123, 3000
SPREAD = 0.05
"""The standard deviation of a log ratio from repeat to repeat, s, unless a table says otherwise."""
ARMS = ("baseline", "wide", "ray", "native")
ORDERS = (
    ("baseline", "wide", "native", "ray"),
    ("wide", "ray", "baseline", "native"),
    ("ray", "native", "wide", "baseline"),
    ("native", "baseline", "ray", "wide"),
)
"""In which they run, repeat by repeat, and again: as `infra.plan` has it."""
MOST = WHENEVER.most_repeats
EPOCHS = 20
RAY_FIXED, RAY_EPOCH = 10.0, 1.0
"""Seconds of Ray's runs: start-up, and an epoch."""

Luck = list[dict[str, float]]
"""Of each repeat that of each arm's run: what its log clock is off by."""


def normal(rng: random.Random, spread: float, repeats: int = MOST) -> Luck:
    """Each run has its own."""
    return [{arm: rng.gauss(0, spread / math.sqrt(2)) for arm in ARMS} for _ in range(repeats)]


def heavy_tails(rng: random.Random, spread: float, repeats: int = MOST) -> Luck:
    """Student's t with 3 degrees of freedom, with the same variance."""
    scale = spread / math.sqrt(2) / math.sqrt(3)

    def draw() -> float:
        return rng.gauss(0, scale) / math.sqrt(sum(rng.gauss(0, 1) ** 2 for _ in range(3)) / 3)

    return [{arm: draw() for arm in ARMS} for _ in range(repeats)]


def slow_outliers(rng: random.Random, spread: float, repeats: int = MOST) -> Luck:
    """One run in twenty takes 1.5 times as long."""
    return [
        {arm: own + (math.log(1.5) if rng.random() < 0.05 else 0.0) for arm, own in of_repeat.items()}
        for of_repeat in normal(rng, spread, repeats)
    ]


def drift(rng: random.Random, spread: float, repeats: int = MOST) -> Luck:
    """The machine's pace wanders from run to run, twice as far as runs differ by themselves."""
    own, pace, luck = spread / math.sqrt(2), rng.gauss(0, spread * math.sqrt(2)), Luck()
    for repeat in range(repeats):
        of_repeat = {}
        for arm in ORDERS[repeat % len(ORDERS)]:
            pace = 0.9 * pace + math.sqrt(1 - 0.9**2) * rng.gauss(0, spread * math.sqrt(2))
            of_repeat[arm] = pace + rng.gauss(0, own)
        luck.append(of_repeat)
    return luck


def lasting(rng: random.Random, spread: float, repeats: int = MOST) -> Luck:
    """An arm's luck lasts: half of it is still there in the next repeat."""
    own, last = spread / math.sqrt(2), normal(rng, spread, 1)[0]
    luck = [last]
    for _ in range(1, repeats):
        last = {arm: 0.5 * last[arm] + math.sqrt(0.75) * rng.gauss(0, own) for arm in ARMS}
        luck.append(last)
    return luck


Noise = Callable[[random.Random, float], Luck]
INDEPENDENT: Mapping[str, Noise] = {
    "normal": normal, "heavy tails": heavy_tails, "slow outliers": slow_outliers, "drift": drift,
}  # fmt: skip
"""Noises whose repeats are independent, or that a repeat's ratio is free of."""


def seeded(name: str) -> random.Random:
    """Always the same numbers for a name."""
    return random.Random(f"{SEED} {name}")  # noqa: S311 - no secret


def looks_that_err(noise: Noise, name: str, paths: int, confidence: float) -> float:
    """Return in which part of the paths the interval of equal arms, after any of 4 to 12 repeats, excludes 1."""
    rng, false = seeded(name), 0
    for _ in range(paths):
        ratios = [math.exp(luck["baseline"] - luck["ray"]) for luck in noise(rng, SPREAD)]
        looks = (ratio_interval(ratios[:repeats], confidence) for repeats in range(FIRST_REPEATS, MOST + 1))
        false += any(decide(interval) in ("above", "below") for interval in looks)
    return false / paths


@dataclass(frozen=True)
class Truth:
    """How many times as long as Ray's the clocks of two alternatives really are."""

    baseline: float
    wide: float
    per_epoch: float | None = None
    """Of an epoch alone, for both; None: as of the whole."""

    def clocks(self, luck: Mapping[str, float]) -> dict[str, Clock]:
        """Return the clocks of a repeat: fixed + epochs · per epoch, of which luck stretches both."""
        ray = RAY_FIXED + EPOCHS * RAY_EPOCH
        parts = {"ray": (ray, RAY_EPOCH)}
        for arm, times in (("baseline", self.baseline), ("wide", self.wide)):
            parts[arm] = times * ray, (self.per_epoch or times) * RAY_EPOCH
        return {
            arm: Clock(EPOCHS, math.exp(luck[arm]) * whole, math.exp(luck[arm]) * epoch)
            for arm, (whole, epoch) in parts.items()
        }

    def errs(self, words: Answer, epochs: int | None) -> bool:
        """Return whether an answer is wrong; no gain that matters may be *Not worth it here*."""
        least = min(self.baseline, self.wide)
        if words == "Worth it":
            return least <= 1
        if words == "Not worth it here":
            return least >= MARGIN
        return words == "Worth it from" and (epochs or 0) < self.break_even

    @property
    def break_even(self) -> float:
        """The epochs from which on Ray's clock is below both."""
        ray, gain = RAY_FIXED + EPOCHS * RAY_EPOCH, ((self.per_epoch or 1.0) - 1) * RAY_EPOCH
        behind = (1 - min(self.baseline, self.wide)) * ray
        return EPOCHS + behind / gain if gain > 0 else math.inf


@dataclass
class Answers:
    """What a truth is answered with."""

    paths: int
    words: dict[str, int] = field(default_factory=dict)
    """How many measurements begin with each."""
    repeats: list[int] = field(default_factory=list)
    """When they ended."""
    false: int = 0
    false_if_stopped: dict[int, int] = field(default_factory=dict)
    """By the number of repeats after which a budget ends those that still go on."""
    open: int = 0
    """How many were not decided after the last repeat."""

    def share(self, words: str) -> float:
        """Return the part of the measurements that begin with these words."""
        return self.words.get(words, 0) / self.paths

    @property
    def most_false(self) -> float:
        """The part that is wrong, wherever a budget ends them."""
        return max(self.false_if_stopped.values(), default=0) / self.paths


def answers(truth: Truth, noise: Noise, name: str, paths: int, spread: float = SPREAD) -> Answers:
    """Measure so often with `repeats auto`."""
    rng, tally = seeded(name), Answers(paths)
    for _ in range(paths):
        clocks = [truth.clocks(luck) for luck in noise(rng, spread)]
        words, end = _measure(clocks, truth, tally)
        tally.words[words] = tally.words.get(words, 0) + 1
        tally.repeats.append(end)
        tally.open += words == "Not decided"
    return tally


def wrong_after_a_number(truth: Truth, name: str, paths: int) -> float:
    """Return which part is wrong if a fixed number is first, and `repeats auto` goes on where that does not decide."""
    rng, tally, false = seeded(name), Answers(paths), 0
    for _ in range(paths):
        clocks = [truth.clocks(luck) for luck in normal(rng, SPREAD)]
        _, words, is_false = _look(clocks[:FIRST_REPEATS], truth, ONCE)
        false += is_false
        if words == "Not decided":
            _measure(clocks, truth, tally)
    return (false + tally.false) / paths


def _measure(clocks: Sequence[Mapping[str, Clock]], truth: Truth, tally: Answers) -> tuple[Answer, int]:
    """Go on until it ends; what a budget would leave after each repeat counts, too."""
    words: Answer = "Not decided"
    is_false, end = False, 0
    for repeats in range(FIRST_REPEATS, MOST + 1):
        if not end:
            contests, words, is_false = _look(clocks[:repeats], truth)
            end = repeats if ending(words, contests, "same work", repeats) != "goes on" else 0
        tally.false_if_stopped[repeats] = tally.false_if_stopped.get(repeats, 0) + is_false
    tally.false += is_false
    return words, end


def _look(
    clocks: Sequence[Mapping[str, Clock]], truth: Truth, rule: Rule = WHENEVER
) -> tuple[list[Contest], Answer, bool]:
    """Return Ray against each alternative, the answer, and whether that is wrong."""
    contests = [_contest(clocks, arm, rule) for arm in ("baseline", "wide")]
    words = answer(contests, "same work")
    known = [each.epochs_to_win for each in contests]
    epochs = [each for each in known if not isinstance(each, Missing)]
    return contests, words, truth.errs(words, max(epochs, default=None))


def _contest(clocks: Sequence[Mapping[str, Clock]], arm: str, rule: Rule = WHENEVER) -> Contest:
    """As `compare.answer` makes it; break-even, which takes the most time, only where the answer asks for it."""
    pairs = [(of_repeat[arm], of_repeat["ray"]) for of_repeat in clocks]
    now, per_epoch = (estimate(ratios, rule=rule) for ratios in (ratios_at(pairs, EPOCHS), ratios_per_epoch(pairs)))
    contest = Contest(against=arm, now=now, per_epoch=per_epoch, meets=Missing("nobody asks"))
    if contest.is_won or (per_epoch.lower or 0.0) <= 1:
        return replace(contest, meets=BreakEven(probably=1, possibly=1, surely=1)) if contest.is_won else contest
    return replace(contest, meets=break_even(pairs, rule))


def neighbours_seen(noise: Noise, name: str, paths: int, repeats: int) -> float:
    """Return in which part of the measurements it is said that repeats resemble their neighbours."""
    rng = seeded(f"{name} {repeats}")
    clocks = ([list(luck.values()) for luck in noise(rng, SPREAD)[:repeats]] for _ in range(paths))
    return sum(chance(each) < LEVEL for each in clocks) / paths


TRUTHS = (
    Truth(0.7, 0.7),
    Truth(1.5, 0.85),
    Truth(1.0, 1.0),
    Truth(1.5, 1.0),
    Truth(1.05, 1.05),
    Truth(1.1, 1.1),
    Truth(1.2, 1.2),
    Truth(0.9, 0.9, 1.3),
    Truth(0.9, 0.9, 0.97),
)


def looks_table(paths: int) -> list[str]:
    """Return how often any look errs, by noise."""
    lines = [
        f"| noise | a look of {100 * WHENEVER.confidence:g} % errs | of {100 * CONFIDENCE:.0f} %, looked at as often |",
        "| --- | --- | --- |",
    ]
    for name, noise in {**INDEPENDENT, "an arm's luck lasts": lasting}.items():
        shares = [looks_that_err(noise, name, paths, confidence) for confidence in (WHENEVER.confidence, CONFIDENCE)]
        lines.append(f"| {name} | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |")
    return lines


def answers_table(paths: int, spread: float) -> list[str]:
    """Return what truths are answered with, by normal noise."""
    titles = ("Worth it", "from E", "Not worth it here", "Not decided", "repeats: median, mean", "false",
              "false, ended by a budget anywhere")  # fmt: skip
    lines = [f"| baseline / Ray, wide / Ray (an epoch) | {' | '.join(titles)} |", "| --- " * (len(titles) + 1) + "|"]
    for truth in TRUTHS:
        tally = answers(truth, normal, f"{truth} {spread}", paths, spread)
        words = ("Worth it", "Worth it from", "Not worth it here", "Not decided")
        epoch = f" ({truth.per_epoch:g})" if truth.per_epoch else ""
        cells = [f"{100 * tally.share(each):.1f} %" for each in words]
        cells.append(f"{statistics.median(tally.repeats):g}, {statistics.fmean(tally.repeats):.1f}")
        cells += [f"{100 * tally.false / paths:.1f} %", f"{100 * tally.most_false:.1f} %"]
        lines.append(f"| {truth.baseline:g}, {truth.wide:g}{epoch} | {' | '.join(cells)} |")
    return lines


def after_a_number_table(paths: int) -> list[str]:
    """Return how often the last answer is wrong if a fixed number of repeats is looked at before."""
    titles = f"auto | auto where {FIRST_REPEATS} of {100 * CONFIDENCE:.0f} % do not decide"
    lines = [f"| baseline / Ray, wide / Ray | {titles} |", "| --- | --- | --- |"]
    for truth in (Truth(1.05, 1.05), Truth(1.5, 1.0)):
        name = f"after a number {truth}"
        shares = answers(truth, normal, name, paths).false / paths, wrong_after_a_number(truth, name, paths)
        lines.append(f"| {truth.baseline:g}, {truth.wide:g} | {' | '.join(f'{100 * each:.1f} %' for each in shares)} |")
    return lines


def neighbours_table(paths: int) -> list[str]:
    """Return how often it is said that repeats resemble their neighbours, by noise."""
    lines = ["| noise | said at 8 repeats | at 12 |", "| --- | --- | --- |"]
    for name, noise in {**INDEPENDENT, "an arm's luck lasts": lasting}.items():
        shares = [neighbours_seen(noise, name, paths, repeats) for repeats in (8, 12)]
        lines.append(f"| {name} | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |")
    return lines


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulations.sequential", description=__doc__)
    parser.add_argument("--paths", type=int, default=PATHS, help=f"simulated measurements a cell (default {PATHS})")
    paths = parser.parse_args().paths
    print(f"seed {SEED}, {paths:,} measurements a cell\n\nequal arms, s {SPREAD:g}:\n")
    print("\n".join(looks_table(paths)))
    for spread in (SPREAD, 2 * SPREAD):
        print(f"\nanswers, s {spread:g}:\n\n" + "\n".join(answers_table(paths, spread)))
    print(f"\nwrong answers, s {SPREAD:g}:\n\n" + "\n".join(after_a_number_table(paths)))
    print("\nluck that lasts:\n\n" + "\n".join(neighbours_table(paths)))


if __name__ == "__main__":
    main()
