"""Results and comparisons of runs whose workers have a GPU each."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from compare.measurement import Context, Prices
from compare.run_numbers import cost, reserved
from compare.schema import Comparison
from tests import nvml
from tests.golden import Wording
from tests.unit.results import make_runs
from tests.unit.script.test_measured import Measured, Results, good, measured, results
from training.contract.gpu_use import UNKNOWN, GpuUse
from training.contract.result import TrainingResult
from training.workloads.script.observations import Observation
from training.workloads.script.recipe import ScriptRecipe

__all__ = ["measured", "results"]
WAITED = tuple(range(1, 10))
"""Steps after each of which the device is waited for, at first."""


def on_gpus(arm: str) -> Sequence[Observation]:
    """Ranks whose device was a second behind the program at every step, and was waited for as a run does it."""
    return [
        replace(one, device_every=2, device_marks=tuple((n, one.step_ends[n - 1] + 1.0) for n in (*WAITED, 11)))
        for one in good(arm)
    ]


def test_the_series_of_steps_is_that_of_blocks(results: Results) -> None:
    """The time of a single step is not known, and says why; the start-up ends when the device has computed a step."""
    alone, behind = results("baseline"), results("baseline", on_gpus)

    assert behind.steps.seconds is None
    assert "2 steps" in behind.reasons["steps.seconds"]
    assert [pytest.approx(0.4)] * 2 == behind.steps.trace
    assert behind.seconds.train == pytest.approx(0.8)
    assert None not in (alone.seconds.startup, behind.seconds.startup)
    assert pytest.approx((alone.seconds.startup or 0) + 1) == behind.seconds.startup
    assert "steps.seconds" not in alone.reasons


def test_native_is_what_ray_is_compared_with(measured: Measured, wording: Wording) -> None:
    """A bigger process is none: one uses one GPU."""
    absent = {"wide": "one process uses one GPU"}
    found, before = compared(measured), measured(absent=absent)

    assert ("alternative", "control") == (found.arms["native"].role, before.arms["native"].role)
    assert {"baseline", "native"} == set(found.break_even)
    assert found.ratios["endToEndNativeSpeedup"] is not None
    assert "endToEndNativeSpeedup" not in before.ratios
    wording("verdict", found.verdict)


SEEN = {"name": nvml.NAME, "driver": "580.00", "max_sm_mhz": 1980, "throttled": {}}


def with_gpus(arm: str, **changes: Any) -> Sequence[Observation]:
    """Ranks with a GPU each; `changes` by arm: what is other in each of its ranks."""
    own = changes.get(arm, {})
    if own is None:
        return good(arm)
    backend = None if arm == "baseline" else "nccl"
    return [
        replace(one, gpu=GpuUse(**SEEN | {"uuid": nvml.uuid(one.rank + 1), "backend": backend} | own))
        for one in on_gpus(arm)
    ]


def compared(measured: Measured, **changes: Any) -> Comparison:
    """The comparison of such runs."""
    return measured(lambda arm: with_gpus(arm, **changes), absent={"wide": "one process uses one GPU"}, worker_gpus=1)


def test_a_gpu_of_its_own_for_every_rank_is_as_asked(measured: Measured) -> None:
    """Of one model, with one backend; the baseline has none, because it exchanges nothing. Without GPUs nobody asks for
    any. Where nothing is known of them, as without NVIDIA's library beside the script, that is said."""
    found = compared(measured)
    unknown = compared(measured, ray={"name": None, "uuid": None, "driver": None})

    assert found.checks["gpusAsAsked"] is True
    assert "Not comparable" != found.answer
    assert "verdict.gpuThrottling" not in found.reasons
    assert "gpusAsAsked" not in measured().checks
    assert unknown.checks["gpusAsAsked"] is None
    assert unknown.reasons["checks.gpusAsAsked"]
    assert GpuUse() == UNKNOWN


@pytest.mark.parametrize(
    "changes",
    [
        {"ray": None},
        {"ray": {"uuid": nvml.uuid(1)}},
        {"ray": {"backend": "gloo"}},
        {"native": {"name": "Another 40GB"}},
    ],
    ids=["ray computes on CPUs", "ranks share one", "another backend", "another model"],
)
def test_other_gpus_are_not_comparable(measured: Measured, changes: dict[str, Any], wording: Wording) -> None:
    """Number, model and backend are the same in all arms, or no ratio says anything of Ray."""
    found = compared(measured, **changes)

    assert (False, "Not comparable") == (found.checks["gpusAsAsked"], found.answer)
    wording("verdict", found.reasons["checks.gpusAsAsked"])


@pytest.mark.parametrize(
    ("shares", "is_said"),
    [
        ({"ray": 0.5}, True),
        ({"ray": 0.01}, False),
        ({"ray": 0.5, "native": 0.4, "baseline": 0.1}, False),
        ({"ray": 0.5, "native": None}, True),
        ({"ray": 0.5, "native": None, "baseline": None}, True),
        ({"native": None}, False),
    ],
    ids=["one arm", "hardly", "all arms", "another is not known", "no other is known", "nobody's is known to be"],
)
def test_throttling_in_some_arms_alone_is_said(
    measured: Measured, shares: dict[str, float | None], is_said: bool, wording: Wording
) -> None:
    """Throttled in all of them, what is compared is the same hardware in the same state. Of an arm of which the driver
    said nothing, nothing is said."""
    changes = {arm: {"throttled": share and {"power cap": share}} for arm, share in shares.items()}
    found = compared(measured, **changes)

    assert is_said == ("verdict.gpuThrottling" in found.reasons)
    assert found.checks["gpusAsAsked"] is True
    if is_said:
        wording("verdict", found.reasons["verdict.gpuThrottling"])


def test_gpus_cost_what_they_are_held_for() -> None:
    """One of the baseline, each worker's of the others; in addition to CPUs and memory."""
    recipe = ScriptRecipe(workers=3, worker_gpus=1)
    context = Context(recipe=recipe, target="local", repeats=1, arms=("baseline", "ray"))
    run = make_runs(repeats=1)[0]
    hours = run.result.seconds.wall / 3600
    priced = replace(context, prices=Prices(gpu_hour=2.0))

    assert [1, 3, 3] == [reserved(arm, context).gpus for arm in ("baseline", "native", "ray")]
    assert 2.0 * hours == pytest.approx(cost(run, priced), rel=0.01)


def test_a_result_has_what_its_gpus_did(results: Results) -> None:
    """Rank by rank, and it is read back as it was written."""
    result = results("native", with_gpus)

    assert [nvml.uuid(1), nvml.uuid(2)] == [worker.gpu.uuid for worker in result.workers if worker.gpu]
    assert result.workers == TrainingResult.from_dict(result.to_dict()).workers
    assert [None, None] == [worker.gpu for worker in results("native").workers]
