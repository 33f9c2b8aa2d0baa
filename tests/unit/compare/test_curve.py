"""The workers' curve: what each number of workers gains over the one before, and from where on more do not pay."""

import math
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from compare.comparison import compare
from compare.curve import costs_more_from, curve
from compare.intervals import estimate
from compare.measurement import CompareError, Prices, Reserved, Run, measure
from compare.schema import Comparison, WorkersCurve
from compare.value import Missing
from tests.golden import Wording
from tests.unit.results import FIRST_START, make_context, make_recipe, make_run, make_runs, replaced

REPEATS = 4
FOUR = make_recipe(workers=4, epochs=3)
ARMS = ("baseline", "ray")
PACES = {1: 0.105, 2: 0.060, 4: 0.058}
"""Mean timed step by number of workers: the second pair gains next to nothing."""


def point(workers: int, repeat: int, **changes: Any) -> Run:
    """A run of Ray with so many workers, as it stands in the state."""
    run = make_run("ray", repeat, replace(FOUR, workers=workers), **changes)
    return replace(run, name=f"ray-w{workers}-{repeat}" if workers != FOUR.workers else f"ray-{repeat}")


def measured(paces: dict[int, float] = PACES, noise: float = 0.0, seed: str = "curve", **context: Any) -> Comparison:
    """A measurement with a curve over these numbers of workers, each run off its pace by some noise."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    runs = [make_run("baseline", repeat, FOUR, step_seconds_mean=0.1) for repeat in range(1, REPEATS + 1)]
    runs += [
        point(workers, repeat, step_seconds_mean=pace * math.exp(rng.gauss(0, noise)))
        for repeat in range(1, REPEATS + 1)
        for workers, pace in paces.items()
    ]
    return compare(runs, context_of(paces, **context))


def context_of(paces: dict[int, float], **changes: Any) -> Any:
    """What such a measurement was asked for."""
    others = tuple(number for number in sorted(paces) if number != FOUR.workers)
    return make_context(FOUR, **{"arms": ARMS, "repeats": REPEATS, "curve": others} | changes)


def curve_of(comparison: Comparison) -> WorkersCurve:
    """The curve of a comparison that must have one."""
    assert comparison.workers_curve is not None
    return comparison.workers_curve


def test_each_point_is_held_against_the_one_before() -> None:
    """Speedup over the baseline by steps, gain over the number before by the whole clock; in ascending order."""
    curve = curve_of(measured(noise=0.01))
    first, second, last = curve.points

    assert [1, 2, 4] == [point.workers for point in curve.points]
    assert first.gain is None
    assert first.cost_ratio is None
    assert second.speedup is not None
    assert second.speedup.median == pytest.approx(0.1 / PACES[2], rel=0.05)
    assert second.gain is not None
    assert second.gain.median == pytest.approx(first.wall_seconds.median / second.wall_seconds.median, rel=0.02)
    assert ["ray-1", "ray-2", "ray-3", "ray-4"] == [run.name for run in last.runs]
    assert ["ray-w2-1", "ray-w2-2", "ray-w2-3", "ray-w2-4"] == [run.name for run in second.runs]


def test_it_stops_paying_at_the_first_number_without_a_sure_gain(wording: Wording) -> None:
    """And the verdict says so, with the gains."""
    comparison = measured(noise=0.02)

    assert 4 == curve_of(comparison).stops_paying_at
    wording("verdict", comparison.verdict)
    paces = {1: 0.4, 2: 0.2, 4: 0.1}
    comparison = measured(paces, noise=0.02)
    assert curve_of(comparison).stops_paying_at is None
    wording("comparison", comparison.reasons["stopsPayingAt"])


def test_more_workers_that_save_less_than_they_cost_are_named(wording: Wording) -> None:
    """By CPU hours where no price is set: two workers at 95 % of the time of one take nearly twice as many."""
    comparison = measured(noise=0.02)
    curve = curve_of(comparison)

    assert 1 == curve.costs_more_from
    wording("verdict", comparison.reasons["verdict.curve"])
    assert curve.points[1].cost is None
    assert curve.points[1].cost_ratio is not None
    assert "dearer" == curve.points[1].cost_ratio.decision
    assert curve.points[1].cpu_hours.median == pytest.approx(2 * curve.points[1].wall_seconds.median / 3600)


def test_the_first_that_costs_more_is_one_of_several() -> None:
    """Its interval is corrected for how many were looked at: 0.98 of a ratio is enough for one, and not for three."""
    ratios = estimate([1.03, 1.12, 1.06, 1.06])
    first, second = (replace(point, cost_ratio=ratios) for point in curve_of(measured(noise=0.02)).points[:2])
    even = replace(second, cost_ratio=estimate([0.9, 1.1, 1.0, 1.0]))

    assert ratios.lower is not None
    assert ratios.lower > 1
    assert first.workers == costs_more_from([first, second])
    assert isinstance(costs_more_from([first, even, even, second]), Missing)


def test_a_fixed_cost_that_is_shared_makes_a_second_worker_cheaper() -> None:
    """A head of four CPUs is held for as long as the run takes: what shortens it saves."""
    paces = {1: 0.8, 2: 0.4, 4: 0.38}
    curve = curve_of(measured(paces, noise=0.01, ray_overhead=Reserved(cpus=4.0)))

    assert curve.points[1].cost_ratio is not None
    assert "cheaper" == curve.points[1].cost_ratio.decision
    assert 2 == curve.costs_more_from


def test_prices_decide_where_they_are_set() -> None:
    """Memory alone has a price, and Ray holds much of it beside its workers: cost is compared, not CPU hours."""
    prices, beside = Prices(cpu_hour=0.0, gib_hour=1.0), Reserved(memory_bytes=64 * 2**30)
    paces = {1: 0.8, 2: 0.4, 4: 0.2}
    curve = curve_of(measured(paces, noise=0.01, prices=prices, ray_overhead=beside, worker_memory_bytes=2**30))

    assert curve.points[0].cost is not None
    assert ["cheaper", "cheaper"] == [point.cost_ratio.decision for point in curve.points[1:] if point.cost_ratio]
    assert curve.costs_more_from is None


def test_one_repeat_says_neither(wording: Wording) -> None:
    """Without an interval nothing is sure: null, with the reason."""
    runs = [make_run("baseline", 1, FOUR), *(point(workers, 1) for workers in PACES)]
    comparison = compare(runs, replace(context_of(PACES), repeats=1))
    curve = curve_of(comparison)

    assert (None, None) == (curve.stops_paying_at, curve.costs_more_from)
    assert comparison.reasons["stopsPayingAt"] == comparison.reasons["costsMoreFrom"]
    wording("comparison", comparison.reasons["stopsPayingAt"])


def test_without_a_curve_there_is_none_and_nothing_else_changes() -> None:
    """Null with its reason; and a curve's runs change no number of the arms."""
    without = compare(make_runs(), make_context())

    assert without.workers_curve is None
    assert "workersCurve is none" == without.reasons["workersCurve"]
    runs = [*[make_run("baseline", repeat, FOUR) for repeat in (1, 2)], *[point(4, repeat) for repeat in (1, 2)]]
    alone = compare(runs, make_context(FOUR, arms=ARMS, repeats=2))
    both = compare([*runs, point(2, 1), point(2, 2)], make_context(FOUR, arms=ARMS, repeats=2, curve=(2,)))
    assert alone.ratios == both.ratios
    assert alone.arms == both.arms
    assert alone.answer == both.answer


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"world_size": 1}, "replicasAsAsked"),
        ({"work": {"trainImages": 999}}, "sameWork"),
        ({"checks": {"shardsCoverDataSet": True, "weightsEqual": False}}, "weightsEqual"),
    ],
)
def test_points_that_did_other_work_are_no_curve(wording: Wording, changes: dict[str, Any], check: str) -> None:
    """Null with the check that failed; the arms are still compared."""
    runs = [make_run(arm, repeat, FOUR) for repeat in (1, 2) for arm in ARMS]
    runs += [replaced(point(2, repeat), **(changes if repeat == 2 else {})) for repeat in (1, 2)]
    comparison = compare(runs, make_context(FOUR, arms=ARMS, repeats=2, curve=(2,)))

    assert comparison.workers_curve is None
    assert check in comparison.reasons["workersCurve"]
    wording("comparison", comparison.reasons["workersCurve"], check)
    assert comparison.ratios["speedup"] is not None


def test_a_point_trained_with_another_recipe_is_refused() -> None:
    """Only the number of workers may differ."""
    other = make_run("ray", 1, replace(FOUR, workers=2, global_batch_size=32))

    with pytest.raises(CompareError, match="globalBatchSize"):
        compare([make_run("baseline", 1, FOUR), point(4, 1), other], make_context(FOUR, arms=ARMS, curve=(2,)))


def test_a_repeat_without_all_points_is_left_out(wording: Wording) -> None:
    """Of the curve alone; with none left there is no curve, and the reason says so."""
    runs = [make_run(arm, repeat, FOUR) for repeat in (1, 2, 3) for arm in ARMS]
    context = make_context(FOUR, arms=ARMS, curve=(1, 2))
    points = [point(1, 1), point(2, 1), point(1, 2), point(2, 2), point(1, 3)]

    assert [2, 2, 2] == [each.wall_seconds.n for each in curve_of(compare([*runs, *points], context)).points]
    wording("comparison", compare(runs, context).reasons["workersCurve"])


def test_runs_of_a_curve_between_those_of_a_repeat_are_no_pause() -> None:
    """Ten minutes of another point between two arms are measured, too."""
    runs = [make_run("baseline", 1, FOUR), point(4, 1, started_at=(FIRST_START + timedelta(seconds=640)).isoformat())]
    between = point(2, 1, started_at=(FIRST_START + timedelta(seconds=30)).isoformat(), wall_seconds=600.0)
    context = make_context(FOUR, arms=ARMS, repeats=1)

    assert "apart" in compare(runs, context).verdict
    assert "apart" not in compare([*runs, between], replace(context, curve=(2,))).verdict


def test_equal_numbers_of_workers_are_seldom_said_to_gain() -> None:
    """By simulation with 5 % from run to run: where more workers gain nothing, a gain is named in at most 5 %.

    Of false decisions half are *slower*. A gain of half is found in at least nine of ten.
    """
    rng = random.Random("gain")  # noqa: S311 - no secret
    runs = [make_run("baseline", repeat, FOUR) for repeat in range(1, REPEATS + 1)]
    points = [point(workers, repeat) for repeat in range(1, REPEATS + 1) for workers in (1, 4)]
    context = context_of(PACES, curve=(1,))

    def says_it_gains(seconds: dict[int, float]) -> bool:
        """One measurement whose runs of so many workers take so long."""
        noisy = [
            replaced(run, wall_seconds=seconds[run.result.world_size or 0] * math.exp(rng.gauss(0, 0.05)))
            for run in points
        ]
        found = curve(measure([*runs, *noisy], context))
        return not isinstance(found, Missing) and isinstance(found.stops_paying_at, Missing)

    assert sum(says_it_gains({1: 60.0, 4: 60.0}) for _ in range(200)) <= 0.05 * 200
    assert sum(says_it_gains({1: 60.0, 4: 40.0}) for _ in range(50)) >= 0.9 * 50
