"""The guard around the observer's hooks: a failure of one is said, and the script's call is made once, as it is."""

import ast
import inspect
import pickle
import signal
import sys
import traceback
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy
import pytest

from training.workloads.script import work_items
from training.workloads.script.environment import SITE
from training.workloads.script.observe import guard, hooks, keras_steps, state
from training.workloads.script.observe.reports import number

OBSERVER = sorted(SITE.parent.glob("*.py"))
OWN_REASONS = {"guard", "in_pod", "gpu_use", "torch_steps", "torch_experiment", "ray_data", "reports"}
"""Modules that catch an error of theirs because they have a better reason to give, or another way."""
NUMBERS = {"stepParts", "dataWaitSeconds", "metrics", "meanCpus", "peakMemoryBytes"}
"""What hooks lose besides items of the same work."""
FRAMEWORKS = ("module.", "base.", "parallel.")
"""Names that observers have for what is a framework's."""
BY_HOOK = sorted(guard.hooks)


class PlantedError(Exception):
    """The observer's own error."""

    def __repr__(self) -> str:
        raise ValueError("it has no text")


def planted(*_: Any, **__: Any) -> Any:
    """Fail, as a hook that is no generator function does."""
    raise PlantedError


@pytest.fixture(autouse=True)
def observed(monkeypatch: pytest.MonkeyPatch) -> state.State:
    """The state of a process that has seen nothing."""
    monkeypatch.setattr(state, "_write_at_end", lambda: None)
    monkeypatch.setattr(state, "_states", [state.State()])
    return state.current()


def failing(name: str, monkeypatch: pytest.MonkeyPatch, *, after: bool = False) -> guard.Hook:
    """The hook, which fails."""

    def around(*_: Any, **__: Any) -> Iterator[None]:
        if not after:
            raise PlantedError
        yield
        raise PlantedError

    hook = guard.hooks[name]
    monkeypatch.setattr(hook, "look", around if isinstance(hook, guard.Around) else planted)
    return hook


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", [name for name in BY_HOOK if isinstance(guard.hooks[name], guard.Around)])
def test_a_call_is_made_once_whatever_fails(
    name: str, after: bool, monkeypatch: pytest.MonkeyPatch, observed: state.State
) -> None:
    """With its arguments, its result, and its own exception, which nothing is added to but a line of its traceback."""
    hook, calls = failing(name, monkeypatch, after=after), []
    error = LookupError("the script's")

    def call(*args: Any, **more: Any) -> Any:
        calls.append((args, more))
        if more["fails"]:
            raise error
        return "result"

    observed_call = hook(call)  # type: ignore[operator]

    assert "result" == observed_call(1, fails=False)
    with pytest.raises(LookupError) as raised:
        observed_call(2, fails=True)
    assert raised.value is error
    assert (None, None) == (error.__cause__, error.__context__)
    assert ["call"] == [frame.name for frame in traceback.extract_tb(error.__traceback__)][-1:]
    assert [((1,), {"fails": False}), ((2,), {"fails": True})] == calls
    assert [hook.what] == [text.partition(": ")[0] for text in observed.notes]
    assert {*hook.items} == observed.unknown.keys()


@pytest.mark.parametrize("name", [name for name in BY_HOOK if not isinstance(guard.hooks[name], guard.Around)])
def test_a_function_that_fails_gives_nothing(name: str, monkeypatch: pytest.MonkeyPatch, observed: state.State) -> None:
    """And says so, once."""
    hook = failing(name, monkeypatch)
    module, _, path = name.partition(".")
    function: Any = sys.modules[f"{guard.__package__}.{module}"]
    for part in path.split("."):
        function = getattr(function, part)

    assert [None, None] == [function(), function()]
    assert [f"{hook.what}: PlantedError"] == observed.notes
    assert {*hook.items} == observed.unknown.keys()


def test_what_hooks_lose_is_known_to_who_reads_it() -> None:
    """Items of the same work, and names of results."""
    assert (
        not {item for hook in guard.hooks.values() for item in hook.items}
        - NUMBERS
        - {item.name for item in work_items.ITEMS}
    )


@pytest.mark.parametrize("error", [state.Enough(0), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_the_end_of_a_script_passes(error: BaseException) -> None:
    """The observer's own, and the user's."""

    def ends(*_: Any) -> Iterator[None]:
        yield
        raise error

    with pytest.raises(type(error)):
        guard.Around(ends, "", ())(lambda: None)()
    guard.hooks.pop("test_guard.test_the_end_of_a_script_passes.<locals>.ends")


def test_a_time_limit_of_the_script_passes() -> None:
    """What its handler of a signal raises is its own, wherever the program is then."""

    class TimeIsUpError(Exception):
        pass

    def end(*_: Any) -> None:
        raise TimeIsUpError

    def look() -> None:
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, end)
    try:
        with pytest.raises(TimeIsUpError):
            guard.guarded("")(look)()
    finally:
        signal.signal(signal.SIGUSR1, before)
        guard.hooks.pop("test_guard.test_a_time_limit_of_the_script_passes.<locals>.look")


def module_function(first: int, *, second: int = 2) -> int:
    """Stand for a function of a framework."""
    return first + second


def test_a_function_is_still_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, its arguments, and pickled by reference, as for a process that is spawned."""
    own_function = module_function
    observed_function = guard.hooks["torch_parts._time"](module_function, "save")  # type: ignore[operator]
    monkeypatch.setattr(sys.modules[__name__], "module_function", observed_function)

    assert inspect.signature(own_function) == inspect.signature(observed_function)
    assert pickle.loads(pickle.dumps(observed_function)) is observed_function
    assert 3 == observed_function(1)


@pytest.mark.parametrize("path", OBSERVER, ids=lambda path: path.stem)
def test_every_hook_is_guarded(path: Path) -> None:
    """What replaces a framework's function is made by the guard, and nobody else catches everything."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    broad = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and _is_broad(node)]
    replaced = [
        node.value
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and [each.arg for each in function.args.args] == ["module"]
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith(FRAMEWORKS)
    ]
    module = sys.modules[f"{guard.__package__}.{path.stem}"] if path.stem != "__init__" else None

    assert not broad or path.stem in {*OWN_REASONS, "experiment"}
    for value in replaced:
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id != "_ready_or":
            assert isinstance(getattr(module, value.func.id), guard.Around), ast.unparse(value)
        else:
            assert isinstance(value, ast.Lambda) or "_ready_or" in ast.unparse(value), ast.unparse(value)


def _is_broad(handler: ast.ExceptHandler) -> bool:
    names = (
        {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else {"Exception"}
    )
    return bool(names & {"Exception", "BaseException"})


def test_who_observes_a_framework_is_guarded() -> None:
    """A version that nobody tried lacks what it needs."""
    for table in (hooks.OBSERVERS, hooks.EXPERIMENTS):
        for observe in table.values():
            observe(object())


def test_what_is_one_number_is_read() -> None:
    """A real number of any type, and an array without dimensions."""
    values = numpy.float32(0.5), numpy.array(0.5), numpy.array(0.5, dtype="float16"), Fraction(1, 2), 0.5

    assert [0.5] * 5 == [number(value) for value in values]


@pytest.mark.parametrize(
    "value",
    ["0.5", None, [0.5], {"a": 0.5}, 0.5j, object(), numpy.zeros(3)],
    ids=lambda value: type(value).__name__,
)
def test_what_is_none_is_told(value: Any, observed: state.State) -> None:
    """Text, several numbers, a complex one: not a number, and not an error. Of an array its shape is told."""
    observed.reports.measured("score", value, "ray")

    assert ({}, ["score"]) == (observed.reports.metrics, [*observed.reports.no_numbers])
    assert observed.reports.no_numbers["score"].startswith(type(value).__name__)
    assert ("(3,)" in observed.reports.no_numbers["score"]) is isinstance(value, numpy.ndarray)


@pytest.mark.parametrize(
    ("told", "steps", "made"),
    [
        ([(0, 7), (8, 15), (16, 23), (24, 31)], 30, [8, 8, 8, 6]),
        ([(0, 7), (8, 15)], None, [8, 8]),
        ([(0, 0), (1, 1), (2, 2)], 3, [1, 1, 1]),
        ([(5, 5), (6, 6)], 7, [1, 1]),
        ([(0, 3), (4, 9)], 10, [4, 6]),
    ],
    ids=["the last is shorter", "length unknown", "one by one", "a pass is resumed", "their number is tuned"],
)
def test_executions_of_keras_have_their_steps(told: list[tuple[int, int]], steps: int | None, made: list[int]) -> None:
    """Each of equal length, from the execution's begin."""
    batches = keras_steps.Batches({})
    batches.begin_pass(None)
    ends = []
    for number_of, (first, last) in enumerate(told):
        batches.begin(first, 10.0 * number_of)
        ends.append(batches.end(last, steps, 10.0 * number_of + 8))

    assert made == [len(each) for each in ends]
    assert [10.0 * number_of + 8 for number_of in range(len(told))] == pytest.approx([each[-1] for each in ends])
    assert pytest.approx(8 / made[0]) == ends[0][0]


def test_executions_that_end_out_of_order_are_counted() -> None:
    """Keras 3 tells their ends in threads of its own."""
    batches = keras_steps.Batches({})
    batches.begin_pass(None)
    batches.begin(0, 0.0)
    batches.begin(8, 1.0)

    assert [16, 0] == [len(batches.end(15, 16, 2.0)), len(batches.end(7, 16, 2.0))]


@pytest.mark.parametrize(
    ("updates", "are_all"), [(30, True), (60, True), (15, True), (0, True), (None, True), (29, False), (33, False)]
)
def test_an_execution_that_ends_a_pass_early_is_noticed(updates: int | None, are_all: bool) -> None:
    """By the optimizer, which may update several times a step, or once for several."""
    batches = keras_steps.Batches({})
    batches.begin_pass(100)
    for first in range(0, 30, 10):
        batches.begin(first, 0.0)
        batches.end(first + 9, None, 1.0)

    assert are_all == batches.are_all(None if updates is None else 100 + updates)
