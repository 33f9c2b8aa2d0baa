"""The parts of a step: the switch of the observer, and what is made of all ranks' parts."""

import contextlib
import threading
from typing import Any

import pytest

from tests.unit.script.test_facts import PARTS, rank
from training.workloads.script.observe.state import State
from training.workloads.script.observe.step_parts import (
    BETWEEN,
    CHANGING_GRADIENTS,
    COLLECTIVE,
    COMPUTE,
    EXCHANGE,
    INPUT,
    OPTIMIZER,
    OTHER_THREAD,
    SAVE,
    StepParts,
)
from training.workloads.script.step_parts import step_parts


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time that was set."""
        return self.now


NO_EXCHANGE = StepParts(Clock()).no_exchange
"""What it says before it has seen one."""


class Step:
    """Steps of a made-up script; each call takes the time that it is given."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.parts = StepParts(self.clock)
        self.parts.claim()

    def take(self, seconds: float) -> None:
        """Time goes by."""
        self.clock.now += seconds

    def play(self, script: str) -> dict[str, float]:
        """The parts of the last step: a number is seconds, `(input … )` a call of a part, `|` a step's end; other words
        are what the observer is told."""
        for word in script.split():
            if word.isdigit():
                self.take(int(word))
            elif word == "|":
                self.end()
            elif word == ")":
                self.parts.leave()
            elif word.startswith("("):
                self.parts.enter(word[1:])
            elif word == "synchronises":
                self.parts.synchronises = True
            elif word == "computes":
                self.parts.become(COMPUTE)
            else:
                getattr(self.parts, word)()
        return self.end()

    def end(self) -> dict[str, float]:
        """End the step; the parts that took time."""
        self.parts.end_step(self.clock.now)
        return {part: round(steps[-1], 9) for part, steps in self.parts.of_steps.items() if steps[-1]}


@pytest.fixture
def step() -> Step:
    """A script before its first step."""
    return Step()


@pytest.mark.parametrize(
    ("script", "parts"),
    [
        pytest.param(
            "(input 1 ) deliver 2 synchronises enter_backward 4 gradient 8 leave_backward"
            " (optimizer (collective 16 ) 32 )",
            {INPUT: 1, COMPUTE: 6, EXCHANGE: 8, COLLECTIVE: 16, OPTIMIZER: 32},
            id="calls in calls",
        ),
        pytest.param(
            "| 1 (save 2 ) (between 4 ) (input 8 ) deliver 16",
            {BETWEEN: 5, SAVE: 2, INPUT: 8, COMPUTE: 16},
            id="a checkpoint and a validation lie between, until a batch is delivered",
        ),
        pytest.param(
            "begin_pass deliver (input 1 ) deliver | (input 2 end_pass ) 4",
            {INPUT: 2, COMPUTE: 4},
            id="a loader that was read ahead ends before its last step",
        ),
        pytest.param(
            "begin_pass deliver | (input 1 end_pass ) 2",
            {INPUT: 1, BETWEEN: 2},
            id="a loader that ends after its last step leaves nothing to compute with",
        ),
        pytest.param("(optimizer 1 | 2", {BETWEEN: 2}, id="an exception left a call, which ends with the step"),
        pytest.param(
            "(optimizer computes 1 enter_backward 2 gradient 4 leave_backward 8 ) 16",
            {COMPUTE: 23, OPTIMIZER: 8},
            id="a closure, as Lightning passes, computes in the optimizer's step",
        ),
        pytest.param(
            "synchronises enter_backward enter_backward 1 gradient 2 leave_backward gradient 4 leave_backward",
            {COMPUTE: 3, EXCHANGE: 4},
            id="checkpointing: gradients of a backward in a backward are not the last",
        ),
        pytest.param(
            "synchronises enter_backward 1 | gradient 2 leave_backward 4",
            {BETWEEN: 6},
            id="an optimizer that steps in a backward leaves nothing behind",
        ),
    ],
)
def test_each_moment_of_a_step_belongs_to_one_part(step: Step, script: str, parts: dict[str, float]) -> None:
    """Whatever is nested in what; the parts of all steps sum to the time that went by."""
    assert parts == step.play(script)
    assert step.clock.now == sum(seconds for steps in step.parts.of_steps.values() for seconds in steps)


@pytest.mark.parametrize(
    ("script", "parts", "no_exchange"),
    [
        pytest.param(
            "deliver enter_backward 4 gradient 8 leave_backward",
            {COMPUTE: 12},
            NO_EXCHANGE,
            id="within no_sync, or without DistributedDataParallel",
        ),
        pytest.param(
            "synchronises enter_backward 1 leave_backward | synchronises enter_backward 1 gradient 2 leave_backward",
            {COMPUTE: 1, EXCHANGE: 2},
            CHANGING_GRADIENTS,
            id="the last gradient of a step was not seen, so the hooks say nothing of any",
        ),
        pytest.param(
            "synchronises enter_backward 1 leave_backward enter_backward 1 gradient 2 leave_backward",
            {COMPUTE: 2, EXCHANGE: 2},
            "",
            id="an auxiliary loss of a model that is not distributed takes no exchange away",
        ),
    ],
)
def test_why_an_exchange_is_not_known(step: Step, script: str, parts: dict[str, float], no_exchange: str) -> None:
    """A backward that exchanges nothing computes."""
    assert parts == step.play(script)
    assert no_exchange == step.parts.no_exchange


def test_forgotten_steps_make_room_for_later_ones(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a run in which conditions are tried, and reads each step once. More are not kept: each takes memory of the
    script's process."""
    monkeypatch.setattr("training.workloads.script.observe.step_parts.MOST_STEPS", 2)
    for seconds in (1, 2, 4):
        step.take(seconds)
        step.end()
    step.parts.forget(1)
    step.take(8)
    step.end()

    assert [2, 8] == list(step.parts.of_steps[BETWEEN])
    step.parts.forget(1)
    assert {2} == {len(steps) for steps in step.parts.of_steps.values()}


def test_a_call_in_another_thread_is_no_part_of_the_step() -> None:
    """Nor is one that began before it was known which thread steps; one that fails has ended."""
    now, step = State(), Step()
    now.parts = step.parts = StepParts(step.clock)
    with now.part(SAVE):
        now.parts.claim()
        step.take(1)

    def save() -> None:
        with now.part(SAVE):
            step.take(2)

    other = threading.Thread(target=save)
    other.start()
    other.join()
    assert {BETWEEN: 3} == step.end()
    with contextlib.suppress(OSError), now.part(SAVE):
        step.take(3)
        raise OSError
    step.take(4)
    assert {SAVE: 3, BETWEEN: 4} == step.end()


def test_batches_that_another_thread_reads_are_no_input() -> None:
    """The wait for them is between steps, and the reason says so; from the first batch on."""
    step = Step()
    step.parts = StepParts(step.clock)
    for read in (step.parts.begin_pass, step.parts.deliver):
        reader = threading.Thread(target=read)
        reader.start()
        reader.join()
    step.parts.claim()
    step.take(1)

    assert OTHER_THREAD == step.parts.no_input
    assert {BETWEEN: 1} == step.end()
    later = threading.Thread(target=step.parts.deliver)
    later.start()
    later.join()
    step.take(2)
    assert {BETWEEN: 2} == step.end()


def test_batches_before_the_first_step_count_for_the_thread_that_steps() -> None:
    """A loader that is read ahead has delivered two by then."""
    step = Step()
    step.parts = StepParts(step.clock)
    step.parts.begin_pass()
    step.parts.deliver()
    step.parts.deliver()
    step.parts.claim()
    step.end()
    step.parts.enter(INPUT)
    step.parts.end_pass()
    step.parts.leave()
    step.take(4)

    assert "" == step.parts.no_input
    assert {COMPUTE: 4} == step.end()


def with_parts(number: int, world: int, **microseconds: list[int]) -> Any:
    """A rank with these parts of its steps; the others as in PARTS."""
    steps = len(next(iter(microseconds.values())))
    parts = {part: microseconds.get(part, [each] * steps) for part, each in PARTS.items()}
    return rank(
        number, world, steps=steps, parts={"microseconds": parts, "noParts": "", "noInput": "", "noExchange": ""}
    )


def test_the_link_is_the_least_exchange_of_each_step() -> None:
    """What the others take longer they wait, also where another rank is the slowest in each step."""
    ranks = [
        with_parts(0, 2, exchange=[0, 10_000, 30_000, 10_000]),
        with_parts(1, 2, exchange=[0, 40_000, 10_000, 20_000]),
    ]
    parts = step_parts([of_rank.parts for of_rank in ranks], [1, 2, 3])

    assert parts is not None
    assert pytest.approx(0.01) == parts.link
    assert pytest.approx([0.02 / 3, 0.04 / 3]) == [parts.waiting(0), parts.waiting(1)]


def test_a_rank_s_own_work_is_without_exchange_and_collectives() -> None:
    """In those it waits for others. Every timed step is in a block of it: of 19 steps the last nine, too."""
    waits = {"collective": [0, 7, 7], "report": [0, 9, 9]}
    slow_end = [0, *[0] * 10, *[1_000_000] * 9]
    parts = step_parts([with_parts(0, 1, compute=[0, 100_000, 100_000], **waits).parts], [1, 2])
    blocks = step_parts([with_parts(0, 1, compute=slow_end).parts], list(range(1, 20)))

    assert parts is not None
    assert blocks is not None
    assert pytest.approx([0.4, 0.4]) == parts.own_work[0]
    assert 10 == len(blocks.own_work[0])
    assert blocks.own_work[0][-1] - blocks.own_work[0][0] == pytest.approx(1.0)


def test_parts_that_are_not_told_apart_are_left_out() -> None:
    """They are no zeros."""
    parts = step_parts([rank(0, 1).parts], [1, 2, 3])

    assert parts is not None
    assert "exchange" not in parts.seconds
    assert parts.link is None
    assert [] == parts.exchange
    assert parts.waiting(0) is None


def test_ranks_without_parts_have_none() -> None:
    """A Keras script, steps that were made too late to be kept, and an accelerator, whose kernels run after the calls
    that start them have returned."""
    gpu = {"microseconds": {part: [1, 1] for part in PARTS}, "noParts": "gpu", "noInput": "", "noExchange": ""}

    assert step_parts([], [1]) is None
    assert step_parts([rank(0, 1, framework="keras").parts], [1]) is None
    assert step_parts([rank(0, 1, steps=4).parts], [4]) is None
    assert step_parts([rank(0, 1, steps=2, parts=gpu).parts], [1]) is None
