"""What the start of a run's own Ray workers becomes: part of its start-up, its end-to-end time and the break-even."""

from dataclasses import replace
from datetime import datetime

import pytest

from compare.comparison import compare
from compare.schema import Comparison
from infra.places.cluster import job_result
from tests.golden import Wording
from tests.unit.compare.test_idle_ray import compared, ray_run
from tests.unit.results import make_context, make_result, make_runs

PHASES = {"created": 0.5, "scheduled": 1.0, "image": 20.0, "ready": 4.5}
TOTAL = 26.0


def started(seconds: float = 1.0) -> Comparison:
    """The comparison of runs whose Ray workers started for each, all phases times so many."""
    phases = {name: seconds * value for name, value in PHASES.items()}
    runs = [
        replace(run, result=job_result.with_scale_up(run.result, phases)) if run.arm == "ray" else run
        for run in make_runs()
    ]
    return compare(runs, make_context())


def test_a_run_begins_when_its_workers_are_asked_for() -> None:
    """By phase, and it ends when it ended; without them a result stays as it is."""
    before = make_result("ray")
    after = job_result.with_scale_up(before, PHASES)
    ends = [datetime.fromisoformat(one.started_at).timestamp() + one.seconds.wall for one in (before, after)]

    assert TOTAL == after.seconds.scale_up
    assert after.seconds.startup == pytest.approx((before.seconds.startup or 0.0) + TOTAL)
    assert after.seconds.wall == pytest.approx(before.seconds.wall + TOTAL)
    assert ends[0] == pytest.approx(ends[1], abs=0.001)
    assert [20.0, 4.5] == [after.seconds.phases[name] for name in ("workersImage", "workersReady")]
    assert before == job_result.with_scale_up(before, {})


def test_it_is_in_ray_s_clock_and_in_no_step(wording: Wording) -> None:
    """The end-to-end ratio and the break-even move, the steady state's do not."""
    without, with_start = compare(make_runs(), make_context()), started()

    assert TOTAL == with_start.arms["ray"].median("scaleUpSeconds")
    assert without.arms["ray"].measures["scaleUpSeconds"] is None
    assert without.reasons["ray.scaleUpSeconds"]
    assert without.ratios["speedup"] == with_start.ratios["speedup"]
    assert without.ratios["endToEndSpeedup"] != with_start.ratios["endToEndSpeedup"]
    startup = [one.arms["ray"].median("startupSeconds") or 0.0 for one in (without, with_start)]
    assert startup[1] - startup[0] == pytest.approx(TOTAL)
    wording("verdict", with_start.reasons["verdict.scaleUp"])


def test_only_the_head_is_idle_between_runs_with_workers_of_their_own() -> None:
    """Their pods are gone after each: those of the next have other names. What it takes until they are is no pause."""
    names = [("head", f"worker-{repeat}", f"other-{repeat}") for repeat in (1, 2)]
    rays = [ray_run(repeat, 10.0 + 20 * (repeat - 1), pods) for repeat, pods in enumerate(names, 1)]
    assert compared(rays).idle_ray_cpus is None
    for gone_seconds, later in ((120.0, 0.0), (150.0, 140.0)):
        rays[1] = ray_run(2, 30.0, names[1], later)
        found = compared(rays, workers_gone_seconds=gone_seconds).idle_ray_cpus

        assert found is not None
        assert found.median == pytest.approx(2 / (55 + later))
    assert compared(rays, workers_gone_seconds=1.0).idle_ray_cpus is None
