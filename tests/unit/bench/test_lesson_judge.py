"""What may be said of a lesson's repeats, and when nothing may be: from made-up numbers."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.lesson import table
from bench.lesson.table import BreakEven
from bench.lesson.ways import BATCHES, EACH, EXECUTOR, LENGTHS, LOOP, POOL, RAY, START
from tests.golden import Wording
from tests.unit.bench.lessons import CPUS, EACH_COSTS, repeat, repeats, use
from training.contract.cpu_use import MachineUse

LOOPS = {length.name: length.seconds for length in LENGTHS}


def takes(cost: float, speed: float = 2.0) -> dict[str, float]:
    """Seconds of a task with a way that costs so much a task."""
    return {name: seconds / speed + cost for name, seconds in LOOPS.items()}


@pytest.mark.parametrize("cost", [0.0002, 0.0007, 0.004, 0.3])
def test_the_break_even_is_where_both_take_as_long(cost: float) -> None:
    """Half of a task's length on two CPUs, and the cost: the loop takes as long for tasks of twice the cost."""
    assert 2 * cost == pytest.approx(table.break_even(LOOPS, takes(cost)))


@pytest.mark.parametrize(
    ("way", "seconds"),
    [
        (takes(0.00001), 0.0),
        (takes(0.6), math.inf),
        (takes(0.0002, speed=1.0), math.inf),
        (takes(0.00001) | {"10 ms": 0.011}, 0.01 + 0.09 * 0.001 / (0.001 + 0.04999)),
    ],
    ids=["always faster", "too dear", "one CPU", "slower again"],
)
def test_where_it_lies_beyond_the_lengths_there_is_no_number(way: dict[str, float], seconds: float) -> None:
    """And a length at which it is slower again comes before it."""
    assert seconds == pytest.approx(table.break_even(LOOPS, way))


def test_a_break_even_has_an_interval_over_the_repeats() -> None:
    """The truth of these numbers is within; what they differ by is its width."""
    even = table.judge(repeats()).break_evens[RAY][EACH]
    truth = EACH_COSTS[RAY] / (1 - 1 / 1.96)

    assert "at" == even.where
    assert even.seconds is not None
    assert even.seconds.lower < truth < even.seconds.upper
    assert 0.03 < even.seconds.upper / even.seconds.lower - 1 < 0.15


def test_a_break_even_beyond_the_lengths_is_a_side() -> None:
    """In batches tasks of any length gain; costs of a second are too much for all; with both nothing is decided."""
    dear, free = dict.fromkeys(EACH_COSTS, 1.0), dict.fromkeys(EACH_COSTS, 0.0)
    mixed = [*repeats(costs=free)[:4], repeat(costs=dear)]

    assert "below" == table.judge(repeats()).break_evens[RAY][BATCHES].where
    assert "above" == table.judge(repeats(costs=dear)).break_evens[RAY][EACH].where
    assert BreakEven(where="not decided") == table.judge(mixed).break_evens[RAY][EACH]


@pytest.mark.parametrize(("beyond", "where", "of_all"), [(0.0, "at most", max), (1.0, "at least", min)])
def test_a_break_even_beyond_the_lengths_in_some_repeats_is_a_bound(
    beyond: float, where: str, of_all: Callable[[list[float]], float]
) -> None:
    """The longest or the shortest of the others: half of all repeats are expected beyond it."""
    others = repeats()[:4]
    evens = [table.break_even(one.blocks[LOOP].tasks[EACH], one.blocks[RAY].tasks[EACH]) for one in others]
    even = table.judge([*others, repeat(costs=dict.fromkeys(EACH_COSTS, beyond))]).break_evens[RAY][EACH]

    assert BreakEven(where=where, bound=of_all(evens)) == even  # type: ignore[arg-type]


def test_ratios_are_taken_within_a_repeat() -> None:
    """A machine that is twice as slow in one repeat changes no speedup."""
    slow = repeat()
    blocks = {
        way: replace(
            block,
            tasks={shape: {name: 2 * seconds for name, seconds in of.items()} for shape, of in block.tasks.items()},
        )
        for way, block in slow.blocks.items()
    }
    drifted = [repeat(), repeat(), replace(slow, blocks=blocks)]
    speedup = table.judge(drifted).speedups[RAY][EACH]["1 s"]

    assert [1 / (1 / 1.96 + 0.0007)] * 3 == pytest.approx([speedup.lower, speedup.centre, speedup.upper])


def test_costs_have_intervals_too() -> None:
    """In seconds, of what a way has: a loop has no start."""
    costs = table.judge(repeats()).costs

    assert costs[RAY][START].lower < 3.2 < costs[RAY][START].upper
    assert START not in costs[LOOP]
    assert set(costs[POOL]) == set(costs[EXECUTOR])


@pytest.mark.parametrize(
    ("machine", "waited", "is_quiet"),
    [
        (use(others=0.09), 0.0, True),
        (use(others=0.6), 0.0, False),
        (use(stolen=0.3), 0.0, False),
        (None, 0.0, True),
        (None, 0.3, False),
        (use(), 0.04, True),
        (use(), 0.06, False),
    ],
)
def test_of_a_machine_that_was_not_quiet_nothing_is_concluded(
    machine: MachineUse | None, waited: float, is_quiet: bool, wording: Wording
) -> None:
    """One disturbed repeat is enough; a system that says nothing of others still says what the loop waited."""
    reasons = table.refusals([*repeats()[:4], repeat(machine=machine, waited=waited)], CPUS)

    assert [] == reasons if is_quiet else len(reasons) == 1
    assert is_quiet or " 5 " in reasons[0]
    wording(
        "lesson", "\n".join(reasons) or "(nothing)", f"{machine and (machine.other_cpus, machine.stolen_cpus)} {waited}"
    )


@pytest.mark.parametrize(("speed", "is_possible"), [(1.96, True), (2.004, True), (2.03, False), (2.6, False)])
def test_a_speedup_above_the_cpus_is_not_believed(speed: float, is_possible: bool, wording: Wording) -> None:
    """Two CPUs do no more than twice as much: the loop was slowed. An interval that holds 2 may be chance."""
    measured = [repeat(speed=speed * wobble) for wobble in (0.99, 1.0, 1.01, 0.995, 1.005)]
    reasons = table.refusals(measured, CPUS)

    assert [] == reasons if is_possible else len(reasons) == 1
    assert [] == table.refusals(measured, 4)
    if reasons:
        wording("lesson", reasons[0], str(speed))


def test_two_repeats_are_too_few(wording: Wording) -> None:
    """Their interval would be wider than anything that it could say; repeats that differ a lot are no reason to believe
    a mean far above the CPUs."""
    (reason,) = table.refusals(repeats()[:2], CPUS)

    assert [] == table.refusals(repeats()[:3], CPUS)
    assert 1 == len(table.refusals([repeat(speed=speed) for speed in (1.6, 3.4, 1.9)], CPUS))
    wording("lesson", reason)
