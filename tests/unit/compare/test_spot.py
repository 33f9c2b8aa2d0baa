"""Spot capacity: the expected time against a simulation and against Young's and Daly's formulas, and what is shown."""

import itertools
import math
import random
import statistics
from dataclasses import replace
from typing import Any

import pytest

from compare.comparison import compare, scalars
from compare.in_short import is_disturbed
from compare.measurement import Prices, Reserved, SpotTerms
from compare.run_numbers import HOUR
from compare.schema import Comparison, Spot, SpotCourse
from compare.spot import HOPELESS, best_interval, best_seconds, course_of, expected_seconds, stops_paying_at, whole
from report import spot as shown
from report.pictures import Panel, pictures
from report.table import WIDTH, render
from tests.golden import Wording
from tests.simulations.spot import interrupted
from tests.unit.results import RUN, make_context, make_recipe, make_runs, quiet_machine, replaced
from tests.unit.settings_machine import only_problem
from training.contract.cpu_use import CpuWait

COURSE = SpotCourse(start_seconds=20.0, epochs=60, epoch_seconds=30.0, checkpoint_seconds=2.0, end_seconds=10.0)
TERMS = SpotTerms(factor=0.35, interruptions_per_hour=2.0)


def compared(checkpoint: float | None = 0.5, **changes: Any) -> Comparison:
    """A measurement with a checkpoint after every epoch, of so many seconds; None: without."""
    recipe = make_recipe(epochs=4, checkpoint_epochs=1 if checkpoint else 0)
    own: dict[str, Any] = {"checkpoint": checkpoint and 4 * checkpoint, "wall": 60.0, "probe": 0.0}
    runs = [replaced(run, seconds=replace(run.result.seconds, **own)) for run in make_runs(recipe)]
    return compare(runs, make_context(recipe, **{"spot": TERMS} | changes))


def spot_of(comparison: Comparison) -> Spot:
    """What is said of spot capacity."""
    assert comparison.spot is not None
    return comparison.spot


@pytest.mark.parametrize(("rate", "interval"), [(1.0, 0), (2.0, 7), (20.0, 1), (20.0, 4), (0.5, 60), (60.0, 2)])
def test_the_expected_time_is_that_of_a_simulation(rate: float, interval: int) -> None:
    """Within 2 %: with and without checkpoints, with intervals that divide the epochs, and those that do not."""
    rng = random.Random(f"{rate} {interval}")  # noqa: S311 - no secret
    simulated = statistics.fmean(interrupted(COURSE, rate, interval, rng) for _ in range(5000))

    assert expected_seconds(COURSE, rate, interval) == pytest.approx(simulated, rel=0.02)


@pytest.mark.parametrize("rate", [0.2, 1.0, 5.0])
def test_the_best_interval_is_that_of_young_and_daly(rate: float) -> None:
    """With epochs short enough to choose any: to the few epochs, and the seconds, by which an approximation is off."""
    course = SpotCourse(start_seconds=20.0, epochs=90, epoch_seconds=20.0, checkpoint_seconds=2.0, end_seconds=0.0)
    mean, delta = HOUR / rate, course.checkpoint_seconds or 0.0
    young = math.sqrt(2 * delta * mean)
    daly = young * (1 + math.sqrt(delta / (2 * mean)) / 3 + delta / (18 * mean)) - delta
    best = best_seconds(course, rate)

    assert best_interval(course, rate) * course.epoch_seconds == pytest.approx(daly, rel=0.25)
    for approximate in (young, daly):
        assert best <= expected_seconds(course, rate, round(approximate / course.epoch_seconds)) < 1.002 * best


@pytest.mark.parametrize("epochs", [1, 7, 60, 150, 200, 205, 1000])
def test_no_interval_is_better_than_the_best(epochs: int) -> None:
    """Of all that there are, for cheap checkpoints and such as take longer than the mean time between interruptions."""
    for epoch, checkpoint, end, rate in itertools.product(
        (1.0, 30.0), (0.0, 2.0, 1000.0), (0.0, 500.0), (0.01, 1.0, 9.0)
    ):
        course = SpotCourse(20.0, epochs, epoch, checkpoint, end)
        best = min(expected_seconds(course, rate, interval) for interval in range(epochs + 1))

        assert best == pytest.approx(best_seconds(course, rate), rel=1e-9), course


def test_more_interruptions_never_take_less_time() -> None:
    """From none to so many that no run would ever end."""
    rates = [0.0, *(10 ** (power / 8) for power in range(-64, 12))]
    seconds = [best_seconds(COURSE, rate) for rate in rates]

    assert seconds[0] == pytest.approx(whole(COURSE))
    assert sorted(seconds) == seconds


def test_spot_stops_paying_where_both_cost_the_same() -> None:
    """Not at once, and without a discount from the first interruption on."""
    rate = stops_paying_at(COURSE, 0.35)

    assert 0.35 * best_seconds(COURSE, rate) == pytest.approx(whole(COURSE), rel=1e-6)
    assert 0.0 == stops_paying_at(COURSE, 1.0)


def test_nothing_is_said_of_spot_unless_it_was_asked_for() -> None:
    """Neither in the table nor in the outputs."""
    comparison = compared(spot=None)

    assert comparison.spot is None
    assert [] == shown.rows(comparison)
    assert [] == shown.notes(comparison)
    assert "priceSpotFactor" not in render(comparison)


def test_each_arm_is_computed_from_its_own_parts() -> None:
    """One machine for one process, one a worker, and on a cluster one for Ray's head; cost by the prices."""
    on_cluster = Reserved(cpus=1.0)
    comparison = compared(prices=Prices(cpu_hour=1.0), ray_overhead=on_cluster)
    arms = spot_of(comparison).arms
    workers = comparison.recipe["workers"]
    ray = arms["ray"]

    assert {"baseline": 1, "native": workers, "ray": workers + 1} == {name: arm.machines for name, arm in arms.items()}
    assert ray.on_demand_seconds == pytest.approx(60.0 - 4 * 0.5)  # what checkpoints took is left out
    assert ray.course.checkpoint_seconds == pytest.approx(0.5)
    assert ray.cost_ratio is not None
    assert ray.cost == pytest.approx(ray.cost_ratio.median * (comparison.arms["ray"].median("cost") or 0) * 58 / 60)
    assert (ray.cost_ratio.median, ray.stops_paying_at) == tuple(
        scalars(comparison)[name] for name in ("spotCostRatio", "spotStopsPayingAt")
    )
    assert arms["baseline"].stops_paying_at > 2 * ray.stops_paying_at
    assert comparison == Comparison.from_json(comparison.to_json())


def test_an_arm_s_course_is_that_of_its_middle_run() -> None:
    """The medians: neither the best nor the mean."""
    runs = [
        replaced(run, seconds=replace(run.result.seconds, startup=startup))
        for run, startup in zip((run for run in make_runs() if run.result.arm == "ray"), (1.0, 2.0, 6.0), strict=True)
    ]

    assert course_of(runs) == course_of(runs[1:2])


def test_without_checkpoints_a_run_starts_from_scratch() -> None:
    """And what would measure one is named."""
    comparison = compared(checkpoint=None)
    text = render(comparison)

    assert {0} == {arm.checkpoint_epochs for arm in spot_of(comparison).arms.values()}
    assert "checkpointEpochs 1" in text  # not prose: a key and its value
    assert all(len(line) <= WIDTH for line in text.splitlines())
    assert "checkpointEpochs 1" not in render(
        compared(checkpoint=None, settings={"target": "ray"})
    )  # it has no storage


def test_what_its_runs_do_not_decide_is_not_said_to_pay() -> None:
    """An arm whose runs cost less and more than on demand, or that ran once."""
    recipe = make_recipe(epochs=4)
    runs = make_runs(recipe)
    wall = {1: 30.0, 2: 60.0, 3: 150.0}
    uneven = [replaced(run, seconds=replace(run.result.seconds, wall=wall[run.repeat])) for run in runs]
    arms = spot_of(compare(uneven, make_context(recipe, spot=SpotTerms(0.7, 20.0)))).arms
    once = spot_of(compare(runs[: len(RUN)], make_context(recipe, repeats=1, spot=TERMS))).arms

    ray = [each["ray"].cost_ratio for each in (arms, once, spot_of(compared()).arms)]

    assert ["not decided", "not decided", "cheaper"] == [ratio.decision for ratio in ray if ratio]


def test_a_run_that_lasted_for_ages_leaves_the_others_their_numbers() -> None:
    """As one of a laptop that slept meanwhile: the comparison is made, and its ratio has no interval."""
    recipe = make_recipe(epochs=4)
    wall = {1: 60.0, 2: 61.0, 3: 90_000.0}
    slept = [replaced(run, seconds=replace(run.result.seconds, wall=wall[run.repeat])) for run in make_runs(recipe)]
    ray = spot_of(compare(slept, make_context(recipe, spot=SpotTerms(0.35, 30.0)))).arms["ray"]

    assert 60 < (ray.seconds or 0) < 600
    assert ray.cost_ratio is None


def test_what_is_said_of_spot(wording: Wording) -> None:
    """By the intervals; not where the machine was disturbed, which decides nothing, nor of an arm without a step."""
    recipe = make_recipe(epochs=4)
    waited = {"cpu_seconds": 10.0, "waited_seconds": 8.0, "seconds": 20.0}
    loud = [
        replaced(
            run,
            machine=quiet_machine(20, other_cpu_seconds=30),
            workers=[replace(worker, training_wait=CpuWait(**waited)) for worker in run.result.workers],
        )
        for run in make_runs(recipe)
    ]
    disturbed = compare(loud, make_context(recipe, spot=TERMS))
    quiet = compared()
    of_ray = {"ray": spot_of(quiet).arms["ray"]}

    assert is_disturbed(disturbed)
    assert {"cheaper"} == {arm.cost_ratio.decision for arm in spot_of(disturbed).arms.values() if arm.cost_ratio}
    for name, each in {
        "quiet": quiet,
        "disturbed": disturbed,
        "as dear": compared(spot=SpotTerms(1.0, 0.0)),
        "hopeless": compared(spot=SpotTerms(0.35, 1000.0)),
        "one repeat": compare(make_runs(recipe)[: len(RUN)], make_context(recipe, repeats=1, spot=TERMS)),
        "of ray alone": replace(quiet, spot=replace(spot_of(quiet), arms=of_ray)),
    }.items():
        wording("report", "\n".join(shown.notes(each)), name)


def test_what_hardly_ever_ends_has_no_expectation() -> None:
    """The rate at which spot stops paying is known all the same."""
    comparison = compared(spot=SpotTerms(0.35, 1000.0), checkpoint=None)
    arms = spot_of(comparison).arms

    assert comparison == Comparison.from_json(comparison.to_json())
    assert [(None, None)] * 3 == [(arm.seconds, arm.cost_ratio) for arm in arms.values()]
    assert all(0 < arm.stops_paying_at < 1000 for arm in arms.values())
    assert best_seconds(COURSE, 1e6) > HOPELESS * whole(COURSE)  # beyond what math.exp can say


def test_lines_of_the_picture_meet_where_it_is_marked() -> None:
    """They begin at the factor, and cross 1 at the mark."""
    curves = shown.curves(compared())
    assert curves is not None

    for name, ratios in curves.ratios.items():
        assert ratios[0] == pytest.approx(TERMS.factor)
        assert [rate <= curves.stops[name] for rate in curves.rates] == [ratio <= 1 for ratio in ratios]


def test_the_page_has_the_picture_where_spot_was_asked_for(wording: Wording, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the sentence that says what is marked in it."""
    monkeypatch.setattr("report.pictures.drawn", lambda title, _, note="": Panel(title, None, note=note))
    (panel,) = pictures(compared(), [])["spot"]

    wording("report", f"{panel.title}\n{panel.note}", "picture of spot")
    assert "spot" not in pictures(compared(spot=None), [])


@pytest.mark.parametrize(
    ("given", "missing"), [("priceSpotFactor", "interruptionsPerHour"), ("interruptionsPerHour", "priceSpotFactor")]
)
def test_one_key_of_spot_without_the_other_is_refused(given: str, missing: str) -> None:
    """With the lines that set the other, or unset this."""
    refused = only_problem(**{given: "0.5"})

    assert missing in refused.fixes[0]
    assert f"pulumi config rm {given}" == refused.fixes[1]
