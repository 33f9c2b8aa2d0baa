"""How often `rwi why`, and the slowest rank of a measurement, err, by simulation: `python -m tests.simulations.causes`.

Made-up blocks go through the project's own functions: rounds, the end by narrow intervals, causes, ranks, distribution.
No process is measured, and what is simulated is fixed by the seed.
"""

import argparse
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compare import why
from compare.intervals import CONFIDENCE, WHENEVER
from compare.step_parts import slowest_rank
from compare.why import AS_IS, CLOCKED, INPUT_READY, NO_EXCHANGE, ArmWhy, Distribution, Round, Tried
from tests.simulations.sequential import seeded
from training.contract.repeats import FIRST_REPEATS
from training.contract.result import StepParts
from training.workloads.script.observe import experiment

TRIES, MORE = 500, 10
"""Simulated runs of `rwi why` a row, and how many times as many where one takes little."""
STEP, OFFSET = 0.05, 0.05
"""Seconds of a step; and the standard deviation of what is a rank's own for a whole run."""
BLOCKS, BLOCK_NOISE, PART_NOISE, RANK_NOISE = 10, 0.05, 0.10, 0.02
"""Blocks of a rank's own work in a round, and their noise; noise of a part of the step, and of a rank in a block."""
MOST_ROUNDS = 96
"""After which its time is up."""
ARMS = ("native", "baseline")
SHARES = {"input": 0.2, "exchange": 0.1, "optimizer": 0.05, "between": 0.02, "report": 0.02}
"""Of a step; the rest computes."""

Draw = Callable[[], float]
"""What the logarithm of a block's time is off by, on all ranks."""


def normal(rng: random.Random) -> Draw:
    """Independent noise of 4 %."""
    return lambda: rng.gauss(0.0, 0.04)


def bursts(rng: random.Random) -> Draw:
    """One block in ten takes half as long again."""
    return lambda: rng.gauss(0.0, 0.03) + (0.4 if rng.random() < 0.1 else 0.0)


def drift(rng: random.Random) -> Draw:
    """A machine that becomes slower and faster over many blocks."""
    level = [0.0]

    def next_block() -> float:
        level[0] = 0.9 * level[0] + rng.gauss(0.0, 0.05)
        return level[0] + rng.gauss(0.0, 0.02)

    return next_block


NOISES: Mapping[str, Callable[[random.Random], Draw]] = {"independent": normal, "bursts": bursts, "drift": drift}


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is so, and how much of it is luck."""

    ranks: int
    noise: str = "independent"
    offset: float = 0.0
    input_share: float = 0.0
    """Of a step that input costs."""
    rank_share: float = 0.0
    """Of its work that rank 1 takes longer."""
    between_share: float = SHARES["between"]

    def words(self) -> str:
        """Return a row's beginning."""
        planted = {"input": self.input_share, "rank 1": self.rank_share, "between": self.between_share}
        names = [f"{name} {100 * share:.0f} %" for name, share in planted.items() if share > SHARES["between"]]
        noise = f"{self.noise}, run offset {100 * self.offset:.0f} %" if self.offset else self.noise
        return f"{self.ranks} | {noise} | {' '.join(names) or 'nothing'}"


@dataclass(frozen=True)
class Run:
    """The rounds of an arm, and what is true of them."""

    tried: Tried
    paces: Sequence[float]
    """Of each rank."""
    ratios: Mapping[str, float]
    """By condition."""
    seconds: Mapping[str, float]
    """By part, on rank 0."""


def run(rng: random.Random, case: Case, ranks: int, conditions: Sequence[str]) -> Run:
    """Try an arm until it is enough, or its time is up."""
    slower = [1 + case.rank_share * (rank == 1) for rank in range(ranks)]
    paces = [each * math.exp(rng.gauss(0, case.offset)) for each in slower]
    shares = SHARES | {"between": case.between_share}
    seconds = {name: share * STEP * paces[0] for name, share in shares.items()}
    ratios = dict.fromkeys(conditions, 1.0) | {INPUT_READY: 1 - case.input_share}
    absent = {} if NO_EXCHANGE in conditions else {NO_EXCHANGE: "one process"}
    tried = Tried(rounds=[], conditions=conditions, absent=absent, rows=64.0, threads=2, loader_workers=0)
    draw = NOISES[case.noise](rng)
    while len(tried.rounds) < MOST_ROUNDS and not why.is_enough(tried, len(ARMS)):
        tried = replace(tried, rounds=[*tried.rounds, _round(rng, draw, Run(tried, paces, ratios, seconds))])
    return Run(tried, paces, ratios, seconds)


def _round(rng: random.Random, draw: Draw, of: Run) -> Round:
    seconds = {}
    for name in experiment.order(of.tried.conditions, len(of.tried.rounds)):
        block = STEP * of.ratios[name] * math.exp(draw())
        seconds[name] = max(block * pace * math.exp(rng.gauss(0, RANK_NOISE)) for pace in of.paces)
    clocked = {name: mean * (1 + rng.gauss(0, PART_NOISE)) for name, mean in of.seconds.items()}
    exchange = [clocked["exchange"]] * len(of.paces)
    parts = StepParts(seconds=clocked, exchange=exchange, link=clocked["exchange"], own_work=own_work(rng, of.paces))
    return Round(seconds=seconds, whole_step=seconds[AS_IS], parts=parts)


def own_work(rng: random.Random, paces: Sequence[float]) -> list[list[float]]:
    """Return the own work of each rank in blocks, whose noise is independent."""
    return [[STEP * pace * (1 + rng.gauss(0, BLOCK_NOISE)) for _ in range(BLOCKS)] for pace in paces]


@dataclass
class Tally:
    """What was said in so many tries."""

    tries: int
    wrong: dict[str, int] = field(default_factory=dict)
    """By what it was said of, and of anything."""
    named: int = 0
    """How often a rank was."""
    planted_first: int = 0
    """How often what was planted came first."""
    rounds: list[int] = field(default_factory=list)

    def share(self, count: int) -> str:
        """Return it with its standard error."""
        part = count / self.tries
        return f"{100 * part:.1f} ± {100 * math.sqrt(part * (1 - part) / self.tries):.1f} %"


def tally(case: Case, tries: int) -> Tally:
    """Let `rwi why` try so often."""
    rng, seen = seeded(f"{case}"), Tally(tries)
    for _ in range(tries):
        runs = {
            "native": run(rng, case, case.ranks, (AS_IS, INPUT_READY, NO_EXCHANGE, "threads 1")),
            "baseline": run(rng, replace(case, rank_share=0.0), 1, (AS_IS, INPUT_READY, "threads 1")),
        }
        judged = {arm: why.judge(each.tried, len(ARMS)) for arm, each in runs.items()}
        known = {arm: each for arm, each in judged.items() if isinstance(each, ArmWhy)}
        gains = why.distributions({arm: each.tried for arm, each in runs.items()}, known, len(ARMS))
        wrong = {name for arm, each in known.items() for name in _wrong(each, runs[arm])}
        wrong |= {"distribution" for each in gains if _is_gain_wrong(each, runs)}
        for name in [*wrong, *["anything"] * bool(wrong)]:
            seen.wrong[name] = seen.wrong.get(name, 0) + 1
        native = known["native"]
        first = native.causes[0].name if native.causes else ""
        is_rank_1 = native.has_slow_rank and native.slowest_rank == 1
        seen.named += native.has_slow_rank
        seen.planted_first += is_rank_1 if case.rank_share else first == _planted(case)
        seen.rounds.append(native.rounds)
    return seen


def _planted(case: Case) -> str:
    return INPUT_READY if case.input_share else "between" if case.between_share > SHARES["between"] else ""


def _wrong(judged: ArmWhy, of: Run) -> list[str]:
    """Return of what something is said that is not true of this run."""
    usual = statistics.geometric_mean([each.seconds[AS_IS] for each in of.tried.rounds])
    true = {name: judged.step_seconds - usual * (1 - of.ratios[name]) for name in judged.effects}
    wrong = ["conditions" for name, each in judged.effects.items() if not each.lower <= true[name] <= each.upper]
    clocked = [each for each in judged.causes if each.name in CLOCKED]
    wrong += ["clocks" for each in clocked if not each.lower <= of.seconds[each.name] <= each.upper]
    if judged.slowest_rank is not None:
        others = [pace for rank, pace in enumerate(of.paces) if rank != judged.slowest_rank]
        wrong += ["rank"] * (of.paces[judged.slowest_rank] <= statistics.median(others))
    return wrong


def _is_gain_wrong(gain: Distribution, runs: Mapping[str, Run]) -> bool:
    below = runs["baseline"].ratios.get(gain.condition, 1.0)
    return not gain.lower <= gain.as_is * below / runs["native"].ratios[gain.condition] <= gain.upper


CASES = (
    *(Case(ranks=ranks, offset=offset) for offset in (0.0, OFFSET) for ranks in (2, 4, 8)),
    *(Case(ranks=2, noise=noise) for noise in ("bursts", "drift")),
    *(Case(ranks=2, noise=noise, input_share=0.1) for noise in NOISES),
    *(Case(ranks=2, noise=noise, offset=OFFSET, between_share=0.1) for noise in NOISES),
    *(Case(ranks=ranks, offset=OFFSET, rank_share=0.2) for ranks in (2, 4, 8)),
)


def whys_table(tries: int, cases: Sequence[Case] = CASES) -> list[str]:
    """Return how often something is wrong that a `rwi why` says, and how often it finds what was planted."""
    kinds = ("conditions", "clocks", "rank", "distribution", "anything")
    titles = ("ranks", "noise", "planted", *kinds, "names a rank of the run", "planted is first", "rounds, median")
    lines = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    for case in cases:
        seen = tally(case, tries)
        cells = [seen.share(seen.wrong.get(kind, 0)) for kind in kinds]
        is_planted = case.rank_share or _planted(case)
        cells += [seen.share(seen.named), seen.share(seen.planted_first) if is_planted else ""]
        lines.append(f"| {case.words()} | {' | '.join(cells)} | {statistics.median(seen.rounds):g} |")
    return lines


def named(case: Case, repeats: Sequence[int], confidence: float, tries: int) -> list[int]:
    """Return the rank that each measurement names first, after any of these numbers of repeats, if it names one."""
    rng, names = seeded(f"{case} {repeats}"), list[int]()
    for _ in range(tries):
        parts = []
        for _ in range(repeats[-1]):
            paces = [(1 + case.rank_share * (rank == 1)) * math.exp(rng.gauss(0, case.offset))
                     for rank in range(case.ranks)]  # fmt: skip
            parts.append(StepParts(seconds={"": STEP}, exchange=[], link=None, own_work=own_work(rng, paces)))
        looks = (slowest_rank(parts[:number], confidence)[0] for number in repeats)
        names += [each for each in looks if each is not None][:1]
    return names


def ranks_table(tries: int) -> list[str]:
    """Return how often a measurement names a rank as the slowest, where all are equal, and where rank 1 is slower."""
    rules = {str(number): (range(number, number + 1), CONFIDENCE) for number in (1, FIRST_REPEATS, 8)}
    rules["any of 4 to 12, `auto`"] = range(FIRST_REPEATS, WHENEVER.most_repeats + 1), WHENEVER.confidence
    titles = ("ranks", "repeats", "equal, independent", "equal, run offset 5 %", "rank 1 20 % slower, run offset 5 %")
    lines = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    for ranks in (2, 4, 8):
        cases = Case(ranks=ranks), Case(ranks=ranks, offset=OFFSET), Case(ranks=ranks, offset=OFFSET, rank_share=0.2)
        for words, rule in rules.items():
            names = [named(case, *rule, tries) for case in cases]
            counts = *(len(each) for each in names[:2]), names[2].count(1)
            lines.append(f"| {ranks} | {words} | {' | '.join(Tally(tries).share(each) for each in counts)} |")
    return lines


def stopped_wrong(spread: float, tries: int) -> int:
    """Return how often the interval of a single condition is wrong at the end that its own width brings."""
    rng, wrong = seeded(f"stopped {spread}"), 0
    alone = Tried(
        rounds=[], conditions=(AS_IS, INPUT_READY), absent={}, rows=None, threads=1, loader_workers=0
    )  # fmt: skip
    for _ in range(tries):
        tried = alone
        while not why.is_enough(tried, 1):
            seconds = {AS_IS: STEP, INPUT_READY: STEP * math.exp(rng.gauss(0, spread))}
            tried = replace(tried, rounds=[*tried.rounds, Round(seconds=seconds, whole_step=STEP, parts=None)])
        judged = why.judge(tried, 1)
        effect = judged.effects[INPUT_READY] if isinstance(judged, ArmWhy) else None
        wrong += effect is not None and not effect.lower <= STEP <= effect.upper
    return wrong


def stopped_table(tries: int) -> list[str]:
    """Return that by the noise of a ratio."""
    lines = [f"| noise of a ratio | errs, instead of {100 * (1 - why.confidence(1)):.2f} % |", "| --- | --- |"]
    shares = {spread: Tally(tries).share(stopped_wrong(spread, tries)) for spread in (0.02, 0.04, 0.06, 0.08)}
    return [*lines, *(f"| {100 * spread:.0f} % | {share} |" for spread, share in shares.items())]


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulations.causes", description=__doc__)
    parser.add_argument("--tries", type=int, default=TRIES, help=f"simulated runs a row (default {TRIES})")
    tries = parser.parse_args().tries
    print(f"`./rwi why`, {tries:,} tries a row:\n\n" + "\n".join(whys_table(tries)))
    print(f"\nthe slowest rank of a measurement, {MORE * tries:,} a cell:\n\n" + "\n".join(ranks_table(MORE * tries)))
    print(f"\none condition, {MORE * tries:,} tries a row:\n\n" + "\n".join(stopped_table(MORE * tries)))


if __name__ == "__main__":
    main()
