"""The scaling model: it finds constants that made the numbers, and says when it can't."""

from typing import Any

import pytest

from compare.comparison import compare
from compare.measurement import Run
from compare.projection import ETHERNET_LATENCY_SECONDS, Model, Ring, fit_ring
from compare.schema import Projection
from tests.unit.results import make_context, make_recipe, make_run, make_runs, replaced
from training.workloads.cnn.recipe import CnnRecipe

SPREAD_SECONDS = (1.05 - 0.99) * 0.1 / 1.6448536
"""Of the steps that `make_result` makes: p95 - p50 in standard deviations."""

RING = Ring(latency_seconds=2e-4, seconds_per_byte=1.5e-9)


def project(runs: list[Run], recipe: CnnRecipe | None = None) -> Projection:
    """The projection of runs, which must have one."""
    projection = compare(runs, make_context(recipe)).projection
    assert projection is not None
    return projection


def runs_of(model: Model, workers: int, ring: Ring) -> list[Run]:
    """Runs whose steps and probe the model itself makes."""
    recipe = make_recipe(workers=workers)
    probe = {str(size): ring.seconds(workers, size) for size in (4096, 1 << 22)}
    paces = {"baseline": model.baseline_step_seconds, "native": model.step_seconds(workers, ring), "ray": 0.06}
    return [
        make_run(arm, repeat, recipe, step_seconds_mean=pace, **({"all_reduce": probe} if arm == "native" else {}))
        for repeat in (1, 2, 3)
        for arm, pace in paces.items()
    ]


def test_ring_costs_what_the_papers_say() -> None:
    """2(N-1) messages, and 2(N-1)/N of the bytes through each link; nothing for one worker."""
    ring = Ring(latency_seconds=1e-3, seconds_per_byte=1e-9)

    assert ring.seconds(1, 1e9) == 0
    assert ring.seconds(2, 1e9) == pytest.approx(2e-3 + 1.0)
    assert ring.seconds(4, 1e9) == pytest.approx(6e-3 + 1.5)


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_fit_finds_the_link_that_made_the_probe(workers: int) -> None:
    """Latency and bandwidth are solved from two sizes, whatever the order of the keys."""
    probe = {str(size): RING.seconds(workers, size) for size in (8_388_608, 1024)}

    fitted = fit_ring(probe, workers)

    assert fitted.latency_seconds == pytest.approx(RING.latency_seconds)
    assert fitted.seconds_per_byte == pytest.approx(RING.seconds_per_byte)


@pytest.mark.parametrize("workers", [2, 3])
def test_model_recovers_what_made_the_steps(workers: int) -> None:
    """Steps made with an exposed share of 0.4 are fitted with 0.4, and the measured point is met exactly."""
    recipe = make_recipe(workers=workers)
    model = Model(64, 0.1, SPREAD_SECONDS, 816_938 * 4, exposed_share=0.4)

    projection = project(runs_of(model, workers, RING), recipe)

    assert projection.exposed_share == pytest.approx(0.4, rel=1e-3)
    assert projection.links[0].speedup[str(workers)] == pytest.approx(model.speedup(workers, RING), rel=1e-6)
    assert projection.links[0].speedup["8"] == pytest.approx(model.speedup(8, RING), rel=1e-3)


def test_links_are_this_one_and_three_ethernets() -> None:
    """Measured and assumed links are told apart, and the assumption is named."""
    projection = project(make_runs())
    names = [(link.name, link.measured) for link in projection.links]

    assert names == [
        ("this link", True),
        ("1 Gbit/s Ethernet", False),
        ("10 Gbit/s Ethernet", False),
        ("100 Gbit/s Ethernet", False),
    ]
    assert projection.links[1].bytes_per_second == pytest.approx(125e6)
    assert all(link.latency_seconds >= ETHERNET_LATENCY_SECONDS for link in projection.links[1:])
    assert any("assumed, not measured" in text for text in projection.assumptions)


def test_no_ethernet_is_faster_than_this_link() -> None:
    """What software costs here a faster wire does not remove."""
    this, *ethernets = project(make_runs()).links

    assert all(link.bytes_per_second <= this.bytes_per_second for link in ethernets)
    assert all(link.speedup["8"] <= this.speedup["8"] for link in ethernets)


def test_projection_ends_at_eight_images_a_worker() -> None:
    """A global batch of 64 is projected to 8 workers and no further."""
    projection = project(make_runs())

    assert projection.max_workers == 8
    assert max(map(int, projection.links[0].speedup)) == 8


def test_best_workers_is_where_more_do_not_pay() -> None:
    """On a slow link a fifth worker is fastest and adds less than 1 %: four are enough."""
    slow = Ring(latency_seconds=2.1e-3, seconds_per_byte=1e-9)
    model = Model(64, 0.1, SPREAD_SECONDS, 816_938 * 4, exposed_share=1.0)
    speedups = {workers: model.speedup(workers, slow) for workers in range(1, 9)}

    link = project(runs_of(model, 2, slow)).links[0]

    assert max(speedups, key=lambda workers: speedups[workers]) == 5
    assert link.best_workers == 4
    assert link.best_speedup == pytest.approx(speedups[4], rel=1e-3)


def test_uneven_shares_cost_what_the_largest_takes() -> None:
    """Five workers on 64 images wait for the one with 13."""
    model = Model(64, 0.64, 0.0, 4, exposed_share=0.0)

    assert model.step_seconds(5, RING) == pytest.approx(0.13)


def test_workers_without_a_place_of_their_own_take_turns() -> None:
    """On two CPUs, three workers with 22, 21 and 21 of 64 images compute 43 on one; four send twice as often."""
    model = Model(64, 0.64, 0.0, 4096, exposed_share=0.5)

    assert model.compute_seconds(3, places=2) == pytest.approx(0.43)
    assert model.compute_seconds(4, places=2) == pytest.approx(model.compute_seconds(2))
    assert model.step_seconds(4, RING, places=2) == pytest.approx(0.32 + 2 * 0.5 * RING.seconds(4, 4096))
    assert model.step_seconds(4, RING, places=4) == model.step_seconds(4, RING)


def test_stragglers_grow_with_workers_and_shrink_with_their_share() -> None:
    """One worker waits for nobody."""
    model = Model(64, 0.1, 0.01, 4, exposed_share=0.0)

    assert model.straggler_seconds(1) == pytest.approx(0.0)
    assert model.straggler_seconds(2) * 2 < model.straggler_seconds(8) * 8


def test_bfloat16_gradients_are_half_as_many_bytes() -> None:
    """What workers exchange follows gradientPrecision and not precision."""
    recipe = make_recipe(gradient_precision="bfloat16")

    assert project(make_runs()).gradient_bytes == 816_938 * 4
    assert project(make_runs(recipe), recipe).gradient_bytes == 816_938 * 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"all_reduce": None, "reasons": {"allReduce": "the probe failed"}}, "probe at two sizes: the probe failed"),
        ({"all_reduce": {"1024": 0.1}}, "probe at two sizes"),
        ({"all_reduce": {"1024": 0.1, "4096": 0.1}}, "took no longer"),
        ({"train_seconds": None}, "no timed step"),
    ],
)
def test_null_with_a_reason_without_what_it_needs(change: dict[str, Any], why: str) -> None:
    """No probe, no projection: never a guess."""
    runs = [replaced(run, **change) if run.arm == "native" else run for run in make_runs()]
    comparison = compare(runs, make_context())

    assert comparison.projection is None
    assert why in comparison.reasons["projection"]


def test_one_worker_projects_nothing() -> None:
    """With one worker there is no exchange to fit to."""
    recipe = make_recipe(workers=1)
    comparison = compare(make_runs(recipe), make_context(recipe))

    assert comparison.projection is None
    assert "one worker" in comparison.reasons["projection"]


@pytest.mark.parametrize(("workers", "expected"), [(2, 0.56419), (3, 0.84628), (5, 1.16296), (10, 1.53875)])
def test_the_slowest_of_n_is_as_slow_as_the_tables_of_order_statistics_say(workers: int, expected: float) -> None:
    """Harter 1961: the expected largest of N standard normal values; Blom's approximation is within 5 %."""
    model = Model(batch=workers, baseline_step_seconds=1.0, spread_seconds=1.0, gradient_bytes=4, exposed_share=1.0)

    share = model.straggler_seconds(workers) / model.straggler_seconds(1) if model.straggler_seconds(1) else None

    assert share is None
    assert model.straggler_seconds(workers) * workers == pytest.approx(expected, rel=0.05)
