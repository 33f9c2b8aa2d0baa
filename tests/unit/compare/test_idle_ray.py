"""The CPU that idle Ray pods take while the other arms run: which readings make it, and when there is none."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from compare.comparison import compare
from compare.measurement import Run
from compare.schema import Comparison
from report.table import render
from tests.golden import Wording
from tests.unit.results import as_run, make_context, make_result, make_run, stamp
from training.contract.result import RayHead

RAY_SECONDS = 20.0


def ray_run(
    repeat: int, used: float, pods: tuple[str, ...] = ("head", "worker-0", "worker-1"), later: float = 0.0
) -> Run:
    """A Ray run in pods, each of which has used so many seconds when it starts, and 18 more at its end."""
    result = make_result("ray", repeat, started_at=stamp("ray", repeat, later))
    began = datetime.fromisoformat(result.started_at).timestamp()
    readings = [[began, used], [began + RAY_SECONDS, used + 18]]
    workers = [
        replace(worker, pod=pod, container_cpu=readings) for worker, pod in zip(result.workers, pods[1:], strict=True)
    ]
    return as_run(replace(result, workers=workers, ray_head=RayHead(pod=pods[0], container_cpu=readings)), repeat)


def compared(rays: list[Run], **context: Any) -> Comparison:
    """The comparison of these Ray runs with the other arms of their repeats."""
    others = [make_run(arm, run.repeat) for run in rays for arm in ("baseline", "native")]
    return compare([*others, *rays], make_context(**{"target": "minikube", "repeats": len(rays), **context}))


def test_it_is_what_all_pods_used_between_two_ray_runs(wording: Wording) -> None:
    """A Ray run starts every 75 s and takes 20: in the 55 s between, three pods use 2 s and then 3 s each."""
    found = compared([ray_run(1, 10.0), ray_run(2, 30.0), ray_run(3, 51.0)])

    low, high = 3 * 2 / 55, 3 * 3 / 55
    assert found.idle_ray_cpus is not None
    assert (found.idle_ray_cpus.low, found.idle_ray_cpus.high) == pytest.approx((low, high))
    assert "0.14 CPUs" in found.reasons["verdict.idleRay"]
    assert found.reasons["verdict.idleRay"] in found.verdict
    wording("verdict", found.reasons["verdict.idleRay"])


@pytest.mark.parametrize(
    "second",
    [
        ray_run(2, 30.0, ("head", "worker-0", "another")),
        ray_run(2, 30.0, ("another", "worker-0", "worker-1")),
        ray_run(2, 15.0),
        ray_run(2, 130.0, later=60),
        ray_run(3, 51.0),
    ],
    ids=[
        "a worker was replaced", "the head was replaced", "the containers began anew", "another run, or a pause",
        "the repeat between is missing",
    ],
)  # fmt: skip
def test_only_the_same_pods_with_the_other_arms_alone_between_make_it(wording: Wording, second: Run) -> None:
    """Else a reason, in the table as well, and no word of it in the verdict."""
    found = compared([ray_run(1, 10.0), second])

    assert found.idle_ray_cpus is None
    assert f"idleRayCpus: {found.reasons['idleRayCpus'][:20]}" in render(found)
    assert "verdict.idleRay" not in found.reasons
    wording("comparison", found.reasons["idleRayCpus"])


def test_a_gap_that_gives_none_leaves_those_that_do() -> None:
    """With the reason that there are fewer than repeats would make."""
    found = compared([ray_run(1, 10.0), ray_run(2, 30.0), ray_run(3, 40.0)])

    assert found.idle_ray_cpus is not None
    assert found.idle_ray_cpus.n == 1
    assert "idleRayCpus" in found.reasons


def test_two_repeats_of_two_arms_may_have_none_between_but_three_have() -> None:
    """The arms take turns at being first, so that one Ray run may follow the other at once."""
    rays = [ray_run(1, 10.0), ray_run(2, 30.0), ray_run(3, 51.0)]
    after_second = stamp("ray", 2, RAY_SECONDS + 1)

    def of(repeats: int) -> Comparison:
        others = [make_run(arm, number, started_at=after_second if number == 2 else stamp(arm, number))
                  for number in range(1, repeats + 1) for arm in ("baseline", "native")]  # fmt: skip
        return compare([*others, *rays[:repeats]], make_context(target="minikube", repeats=repeats))

    two, three = of(2), of(3)

    assert two.idle_ray_cpus is None
    assert "no other arm" in two.reasons["idleRayCpus"]
    assert three.idle_ray_cpus is not None
    assert 1 == three.idle_ray_cpus.n


def test_one_repeat_has_no_gap_and_the_table_says_nothing_of_it() -> None:
    """The verdict says already that one repeat has no range."""
    found = compared([ray_run(1, 10.0)])

    assert found.idle_ray_cpus is None
    assert "set repeats 2" in found.reasons["idleRayCpus"]
    assert "idleRayCpus" not in render(found)


@pytest.mark.parametrize("where", ["a cluster", "this machine"])
def test_what_could_not_be_read_is_said(wording: Wording, where: str) -> None:
    """On a cluster there are Ray pods, whether their cgroup can be read or not; results of the local target have no
    such readings."""
    rays = [make_run("ray", 1), make_run("ray", 2)]
    found = compared(rays, **({} if where == "a cluster" else {"target": "local"}))

    assert found.idle_ray_cpus is None
    wording("comparison", found.reasons["idleRayCpus"])


def test_a_kept_baseline_ran_beside_other_ray_runs() -> None:
    """Between these Ray runs was none of the baselines that they are compared with."""
    rays = [ray_run(1, 10.0), ray_run(2, 30.0)]
    old = [make_run("baseline", repeat, started_at=stamp("baseline", repeat, later=-3600)) for repeat in (1, 2)]
    others = [make_run("native", repeat) for repeat in (1, 2)]
    told = make_context(target="minikube", repeats=2)
    found = compare([*old, *others, *rays], told)

    assert found.idle_ray_cpus is None
