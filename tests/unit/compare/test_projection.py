"""More workers: a band that holds on published curves and with noise, or no number; and what to measure for one."""

import math
import random
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from compare import projection
from compare.comparison import compare
from compare.measurement import Reserved, Run
from compare.projection import RANGE_UP_TO, Trend, headline, sentences
from compare.schema import Projection
from tests.golden import Wording
from tests.simulations import projection as published
from tests.unit.results import make_context, make_recipe, make_run, make_runs, replaced

NOISE = 0.03


def measured(
    speedups: dict[int, float],
    noise: float = NOISE,
    repeats: int = 4,
    batch: int = 512,
    without: tuple[str, ...] = (),
    **context: Any,
) -> Any:
    """The comparison of Ray with so many workers, the last of them all, so many times as fast as one process."""
    *others, most = speedups
    recipe, rng = make_recipe(workers=most, global_batch_size=batch, warmup_steps=0), random.Random(f"{speedups}")  # noqa: S311
    runs = [make_run("baseline", repeat, recipe, step_seconds_mean=0.1) for repeat in range(1, repeats + 1)]
    for repeat in range(1, repeats + 1):
        for workers, speedup in speedups.items():
            pace = 0.1 / speedup * math.exp(rng.gauss(0, noise))
            run = make_run("ray", repeat, replace(recipe, workers=workers), step_seconds_mean=pace)
            runs.append(run if workers == most else replace(run, name=f"ray-w{workers}-{repeat}"))
    asked = {"arms": ("baseline", "ray"), "repeats": repeats, "curve": tuple(others), "target": "kubernetes"} | context
    return compare([run for run in runs if run.name not in without], make_context(recipe, **asked))


def projected(speedups: dict[int, float], **changes: Any) -> Projection:
    """The projection, which must be there."""
    comparison = measured(speedups, **changes)
    assert comparison.projection is not None, comparison.reasons["projection"]
    return comparison.projection  # type: ignore[no-any-return]


@pytest.mark.parametrize("numbers", [2, 3])
def test_the_constants_are_those_of_the_published_curves(numbers: int) -> None:
    """Recomputed from tests/data/scaling-curves.csv: whoever changes one, or a curve, changes the other."""
    known = [case for case in published.cases(numbers) if published.distance(case) <= RANGE_UP_TO]

    assert published.calibrated(known, numbers) == projection.ERRORS[numbers]


@pytest.mark.parametrize("numbers", [2, 3])
def test_bands_hold_nine_of_ten_points_of_sources_that_were_left_out(numbers: int) -> None:
    """At each distance by itself: of all points, and of the average source, which is what a user is."""
    found = published.held_out(numbers)

    assert all(published.of_sources(found, times)[0] >= 0.9 for times in (2, 4))
    assert all(published.of_sources(found, times)[1] >= 10 for times in (2, 4))
    assert all(published.share(found, times)[0] >= 0.9 for times in (2, 4))
    assert all(published.share(found, times)[1] >= 60 for times in (2, 4))


@pytest.mark.parametrize("numbers", [2, 3])
@pytest.mark.parametrize("spread", [0.05, 0.1])
def test_bands_hold_with_noise_from_run_to_run(numbers: int, spread: float) -> None:
    """By simulation with a seed: four repeats whose ratios are off by 5 and 10 %."""
    found = published.with_noise(numbers, spread)

    assert all(published.share(found, times)[0] >= 0.9 for times in (2, 4))


speedups = st.floats(0.2, 8.0)


@st.composite
def trends(draw: st.DrawFn) -> Trend:
    """Trends of any numbers of workers, with any noise."""
    repeats = draw(st.integers(2, 6))
    numbers = sorted({1, *draw(st.sets(st.integers(2, 64), min_size=1, max_size=4))})
    return Trend({number: draw(st.lists(speedups, min_size=repeats, max_size=repeats)) for number in numbers})


@settings(max_examples=25, deadline=None)
@given(trends())
def test_a_band_contains_its_point_and_grows_with_the_distance(trend: Trend) -> None:
    """Whatever was measured."""
    bands = [trend.band(trend.most + more) for more in range(3 * trend.most + 1)]
    widths = [math.log(band.upper / band.lower) for band in bands]

    assert all(band.lower <= band.centre <= band.upper for band in bands)
    assert all(near <= far + 1e-9 for near, far in pairwise(widths))


measurements = st.fixed_dictionaries({2: speedups}, optional={1: speedups, 4: speedups, 8: speedups})


@settings(max_examples=12, deadline=None, phases=[Phase.generate])  # a whole comparison each: shrinking takes minutes
@given(measurements, st.floats(0.0, 0.3))
def test_whatever_was_measured_no_two_statements_contradict(speedups: dict[int, float], noise: float) -> None:
    """No number beyond twice, nothing beyond four times, and a knee that the bands allow."""
    found = projected(dict(sorted(speedups.items())), noise=noise)
    now = max(found.measured)

    assert all(point.lower <= point.upper for point in found.points)
    assert all((point.speedup is not None) == (point.workers <= 2 * now) for point in found.points)
    assert all(point.workers <= RANGE_UP_TO * now for point in found.points)
    assert not any(point.upper > found.speedup and point.lower <= found.speedup / 2 for point in found.points)
    assert (found.knee_to or math.inf) >= (
        found.knee_from or math.inf if found.knee_to is None else found.knee_from or 0
    )
    twice = next((point for point in found.points if point.workers == 2 * now), None)
    if twice and found.knee_to == now:
        assert twice.upper < 1.1 * found.speedup * (1 + 1e-9)
    if twice and found.knee_from is None:
        assert twice.lower >= 1.1 * found.speedup * (1 - 1e-9)
    assert sentences(found)
    assert headline(found)


@pytest.mark.parametrize(
    ("label", "speedups", "changes"),
    [
        ("two points", {4: 3.2}, {}),
        ("three points", {2: 1.9, 4: 3.5}, {}),
        ("flat", {4: 4.0, 8: 4.0}, {"noise": 0.001}),
        ("noise", {2: 1.4}, {"noise": 0.5, "repeats": 2}),
        ("falling", {2: 1.0, 4: 0.72}, {"noise": 0.001}),
        ("small batch", {4: 3.2}, {"batch": 64}),
    ],
)
def test_a_projection_is_said_as_bands(
    wording: Wording, label: str, speedups: dict[int, float], changes: dict[str, Any]
) -> None:
    """Point, band, cost, knee, and what to measure next."""
    found = projected(speedups, **changes)

    wording("comparison", "\n".join(sentences(found)), label)
    wording("comparison", headline(found), f"{label}, in the verdict")


def test_it_goes_on_half_way_between_as_it_came_and_amdahls_law() -> None:
    """1, 2 and 4 workers at 1.6 times for each doubling: the line has 1.6 to the third with eight, Amdahl's law 3.2."""
    found = projected({2: 1.6, 4: 2.56}, noise=0.0)
    eight, sixteen = (next(point for point in found.points if point.workers == number) for number in (8, 16))
    serial = (4 / 2.56 - 1) / 3
    centre = math.sqrt(1.6**3 * 8 / (1 + 7 * serial))

    assert [1, 2, 4] == found.measured
    assert found.exponent == pytest.approx(math.log2(1.6))
    assert eight.speedup == pytest.approx(centre)
    assert sixteen.speedup is None
    assert eight.lower == pytest.approx(centre * 2**-0.82)
    assert eight.upper == pytest.approx(centre * 2**0.38)
    assert eight.cost_lower == pytest.approx(2 * 2.56 / eight.upper)
    assert eight.cost_upper == pytest.approx(2 * 2.56 / eight.lower)


def test_what_was_faster_than_its_workers_has_no_serial_part() -> None:
    """Two workers at three times: Amdahl's law goes on with twice as much for twice as many."""
    four = next(point for point in projected({2: 3.0}, noise=0.0).points if point.workers == 4)

    assert four.speedup == pytest.approx(3.0 * math.sqrt(3.0 * 2.0))


def test_neighbouring_numbers_of_workers_make_no_slope() -> None:
    """From seven to eight a batch divides otherwise: the line is the one from half as many or fewer."""
    found = projected({7: 5.0, 8: 6.4}, noise=0.0)

    assert found.exponent == pytest.approx(math.log(6.4) / math.log(8))


def test_noise_makes_the_band_wider() -> None:
    """By the interval of the repeats."""
    calm, noisy = (projected({4: 3.2}, noise=noise) for noise in (0.001, 0.4))
    below = [(found.points[0].speedup or 0.0) / found.points[0].lower for found in (calm, noisy)]

    assert below[1] > 1.05 * below[0]


def test_where_more_workers_would_be_faster_or_half_as_fast_there_is_no_number() -> None:
    """It says what to measure, which may be asked for as it stands, and how long that takes."""
    found = projected({2: 1.4}, noise=0.5, repeats=2)

    assert [] == found.points
    assert {"repeats": "4"} == found.next[0].settings
    assert found.next[0].minutes > 0


def test_where_nothing_would_narrow_it_either_both_are_sentences() -> None:
    """In the verdict the one follows the other."""
    found = projected({2: 1.4}, noise=0.5, repeats=2, settings={"budgetMinutes": "1"})

    assert ([], []) == (found.points, found.next)
    assert re.search(r"fast\. [A-Z]", headline(found))


def test_beside_automatic_repeats_neither_repeats_nor_a_curve_is_proposed() -> None:
    """Both would be refused."""
    found = projected({4: 3.2}, is_auto=True)

    assert [{"workers": "8"}] == [each.settings for each in found.next]


@pytest.mark.parametrize(
    ("speedups", "changes"),
    [
        ({4: 3.2}, {"target": "local"}),  # of four CPUs
        ({200: 90.0}, {"batch": 65_536}),
        ({4: 3.2}, {"repeats": 51, "noise": 2.0}),
        ({4: 3.2}, {"settings": {"budgetMinutes": "1"}}),
        ({2: 1.9, 4: 3.2}, {"without": ("ray-w2-1", "ray-w2-2", "ray-w2-3", "ray-w2-4")}),
    ],
)
def test_what_is_proposed_is_allowed(speedups: dict[int, float], changes: dict[str, Any]) -> None:
    """By the CPUs of this machine, the rules of the keys, the budget; and it is not what the stack has anyway."""
    found = projected(speedups, **changes)
    proposed = [each.settings for each in found.next]

    assert all(int(each.get("workers", 0)) <= (4 if changes.get("target") == "local" else 256) for each in proposed)
    assert all(point.workers <= 256 for point in found.points)
    assert all(int(each.get("repeats", 0)) <= 100 for each in proposed)
    assert {"workersCurve": "2"} not in proposed or 2 not in speedups
    assert not proposed or "settings" not in changes
    assert sentences(found)


@pytest.mark.parametrize(("noise", "proposed"), [(0.001, []), (0.2, []), (0.5, ["8"])])
def test_repeats_are_proposed_only_where_they_narrow_the_band_by_a_fifth(noise: float, proposed: list[str]) -> None:
    """They narrow the part of it that is from noise; what published curves differ by stays."""
    found = projected({4: 3.2}, noise=noise).next

    assert proposed == [each.settings["repeats"] for each in found if "repeats" in each.settings]
    assert all(each.narrows_by > 1.25 for each in found)


def test_a_proposal_takes_as_long_as_the_pauses_between_runs_let_it() -> None:
    """The eight runs of the four repeats start half a minute to a minute apart."""
    repeats = next(each for each in projected({4: 3.2}, noise=0.5).next if "repeats" in each.settings)

    assert 4 <= repeats.minutes <= 8


def test_a_point_of_few_repeats_does_not_cost_the_others() -> None:
    """Two workers were measured in two of four repeats: the band has all four, and those of all workers alone."""
    found = projected({2: 1.9, 4: 3.2}, without=("ray-w2-1", "ray-w2-2"))

    assert [1, 4] == found.measured


def test_what_a_step_costs_has_one_head() -> None:
    """Which reserves as much as four workers: twice the workers reserve 12 CPUs instead of 8."""
    alone, headed = (projected({4: 3.2}, **more) for more in ({}, {"ray_overhead": Reserved(cpus=4.0)}))
    eight = [next(point for point in found.points if point.workers == 8) for found in (alone, headed)]

    assert eight[1].cost_upper == pytest.approx(0.75 * eight[0].cost_upper)


def test_workers_that_shared_cpus_foretell_nothing() -> None:
    """Of workers with CPUs of their own, which is what is said."""
    comparison = measured({4: 3.2}, oversubscription="4 workers share 2 CPUs")

    assert "share" in comparison.reasons["projection"]


def test_it_ends_at_eight_images_a_worker() -> None:
    """Of a global batch of 64 at eight workers; with eight there is none."""
    assert 8 == projected({4: 3.2}, batch=64).points[-1].workers
    assert "8 images" in measured({8: 5.0}, batch=64).reasons["projection"]


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        (make_runs(repeats=1), "no band"),
        ([replaced(run, train_seconds=None) for run in make_runs()], "no timed step"),
    ],
)
def test_null_with_a_reason_without_what_it_needs(runs: list[Run], why: str) -> None:
    """Never a guess."""
    comparison = compare(runs, make_context(repeats=len(runs) // 3))

    assert comparison.projection is None
    assert why in comparison.reasons["projection"]


def test_one_worker_projects_nothing() -> None:
    """One point makes no line."""
    recipe = make_recipe(workers=1)
    comparison = compare(make_runs(recipe), make_context(recipe))

    assert comparison.projection is None
    assert "one worker" in comparison.reasons["projection"]
