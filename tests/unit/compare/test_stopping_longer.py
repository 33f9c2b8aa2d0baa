"""What might change a no: the least setting not known to be in vain, what it costs, and when it is no advice."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from compare.answer import contest_of
from compare.comparison import compare
from compare.measurement import Run, measure
from compare.run_numbers import Clock
from compare.schema import Comparison, LongerRun
from compare.stopping import first_after, longer_run
from compare.value import Missing
from report.closing import next_step
from tests.golden import Wording
from tests.unit.results import make_context, make_recipe, make_run, replaced
from tests.unit.searches import ALL, RECIPE, make_searches
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.workload import WORKLOAD as SCRIPT
from training.workloads.search.recipe import MOST_TRIALS

EPOCHS = 4
CLOCKS = {"baseline": (6.0, 1.47), "wide": (3.0, 1.35), "native": (5.0, 1.2), "ray": (20.0, 1.3)}
"""What an arm pays once, and seconds of an epoch."""
PROBABLY = CLOCKS | {"wide": (3.0, 1.45)}
"""Ray probably gains more than 5 % in an epoch against each."""
LUCK = (1.0, 1.13, 0.9, 1.02)
"""Of the epochs of Ray: how much it gains in one is not known."""


def runs(clocks: dict[str, tuple[float, float]], *, epochs: int = EPOCHS) -> list[Run]:
    """Four repeats with these clocks."""
    recipe = make_recipe(epochs=epochs)
    return [
        make_run(
            arm, repeat, recipe, step_seconds_mean=0.045 * epoch * luck, startup_seconds=0.5 * once,
            validation_seconds=0.1 * epoch * luck * epochs, report_seconds=0.0,
            wall_seconds=once + epoch * luck * epochs,
        )
        for repeat, ray in enumerate(LUCK, 1)
        for arm, (once, epoch) in clocks.items()
        for luck in (ray if arm == "ray" else 1.0,)
    ]  # fmt: skip


def compared(clocks: dict[str, tuple[float, float]], **context: Any) -> Comparison:
    """Their comparison."""
    made = make_context(make_recipe(epochs=EPOCHS), arms=tuple(clocks), repeats=len(LUCK))
    return compare(runs(clocks), replace(made, **context))


def test_the_advice_is_of_all_alternatives(wording: Wording) -> None:
    """From a few epochs on Ray may beat one CPU, and from many on two: fewer are known to be in vain."""
    alone, both = (compared({arm: PROBABLY[arm] for arm in arms}) for arms in (("baseline", "native", "ray"), PROBABLY))

    assert alone.longer is not None
    assert both.longer is not None
    assert EPOCHS < alone.longer.passes < both.longer.passes
    assert (alone.longer.probably or 0) < (both.longer.probably or 0)
    for name, comparison in {"baseline": alone, "wide, too": both}.items():
        wording("verdict", comparison.verdict, name)
        wording("verdict", next_step(comparison, "local", {}), f"{name}: next")


def test_what_is_most_likely_in_vain_is_not_advised(wording: Wording) -> None:
    """Ray may gain 5 % from some number of epochs on, and by the centre of the intervals it does at none."""
    comparison = compared(CLOCKS)

    assert comparison.longer is not None
    assert (comparison.longer.probably, comparison.longer.seconds) == (None, None)
    assert comparison.longer.passes > EPOCHS
    assert "./rwi up" not in next_step(comparison, "local", {})
    wording("verdict", comparison.verdict)


def test_the_price_is_that_of_all_runs() -> None:
    """Of each arm and repeat, by its own clock."""
    longer = compared(PROBABLY).longer
    assert longer is not None
    assert longer.probably is not None
    one_of_each = sum(once + longer.probably * epoch for once, epoch in PROBABLY.values())
    luck_of_ray = longer.probably * PROBABLY["ray"][1] * (sum(LUCK) - len(LUCK))

    assert longer.seconds == pytest.approx(len(LUCK) * one_of_each + luck_of_ray)


@pytest.mark.parametrize(
    ("clocks", "settings"),
    [
        pytest.param({arm: (900 * once, 900 * epoch) for arm, (once, epoch) in PROBABLY.items()}, {}, id="a day"),
        pytest.param(PROBABLY, {"budgetMinutes": "2"}, id="the budget"),
    ],
)
def test_what_takes_too_long_is_no_advice(
    clocks: dict[str, tuple[float, float]], settings: dict[str, str], wording: Wording
) -> None:
    """What it would take is said, and why nobody is told to type it."""
    comparison = compared(clocks, settings=settings)

    assert comparison.longer is not None
    assert comparison.longer.not_advised
    assert "./rwi up" not in next_step(comparison, "local", {})
    wording("verdict", comparison.verdict)


def test_arms_that_stopped_by_themselves_do_not_train_longer() -> None:
    """More epochs than they took are not made by a setting."""
    stopped = [replaced(run, recipe=run.result.recipe | {"epochs": 9}) for run in runs(PROBABLY)]
    longer = compare(stopped, make_context(make_recipe(epochs=9), arms=tuple(PROBABLY), repeats=len(LUCK))).longer

    assert longer is not None
    assert longer.probably is not None
    assert longer.not_advised


@pytest.mark.parametrize(
    ("arguments", "expected"), [("--epochs {epochs}", True), ("--epochs 4 --num-workers {workers}", False)]
)
def test_a_script_trains_longer_if_its_arguments_take_the_epochs(arguments: str, expected: bool) -> None:
    """Else the setting would measure the same again."""
    assert expected == SCRIPT.has_key_for_passes(ScriptRecipe(script_arguments=arguments).to_dict())


def of_search(start: float, space: str = RECIPE.search_space) -> LongerRun | Missing:
    """What might change the no of a search of eight trials, in which Ray takes so long to start."""
    context = replace(make_context(arms=ALL), recipe=RECIPE, arms=ALL, repeats=4)
    pairs = [(Clock(8, 20.0, 2.0), Clock(8, start + 8 * 1.8 * luck, 1.8 * luck)) for luck in LUCK]
    contest = contest_of(pairs, 8, "another")
    measured = measure(make_searches(), context)
    return longer_run("Not worth it here", replace(measured, recipe=replace(RECIPE, search_space=space)), [contest])


def test_a_search_has_more_trials_up_to_what_the_setting_allows() -> None:
    """Beyond it there is no line to type."""
    few, many = of_search(20.0), of_search(200.0)

    assert isinstance(few, LongerRun)
    assert isinstance(many, LongerRun)
    assert few.probably is not None
    assert many.probably is not None
    assert (few.passes < few.probably <= MOST_TRIALS < many.probably, few.not_advised) == (True, "")
    assert many.not_advised


def test_a_search_has_no_more_trials_than_its_space_has_configurations() -> None:
    """Settings refuse more, so nobody is told to type that."""
    eight = of_search(20.0, '{"a": {"choice": [1, 2]}, "b": {"choice": [1, 2, 3, 4]}}')

    assert isinstance(eight, LongerRun)
    assert (8 < eight.passes < (eight.probably or 0), bool(eight.not_advised)) == (True, True)


def test_a_run_that_would_be_ended_is_no_advice() -> None:
    """By `runTimeoutMinutes`, however short the measurement is."""
    one, many = (compared(PROBABLY, run_timeout_minutes=minutes).longer for minutes in (1.0, 60.0))

    assert many == compared(PROBABLY).longer
    assert one is not None
    assert many is not None
    assert (one.probably, many.not_advised) == (many.probably, "")
    assert one.not_advised


@pytest.mark.parametrize(
    ("is_open", "expected"),
    [(range(5, 10_001), 5), (range(163, 10_001), 163), (range(40, 60), 40), ((), None), (range(10_001, 20_000), None)],
)
def test_the_first_number_that_is_open_is_found(is_open: Sequence[int], expected: int | None) -> None:
    """Also where Ray leads only for a while: one process starts sooner, and another has faster epochs."""
    assert expected == first_after(4, lambda number: number in is_open)
