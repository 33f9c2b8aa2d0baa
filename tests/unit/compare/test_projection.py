"""More workers: a band that holds on published curves and with noise, or no number; and what to measure for one."""

import math
import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from compare import projection
from compare.comparison import compare
from compare.measurement import Run
from compare.projection import RANGE_UP_TO, Line, headline, sentences
from compare.schema import Projection
from tests.golden import Wording
from tests.simulations import projection as published
from tests.unit.results import make_context, make_recipe, make_run, make_runs, replaced

NOISE = 0.03


def measured(
    speedups: dict[int, float], noise: float = NOISE, repeats: int = 4, batch: int = 512, **context: Any
) -> Any:
    """The comparison of Ray with so many workers, the last of them all, so many times as fast as one process."""
    *others, most = speedups
    recipe, rng = make_recipe(workers=most, global_batch_size=batch), random.Random(f"{speedups}")  # noqa: S311
    runs = [make_run("baseline", repeat, recipe, step_seconds_mean=0.1) for repeat in range(1, repeats + 1)]
    for repeat in range(1, repeats + 1):
        for workers, speedup in speedups.items():
            pace = 0.1 / speedup * math.exp(rng.gauss(0, noise))
            run = make_run("ray", repeat, replace(recipe, workers=workers), step_seconds_mean=pace)
            runs.append(run if workers == most else replace(run, name=f"ray-w{workers}-{repeat}"))
    asked = {"arms": ("baseline", "ray"), "repeats": repeats, "curve": tuple(others)} | context
    return compare(runs, make_context(recipe, **asked))


def projected(speedups: dict[int, float], **changes: Any) -> Projection:
    """The projection, which must be there."""
    comparison = measured(speedups, **changes)
    assert comparison.projection is not None, comparison.reasons["projection"]
    return comparison.projection  # type: ignore[no-any-return]


@pytest.mark.parametrize("numbers", [2, 3])
def test_the_constants_are_those_of_the_published_curves(numbers: int) -> None:
    """Recomputed from tests/data/scaling-curves.csv: whoever changes one, or a curve, changes the other."""
    known = [case for case in published.cases(numbers) if published.distance(case) <= RANGE_UP_TO]

    assert published.calibrated(known) == projection.ERRORS[numbers]


@pytest.mark.parametrize("numbers", [2, 3])
def test_bands_hold_nine_of_ten_points_of_sources_that_were_left_out(numbers: int) -> None:
    """At each distance by itself."""
    found = published.held_out(numbers)

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
def lines(draw: st.DrawFn) -> Line:
    """Lines through any numbers of workers, with any noise."""
    repeats = draw(st.integers(2, 6))
    numbers = sorted({1, *draw(st.sets(st.integers(2, 64), min_size=1, max_size=4))})
    return Line({number: draw(st.lists(speedups, min_size=repeats, max_size=repeats)) for number in numbers})


@settings(max_examples=50, deadline=None)
@given(lines())
def test_a_band_contains_its_point_and_grows_with_the_distance(line: Line) -> None:
    """Whatever was measured."""
    bands = [line.band(line.most + more) for more in range(3 * line.most + 1)]
    widths = [math.log(band.upper / band.lower) for band in bands]

    assert all(band.lower <= band.centre <= band.upper for band in bands)
    assert all(near <= far + 1e-9 for near, far in pairwise(widths))


measurements = st.fixed_dictionaries({2: speedups}, optional={1: speedups, 4: speedups, 8: speedups})


@settings(max_examples=25, deadline=None, phases=[Phase.generate])  # a whole comparison each: shrinking takes minutes
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


def test_a_line_goes_on_as_it_came() -> None:
    """1, 2 and 4 workers at 1.6 times for each doubling: eight would reach 1.6 to the third."""
    found = projected({2: 1.6, 4: 2.56}, noise=0.0)
    eight, sixteen = (next(point for point in found.points if point.workers == number) for number in (8, 16))

    assert [1, 2, 4] == found.measured
    assert eight.speedup == pytest.approx(1.6**3)
    assert sixteen.speedup is None
    assert eight.lower == pytest.approx(1.6**3 * 2**-0.77)
    assert eight.upper == pytest.approx(1.6**3 * 2**0.27)
    assert eight.cost_lower == pytest.approx(2 * 2.56 / eight.upper)
    assert eight.cost_upper == pytest.approx(2 * 2.56 / eight.lower)


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


def test_beside_automatic_repeats_neither_repeats_nor_a_curve_is_proposed() -> None:
    """Both would be refused."""
    found = projected({4: 3.2}, is_auto=True)

    assert [{"workers": "8"}] == [each.settings for each in found.next]


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
