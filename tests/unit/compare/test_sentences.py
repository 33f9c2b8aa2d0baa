"""No two sentences of an output exclude each other, and no advice is known beforehand to be in vain.

Measurements are drawn at random: clocks of each arm, repeats, luck. Every sentence about who is faster has its meaning
here, as a condition on the clocks that were drawn. All that are printed hold of the same clocks, so none excludes
another; and one that has no meaning here is refused.
"""

import math
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from compare.comparison import compare
from compare.intervals import MARGIN, ONCE, WHENEVER, Interval, decide, ratio_interval, repeats_to_decide
from compare.measurement import Run
from compare.schema import Comparison
from report import clocks, closing, ratios, words
from tests.unit.results import disturbed, make_context, make_recipe, make_run, quiet_machine, replaced

STEPS = 20
"""An epoch of the runs that are made up."""
MOST = 10_000
NUMBER = r"([\d,]+)"


@dataclass(frozen=True)
class Drawn:
    """A measurement whose clocks are known: of each arm and repeat what is paid once, and seconds of an epoch."""

    epochs: int
    repeats: int
    is_auto: bool
    clocks: dict[str, list[tuple[float, float]]]
    others: float = 0.0
    """CPUs that other programs took of every run, which lacked some."""

    @property
    def alternatives(self) -> list[str]:
        """What one would use instead of Ray."""
        return [arm for arm in ("baseline", "wide") if arm in self.clocks]

    def ratios(self, arm: str, epochs: float) -> list[float]:
        """An arm's clock by Ray's over so many epochs, of each repeat; of an epoch alone with infinitely many."""
        pairs = zip(self.clocks[arm], self.clocks["ray"], strict=True)
        if math.isinf(epochs):
            return [above[1] / below[1] for above, below in pairs]
        return [(above[0] + epochs * above[1]) / (below[0] + epochs * below[1]) for above, below in pairs]

    def interval(self, arm: str, epochs: float) -> Interval:
        """Its interval."""
        interval = ratio_interval(self.ratios(arm, epochs), (WHENEVER if self.is_auto else ONCE).confidence)
        assert interval
        return interval

    def numbers(self, first: int) -> Iterator[float]:
        """Numbers of epochs from the first one on, at which statements about all of them are tested."""
        while first <= MOST:
            yield first
            first = max(first + 1, int(1.03 * first))
        yield from (MOST, math.inf)

    def all_over(self, number: float, than: float = 1, end: str = "lower", arms: list[str] | None = None) -> bool:
        """Whether that end of each alternative's interval is over a number."""
        return all(getattr(self.interval(arm, number), end) > than for arm in arms or self.alternatives)

    def compared(self) -> Comparison:
        """The comparison of such runs."""
        recipe = make_recipe(epochs=self.epochs)
        runs = [
            self._beside_others(make_run(
                arm, repeat, recipe, step_seconds_mean=0.9 * epoch / STEPS, startup_seconds=0.5 * once,
                validation_seconds=0.1 * epoch * self.epochs, report_seconds=0.0,
                wall_seconds=once + epoch * self.epochs,
            ))
            for arm, of_arm in self.clocks.items()
            for repeat, (once, epoch) in enumerate(of_arm, 1)
        ]  # fmt: skip
        context = make_context(recipe, arms=tuple(self.clocks), repeats=self.repeats, is_auto=self.is_auto)
        return compare(runs, context)

    def _beside_others(self, run: Run) -> Run:
        """The run as it was measured; with others it lacked CPU time."""
        use = quiet_machine(20, other_cpu_seconds=20 * self.others)
        return replaced(disturbed(run), machine=use) if self.others else run

    @property
    def is_quiet(self) -> bool:
        """Whether nobody else had CPUs."""
        return not self.others

    @property
    def is_certain(self) -> bool:
        """Whether the answer is the same however much of their CPU time others took from the loser alone."""
        left = max(0.0, 1 - self.others)
        if is_won(self):
            return self.is_quiet or self.all_over(self.epochs, than=1 / left if left else math.inf)
        lost = any(self.interval(arm, self.epochs).upper < left for arm in self.alternatives)
        return self.is_quiet or (is_no(self) and lost)


def draw(seed: int) -> Drawn:
    """Arms of any start and any pace; in two of three the paces are near each other, where what is said is delicate.
    Of some runs other programs took something."""
    rng = random.Random(seed)  # noqa: S311 (no secret)
    is_auto = rng.random() < 0.3
    repeats = rng.randint(4 if is_auto else 2, 12)
    luck, apart = rng.choice((0.001, 0.01, 0.05, 0.2)), rng.choice((0.02, 0.2, 1.5))
    arms = rng.choice((("baseline", "native", "ray"), ("baseline", "wide", "native", "ray")))
    clocks = {}
    for arm in arms:
        once, epoch = math.exp(rng.uniform(0, 5)), 2 * math.exp(rng.gauss(0, apart))
        clocks[arm] = [
            (once * math.exp(rng.gauss(0, luck)), epoch * math.exp(rng.gauss(0, luck))) for _ in range(repeats)
        ]
    return Drawn(rng.randint(2, 30), repeats, is_auto, clocks, others=rng.choice((0.0, 0.0, 0.3, 0.6, 1.5)))


TITLES = {"one process on 1 CPU": "baseline", "one process on 2 CPUs": "wide"}
SIDE = re.compile(r"([\d.,]+) times as (fast|long) \(([\d.,]+) to ([\d.,]+)[^)]*\) as (one process on \d CPUs?)")


def number(text: str) -> float:
    """A number as it is printed."""
    return float(text.replace(",", ""))


def is_as_said(drawn: Drawn, text: str, epochs: float) -> bool:
    """Whether the ratios in a text are those of so many epochs, but for rounding."""
    found = SIDE.findall(text)
    return bool(found) and all(_is_side(drawn, side, epochs) for side in found)


def _is_side(drawn: Drawn, side: tuple[str, ...], epochs: float) -> bool:
    interval = drawn.interval(TITLES[side[4]], epochs)
    ends = (interval.lower, interval.upper) if side[1] == "fast" else (1 / interval.upper, 1 / interval.lower)
    return all(
        number(said) == pytest.approx(end, rel=0.05, abs=0.006) for said, end in zip(side[2:4], ends, strict=True)
    )


def is_won(drawn: Drawn) -> bool:
    """*Worth it*: over these epochs Ray surely takes less than each."""
    return drawn.all_over(drawn.epochs)


def is_lost_at(drawn: Drawn, epochs: float) -> bool:
    """*Not worth it here*: it surely gains less than what would matter, against one of them."""
    return any(drawn.interval(arm, epochs).upper < MARGIN for arm in drawn.alternatives)


def is_won_later(drawn: Drawn) -> bool:
    """*Worth it from E epochs on*: not yet, but from some number on, and in an epoch alone."""
    return not is_won(drawn) and drawn.all_over(MOST) and drawn.all_over(math.inf)


def is_no(drawn: Drawn) -> bool:
    """What is answered so."""
    return is_lost_at(drawn, drawn.epochs) and not is_won(drawn) and not is_won_later(drawn)


def is_open(drawn: Drawn) -> bool:
    """*Not decided*."""
    return not is_won(drawn) and not is_lost_at(drawn, drawn.epochs) and not is_won_later(drawn)


def stays(drawn: Drawn, end: str, first: float, arms: list[str] | None = None) -> bool:
    """Whether that end of each interval is above 1 from a number of epochs on, and in an epoch alone."""
    return all(drawn.all_over(each, end=end, arms=arms) for each in drawn.numbers(int(first)))


def is_first(drawn: Drawn, end: str, first: str, arm: str) -> bool:
    """Whether it is so from this number on, and not from the one before."""
    before = number(first) - 1
    return stays(drawn, end, number(first), [arm]) and (before < 1 or not drawn.all_over(before, end=end, arms=[arm]))


def never(drawn: Drawn, end: str, arm: str) -> bool:
    """Whether it is so at no number up to the most, and in an epoch alone."""
    return not all(drawn.all_over(each, end=end, arms=[arm]) for each in (MOST, math.inf))


def is_probably_lost_at(drawn: Drawn, epochs: float) -> bool:
    """Whether it probably gains less than what would matter, against one of them."""
    return any(drawn.interval(arm, epochs).centre < MARGIN for arm in drawn.alternatives)


def is_certain_below(drawn: Drawn, text: str) -> bool:
    """Whether the answer is known beforehand at each number of epochs below this one, and not at this one."""
    return is_no(drawn) and _is_lost_up_to(drawn, text, is_lost_at)


def advised(drawn: Drawn, text: str) -> bool:
    """An advice: at this number it is most likely not in vain, and at each before it is."""
    return is_no(drawn) and not is_lost_at(drawn, number(text)) and _is_lost_up_to(drawn, text, is_probably_lost_at)


def _is_lost_up_to(drawn: Drawn, text: str, is_lost: Callable[[Drawn, float], bool]) -> bool:
    epochs = int(number(text))
    before = [each for each in drawn.numbers(drawn.epochs) if each < epochs]
    return not is_lost(drawn, epochs) and all(is_lost(drawn, each) for each in before)


def is_needed(drawn: Drawn, text: str) -> bool:
    """Whether a text has no number of repeats, or the one that would probably decide everything that is open, which it
    would not if others slowed the runs."""
    rule = WHENEVER if drawn.is_auto else ONCE
    said = re.search(r"(\d+) (?:repeats )?(?:probably )?would(?! probably not)|at least (\d+)|repeats=(\d+)", text)
    quotients = [drawn.ratios(arm, drawn.epochs) for arm in drawn.alternatives]
    open_ones = [each for each in quotients if decide(ratio_interval(each, rule.confidence)) == "not decided"]
    needed = max(repeats_to_decide(each, rule) or math.inf for each in open_ones)
    return not said or (drawn.is_quiet and needed == int(said[1] or said[2] or said[3]))


def is_near_tie(drawn: Drawn, text: str) -> bool:
    """Whether Ray gains 0 to 5 % against the alternative that it gains least against, so that both answers are true."""
    said = re.fullmatch(r"; (the|a) gain(?:, if any,)? is (probably )?below 5 %, so another .* answer \*(.*)\*", text)
    least = min((drawn.interval(arm, drawn.epochs) for arm in drawn.alternatives), key=lambda each: each.centre)
    other = "Not worth it here" if is_won(drawn) else "Worth it" if is_no(drawn) else ""
    return (
        bool(said and said[3] == other)
        and 1 < least.centre < MARGIN
        and bool(said and (said[1] == "the") is (least.lower > 1) and bool(said[2]) is (least.upper >= MARGIN))
    )


def is_lost_for_good(drawn: Drawn) -> bool:
    """Whether no longer training is known not to be in vain."""
    return is_no(drawn) and all(is_lost_at(drawn, each) for each in drawn.numbers(drawn.epochs))


def against(drawn: Drawn, arm: str, text: str) -> bool:
    """Where clocks meet, of one alternative."""
    patterns: dict[str, Callable[..., bool]] = {
        f"none up to {MOST:,} epochs": lambda: (
            never(drawn, "upper", arm) and not drawn.all_over(drawn.epochs, arms=[arm])
        ),
        f"none up to {MOST:,} epochs, though Ray is ahead now": lambda: (
            never(drawn, "upper", arm) and drawn.all_over(drawn.epochs, arms=[arm])
        ),
        "from the first epoch on": lambda: stays(drawn, "lower", 1, [arm]),
        f"not known, {NUMBER} epochs or more": lambda first: (
            is_first(drawn, "upper", first, arm) and never(drawn, "centre", arm)
        ),
        rf"about {NUMBER} epochs? \({NUMBER} to {NUMBER}\)": lambda *numbers: all(
            is_first(drawn, end, each, arm) for end, each in zip(("centre", "upper", "lower"), numbers, strict=True)
        ),
        rf"about {NUMBER} epochs? \({NUMBER} or more; the upper end is not known\)": lambda *numbers: (
            all(is_first(drawn, end, each, arm) for end, each in zip(("centre", "upper"), numbers, strict=True))
            and never(drawn, "lower", arm)
        ),
    }
    return any((match := re.fullmatch(each, text)) and meaning(*match.groups()) for each, meaning in patterns.items())


def meet(drawn: Drawn, text: str) -> bool:
    """Where clocks meet."""
    of_arms = re.findall(r"with (\w+): (.*?)(?=; with |\.$)", text)
    return [arm for arm, _ in of_arms] == drawn.alternatives and all(against(drawn, *each) for each in of_arms)


def reason(drawn: Drawn, text: str, says: str) -> bool:
    """Why there is no number of epochs that is certain to be enough."""
    (side,) = SIDE.findall(text)
    arm = TITLES[side[4]]
    alone, most = drawn.interval(arm, math.inf), drawn.interval(arm, MOST)
    meanings = {
        ", so there is no number of epochs from which on Ray stays ahead": alone.upper < 1,
        ": it is not proven faster, so no number of epochs is certain to be enough": alone.lower <= 1 <= alone.upper,
        f": too little to make up for its fixed time within {MOST:,} epochs, with 95 % confidence": (
            alone.lower > 1 and most.upper <= 1
        ),
        f": it is not certain that this is enough to make up for its fixed time within {MOST:,} epochs": (
            alone.lower > 1 and most.lower <= 1
        ),
    }
    return is_as_said(drawn, text, math.inf) and meanings[says]


def always(*_: object) -> bool:
    """Of what says nothing of who is faster, or when."""
    return True


ALONE = r"without the fixed time, (one epoch of Ray .*)\."
LONGER = "Longer training"
SURE = r", with 95 % confidence, in \d+ repeats"
MEANINGS: dict[str, Callable[..., bool]] = {
    "Worth it": is_won,
    f"Worth it from {NUMBER} epochs? on": lambda drawn, first: (
        not is_won(drawn) and stays(drawn, "lower", number(first))
    ),
    "Not worth it here": is_no,
    "Not decided": is_open,
    # The verdict
    rf"(?:Not w|W)orth it.*?: (over .*{SURE})(?:, as many as it took)?(; .*)?\.": (
        lambda drawn, text, tie: is_as_said(drawn, text, drawn.epochs) and (not tie or is_near_tie(drawn, tie))
    ),
    r"Not decided: (over .*, with 95 % confidence.*?)(?:; (.*))?\.": lambda drawn, text, what: (
        is_open(drawn) and is_as_said(drawn, text, drawn.epochs) and is_needed(drawn, what or "")
    ),
    f"{LONGER} may change that: try `--set epochs={NUMBER}` \\(.*\\)\\.": advised,
    "With fewer epochs Ray (?:probably )?gains less than 5 %(?: against one of the alternatives)?\\.": is_no,
    f"With fewer than {NUMBER} epochs that is certain\\.": is_certain_below,
    f"{LONGER} may change that, but probably only from {NUMBER} epochs on, and .*\\.": advised,
    f"{LONGER} most likely does not bring a gain of 5 %: with any number of epochs up to {MOST:,} Ray probably .*\\.": (
        lambda drawn: (
            is_no(drawn)
            and not is_lost_for_good(drawn)
            and all(is_probably_lost_at(drawn, each) for each in drawn.numbers(drawn.epochs) if each <= MOST)
        )
    ),
    "More repeats tell first whether it does\\.": lambda drawn: (
        is_no(drawn) and drawn.is_quiet and not drawn.is_auto and drawn.all_over(math.inf, end="upper")
    ),
    "Other programs took .* CPUs while .* ran, and .*, which may have slowed them\\.": lambda drawn: not drawn.is_quiet,
    f"{LONGER} does not change that: {ALONE}": lambda drawn, text: (
        is_lost_for_good(drawn) and is_as_said(drawn, text, math.inf)
    ),
    f"{LONGER} does not bring a gain of 5 %: {ALONE}": lambda drawn, text: (
        is_lost_for_good(drawn) and is_as_said(drawn, text, math.inf)
    ),
    f"{LONGER} does not change that: at each number of epochs up to {MOST:,} .*": lambda drawn: (
        is_no(drawn) and all(is_lost_at(drawn, each) for each in drawn.numbers(drawn.epochs) if each <= MOST)
    ),
    "Whether longer training changes that is not known yet: the next `up` goes on\\.": lambda drawn: (
        drawn.is_auto and is_no(drawn) and not is_lost_for_good(drawn)
    ),
    f"{LONGER} may change that: {ALONE}": lambda drawn, text: (
        is_won(drawn) and is_as_said(drawn, text, math.inf) and not drawn.all_over(math.inf, end="upper")
    ),
    r"Ray spends .* starting, .*\.": always,
    "With .* repeats of .* arms not every arm came first: .*": always,
    "Repeats resemble their neighbours: .*": always,
    # In short
    r"O(ne process on \d CPUs?) takes .*, Ray .*, of which .* are start-up: Ray (.*), with 95 % confidence\.": (
        lambda drawn, against, text: is_as_said(drawn, f"{text} as o{against}", drawn.epochs)
    ),
    rf"From {NUMBER} epochs? on Ray takes less time, with 95 % confidence\.": lambda drawn, first: stays(
        drawn, "lower", number(first)
    ),
    "That is too uncertain to decide(.*)": lambda drawn, what: is_open(drawn) and is_needed(drawn, what),
    # Below the verdict
    r"Without the fixed time, (one epoch of Ray .*)\.": lambda drawn, text: is_as_said(drawn, text, math.inf),
    r"A step of Ray .* as TensorFlow's own distribution .*\.": always,
    r"Break-even \(95 % interval\) (with .*)": meet,
    f"row: {NUMBER} from there on Ray is ahead": lambda drawn, first: stays(drawn, "lower", number(first)),
    f"row: – none up to {MOST:,} epochs(?:, though Ray is ahead now)?": lambda drawn: any(
        never(drawn, "upper", arm) for arm in drawn.alternatives
    ),
    f"row: – probably {NUMBER} epochs?, not certain": lambda drawn, first: (
        stays(drawn, "centre", number(first)) and any(never(drawn, "lower", arm) for arm in drawn.alternatives)
    ),
    "row: – not known": lambda drawn: any(never(drawn, "centre", arm) for arm in drawn.alternatives),
    r"breakEvenEpochs: (without the fixed time, one epoch of Ray .*? as one process on \d CPUs?)(, so .*|: .*)": reason,
    "(?:Estimate, |Ray's test accuracy is |Each worker computes its own |A bigger single process ).*": always,
    "`.*` would narrow this most a minute, in about .* here\\.": always,
    "=.*": always,
    "~.*: (.*)": lambda drawn, what: drawn.is_quiet is ("repeats would" in what or "at least" in what),
    # What to type
    r"next: \./rwi destroy && \./rwi up(?: --set repeats=4)?    # when the machine is quiet; results stay": (
        lambda drawn: not drawn.is_certain
    ),
    f"next: ./rwi up --set epochs={NUMBER} .*": lambda drawn, what: drawn.is_certain and advised(drawn, what),
    "next: ./rwi report open    # where the time goes": lambda drawn: drawn.is_certain and not is_open(drawn),
    "next: ./rwi report open    # how far the runs lie apart": lambda drawn: drawn.is_certain and is_open(drawn),
    "next: ./rwi up    # goes on; runs that are there are kept": lambda drawn: (
        drawn.is_certain and drawn.is_auto and not is_won(drawn)
    ),
    "next: ./rwi up    # goes on; though 12 repeats would probably not decide": lambda drawn: (
        drawn.is_certain and drawn.is_auto and is_open(drawn)
    ),
    r"next: (?:\./rwi destroy && )?\./rwi up --set (repeats=(?:auto|\d+)) .*": lambda drawn, what: (
        is_open(drawn) and is_needed(drawn, what)
    ),
}
"""By the pattern of a sentence, what it says of the clocks; it is given the parts of the pattern in brackets."""


def sentences(comparison: Comparison) -> list[str]:
    """Everything that is said of who is faster, when, and what to do."""
    *screen, advice = closing.render(comparison, "local", None, {}).splitlines()
    row = next(row for row in ratios.rows(comparison) if row.name == "breakEvenEpochs")
    texts = [comparison.verdict, *words.details(comparison), " ".join(screen[1:])]
    said = [comparison.answer, *(each for text in texts for each in re.split(r"(?<=\.) ", text))]
    said += [clocks.break_even_words(comparison), f"row: {row.median} {row.meaning}", *ratios.footnotes(comparison)]
    why = comparison.reasons.get("breakEvenEpochs", "")
    return [*said, *(f"breakEvenEpochs: {each}" for each in why.split("; ") if each), advice]


def untrue(drawn: Drawn) -> list[str]:
    """The sentences that do not hold of the clocks, or have no meaning here."""
    return [each for each in sentences(drawn.compared()) if not holds(drawn, each)]


def holds(drawn: Drawn, sentence: str) -> bool:
    """Whether it has a meaning, and that holds."""
    matches = ((re.fullmatch(each, sentence), meaning) for each, meaning in MEANINGS.items())
    return next((meaning(drawn, *match.groups()) for match, meaning in matches if match), False)


FEW, DRAWN = 20, int(os.environ.get("DRAWN", "100"))
"""Measurements; the slow tests draw the second number, and DRAWN=5000 more."""
FOUND = (78, 98, 362, 886)
"""Measurements of which something false was once said, or would be after a small change."""


@pytest.mark.parametrize(
    "seeds", [(*range(FEW), *FOUND), pytest.param(range(FEW, DRAWN), marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_every_sentence_holds_of_the_clocks(seeds: Sequence[int]) -> None:
    """So no two exclude each other, and none advises what is known beforehand to be in vain."""
    found = {seed: said for seed in seeds if (said := untrue(draw(seed)))}

    assert found == {}
