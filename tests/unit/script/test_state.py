"""Which data set a script is trained on, where it reads several: what reaches it, and when, decides."""

import base64
import json
import sys
import threading
import time
import weakref
import zlib
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from training.contract.progress import describe, read_new
from training.launch import usage as of_the_project
from training.workloads.script.observe import booster_rounds, live, own_rank, state, usage
from training.workloads.script.observe.loaders import Loader
from training.workloads.script.observe.state import State

TRAIN, TEST, MORE = 32, 100, 8
"""Rows of a batch, by which data sets are told apart."""


@pytest.mark.parametrize(
    ("epoch", "rows"),
    [
        ([TRAIN, "step"], TRAIN),
        ([TRAIN, "step", TEST], TRAIN),
        ([TRAIN, TEST, "step"], TRAIN),
        ([TRAIN, "step", TRAIN, "step", TEST, TEST, TEST], 2 * TRAIN),
        ([TRAIN, TRAIN, "step"], 2 * TRAIN),
        ([TRAIN, "step", "step"], TRAIN),
        ([TRAIN, MORE, "step"], TRAIN),
    ],
    ids=[
        "one", "a test after each step", "a test before each step", "a test after an epoch", "gradient accumulation",
        "two steps of a batch", "two sets to learn from",
    ],
)  # fmt: skip
def test_rows_are_those_of_the_training(epoch: list[int | str], rows: int) -> None:
    """Read before each step or after it, larger or smaller: `rows` of an epoch are those of what it learned from."""
    state = State()
    for word in epoch * 6:
        if isinstance(word, int):
            loader = state.loaders.setdefault(word, Loader(None, None, None))
            loader.deliver(word)
            state.deliver(loader)
        else:
            state.step(0)
    counted = state.to_dict()["rowsAtStep"]

    assert 6 * rows == counted[-1]
    assert len(state.step_ends) == len(counted)


def test_what_another_thread_reads_is_of_no_step() -> None:
    """It reads ahead: its rows and passes lie before the step that learns from them, and no step waits for it."""
    observed, loader = State(), Loader(None, None, None)
    observed.loaders[0] = loader
    loader.begin(0, learning=True)
    loader.deliver(TRAIN)
    observed.deliver(loader)
    observed.step(0)
    of_steps = observed.to_dict()["rowsAtStep"]

    def read() -> None:
        with observed.hook():
            loader.deliver(TRAIN)
            observed.deliver(loader)
            observed.take_time(lambda: time.sleep(0.05))

    before = observed.hook_seconds, observed.own_seconds
    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    after, written = (observed.hook_seconds, observed.own_seconds), observed.to_dict()

    assert [TRAIN] == of_steps
    assert before == after
    assert (None, None, True) == (written["rowsAtStep"], written["passes"], written["rowsAhead"])


def of_rows() -> tuple[State, Loader]:
    """A rank that reads four of eight rows by one loader."""
    state, loader = State(), Loader(8, 4, 2)
    state.loaders[0] = loader
    return state, loader


def read(state: State, loader: Loader, batches: list[list[int]], *, steps: bool = True, finish: bool = True) -> None:
    """A pass over these batches, each given by the numbers of its rows; a step after each."""
    begun = loader.begin(len(state.step_ends), learning=True)
    for numbers in batches:
        loader.deliver(len(numbers), numbers)
        state.deliver(loader)
        if steps:
            state.step(0)
    if finish:
        loader.end(begun, len(state.step_ends))


def marked(state: State) -> list[tuple[int, int, list[int]]]:
    """Steps before it, rows drawn and rows of each pass whose rows are told."""
    return [
        (start, drawn, [row for row, mark in enumerate(zlib.decompress(base64.b64decode(rows))) if mark])
        for start, drawn, rows in state.to_dict()["markedPasses"]
    ]


@pytest.mark.parametrize("looks", [1, 2, 3])
@pytest.mark.parametrize("whole", [False, True], ids=["a batch", "a pass"])
@pytest.mark.parametrize("before", [0, 1], ids=["at first", "after an epoch"])
def test_what_is_only_looked_at_is_no_pass(before: int, whole: bool, looks: int) -> None:
    """A shape, a picture, a mean, with gradients on: of rows that this rank does not train on."""
    state, loader = of_rows()
    for _ in range(before):
        read(state, loader, [[0, 1], [2, 3]])
    for _ in range(looks):
        read(state, loader, [[4, 5], [6, 7]] if whole else [[6, 7]], steps=False, finish=whole)
    read(state, loader, [[0, 1], [2, 3]])
    told = state.to_dict()

    assert [0, 2][: before + 1] == [start for start, *_ in marked(state)]
    assert {(4, (0, 1, 2, 3))} == {(drawn, tuple(rows)) for _, drawn, rows in marked(state)}
    assert 4 * (before + 1) == told["rowsAtStep"][-1]
    assert [[0, True], [2, True]][: before + 1] == told["passes"]


def test_a_batch_that_the_model_saw_in_training_was_more_than_looked_at() -> None:
    """Gradients are gathered over several iterators before a step."""
    state, loader = of_rows()
    read(state, loader, [[0, 1]], steps=False, finish=False)
    loader.in_training += 1
    read(state, loader, [[2, 3]], finish=False)

    assert [4] == state.to_dict()["rowsAtStep"]


@pytest.mark.parametrize("learned", [False, True], ids=["looked at", "learned from"])
@pytest.mark.parametrize("epochs", range(1, 9))
def test_what_is_read_last_hides_no_pass_before_it(epochs: int, learned: bool) -> None:
    """Whatever number it would have: the accuracy on all rows, after an epoch of the wrong ones. What is right at first
    may go wrong, so rows are told of the first pass, of the last of 2, 4, 8, …, and of the last of all."""
    state, loader = of_rows()
    for epoch in range(epochs):
        read(state, loader, [[epoch], [epoch]])
    before = marked(state)
    read(state, loader, [list(range(8))], steps=False)
    loader.in_training += learned

    assert before == marked(state)
    amid = [2**each - 1 for each in (0, 1, 2, 3) if 2**each <= epochs][-1]
    assert [(2 * epoch, 2, [epoch]) for epoch in sorted({0, amid, epochs - 1})] == before


@pytest.mark.parametrize("finish", [True, False])
def test_what_is_looked_at_amid_a_pass_is_none_of_it(finish: bool) -> None:
    """The accuracy on all rows every few steps, with gradients on: the pass goes on then."""
    state, loader = of_rows()
    for _ in range(4):
        begun = loader.begin(len(state.step_ends), learning=True)
        for numbers in ([0, 1], [2, 3]):
            loader.go_on(begun, len(state.step_ends))
            loader.deliver(2, numbers, begun)
            state.deliver(loader)
            state.step(0)
            if numbers[0] == 0:
                read(state, loader, [list(range(8))], steps=False, finish=finish)
        loader.end(begun, len(state.step_ends))
    told = state.to_dict()

    assert [(0, 4, [0, 1, 2, 3]), (6, 4, [0, 1, 2, 3])] == marked(state)
    assert [2, 4, 6, 8, 10, 12, 14, 16] == told["rowsAtStep"]
    assert [[0, True], [2, True], [4, True], [6, True]] == told["passes"]


def test_passes_before_the_same_step_are_told_apart() -> None:
    """One rank alone may have one more, and its later ones are still those of the others."""
    state, loader = of_rows()
    for epoch in range(4):
        read(state, loader, [[epoch], [epoch]])
        if epoch == 0:
            read(state, loader, [[7]], steps=False, finish=False)
            loader.in_training += 1

    assert [(0, 2, [0]), (6, 2, [3])] == marked(state)


@pytest.mark.parametrize("twice", [False, True])
def test_what_entered_the_model_was_more_than_looked_at(twice: bool) -> None:
    """Of a batch that is made another tensor first it is not seen that it did; that something was trained on is."""
    state, loader = of_rows()
    read(state, loader, [[0], [1]])
    begun = loader.begin(2, True, 20)
    loader.deliver(1, [2], begun)
    begun = loader.begin(2, True, 20 + 10 * twice)
    loader.deliver(1, [3], begun)
    state.deliver(loader)
    state.step(0)

    assert [(2, 1, [2])] * twice + [(2, 1, [3])] == marked(state)[1:]


@pytest.mark.parametrize("passes", [8, 9])
def test_many_passes_a_step_are_not_told_apart(passes: int) -> None:
    """Each is a byte a row."""
    state, loader = of_rows()
    for _ in range(passes):
        read(state, loader, [[1]], steps=False)
        loader.in_training += 1
    state.step(0)

    assert (8 if passes == 8 else None) == (len(marked(state)) if state.to_dict()["markedPasses"] else None)


def test_two_passes_that_take_turns_are_both_told() -> None:
    """Two views of one data set, each by a loader of its own: the second is no reason to forget the first."""
    state, loader = of_rows()
    begun: dict[int, Any] = {}
    for row in (0, 1, 2):
        for view in (0, 4):
            if view in begun:
                loader.go_on(begun[view], len(state.step_ends))
            else:
                begun[view] = loader.begin(len(state.step_ends), learning=True)
            loader.deliver(1, [view + row], begun[view])
            state.deliver(loader)
        state.step(0)

    assert [[0, 1, 2], [4, 5, 6]] == sorted(rows for *_, rows in marked(state))


@pytest.mark.parametrize("every", [1, 3])
def test_another_data_set_in_the_steps_makes_rows_those_of_one(every: int) -> None:
    """A validation with gradients on is read between two steps as a whole."""
    state, others = State(), []
    loader, other = (state.loaders.setdefault(number, Loader(8, 4, 2)) for number in (0, 1))
    for epoch in range(2):
        begun = loader.begin(3 * epoch, learning=True)
        more = other.begin(3 * epoch, learning=True)
        for step in range(3):
            for each in [loader] + [other] * (step % every == 0):
                each.deliver(1, [step])
                state.deliver(each)
            state.step(0)
        loader.end(begun, len(state.step_ends))
        other.end(more, len(state.step_ends))
        others.append(state.to_dict()["rowsOfAllSteps"])

    assert [every == 3] * 2 == others


def test_a_data_set_of_some_steps_tells_no_epochs() -> None:
    """Another one was read for the others: its passes are not the run's."""
    state = State()
    for number in (0, 1):
        loader = state.loaders.setdefault(number, Loader(8, 4, 2))
        read(state, loader, [[0, 1], [2, 3]])
    told = state.to_dict()

    assert (False, None) == (told["rowsOfAllSteps"], told["passes"])


@pytest.mark.parametrize(("freed", "seen"), [(False, 1), (True, 0)])
def test_a_batch_that_was_freed_enters_no_model(freed: bool, seen: int) -> None:
    """Its address is given again, to anything."""
    observed, loader = State(), Loader(None, None, None)
    observed.deliver(loader, {4096: lambda: freed})
    observed.enters(4096, training=True)

    assert seen == loader.in_training


class Clock:
    """Stands for the module `time`: a monotonic clock that goes on by what a step takes."""

    def __init__(self, step_seconds: float) -> None:
        self.now, self.step_seconds = 100.0, step_seconds

    def monotonic(self) -> float:
        """A step later."""
        self.now += self.step_seconds
        return self.now

    def time(self) -> float:
        """Of the wall."""
        return self.now

    def perf_counter(self) -> float:
        """The observer itself takes no time."""
        return self.now

    def process_time(self) -> float:
        """Half a CPU is in use."""
        return self.now / 2


def between(times: list[float]) -> list[float]:
    """Each less the one before."""
    return [after - before for before, after in pairwise(times)]


@pytest.fixture
def half_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step takes half a second, and half of that on a CPU."""
    clock = Clock(0.5)
    for module in (state, usage):
        monkeypatch.setattr(module, "time", clock)


@pytest.mark.usefixtures("half_seconds")
def test_cpu_time_is_sampled_once_a_second() -> None:
    """And read at every step. What is done at the end, as a look at the memory, is the observer's time, and not the
    script's."""
    observed = State()
    for _ in range(9):
        observed.step(0)
    observed.end_training()

    assert pytest.approx([0.25] * 8) == between(observed.usage.cpu_at_step)
    assert [1.0, 2.0, 3.0, 4.0] == [at for at, _, _ in observed.usage.samples]
    assert {0.5} == {cpus for _, cpus, _ in observed.usage.samples}
    assert all(resident > 1e6 for _, _, resident in observed.usage.samples)
    assert observed.peak_memory_bytes is not None
    assert 0.5 == pytest.approx(observed.own_seconds)


@pytest.mark.usefixtures("half_seconds")
def test_a_long_training_has_fewer_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the whole of it."""
    monkeypatch.setattr(usage, "MOST_SAMPLES", 8)
    observed = State()
    for _ in range(200):
        observed.step(0)
    times = [at for at, _, _ in observed.usage.samples]

    assert 4 <= len(times) <= 8
    assert times[-1] > 80


def test_the_peak_of_memory_is_what_the_project_says_of_its_own_processes() -> None:
    """The observer has nothing of the project in the user's Python."""
    assert of_the_project.peak_memory_bytes() == usage.peak_memory_bytes()


def test_the_threads_of_a_process_are_told_by_their_cpus() -> None:
    """With the CPU time of those that may use the same ones."""
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass
    found = usage.thread_cpus() or []

    assert sum(seconds for _, seconds in found) >= 0.03
    assert all(cpus == sorted(cpus) for cpus, _ in found)


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that progress is written into."""
    monkeypatch.setenv(live.PROGRESS, str(tmp_path / "progress.jsonl"))
    return tmp_path / "progress.jsonl"


def described(lines: Path) -> list[str]:
    """What people read."""
    return [describe(event) for event in read_new(lines, 0)[0]]


@pytest.mark.usefixtures("half_seconds")
@pytest.mark.parametrize(
    ("epochs", "wanted", "expected"),
    [
        ("3", "", ["epoch 1/3, step 5/8  10 s left", "epoch 2/3, step 1/8  8 s left", "epoch 2/3, step 4/8  7 s left"]),
        ("", "", ["epoch 1, step 5/8", "epoch 2, step 1/8", "epoch 2, step 4/8"]),
        ("", "16", ["epoch 1, step 5/8  6 s left", "epoch 2, step 1/8  4 s left", "epoch 2, step 4/8  2 s left"]),
    ],
)
def test_progress_is_told_by_epochs(
    lines: Path, monkeypatch: pytest.MonkeyPatch, epochs: str, wanted: str, expected: list[str]
) -> None:
    """Every other second at first, of rank 0, whose loader says how long an epoch is."""
    monkeypatch.setenv(live.EPOCHS, epochs)
    monkeypatch.setenv(state.STEPS, wanted)
    observed = State()
    loader = observed.loaders.setdefault(0, Loader(256, 256, 8))
    for _ in range(12):
        loader.deliver(32)
        observed.deliver(loader)
        observed.step(0)

    assert expected[:2] == described(lines)[:2]
    observed.end_training()
    assert expected[2] == described(lines)[-1]


@pytest.mark.usefixtures("half_seconds")
def test_progress_is_told_by_steps_where_no_epoch_is_known(lines: Path) -> None:
    """Of a stream of rows, and of boosters, whose step is an epoch. Other ranks tell nothing: a run has one file."""
    other, observed = State(), State()
    other.rank = 1
    for _ in range(30):
        other.step(0)
    assert not lines.exists()
    for _ in range(5):
        observed.step(0)
    observed.loaders[0] = Loader(None, 100, None)
    observed.all_steps = 10
    for _ in range(4):
        observed.loaders[0].deliver(100)
        observed.deliver(observed.loaders[0])
        observed.step(0)

    assert ["step 5", "step 9/10  0 s left"] == described(lines)  # not prose: a line of progress


def test_a_step_counts_where_progress_cannot_be_written(lines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rank has to end after the same one, and rank 0 alone writes."""
    lines.mkdir()
    monkeypatch.setattr(live, "SHORTEST_PAUSE", 0.0)
    monkeypatch.setattr(live, "LONGEST_PAUSE", 0.0)
    observed: Any = State()

    assert [True] * 3 == [observed.step(0) for _ in range(3)]
    assert 3 == len(json.loads(json.dumps(observed.to_dict()))["stepEnds"])


def test_the_same_rows_have_the_same_sums_in_any_order() -> None:
    """Of every pass, and others have none of them; numbers in a part of a data set are other rows on every rank."""
    told: list[Any] = []
    snakes = [[0, 3, 5, 6]], [[1, 2], [4, 7]]  # their numbers have the same sum, and these squared, too
    for order, is_part in (
        ([[3, 0], [1]], False),
        ([[1], [0, 3]], False),
        *((each, False) for each in snakes),
        ([[0]], True),
    ):
        observed, loader = State(), Loader(8, 4, 2)
        observed.loaders[0], loader.is_part = loader, is_part
        for _ in range(2):
            read(observed, loader, order)
        told.append(observed.to_dict()["passSums"])

    assert [[0, 3], [2, 3]] == [each[:2] for each in told[0]]
    assert told[0] == told[1]
    assert told[2][0][1] == told[3][0][1] == 4
    assert told[2][0] != told[3][0]
    assert told[4] is None


def test_a_data_set_is_kept_no_longer_than_rows_wait_to_be_marked() -> None:
    """A part of another holds its numbers: they go with it, and what waits is marked before another one is read."""

    class Part:
        """Has the rows from 4 on."""

        def below(self, numbers: Any) -> list[int]:
            """Their numbers in the whole."""
            return [4 + number for number in numbers]

    observed, loader, part = State(), Loader(8, 4, 2), Part()
    reference = weakref.ref(part)
    loader.below = lambda: reference().below  # type: ignore[union-attr]
    observed.add(0, loader)
    read(observed, loader, [[0, 1], [2]])
    del part
    while_waiting = reference() is not None
    observed.add(1, Loader(8, 4, 2))

    assert (True, None) == (while_waiting, reference())
    assert [(0, 3, [4, 5, 6])] == marked(observed)


def test_many_data_sets_are_not_all_remembered() -> None:
    """One for each step: they take no more memory and time the longer it goes on, and the one of all steps stays."""
    observed, main = State(), Loader(8, 4, 2)
    observed.add(-1, main)
    for number in range(3 * state.MOST_LOADERS):
        validated = Loader(8, 4, 2)
        observed.add(number, validated)
        validated.begin(number, learning=False)
        main.deliver(1, [0])
        observed.deliver(main)
        observed.step(0)
    written = observed.to_dict()

    assert state.MOST_LOADERS == len(observed.loaders)
    assert (3 * state.MOST_LOADERS, True) == (written["validations"], written["rowsOfAllSteps"])
    assert observed.training() is main


def test_a_metric_of_a_rank_s_own_rows_is_none_of_the_script_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """LightGBM's of the training set, where this project divides its rows: no target is reached by it."""
    env = SimpleNamespace(params={"num_machines": 2}, model=SimpleNamespace(_train_data_name="training"))
    before = booster_rounds._is_of_all(env, "training")
    monkeypatch.setitem(sys.modules, own_rank.SPREAD, ModuleType(own_rank.SPREAD))

    assert before
    assert booster_rounds._is_of_all(env, "valid_0")
    assert not booster_rounds._is_of_all(env, "training")


def test_arms_may_make_the_same_trees_in_different_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """With other threads, ports or devices; every parameter that is none of a place is compared."""
    monkeypatch.setattr(state, "_states", [State()])
    places: dict[str, Any] = dict.fromkeys(booster_rounds.OF_A_PLACE, 1)
    assert {"device", "nthread", "num_threads", "machines"} <= places.keys()
    booster_rounds._note_work({**places, "eta": 0.1, "max_depth": 3}, 5, 8)

    assert "eta=0.1 max_depth=3" == state.current().work.booster_parameters
