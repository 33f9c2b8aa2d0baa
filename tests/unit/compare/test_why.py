"""Causes of long steps: what rounds of blocks decide, what they do not, and how often noise alone is called a cause."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from compare import why
from compare.value import Missing
from compare.why import AS_IS, INPUT_READY, NO_EXCHANGE, ArmWhy, Round, Tried
from report import why as words
from tests.golden import Wording
from training.contract.result import StepParts
from training.workloads.script.observe import experiment

STEP = 0.084
PARTS = {"input": 0.039, "compute": 0.028, "exchange": 0.015, "optimizer": 0.001, "between": 0.001, "collective": 0.0}
WOBBLE = [0.99, 1.01, 1.005, 0.995, 1.0, 1.0]
CONDITIONS = (AS_IS, INPUT_READY, NO_EXCHANGE, "threads 1")


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


def judged(of_arm: Tried) -> ArmWhy:
    """What is known of it."""
    found = why.judge(of_arm)
    assert isinstance(found, ArmWhy)
    return found


def text(found: ArmWhy) -> str:
    """All that is said."""
    causes = words.causes(found) if found.causes else [words.nothing(found)]
    return "\n".join([words.where(found), *words.effects(found), *causes])


def test_a_cause_that_takes_half_of_the_step_is_the_first(wording: Wording) -> None:
    """With what would be gained, at most."""
    found = judged(tried({INPUT_READY: 0.5, NO_EXCHANGE: 0.9, "threads 1": 1.0}))

    assert [INPUT_READY, NO_EXCHANGE] == [cause.name for cause in found.causes]
    assert pytest.approx(STEP / 2, rel=0.02) == found.causes[0].seconds
    assert found.causes[0].lower < STEP / 2 < found.causes[0].upper
    wording("causes", text(found))


def test_nothing_is_found_where_nothing_changes(wording: Wording) -> None:
    """The least gain that would have been seen is said."""
    found = judged(tried({INPUT_READY: 1.0, NO_EXCHANGE: 1.0, "threads 1": 1.0}))

    assert [] == found.causes
    assert {"nothing above noise"} == {effect.decision for effect in found.effects.values()}
    assert all(0.005 < effect.least_gain < 0.05 for effect in found.effects.values())
    wording("causes", text(found))


def test_what_is_too_wide_is_not_decided(wording: Wording) -> None:
    """It may be large, and nobody knows."""
    found = judged(tried({INPUT_READY: 0.8}, wobble=[0.6, 1.4, 0.7, 1.3, 0.9, 1.1]))

    assert "not decided" == found.effects[INPUT_READY].decision
    assert [] == found.causes
    wording("causes", text(found))


def test_what_takes_longer_than_as_it_is_is_no_cause(wording: Wording) -> None:
    """Fewer threads, for example."""
    found = judged(tried({"threads 1": 1.7}))

    assert "slower" == found.effects["threads 1"].decision
    assert [] == found.causes
    wording("causes", text(found))


def test_of_two_numbers_of_threads_the_better_one_is_a_cause(wording: Wording) -> None:
    """One can have one number of them."""
    found = judged(tried({"threads 1": 0.5, "threads 2": 0.7}, threads=4))

    assert ["threads 1"] == [cause.name for cause in found.causes]
    wording("causes", text(found))


def test_input_that_slows_computing_is_said_to(wording: Wording) -> None:
    """Its processes take CPUs: the clock sees a fraction of what it costs."""
    seen = parts(seconds=PARTS | {"input": 0.009, "compute": 0.058})
    found = judged(tried({INPUT_READY: 0.5}, parts=seen, loader_workers=2))

    assert found.causes[0].slows_computing
    wording("causes", text(found))


def test_a_wait_for_ranks_that_are_slow_in_turn_is_no_slow_computing(wording: Wording) -> None:
    """Without an exchange nobody waits; the clock had seen that wait."""
    seen = parts(seconds=PARTS | {"exchange": 0.043, "input": 0.011}, exchange=[0.043, 0.043], link=0.003)
    found = judged(tried({NO_EXCHANGE: 0.5}, parts=seen))

    assert pytest.approx(0.04) == found.parts["waiting"]
    assert [NO_EXCHANGE] == [cause.name for cause in found.causes]
    assert not found.causes[0].slows_computing
    wording("causes", text(found))


def test_slow_input_of_another_rank_is_no_slow_computing() -> None:
    """The clock of rank 0 does not see it."""
    seen = parts(seconds=PARTS | {"input": 0.0}, exchange=[0.054, 0.006], link=0.006, own_work=[[0.030], [0.078]])
    found = judged(tried({INPUT_READY: 0.5}, parts=seen))

    assert "rank 1" in [cause.name for cause in found.causes]
    assert not any(cause.slows_computing for cause in found.causes)


def test_where_nothing_was_tried_nothing_is_said_of_noise(wording: Wording) -> None:
    """As of one process without a DataLoader, and with one thread."""
    wording("causes", text(judged(tried({}, absent={INPUT_READY: experiment.NO_LOADER}))))


def test_what_rank_0_does_alone_is_named_where_it_is_slow(wording: Wording) -> None:
    """As saving: others wait for it, and it need not be told to save on one rank."""
    saves = parts(seconds=PARTS | {"save": 0.02, "input": 0.019}, own_work=[[0.07], [0.05]])
    found = judged(tried({INPUT_READY: 1.0}, parts=saves))

    assert {"rank 0", "save"} == {cause.name for cause in found.causes}
    wording("causes", text(found))


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
        for number, each in enumerate(tried({INPUT_READY: 1.0}).rounds)
    ]
    found = judged(replace(tried({INPUT_READY: 1.0}), rounds=rounds))

    assert "between" == found.causes[0].name
    assert STEP == found.causes[0].upper


def test_a_slow_rank_is_a_cause_whose_gain_is_not_known(wording: Wording) -> None:
    """What the others wait is no gain."""
    slow = parts(exchange=[0.030, 0.006], link=0.006, own_work=[[0.050], [0.078]])
    found = judged(tried({INPUT_READY: 1.0}, parts=slow))

    assert "rank 1" == found.causes[0].name
    assert pytest.approx(0.028) == found.causes[0].seconds
    wording("causes", text(found))


def test_collectives_that_wait_for_a_slow_rank_are_that_rank_s(wording: Wording) -> None:
    """One cause is not told twice."""
    slow = parts(seconds=PARTS | {"collective": 0.029}, own_work=[[0.050], [0.078]])
    found = judged(tried({INPUT_READY: 1.0}, parts=slow))

    assert ["rank 1"] == [cause.name for cause in found.causes]
    wording("causes", text(found))


def test_parts_by_the_clock_are_causes(wording: Wording) -> None:
    """Validation, saving and reporting are not tried: without them their time is gained, at most."""
    seen = parts(seconds=PARTS | {"between": 0.02, "save": 0.01, "report": 0.005, "collective": 0.006})
    found = judged(tried({INPUT_READY: 1.0}, parts=seen))

    assert ["between", "save", "collective", "report"] == [cause.name for cause in found.causes]
    wording("causes", text(found))


def test_steps_whose_parts_are_not_known_are_tried_all_the_same(wording: Wording) -> None:
    """As those of FSDP."""
    found = judged(tried({INPUT_READY: 0.5}, parts=None, absent={NO_EXCHANGE: "it exchanges none"}))

    assert {} == found.parts
    assert [INPUT_READY] == [cause.name for cause in found.causes]
    wording("causes", text(found))


def test_too_few_rounds_say_nothing() -> None:
    """Not even with a large effect."""
    assert isinstance(why.judge(tried({INPUT_READY: 0.2}, rounds=3)), Missing)


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
    assert why.is_enough(tried(narrow, rounds=6))
    assert not why.is_enough(tried(narrow, rounds=7))
    assert why.is_enough(tried(narrow, rounds=1024))
    assert not why.is_enough(tried(narrow, rounds=6, wobble=[0.6, 1.4, 0.7, 1.3, 0.9, 1.1]))


def test_distribution_gains_more_without_the_cause(wording: Wording) -> None:
    """Two arms of which one needs 1.2 times as long a row; without input 1.8 times."""
    native = tried({INPUT_READY: 0.5})
    baseline = tried({INPUT_READY: 0.75}, rows=64.0)
    slower = [
        replace(each, seconds={name: 1.2 * seconds for name, seconds in each.seconds.items()})
        for each in baseline.rounds
    ]
    found = why.distribution(native, replace(baseline, rounds=slower), INPUT_READY, ("native", "baseline"))

    assert found is not None
    assert pytest.approx(1.2) == found.as_is
    assert pytest.approx(1.8) == found.changed
    assert found.lower < 1.8 < found.upper
    wording("causes", "\n".join(words.distributions([found])))


def test_distribution_counts_rows() -> None:
    """Two ranks that have a batch each make twice as many rows a step."""
    found = why.distribution(tried({INPUT_READY: 0.5}, rows=128.0), tried({INPUT_READY: 0.5}), INPUT_READY, ("a", "b"))

    assert found is not None
    assert pytest.approx(2.0) == found.changed


def test_an_arm_without_an_exchange_has_it_taken_away() -> None:
    """A single process is compared as it is."""
    alone = tried({INPUT_READY: 1.0}, absent={NO_EXCHANGE: "it exchanges none"})
    found = why.distribution(tried({NO_EXCHANGE: 0.5}), alone, NO_EXCHANGE, ("a", "b"))

    assert found is not None
    assert pytest.approx(2.0, rel=0.01) == found.changed
    assert why.distribution(alone, tried({NO_EXCHANGE: 0.5}), NO_EXCHANGE, ("a", "b")) is None
    assert why.distribution(alone, replace(alone, rows=None), INPUT_READY, ("a", "b")) is None


def normal(source: random.Random) -> Callable[[], float]:
    """Independent noise of 4 %."""
    return lambda: source.gauss(0.0, 0.04)


def bursts(source: random.Random) -> Callable[[], float]:
    """One block in ten takes half as long again."""
    return lambda: source.gauss(0.0, 0.03) + (0.4 if source.random() < 0.1 else 0.0)


def drift(source: random.Random) -> Callable[[], float]:
    """A machine that becomes slower and faster over many blocks."""
    level = [0.0]

    def next_block() -> float:
        level[0] = 0.9 * level[0] + source.gauss(0.0, 0.05)
        return level[0] + source.gauss(0.0, 0.02)

    return next_block


@pytest.mark.parametrize("noise", [normal, bursts, drift])
def test_noise_alone_is_seldom_a_cause(noise: Callable[[random.Random], Callable[[], float]]) -> None:
    """In at most 5 of 100 runs that end by the rule, nothing is named where there is nothing (300 runs, seed 1)."""
    source, false = random.Random(1), 0  # noqa: S311
    of_arm, runs = tried({}, rounds=0, conditions=CONDITIONS), 300
    for _ in range(runs):
        draw, rounds = noise(source), list[Round]()
        while len(rounds) < why.LOOKS[5]:
            order = experiment.order(CONDITIONS, len(rounds))
            seconds = {name: STEP * math.exp(draw()) for name in order}
            rounds.append(Round(seconds=seconds, whole_step=seconds[AS_IS], parts=None))
            if why.is_enough(replace(of_arm, rounds=rounds)):
                break
        false += bool(judged(replace(of_arm, rounds=rounds)).causes)

    assert false <= 0.05 * runs + 2 * math.sqrt(0.05 * 0.95 * runs)
