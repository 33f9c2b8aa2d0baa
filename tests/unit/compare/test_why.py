"""Causes of long steps: what rounds of blocks decide, what they do not, and how often noise alone is called a cause."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from compare import why
from compare.value import Missing
from compare.why import AS_IS, INPUT_READY, NO_EXCHANGE, ArmWhy, Distribution, Round, Tried
from report import why as words
from tests.golden import Wording
from training.contract.result import StepParts
from training.workloads.script.observe import experiment

STEP = 0.084
PARTS = {"input": 0.039, "compute": 0.028, "exchange": 0.015, "optimizer": 0.001, "between": 0.001, "collective": 0.0}
WOBBLE = [0.99, 1.01, 1.005, 0.995, 1.0, 1.0]
ARMS = 2
"""Of which something is said in a `rwi why`."""


def parts(**changes: Any) -> StepParts:
    """Parts of a step of 84 ms, of two ranks that work equally long."""
    whole = StepParts(seconds=PARTS, exchange=[0.015, 0.014], link=0.014, own_work=[[0.069], [0.069]])
    return replace(whole, **changes)


def tried(ratios: dict[str, float], rounds: int = 6, wobble: Sequence[float] = WOBBLE, **changes: Any) -> Tried:
    """Rounds in which conditions take so many times the step as it is, by about a percent."""
    blocks = [
        Round(
            seconds={
                name: STEP * ratios.get(name, 1.0) * (1.0 if name == AS_IS else wobble[number % len(wobble)])
                for name in (AS_IS, *ratios)
            },
            whole_step=STEP,
            parts=changes.get("parts", parts()),
        )
        for number in range(rounds)
    ]
    rest = {name: value for name, value in changes.items() if name != "parts"}
    whole = Tried(
        rounds=blocks, conditions=[AS_IS, *ratios], absent={}, rows=64.0, threads=2, loader_workers=0
    )  # fmt: skip
    return replace(whole, **rest)


def judged(of_arm: Tried, arms: int = ARMS) -> ArmWhy:
    """What is known of it, if so many arms were tried."""
    found = why.judge(of_arm, arms)
    assert isinstance(found, ArmWhy)
    return found


def text(found: ArmWhy) -> str:
    """All that is said."""
    causes = words.causes(found) if found.causes else [words.nothing(found)]
    return "\n".join([words.where(found), *words.of_rank(found), *words.effects(found), *causes])


WIDE = [0.6, 1.4, 0.7, 1.3, 0.9, 1.1]
SLOW_RANK = {"exchange": [0.030, 0.006], "link": 0.006, "own_work": [[0.050], [0.078]]}
NOTHING = {INPUT_READY: 1.0}
SAID: dict[str, tuple[Tried, list[str], int | None]] = {
    "half of the step": (
        tried({INPUT_READY: 0.5, NO_EXCHANGE: 0.9, "threads 1": 1.0}), [INPUT_READY, NO_EXCHANGE], None
    ),
    # What can be gained at most is said: the end of the widest interval
    "nothing": (tried({INPUT_READY: 1.0, NO_EXCHANGE: 1.0, "threads 1": 1.0}), [], None),
    # It may be large, and nobody knows
    "too wide": (tried({INPUT_READY: 0.8}, wobble=WIDE), [], None),
    "slower": (tried({"threads 1": 1.7}), [], None),
    # One can have one number of them
    "the better number of threads": (tried({"threads 1": 0.5, "threads 2": 0.7}, threads=4), ["threads 1"], None),
    # Its processes take CPUs: the clock sees a fraction of what it costs
    "slowed computing": (
        tried({INPUT_READY: 0.5}, parts=parts(seconds=PARTS | {"input": 0.009, "compute": 0.058}), loader_workers=2),
        [INPUT_READY],
        None,
    ),
    # Without an exchange nobody waits; the clock had seen that wait
    "ranks that are slow in turn": (
        tried(
            {NO_EXCHANGE: 0.5},
            parts=parts(seconds=PARTS | {"exchange": 0.043, "input": 0.011}, exchange=[0.043, 0.043], link=0.003),
        ),
        [NO_EXCHANGE],
        None,
    ),
    # As one process without a DataLoader, and with one thread
    "nothing tried": (tried({}, absent={INPUT_READY: experiment.NO_LOADER}), [], None),
    # As saving: others wait for it, and it need not be told to save on one rank
    "what rank 0 does alone": (
        tried(NOTHING, parts=parts(seconds=PARTS | {"save": 0.02, "input": 0.019}, own_work=[[0.07], [0.05]])),
        ["save"],
        0,
    ),
    # With one run nobody knows whether it is the script's, and what the others wait is no gain
    "a slow rank": (tried(NOTHING, parts=parts(**SLOW_RANK)), [], 1),
    # One cause is not told twice
    "collectives that wait for it": (
        tried(NOTHING, parts=parts(seconds=PARTS | {"collective": 0.029}, own_work=[[0.050], [0.078]])), [], 1
    ),
    # Validation, saving and reporting are not tried: without them their time is gained, at most
    "by the clock": (
        tried(
            NOTHING,
            parts=parts(seconds=PARTS | {"between": 0.02, "save": 0.01, "report": 0.005, "collective": 0.006}),
        ),
        ["between", "save", "collective", "report"],
        None,
    ),
    # As those of FSDP
    "parts that are not known": (
        tried({INPUT_READY: 0.5}, parts=None, absent={NO_EXCHANGE: "it exchanges none"}), [INPUT_READY], None
    ),
}  # fmt: skip
"""What was tried, the causes in their order, and the rank that is named."""


@pytest.mark.parametrize("case", SAID)
def test_causes_are_what_the_rounds_decide(case: str, wording: Wording) -> None:
    """And nothing else is."""
    of_arm, causes, rank = SAID[case]
    found = judged(of_arm)

    assert causes == [cause.name for cause in found.causes]
    assert (case == "slowed computing") == any(cause.slows_computing for cause in found.causes)
    assert rank == found.slowest_rank
    wording("causes", text(found))


def test_a_gain_is_the_difference_to_the_step_as_it_is() -> None:
    """With its interval; the wait for others is a part of its own, and what is not known has none."""
    half, slow, in_turn, unknown = (
        judged(SAID[case][0])
        for case in ("half of the step", "a slow rank", "ranks that are slow in turn", "parts that are not known")
    )

    assert pytest.approx(STEP / 2, rel=0.02) == half.causes[0].seconds
    assert half.causes[0].lower < STEP / 2 < half.causes[0].upper
    assert pytest.approx(0.028) == slow.slower_seconds
    assert pytest.approx(0.04) == in_turn.parts["waiting"]
    assert {} == unknown.parts


def test_a_condition_is_decided_by_its_interval() -> None:
    """Slower, not decided, or nothing above noise, of which the most that it may gain is small."""
    effects = {case: judged(SAID[case][0]).effects for case in ("nothing", "too wide", "slower")}

    assert {case: {effect.decision for effect in of_case.values()} for case, of_case in effects.items()} == {
        "nothing": {"nothing above noise"},
        "too wide": {"not decided"},
        "slower": {"slower"},
    }
    assert all(1 - effect.lower / STEP == effect.most_gain < 0.05 for effect in effects["nothing"].values())


def test_slow_input_of_another_rank_is_no_slow_computing() -> None:
    """The clock of rank 0 does not see it."""
    seen = parts(seconds=PARTS | {"input": 0.0}, exchange=[0.054, 0.006], link=0.006, own_work=[[0.030], [0.078]])
    found = judged(tried({INPUT_READY: 0.5}, parts=seen))

    assert 1 == found.slowest_rank
    assert not any(cause.slows_computing for cause in found.causes)


def test_collectives_of_the_slowest_rank_are_no_wait() -> None:
    """Rank 0 waits for nobody."""
    slow = parts(seconds=PARTS | {"collective": 0.01}, own_work=[[0.078], [0.050]])
    assert "collective" in [cause.name for cause in judged(tried({INPUT_READY: 1.0}, parts=slow)).causes]


def test_rounds_without_parts_leave_those_that_have_some() -> None:
    """A block in which no optimizer stepped has none."""
    of_arm = tried({INPUT_READY: 1.0})
    some = [replace(of_arm.rounds[0], parts=None), *of_arm.rounds[1:]]

    assert pytest.approx(judged(of_arm).parts) == judged(replace(of_arm, rounds=some)).parts


def test_a_gain_by_the_clock_is_not_more_than_the_step() -> None:
    """Something rare and long leaves an interval that is wider than that."""
    rounds = [
        replace(each, parts=parts(seconds=PARTS | {"between": 0.05 if number % 3 else 0.15}))
        for number, each in enumerate(tried({INPUT_READY: 1.0}, rounds=12).rounds)
    ]
    found = judged(replace(tried({INPUT_READY: 1.0}), rounds=rounds))

    assert "between" == found.causes[0].name
    assert STEP == found.causes[0].upper


def test_a_rank_that_is_slower_in_some_rounds_is_not_named() -> None:
    """A round is what is repeated, not the blocks in it: by the six rounds it may be chance."""
    slow, even = (parts(own_work=[[0.05] * 10, [own] * 10]) for own in (0.065, 0.05))
    rounds = [
        replace(each, parts=slow if number < 3 else even)
        for number, each in enumerate(tried({INPUT_READY: 1.0}).rounds)
    ]
    found = judged(replace(tried({INPUT_READY: 1.0}), rounds=rounds))

    assert found.slowest_rank is None
    assert not found.has_slow_rank


def test_too_few_rounds_say_nothing() -> None:
    """Not even with a large effect."""
    assert isinstance(why.judge(tried({INPUT_READY: 0.2}, rounds=3), ARMS), Missing)


def test_rare_work_is_in_the_step_and_in_no_comparison() -> None:
    """A gain is of the usual step; the mean one is longer by the ends of epochs."""
    of_arm = tried({INPUT_READY: 0.5})
    longer = [replace(each, whole_step=2 * STEP) for each in of_arm.rounds]
    found = judged(replace(of_arm, rounds=longer))

    assert pytest.approx(2 * STEP) == found.step_seconds
    assert pytest.approx(STEP / 2, rel=0.02) == found.causes[0].seconds
    assert pytest.approx(1.5 * STEP, rel=0.02) == found.effects[INPUT_READY].seconds


def test_it_is_enough_at_a_look_with_narrow_intervals() -> None:
    """Between looks nothing is decided, so the looks were fixed before."""
    narrow = {INPUT_READY: 1.0, NO_EXCHANGE: 1.0}
    assert why.is_enough(tried(narrow, rounds=6), ARMS)
    assert not why.is_enough(tried(narrow, rounds=7), ARMS)
    assert why.is_enough(tried(narrow, rounds=1024), ARMS)
    assert not why.is_enough(tried(narrow, rounds=6, wobble=WIDE), ARMS)


def slowed(of_arm: Tried) -> Tried:
    """All of its run takes 1.2 times as long."""
    rounds = [
        replace(each, seconds={name: 1.2 * seconds for name, seconds in each.seconds.items()}) for each in of_arm.rounds
    ]
    return replace(of_arm, rounds=rounds)


def distributed(native: Tried, baseline: Tried, condition: str = INPUT_READY) -> Distribution:
    """What distribution gains as it is, and under a condition."""
    found = why.distribution(native, baseline, condition, ("native", "baseline"), ARMS)
    assert found is not None
    return found


def test_distribution_gains_more_without_the_cause(wording: Wording) -> None:
    """Two arms of which one needs 1.2 times as long a row; without input 1.8 times.

    Each arm ran once: an arm that is slower in all of its run moves the value, and the interval with it.
    """
    native, baseline = tried({INPUT_READY: 0.5}), tried({INPUT_READY: 0.75}, rows=64.0)
    found, moved = distributed(native, baseline), distributed(native, slowed(baseline))

    assert pytest.approx(1.2) == moved.as_is
    assert pytest.approx(1.8) == moved.changed
    assert moved.lower < 1.8 < moved.upper
    assert pytest.approx(1.2 * found.lower) == moved.lower
    assert pytest.approx(found.changed / found.as_is) == moved.changed / moved.as_is
    wording("causes", "\n".join(words.distributions([moved])))


def test_distribution_counts_rows_and_an_arm_without_an_exchange_as_it_is() -> None:
    """Two ranks that have a batch each make twice as many rows a step; a single process exchanges none."""
    alone = tried({INPUT_READY: 1.0}, absent={NO_EXCHANGE: "it exchanges none"})
    without = tried({NO_EXCHANGE: 0.5})

    assert pytest.approx(2.0) == distributed(tried({INPUT_READY: 0.5}, rows=128.0), tried({INPUT_READY: 0.5})).changed
    assert pytest.approx(2.0, rel=0.01) == distributed(without, alone, NO_EXCHANGE).changed
    assert why.distribution(alone, without, NO_EXCHANGE, ("a", "b"), ARMS) is None
    assert why.distribution(alone, replace(alone, rows=None), INPUT_READY, ("a", "b"), ARMS) is None


def test_everything_that_is_said_shares_one_error() -> None:
    """More arms have wider intervals, and those of a condition do not depend on how many an arm has."""
    one, several = tried({INPUT_READY: 0.5}), tried({INPUT_READY: 0.5, NO_EXCHANGE: 0.9, "threads 1": 1.0})
    first, second, more = judged(one, 1), judged(several, 1), judged(one, 4)

    assert first.effects[INPUT_READY].lower == second.effects[INPUT_READY].lower > more.effects[INPUT_READY].lower
    assert pytest.approx(0.05) == (1 - why.confidence(2)) * (2 * why.CLAIMS + len(why.DISTRIBUTED))


def test_distribution_is_told_of_a_cause_of_one_of_both_arms() -> None:
    """And of no other, nor where one of them is not known."""
    arms = {"native": tried({INPUT_READY: 0.5, NO_EXCHANGE: 1.0}), "baseline": tried({INPUT_READY: 1.0})}
    known = {name: judged(arm) for name, arm in arms.items()}

    assert [INPUT_READY] == [each.condition for each in why.distributions(arms, known, ARMS)]
    assert [] == why.distributions(arms, {"native": known["native"]}, ARMS)
