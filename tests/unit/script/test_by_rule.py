"""Items that depend on chance or on data in a correct script are compared by their rule, as far as it is known."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.script.test_facts import (
    alone,
    arm,
    differs,
    entered,
    items,
    native,
    one_optimizer,
    rank,
    trained,
    unknown,
)
from training.workloads.script.facts import ArmFacts
from training.workloads.script.observe import state, torch_inputs, torch_schedules
from training.workloads.script.observe import work as observed
from training.workloads.script.observe.gradients import Gradients
from training.workloads.script.observe.work import Schedule, Settings

PLATEAU = ["ReduceLROnPlateau(factor=0.1, patience=1), 4 times", "metric", True]
OTHER = ["ReduceLROnPlateau(factor=0.1, patience=2), 4 times", "metric", True]
STEPS = ["StepLR, 4 times", "steps", True]
LAMBDA = ["LambdaLR", "", True]
UP_FIRST, UP_LAST = (0.1, 0.1, 0.05, 0.3, 0.06), (0.1, 0.1, 0.05, 0.7, 0.06)
"""Rates of the same mean that are high at the beginning, and at the end."""


def known(item: str, one: dict[str, Any], other: dict[str, Any]) -> bool | None:
    """What is known of an item of a baseline that did `one`, and two ranks that did `other`; of others all is equal."""
    found = {"baseline": alone(did=one), "native": native(did=other)}
    value = items(**found)[item][0]

    assert (differs(**found) | unknown(**found)) == (set() if value else {item})
    return value


def rates(*of_group: float, schedules: Any = (), by_hand: bool = False) -> dict[str, Any]:
    """First, highest and mean rate of a rank's only group, and what set it."""
    optimizer = one_optimizer(rates=[list(of_group)])
    return {"optimizers": [optimizer], "schedules": list(schedules), "ratesByHand": by_hand}


@pytest.mark.parametrize(
    ("one", "other", "value"),
    [
        (rates(0.1, 0.1, 0.05, schedules=[PLATEAU]), rates(0.1, 0.1, 0.07, schedules=[PLATEAU]), True),
        (rates(0.1, 0.1, 0.05, schedules=[PLATEAU]), rates(0.2, 0.2, 0.07, schedules=[PLATEAU]), False),
        (rates(0.1, 0.1, 0.05, schedules=[PLATEAU]), rates(0.1, 0.1, 0.07, schedules=[OTHER]), False),
        (rates(0.1, 0.1, 0.05, schedules=[PLATEAU]), rates(0.1, 0.2, 0.07, schedules=[PLATEAU]), None),
        (rates(0.1, 0.1, 0.05, schedules=[PLATEAU]), rates(0.1, 0.1, 0.07, schedules=[PLATEAU], by_hand=True), None),
        (rates(0.1, 0.1, 0.05, schedules=[PLATEAU]), rates(0.1, 0.1, 0.07), None),
        (rates(0.1, 0.1, 0.05, schedules=[STEPS]), rates(0.1, 0.1, 0.07, schedules=[STEPS]), False),
        (rates(0.1, 0.1, 0.05, schedules=[STEPS]), rates(0.1, 0.1, 0.07, schedules=[[*STEPS[:2], False]]), None),
        (rates(0.1, 0.1, 0.05, schedules=[["LambdaLR", "", True]]), rates(0.1, 0.1, 0.07), None),
        (rates(0.1, 0.1, 0.05, by_hand=True), rates(0.1, 0.1, 0.07, by_hand=True), None),
        (rates(0.1, 0.1, 0.05, by_hand=True), rates(0.1, 0.2, 0.1, by_hand=True), False),
        (rates(0.1, 0.1, 0.05, by_hand=True), rates(0.1, 0.1, 0.05, by_hand=True), True),
        (rates(*UP_LAST, schedules=[STEPS]), rates(*UP_FIRST, schedules=[STEPS]), False),
        (rates(*UP_LAST, schedules=[LAMBDA]), rates(*UP_FIRST, schedules=[LAMBDA]), None),
        (rates(*UP_LAST, schedules=[STEPS]), rates(*UP_LAST, schedules=[STEPS]), True),
    ],
    ids=[
        "a plateau", "another first rate", "another rule", "a higher rate", "a plateau and the script",
        "a plateau in one arm", "fixed steps", "uneven steps", "a function", "by hand", "times the ranks", "equal",
        "an earlier centre", "an earlier centre of a function", "the same course",
    ],
)  # fmt: skip
def test_a_learning_rate_is_compared_by_what_sets_it(
    one: dict[str, Any], other: dict[str, Any], value: bool | None
) -> None:
    """Known to differ: another first rate, rule, or number of steps of a fixed rule, and a rate times the ranks."""
    assert known("learningRate", one, other) is value


DROPS = {"atTimes": 60, "share": 0.82, "shareError": 0.02}


@pytest.mark.parametrize(
    ("one", "other", "value"),
    [
        (trained(40, **DROPS), trained(40, **DROPS | {"share": 0.96}), True),
        (trained(40, **DROPS | {"share": 0.45}), trained(100), None),
        (trained(40, **DROPS), trained(40, **DROPS | {"share": 0.5}), None),
        (trained(40, **DROPS | {"share": 0.99}), trained(100), True),
        (trained(100), trained(40, **DROPS | {"share": 0.99}), None),
        (trained(40, **DROPS), trained(20, **DROPS), False),
        (trained(40, **DROPS | {"seldom": 20}), trained(20, **DROPS), None),
        (trained(80, later=20, phaseShare=0.5), trained(80, later=20, phaseShare=0.75), None),
        (trained(80, later=20, phaseShare=0.5), trained(80, later=20, phaseShare=0.5), True),
        (trained(80, later=20, phaseShare=0.5), trained(100), None),
        (trained(100), trained(80, atFirst=20), None),
        (trained(100), trained(80), False),
    ],
    ids=[
        "two ranks drop less together", "one drops, the other never", "one drops more", "or that is chance",
        "the other one drops",
        "some are never trained", "which is seldom anyway", "from another step on", "from the same step on",
        "in one arm alone", "frozen later", "fewer",
    ],
)  # fmt: skip
def test_parameters_that_ever_had_a_gradient_are_compared(
    one: dict[str, Any], other: dict[str, Any], value: bool | None
) -> None:
    """And how often they have one as far as chance allows: of N ranks any may have it."""
    assert known("trained", {"trained": one}, {"trained": other}) is value


@pytest.mark.parametrize(
    ("item", "one", "other", "value"),
    [
        ("hyperparameters", ["m=0.9"], ["m=0.9", "m=0.5"], None),
        ("hyperparameters", ["m=0.9", "m=0.5"], ["m=0.8", "m=0.5"], False),
        ("optimizers", 31, 35, None),
        ("optimizers", 32, 16, False),
        ("optimizers", 4, 2, False),
        ("optimizers", 32, (16, False), None),
        ("optimizers", 4, (8, False), None),
    ],
)
def test_what_the_script_changes_later_may_follow_a_metric(item: str, one: Any, other: Any, value: bool | None) -> None:
    """But not what differs at first, or by the number of ranks."""

    def did(what: Any) -> dict[str, Any]:
        if item == "optimizers":
            steps, even = what if isinstance(what, tuple) else (what, True)
            return {"optimizers": [one_optimizer(), one_optimizer(steps=steps, even=even)]}
        return {"optimizers": [one_optimizer(settings=what)]}

    assert known(item, did(one), did(other)) is value


@pytest.mark.parametrize(
    ("one", "other", "value"),
    [((0, 64), (64, 64), False), ((0, 64), (30, 64), None), ((0, 2), (2, 2), None), ((30, 64), (64, 64), None),
     ((1, 8), (3, 8), True), ((10, 1000), (60, 1000), True), ((64, 64), (64, 64), True)],
)  # fmt: skip
def test_steps_that_a_scaler_leaves_out_are_few_by_chance(
    one: tuple[int, int], other: tuple[int, int], value: bool | None
) -> None:
    """Where one arm leaves out all of them it learns nothing."""

    def did(left_out: int, steps: int) -> dict[str, Any]:
        return {"optimizers": [one_optimizer(steps=steps, leftOut=left_out)]}

    assert known("optimizers", did(*one), did(*other)) is value


ONE_EACH = {"optimizers": [one_optimizer(settings=["1:tensors=2 1:numbers=60 2:tensors=2 2:numbers=40 1:m=0.9"])]}
ALL_IN_ONE = {"optimizers": [one_optimizer(settings=["1:tensors=4 1:numbers=100 2:tensors=0 2:numbers=0 1:m=0.9"])]}


@pytest.mark.parametrize(("parameters", "value"), [("100 float32", False), ("50 float32", True), (None, True)])
def test_groups_of_other_parameters_are_another_setting(parameters: str | None, value: bool) -> None:
    """But where parameters are known to be others, or ranks hold parts of them, that is what is said."""
    found = {"baseline": alone(did=ONE_EACH), "native": native(did=ALL_IN_ONE | {"parameters": parameters})}

    assert items(**found)["hyperparameters"][0] is value


def of_tasks(*tasks: tuple[float, str], even: bool = False) -> dict[str, Any]:
    """Optimizers with a rate and a setting each, in the order of their first steps."""
    each = [one_optimizer(rates=[[rate, rate, rate]], settings=[setting], even=even) for rate, setting in tasks]
    return {"optimizers": each}


ONE, TWO, THREE = (0.1, "m=0.9"), (0.2, "m=0.9"), (0.1, "m=0.5")
OF_OPTIMIZERS = {"optimizers", "learningRate", "hyperparameters"}


@pytest.mark.parametrize(
    ("one", "other", "unknowns", "wrong"),
    [
        (of_tasks(ONE, TWO), of_tasks(ONE, TWO), set(), set()),
        (of_tasks(ONE, TWO), of_tasks(TWO, ONE), OF_OPTIMIZERS, set()),
        (of_tasks(ONE, THREE, even=True), of_tasks(THREE, ONE, even=True), OF_OPTIMIZERS, set()),
        (of_tasks(ONE, TWO), of_tasks(ONE, ONE), set(), {"learningRate"}),
        (of_tasks(ONE, TWO), of_tasks(ONE), OF_OPTIMIZERS, set()),
        (of_tasks(ONE, TWO, even=True), of_tasks(ONE, even=True), set(), OF_OPTIMIZERS),
    ],
    ids=["equal", "another order", "or of settings", "another rate", "one never stepped", "one is not there"],
)
def test_which_optimizer_steps_first_may_be_drawn(
    one: dict[str, Any], other: dict[str, Any], unknowns: set[str], wrong: set[str]
) -> None:
    """And that one steps at all: what differs otherwise is known to differ."""
    found = {"baseline": alone(did=one), "native": native(did=other)}

    assert (unknowns, wrong) == (unknown(**found), differs(**found))


@pytest.mark.parametrize(
    ("one", "other", "first", "unknowns", "wrong"),
    [
        ((ONE, TWO), (ONE,), 2, OF_OPTIMIZERS, set()),
        ((ONE, TWO), (ONE, (0.4, "m=0.1")), 2, {"learningRate", "hyperparameters"}, set()),
        ((ONE, TWO), (ONE, TWO), 2, set(), set()),
        ((ONE, TWO), (ONE,), 1, set(), OF_OPTIMIZERS),
        ((ONE, TWO), (THREE, TWO), 2, set(), {"hyperparameters"}),
    ],
    ids=["one is not there", "it is another one", "equal", "in the first pass", "another one in the first pass"],
)
def test_optimizers_after_the_first_pass_may_follow_a_metric(
    one: Any, other: Any, first: int, unknowns: set[str], wrong: set[str]
) -> None:
    """As of a script that goes back on a plateau; those before it are fixed."""

    def did(tasks: Any) -> dict[str, Any]:
        work = of_tasks(*tasks, even=True)
        for optimizer in work["optimizers"][1:]:
            optimizer["first"] = first
        return work

    within: dict[str, Any] = {"passes": [[0, True], [2, True]], "endedEarly": False}
    found = {"baseline": alone(did=did(one), **within), "native": native(did=did(other), **within)}

    assert (unknowns, wrong) == (unknown(**found), differs(**found))


@pytest.mark.parametrize(("even", "value"), [(False, None), (True, False)])
def test_parameters_of_an_optimizer_that_seldom_steps_may_be_missing(even: bool, value: bool | None) -> None:
    """They are counted when it first steps."""
    one = of_tasks(ONE, TWO, even=even) | {"parameters": "200 float32"}

    assert items(baseline=alone(did=one), native=native(did=of_tasks(ONE, even=even)))["parameters"][0] is value


def test_steps_of_an_optimizer_are_even_where_as_many_others_lie_between() -> None:
    """But for one; of fewer than three nothing is known."""

    def even(*counted: int) -> bool:
        optimizer = observed.Optimizer()
        for each in counted:
            optimizer.step([0.1], each)
        return bool(optimizer.to_dict()["even"])

    assert [True, True, False, False] == [even(0, 1, 2), even(1, 3, 6), even(1, 3, 7), even(1, 3)]


def test_validations_may_follow_a_metric() -> None:
    """A script may validate where the training's loss has fallen: it falls in one run, and not in the other."""
    for of_ranks in (4, 0):
        found = {"baseline": alone(validations=5), "native": native(validations=of_ranks)}

        assert ({"validation"}, set()) == (unknown(**found), differs(**found))


def test_a_curriculum_reaches_the_same_size() -> None:
    """By its loss, after other numbers of steps; a batch that is cut never has the largest size."""

    def did(numbers: int, *sizes: int) -> dict[str, Any]:
        return {"inputs": entered(numbers, sizes=list(sizes))}

    assert known("input", did(2000, 320, 640), did(1200, 160, 320)) is None
    assert known("input", did(2560, 640), did(640, 160)) is False
    assert known("input", did(2560, 640), did(900, 160, 320)) is False


def test_a_run_that_ends_amid_an_epoch_may_follow_its_loss() -> None:
    """And rows are those of an epoch then; by the number of ranks it is another training."""
    within: dict[str, Any] = {"passes": [[0, False]], "endedEarly": False}
    whole = alone(steps=8, **within)

    assert ({"steps"}, set()) == (unknown(baseline=whole, native=native(steps=5, **within)),
                                  differs(baseline=whole, native=native(steps=5, **within)))  # fmt: skip
    assert "steps" in differs(baseline=whole, native=native(steps=4, **within))


def test_a_batch_that_grows_reaches_the_same_size() -> None:
    """By its loss, after other numbers of steps; other batches are other work."""

    def rows(*of_steps: int) -> dict[str, Any]:
        return {"rowsAtStep": [sum(of_steps[: number + 1]) for number in range(len(of_steps))]}

    one = alone(**rows(64, 128, 128, 128))
    later = native(**rows(40, 40, 40, 64))
    never = native(**rows(40, 40, 40, 40))

    assert items(baseline=one, native=later)["rowsPerStep"][0] is None
    assert items(baseline=one, native=never)["rowsPerStep"][0] is False


def uneven(
    *digests: dict[str, str], weights: tuple[str, str] = ("w", "w"), steps: tuple[int, int] = (8, 6)
) -> ArmFacts:
    """Two ranks in two Joins, of 4 and 3 batches each."""
    joins = [[4, 8], [3, 6]]
    return arm(*(
        rank(number, 2, steps=made, weights=weights[number], did={"joins": joins[number], "digests": digests[number]})
        for number, made in enumerate(steps)
    ))  # fmt: skip


def test_ranks_may_make_other_numbers_of_steps_within_a_join() -> None:
    """The rank that steps last steps for all; digests are compared by the steps since the last Join."""
    same = {"1": "a", "2": "b", "1:0": "c", "1:1": "d", "2:0": "e"}
    right = uneven(same | {"4": "own"}, same)

    assert (right.problem, right.weights_equal[0], right.work.items["steps"]) == ("", True, "8")
    for at in same:
        assert uneven(same, same | {at: "other"}).weights_equal[0] is False
    assert uneven(same, same, weights=("w", "v")).weights_equal[0] is False


def test_weights_within_a_join_are_compared_where_no_rank_missed_a_step() -> None:
    """One that did has another momentum: nothing says then whether its weights differ by more."""

    def equal(*joins: list[int]) -> bool | None:
        digests = [{"1:1": "a"}, {"1:1": "b"}]
        did = [{"joins": each, "inJoins": digests[number]} for number, each in enumerate(joins)]
        return arm(*(rank(number, 2, steps=joins[number][-1], did=did[number]) for number in (0, 1))).weights_equal[0]

    assert equal([4, 8], [4, 8]) is False
    assert equal([4, 8], [4, 7]) is False
    assert equal([4, 8], [3, 7]) is None


def test_steps_that_differ_outside_of_a_join_are_a_problem() -> None:
    """So are Joins that one rank alone has."""
    assert uneven({}, {}, steps=(9, 6)).problem
    assert arm(rank(0, 2, steps=8, did={"joins": [8]}), rank(1, 2, steps=6)).problem


@pytest.fixture(autouse=True)
def _unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test begin as a process that has seen nothing."""
    monkeypatch.setattr(state, "_states", [state.State()])


class Parameter:
    """One with ten numbers."""

    def __init__(self) -> None:
        self.grad: object = None

    def numel(self) -> int:
        """Ten."""
        return 10


def kinds(*of_steps: str) -> dict[str, Any]:
    """What is recorded of steps, each given as `x` for a parameter with a gradient and `.` for one without."""
    parameters, gradients = [Parameter() for _ in of_steps[0]], Gradients()
    for step in of_steps:
        for parameter, has in zip(parameters, step, strict=True):
            parameter.grad = has == "x" or None
        gradients.step(parameters)
    recorded = gradients.to_dict() or {}
    return {name: value for name, value in recorded.items() if value and "hare" not in name}


def test_phases_are_told_from_gradients_that_come_and_go() -> None:
    """A phase has at least eight steps; of a parameter without any gradient nothing is counted."""
    assert {"always": 20} == kinds(*["xx."] * 20)
    assert {"always": 10, "atFirst": 10} == kinds(*["xx"] * 14, *["x."] * 10)
    assert {"always": 10, "later": 10} == kinds(*["x."] * 8, *["xx"] * 12)
    assert {"always": 10, "atTimes": 10} == kinds(*["xx", "x."] * 20)
    assert {"always": 10, "atTimes": 10, "seldom": 10} == kinds(*["x."] * 9, "xx", *["x."] * 9)
    assert {"always": 20} == kinds("x.", *["xx"] * 20)


def test_parameters_that_are_gone_had_a_first_phase() -> None:
    """Another optimizer goes on with others."""
    first, second, gradients = Parameter(), Parameter(), Gradients()
    first.grad = second.grad = True
    for _ in range(10):
        gradients.step([first])
    del first
    for _ in range(10):
        gradients.step([second])

    recorded = gradients.to_dict() or {}

    assert (0, 10, 10) == tuple(recorded[name] for name in ("always", "atFirst", "later"))
    assert 0.5 == recorded["phaseShare"]


def settings_of(*steps: tuple[dict[str, Any], dict[str, Any]], own: bool = True) -> list[str]:
    """Return what is told of settings before and after each step."""
    settings = Settings()
    for number, (before, after) in enumerate(steps, 1):
        settings.step(number, [before], [after], own=own)
    return settings.to_list()


def test_a_setting_that_a_step_changes_is_the_optimizers() -> None:
    """What stands there is its first value; what the script changes between two steps is its own."""
    told = settings_of(({"d": 1, "m": 0.9}, {"d": 2, "m": 0.9}), ({"d": 2, "m": 0.5}, {"d": 3, "m": 0.5}))

    assert ["d=1 m=0.9", "m=0.5 (step 2)"] == told
    # What a closure changes is the script's; what there was before the first step is the first all the same.
    assert ["m=0.9", "m=0.5 (step 1)"] == settings_of(({"m": 0.9}, {"m": 0.5}), own=False)


def test_every_change_of_a_setting_counts() -> None:
    """After whichever step it is, and also of those that are not told one by one."""

    def constant(value: float, steps: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return [({"m": value}, {"m": value})] * steps

    assert ["m=0.9", "m=0.5 (step 66)"] == settings_of(*constant(0.9, 65), *constant(0.5, 3))
    steps = [each for number in range(20) for each in constant(number, 2)]
    one, other = settings_of(*steps, *constant(7, 1)), settings_of(*steps, *constant(8, 1))
    assert one[:-1] == other[:-1]
    assert one[-1] != other[-1]


def test_settings_of_several_groups_have_their_numbers() -> None:
    """A group that is added has settings from then on."""
    settings = Settings()
    settings.step(1, [{"m": 1}], [{"m": 1}], own=False)
    settings.step(2, [{"m": 1}, {}], [{"m": 1}, {}], own=False)

    first, added = settings.to_list()
    assert ("m=1", ["1:m=1", "m=None"]) == (first, added.split()[:2])


@pytest.mark.parametrize(
    ("steps", "end", "even"),
    [
        ((4, 8, 12), 12, True), ((4, 8, 12), 17, True), ((4, 8, 12), 18, False), ((4, 9, 13), 13, True),
        ((4, 12, 16), 16, False), ((4,), 4, False), ((1, 1, 2), 2, True),
    ],
)  # fmt: skip
def test_a_schedule_is_even_where_as_many_steps_lie_between_its_own(
    steps: tuple[int, ...], end: int, even: bool
) -> None:
    """But for one: a batch may be left over. One that the script steps by a metric, or until it is met, is not."""
    schedule, optimizer = Schedule("StepLR", "steps"), observed.Optimizer()
    for step in steps:
        optimizer.steps = step
        schedule.step(optimizer)
    optimizer.steps = end

    assert [f"StepLR, {len(steps)} times", "steps", even] == schedule.to_list()


def test_steps_without_the_first_module_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is found: it may have been the first by chance."""
    monkeypatch.setattr(torch_inputs, "_tries", [torch_inputs.MOST_TRIES + 1])
    monkeypatch.setattr(torch_inputs, "_first", [1])
    for called in (True, False, True, False):
        monkeypatch.setattr(torch_inputs, "_called", [called])
        torch_inputs.look()

    assert 2 == state.current().work.to_dict()["stepsWithoutInput"]


def test_a_module_s_input_is_its_first_tensor_however_deep() -> None:
    """In lists, tuples and dictionaries, as batches of tokens are; what has no data of its own is none."""
    first, second = (SimpleNamespace(data_ptr=lambda: 1) for _ in range(2))

    assert [first, second] == list(torch_inputs._tensors(["text", {"ids": (first, 3)}, [None, second]]))


def test_the_largest_input_is_known_of_many() -> None:
    """Texts have more lengths than are told apart."""
    inputs = observed.Inputs()
    for numbers in range(1, 3 * observed.MOST_KINDS):
        inputs.enter(numbers, "int64", "off")
    inputs.enter(1, "int64", "off")

    assert 3 * observed.MOST_KINDS - 1 == max(inputs.to_dict()["sizes"])


@pytest.mark.parametrize(("models", "unknowns"), [(64, set()), (65, {"input", "autocast", "parameters"})])
def test_what_is_beyond_a_limit_is_not_known(models: int, unknowns: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Models one after another, each with a schedule, of which more are not looked at."""
    monkeypatch.setattr(torch_inputs, "_models", [1])
    work = state.current().work
    for number in range(models):
        if number:
            torch_inputs.begin_again()
            work.succeed(observed.Optimizer())
        work.note_parameters(f"{number} float32")
        work.add_schedule("StepLR", "steps")

    assert unknowns == state.current().unknown.keys()
    assert work.rates_by_hand is bool(unknowns)


def test_equal_models_are_known_however_many_there_are() -> None:
    """As of a new optimizer for each epoch."""
    work = state.current().work
    for _ in range(100):
        work.succeed(observed.Optimizer())
        work.note_parameters("10 float32")

    assert ({}, "10 float32") == (state.current().unknown, work.parameters)


class Optimizer(SimpleNamespace):
    """One with a group, that weak references may be made of."""


def test_a_rate_that_no_schedule_set_is_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is set before the first step is the first rate, whoever set it."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    optimizer = Optimizer(param_groups=[{"lr": 0.1}])

    class Halved:
        def __init__(self) -> None:
            self.optimizer = optimizer

        def step(self) -> None:
            optimizer.param_groups[0]["lr"] *= 0.5

    torch_schedules.observe_schedules(SimpleNamespace(Halved=Halved))
    schedule, work = Halved(), state.current().work
    schedule.step()
    seen = work.of(optimizer)
    torch_schedules.see(seen, [0.05])
    schedule.step()
    torch_schedules.see(seen, [0.025])

    assert ([["Halved, 1 times", "", False]], False) == (
        [each.to_list() for each in work.schedules],
        work.rates_by_hand,
    )

    torch_schedules.see(seen, [0.01])

    assert work.rates_by_hand


def test_rates_of_the_same_mean_are_told_apart_by_their_course() -> None:
    """By where their centre is, and how far they are from their mean."""
    rising, falling, even = (observed.Optimizer() for _ in range(3))
    for number in range(1, 5):
        rising.step([number], number)
        falling.step([5 - number], number)
        even.step([2.5], number)

    assert [1, 4, 2.5, 0.75, 7.5**0.5] == pytest.approx(rising.to_dict()["rates"][0])
    assert [4, 4, 2.5, 0.5, 7.5**0.5] == pytest.approx(falling.to_dict()["rates"][0])
    assert [2.5, 2.5, 2.5, 0.625, 2.5] == pytest.approx(even.to_dict()["rates"][0])


def test_a_plateau_that_the_script_changes_is_no_known_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its constants are looked at in each step."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())

    class ReduceLROnPlateau:
        optimizer = Optimizer(param_groups=[{"lr": 0.1}])
        patience = 3

        def step(self) -> None:
            pass

    ReduceLROnPlateau.__module__ = torch_schedules.MODULE
    torch_schedules.observe_schedules(SimpleNamespace(ReduceLROnPlateau=ReduceLROnPlateau))
    state.current().work.of(ReduceLROnPlateau.optimizer)
    schedule = ReduceLROnPlateau()
    schedule.step()
    (seen,) = state.current().work.schedules

    assert "metric" == seen.follows

    schedule.patience = 0
    schedule.step()

    assert "" == seen.follows
