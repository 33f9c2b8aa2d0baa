"""Causes of long steps: what rounds of blocks decide, what they do not, and how often noise alone is called a cause."""

from collections.abc import Sequence
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


def judged(of_arm: Tried) -> ArmWhy:
    """What is known of it."""
    found = why.judge(of_arm, ARMS)
    assert isinstance(found, ArmWhy)
    return found


def text(found: ArmWhy) -> str:
    """All that is said."""
    causes = words.causes(found) if found.causes else [words.nothing(found)]
    return "\n".join([words.where(found), *words.of_rank(found), *words.effects(found), *causes])


def test_a_cause_that_takes_half_of_the_step_is_the_first(wording: Wording) -> None:
    """With what would be gained, at most."""
    found = judged(tried({INPUT_READY: 0.5, NO_EXCHANGE: 0.9, "threads 1": 1.0}))

    assert [INPUT_READY, NO_EXCHANGE] == [cause.name for cause in found.causes]
    assert pytest.approx(STEP / 2, rel=0.02) == found.causes[0].seconds
    assert found.causes[0].lower < STEP / 2 < found.causes[0].upper
    wording("causes", text(found))


def test_nothing_is_found_where_nothing_changes(wording: Wording) -> None:
    """What can be gained at most is said: the end of the widest interval."""
    found = judged(tried({INPUT_READY: 1.0, NO_EXCHANGE: 1.0, "threads 1": 1.0}))

    assert [] == found.causes
    assert {"nothing above noise"} == {effect.decision for effect in found.effects.values()}
    assert all(1 - effect.lower / STEP == effect.most_gain < 0.05 for effect in found.effects.values())
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

    assert 1 == found.slowest_rank
    assert not any(cause.slows_computing for cause in found.causes)


def test_where_nothing_was_tried_nothing_is_said_of_noise(wording: Wording) -> None:
    """As of one process without a DataLoader, and with one thread."""
    wording("causes", text(judged(tried({}, absent={INPUT_READY: experiment.NO_LOADER}))))


def test_what_rank_0_does_alone_is_named_where_it_is_slow(wording: Wording) -> None:
    """As saving: others wait for it, and it need not be told to save on one rank."""
    saves = parts(seconds=PARTS | {"save": 0.02, "input": 0.019}, own_work=[[0.07], [0.05]])
    found = judged(tried({INPUT_READY: 1.0}, parts=saves))

    assert 0 == found.slowest_rank
    assert ["save"] == [cause.name for cause in found.causes]
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
        for number, each in enumerate(tried({INPUT_READY: 1.0}, rounds=12).rounds)
    ]
    found = judged(replace(tried({INPUT_READY: 1.0}), rounds=rounds))

    assert "between" == found.causes[0].name
    assert STEP == found.causes[0].upper


def test_a_slow_rank_is_said_of_this_run_and_is_no_cause(wording: Wording) -> None:
    """With one run nobody knows whether it is the script's, and what the others wait is no gain."""
    slow = parts(exchange=[0.030, 0.006], link=0.006, own_work=[[0.050], [0.078]])
    found = judged(tried({INPUT_READY: 1.0}, parts=slow))

    assert [] == found.causes
    assert 1 == found.slowest_rank
    assert pytest.approx(0.028) == found.slower_seconds
    wording("causes", text(found))


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


def test_collectives_that_wait_for_a_slow_rank_are_that_rank_s(wording: Wording) -> None:
    """One cause is not told twice."""
    slow = parts(seconds=PARTS | {"collective": 0.029}, own_work=[[0.050], [0.078]])
    found = judged(tried({INPUT_READY: 1.0}, parts=slow))

    assert [] == found.causes
    assert 1 == found.slowest_rank
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
    assert not why.is_enough(tried(narrow, rounds=6, wobble=[0.6, 1.4, 0.7, 1.3, 0.9, 1.1]), ARMS)


def test_distribution_gains_more_without_the_cause(wording: Wording) -> None:
    """Two arms of which one needs 1.2 times as long a row; without input 1.8 times."""
    native = tried({INPUT_READY: 0.5})
    baseline = tried({INPUT_READY: 0.75}, rows=64.0)
    slower = [
        replace(each, seconds={name: 1.2 * seconds for name, seconds in each.seconds.items()})
        for each in baseline.rounds
    ]
    found = why.distribution(native, replace(baseline, rounds=slower), INPUT_READY, ("native", "baseline"), ARMS)

    assert found is not None
    assert pytest.approx(1.2) == found.as_is
    assert pytest.approx(1.8) == found.changed
    assert found.lower < 1.8 < found.upper
    wording("causes", "\n".join(words.distributions([found])))


def test_distribution_counts_rows() -> None:
    """Two ranks that have a batch each make twice as many rows a step."""
    found = why.distribution(
        tried({INPUT_READY: 0.5}, rows=128.0), tried({INPUT_READY: 0.5}), INPUT_READY, ("a", "b"), ARMS
    )

    assert found is not None
    assert pytest.approx(2.0) == found.changed


def test_an_arm_without_an_exchange_has_it_taken_away() -> None:
    """A single process is compared as it is."""
    alone = tried({INPUT_READY: 1.0}, absent={NO_EXCHANGE: "it exchanges none"})
    found = why.distribution(tried({NO_EXCHANGE: 0.5}), alone, NO_EXCHANGE, ("a", "b"), ARMS)

    assert found is not None
    assert pytest.approx(2.0, rel=0.01) == found.changed
    assert why.distribution(alone, tried({NO_EXCHANGE: 0.5}), NO_EXCHANGE, ("a", "b"), ARMS) is None
    assert why.distribution(alone, replace(alone, rows=None), INPUT_READY, ("a", "b"), ARMS) is None


def test_everything_that_is_said_shares_one_error() -> None:
    """More arms have wider intervals, and those of a condition do not depend on how many an arm has."""
    one, several = tried({INPUT_READY: 0.5}), tried({INPUT_READY: 0.5, NO_EXCHANGE: 0.9, "threads 1": 1.0})
    first, second, more = why.judge(one, 1), why.judge(several, 1), why.judge(one, 4)

    assert isinstance(first, ArmWhy)
    assert isinstance(second, ArmWhy)
    assert isinstance(more, ArmWhy)
    assert first.effects[INPUT_READY].lower == second.effects[INPUT_READY].lower > more.effects[INPUT_READY].lower
    assert pytest.approx(0.05) == (1 - why.confidence(2)) * (2 * why.CLAIMS + len(why.DISTRIBUTED))


def test_how_two_runs_compare_is_in_no_interval() -> None:
    """Each arm ran once: an arm that is slower in all of its run moves the value, and the interval with it."""
    native, baseline = tried({INPUT_READY: 0.5}), tried({INPUT_READY: 0.75})
    slower = [
        replace(each, seconds={name: 1.2 * seconds for name, seconds in each.seconds.items()})
        for each in baseline.rounds
    ]
    names = ("native", "baseline")
    found = why.distribution(native, baseline, INPUT_READY, names, ARMS)
    moved = why.distribution(native, replace(baseline, rounds=slower), INPUT_READY, names, ARMS)

    assert found is not None
    assert moved is not None
    assert pytest.approx(1.2 * found.lower) == moved.lower
    assert pytest.approx(found.changed / found.as_is) == moved.changed / moved.as_is


def test_distribution_is_told_of_a_cause_of_one_of_both_arms() -> None:
    """And of no other, nor where one of them is not known."""
    arms = {"native": tried({INPUT_READY: 0.5, NO_EXCHANGE: 1.0}), "baseline": tried({INPUT_READY: 1.0})}
    known = {name: judged(arm) for name, arm in arms.items()}

    assert [INPUT_READY] == [each.condition for each in why.distributions(arms, known, ARMS)]
    assert [] == why.distributions(arms, {"native": known["native"]}, ARMS)
