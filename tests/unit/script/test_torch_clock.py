"""Whose steps count, where a script has several optimizers: one after another, or in turns."""

import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from training.workloads.script.observe import state, torch_inputs, torch_steps, torch_weights
from training.workloads.script.observe.loaders import Loader, Pass
from training.workloads.script.observe.work import MOST_KINDS, MOST_OPTIMIZERS

BATCHES = 4
"""Of a pass."""


class Device(NamedTuple):
    """As PyTorch has them."""

    type: str


class Thing(SimpleNamespace):
    """An optimizer or a parameter."""


class Training:
    """A script that reads batches, each a letter that names its data set, and steps."""

    def __init__(self) -> None:
        self.passes: dict[str, Pass] = {}

    def read(self, name: str) -> None:
        """Have a batch of the present pass over that data set, or of a new one."""
        now = state.current()
        loader = now.loaders.setdefault(ord(name), Loader(None, None, None))
        if name not in self.passes:
            self.passes[name] = loader.begin(len(now.step_ends), learning=True)
        loader.deliver(1, None, self.passes[name])
        now.deliver(loader)

    def end(self, name: str) -> None:
        """Come to the end of that data set."""
        now = state.current()
        now.loaders[ord(name)].end(self.passes.pop(name), len(now.step_ends))

    def leave(self, name: str) -> None:
        """Have another iterator next time."""
        del self.passes[name]

    def epoch(self, *optimizers: Any, data: str = "a", batches: int = BATCHES) -> None:
        """Step with each of these after every batch."""
        for _ in range(batches):
            self.read(data)
            step(*optimizers)
        self.end(data)


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Training:
    """One in a process that is observed, with as much of PyTorch as steps need."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(get_num_threads=lambda: 1))
    monkeypatch.setattr(state, "_states", [state.State()])
    monkeypatch.setattr(state, "_write_at_end", lambda: None)
    monkeypatch.setattr(torch_inputs, "look", lambda: None)
    monkeypatch.setattr(torch_inputs, "_models", [1])
    monkeypatch.setattr(torch_weights, "digest", lambda: "digest")
    return Training()


def weight() -> Any:
    """One on a CPU."""
    return Thing(device=Device("cpu"), requires_grad=True, grad=None, dtype="f", numel=lambda: 1, element_size=int)


def optimizer(*weights: Any) -> Any:
    """One of these, or of a weight of its own."""
    return Thing(param_groups=[{"params": list(weights) or [weight()], "lr": 0.1}])


def step(*optimizers: Any) -> None:
    """Step with each."""
    for each in optimizers:
        torch_steps._before_step(each)
        torch_steps._after_step(each)


def counted() -> int:
    """Steps that count."""
    assert [] == state.current().notes
    return len(state.current().step_ends)


def steps_of_each() -> list[int]:
    """Of each optimizer."""
    return [each.steps for each in state.current().work.optimizers]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("data", ["aaaa", "abcd"])
def test_an_optimizer_of_each_epoch_goes_on_with_the_steps(training: Training, data: str, shared: bool) -> None:
    """Of the same model or of another, over one data set or one for each fold; those before it live on."""
    model, kept = weight(), []
    for name in data:
        kept.append(optimizer(*[model] * shared))
        training.epoch(kept[-1], data=name)

    assert 4 * BATCHES == counted()
    assert [BATCHES] * 4 == steps_of_each()


@pytest.mark.parametrize(
    ("script", "steps", "shares"),
    [
        pytest.param("a21 a21 a21 . " * 3, 9, False, id="generator and discriminator in turns"),
        pytest.param("a1 a1 a1 . " + "a21 a21 a21 . " * 3, 12, False, id="one of them trains alone at first"),
        pytest.param("a1 a12 a1 a12 . " * 3, 12, False, id="one of them after every second batch of the other"),
        pytest.param("a1 a21 a1 a21 . " * 3, 12, False, id="and before the other"),
        pytest.param("a1 b2 a1 b2 a1 b2 . " * 2, 6, False, id="two tasks in turns, each with a data set"),
        pytest.param("a1 ~ a2 ~ " * 6, 6, False, id="an iterator for each step, as next(iter(loader)) gives it"),
        pytest.param("a1" * 6 + "a2" * 6, 12, True, id="one warms up, then another, amid an epoch"),
        pytest.param("a12" * 6 + ".", 6, True, id="two losses of the same weights, each with an optimizer"),
        # A reader that is a batch ahead, as Accelerate's, ends its pass before the last step.
        pytest.param("aa1 a1 a1 .1 aa2 a2 a2 .2 aa3 a3 a3 .3", 12, False, id="folds of a reader that is a batch ahead"),
    ],
)
def test_optimizers_that_step_in_turns_make_one_step_of_a_batch(
    training: Training, script: str, steps: int, *, shares: bool
) -> None:
    """Letters read a batch of a data set, digits are optimizers that step, also of the same weights; `.` ends a pass,
    and `~` leaves it."""
    model = weight()
    optimizers = {number: optimizer(*[model] * shares) for number in "123"}
    for each in script.replace(" ", ""):
        if each.isalpha():
            training.read(each)
        elif each in optimizers:
            step(optimizers[each])
        else:
            for name in [*training.passes]:
                training.end(name) if each == "." else training.leave(name)

    assert steps == counted()


def test_models_that_train_in_turns_by_epochs_all_count(training: Training) -> None:
    """An ensemble: one that had the clock takes it again with a pass."""
    models = [optimizer() for _ in range(3)]
    for _ in range(2):
        for each in models:
            training.epoch(each)

    assert 6 * BATCHES == counted()
    assert [2 * BATCHES] * 3 == steps_of_each()


def test_an_optimizer_that_goes_its_own_way_takes_the_clock_late(training: Training) -> None:
    """Nothing says that it goes on where the other one was: what it did so far is not known, and that is."""
    one, two = optimizer(), optimizer()
    for each, steps in ((one, 3), (two, 2 * torch_steps.LATE)):
        for _ in range(steps):
            training.read("a")
            step(each)

    assert 3 + torch_steps.LATE + 1 == counted()
    assert torch_steps.LATE == max(each.most_between for each in state.current().work.optimizers)


def test_no_optimizer_of_another_framework_counts(training: Training) -> None:
    """RLlib's iterations are steps: what its learners' optimizers do is a part of one."""
    state.current().take_clock(-1)
    training.epoch(optimizer())

    assert 0 == counted()


def test_an_id_that_is_given_again_is_of_another_optimizer() -> None:
    """One that is gone is not continued by what lies where it lay."""
    work = state.State().work
    ids, seen = set(), []
    for _ in range(20):
        made = optimizer()
        ids.add(id(made))
        seen.append(work.of(made))
        assert work.of(made) is seen[-1]
        del made

    assert len(ids) < 20
    assert seen == work.optimizers


def test_the_observer_keeps_no_optimizer_and_no_weight(training: Training) -> None:
    """The script has the only references: what it frees is freed at once."""
    freed: list[str] = []

    class Told(Thing):
        """One that says when it is freed."""

        def __del__(self) -> None:
            freed.append(self.name)

    model = Told(name="weight", **vars(weight()))
    made = Told(name="optimizer", param_groups=[{"params": [model], "lr": 0.1}])
    training.epoch(made)
    del model, made

    assert ["optimizer", "weight"] == freed


def test_more_optimizers_than_are_told_apart_are_counted(training: Training) -> None:
    """A script that makes one for each step has no list of them in its result."""
    model = weight()
    for _ in range(MOST_OPTIMIZERS + 5):
        training.read("a")
        step(optimizer(model))
    told = state.current().work.to_dict()

    assert MOST_OPTIMIZERS + 5 == counted()
    assert (MOST_OPTIMIZERS, 5) == (len(told["optimizers"]), told["moreOptimizers"])


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("lr_decay", 0.5, ["lr_decay=0.5"]),
        ("lr", 0.5, [""]),
        ("initial_lr", 0.5, [""]),
        ("param_names", ["module.weight"], [""]),
        ("betas", (0.9, 0.99), ["betas=(0.9, 0.99)"]),
        ("fused", True, [""]),
    ],
)
def test_settings_are_what_else_decides_a_step(training: Training, key: str, value: Any, told: list[str]) -> None:
    """A rate is compared by itself; names have a prefix in a wrapped model."""
    made = optimizer()
    made.param_groups[0][key] = value
    training.epoch(made)

    assert told == state.current().work.optimizers[0].settings.to_list()


class Estimating(Thing):
    """An optimizer that is none of PyTorch's."""


class Sgd(Thing):
    """One of PyTorch's."""


Sgd.__module__ = "torch.optim.sgd"


@pytest.mark.parametrize(
    ("kind", "hooks", "given", "told"),
    [
        (Estimating, {}, [], ["d=1"]),
        (Estimating, {}, [None], ["d=1"]),
        (Estimating, {}, [len], ["d=1", "d=2 (step 1)"]),
        (Estimating, {1: len}, [], ["d=1", "d=2 (step 1)"]),
        (Sgd, {}, [], ["d=1", "d=2 (step 1)"]),
    ],
    ids=["the optimizer", "no closure", "a closure", "a hook", "PyTorch's"],
)
def test_what_changes_in_a_step_is_the_optimizers_if_nothing_else_runs_in_it(
    training: Training, kind: Any, hooks: Any, given: list[Any], told: list[str]
) -> None:
    """A closure and a hook are the script's; PyTorch's optimizers change no setting."""
    made = kind(param_groups=[{"params": [weight()], "lr": 0.1, "d": 1}], _optimizer_step_pre_hooks=hooks)
    training.read("a")
    torch_steps._before_step(made, (made, *given), {})
    made.param_groups[0]["d"] = 2
    torch_steps._after_step(made)

    assert told == state.current().work.optimizers[0].settings.to_list()


@pytest.fixture
def ranks(training: Training, monkeypatch: pytest.MonkeyPatch) -> Training:
    """One of two ranks, where looking at the weights takes too long."""
    distributed = SimpleNamespace(
        is_available=lambda: True,
        distributed_c10d=SimpleNamespace(is_initialized=lambda: True),
        get_rank=lambda: 0,
        get_world_size=lambda: 2,
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    there = torch_weights.is_complete
    monkeypatch.setattr(torch_weights, "quick_digest", lambda: f"{len(torch_weights.parameters())}" * there())
    monkeypatch.setattr(state.State, "may_look", lambda _: False)
    monkeypatch.setattr(state, "FIRST_LOOKS", 0)
    return training


@pytest.mark.parametrize("freed", [False, True])
def test_each_model_is_looked_at_as_it_begins_and_ends(ranks: Training, freed: bool) -> None:
    """However long that takes; also where an optimizer takes the model with it."""
    models = list[Any]()
    for size in (1, 2, 3):
        models = [*models[freed:], optimizer(*(weight() for _ in range(size)))]
        ranks.epoch(models[-1], batches=20)
    work = state.current().work

    assert ["1", "16", "2", "21", "22", "32", "4", "41", "42", "8"] == sorted(work.digests)
    assert {"20": "1", "40": "2"} == work.ends


def test_weights_that_were_gone_are_not_known(ranks: Training) -> None:
    """Nobody looked at them after their last step, since so many optimizers were made before."""
    for _ in range(MOST_KINDS + 2):
        ranks.epoch(optimizer())

    assert [None] == list(state.current().work.ends.values())[MOST_KINDS:]


@pytest.mark.parametrize("begins", [0, 2])
@pytest.mark.parametrize("size", [1, 3])
def test_an_optimizer_that_is_filled_with_others_is_another(ranks: Training, begins: int, size: int) -> None:
    """All at once, also amid an epoch, whatever their number: the first model lives on, and is looked at no more."""
    first, others = weight(), [weight() for _ in range(size)]
    made = optimizer(first)
    ranks.epoch(made)
    for number in range(BATCHES):
        if number == begins:
            made.param_groups = [{"params": others, "lr": 0.1}]
        ranks.read("a")
        step(made)
    work = state.current().work

    assert 2 * BATCHES == counted()
    assert [BATCHES + begins, BATCHES - begins] == steps_of_each()
    assert {f"{BATCHES + begins}": "1"} == work.ends
    assert others == torch_weights.parameters()


def test_an_optimizer_of_which_some_parameters_are_replaced_goes_on(ranks: Training) -> None:
    """What is looked at are those that it trains now."""
    kept, made = weight(), optimizer(weight(), weight())
    made.param_groups[0]["params"][1] = kept
    ranks.epoch(made)
    replaced = made.param_groups[0]["params"]
    replaced[0] = weight()
    ranks.epoch(made)

    assert [2 * BATCHES] == steps_of_each()
    assert replaced == torch_weights.parameters()


def parameters(sizes: Iterable[tuple[int, bool]]) -> list[str]:
    """What is told of those of a run, each with whether another optimizer took the clock before it."""
    work = state.State().work
    for size, succeeds in sizes:
        if succeeds:
            work.succeed(work.of(optimizer()))
        work.note_parameters(str(size))
    return (work.parameters or "").split(", then ")


def test_parameters_are_those_of_one_model_after_another() -> None:
    """A model that is smaller in one fold is another; those of a generator come after its discriminator's first."""
    assert ["9"] == parameters([(4, False), (9, False)])
    assert ["9"] == parameters([(9, False), (4, True), (9, False)])
    assert ["9", "4", "9"] == parameters([(9, False), (4, True), (9, True)])
