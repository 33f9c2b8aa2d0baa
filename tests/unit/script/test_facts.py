"""What observations say: each way in which arms are not the same work is named, and what is in order is not."""

import base64
import zlib
from dataclasses import replace
from typing import Any

import pytest

from compare import claims
from tools.tryout import show
from tools.tryout.run_arm import Outcome
from training.workloads.script import facts
from training.workloads.script.facts import ArmFacts
from training.workloads.script.observations import Observation, parse

ROWS = 256


def rank(
    number: int, world: int, *, batch: int = 32, steps: int = 4, rows: range | None = None, **more: Any
) -> Observation:
    """A rank that did everything right: its own rows, the weights of all, `batch` rows of 64 a step."""
    taken = rows if rows is not None else range(number, ROWS, world)
    marks = bytearray(ROWS)
    for row in taken:
        marks[row] = 1
    values: dict[str, Any] = {
        "rank": number, "world": world, "framework": "torch", "threads": 1, "ray": False, "clockOffset": 0.0,
        "stepEnds": [1.0 + step for step in range(steps)], "rowsAtStep": [batch * (step + 1) for step in range(steps)],
        "rowsPerStepReported": None, "epochRows": len(taken), "epochBatches": steps,
        "firstPassRows": base64.b64encode(zlib.compress(bytes(marks))).decode(), "weights": "w", "metrics": {},
        "metricPoints": [], "learningRates": [1e-3, 1e-3], "reports": 0, "reportSeconds": 0.0, "hookSeconds": 0.0,
        "ownSeconds": 0.0, "cpuAtStep": [0.5 * (step + 1) for step in range(steps)], "samples": [],
        "threadCpus": [[list(range(world)), 1.0]], "peakMemoryBytes": None, "gradientBytes": None, "allReduce": None,
        "noAllReduce": "", "endedEarly": True, "notes": [],
    }  # fmt: skip
    return parse(values | more)


def arm(*ranks: Observation, name: str = "native", expected: int = 2) -> ArmFacts:
    """The facts of these."""
    return facts.of_arm(name, expected, ranks)


def outcome(*ranks: Observation) -> Outcome:
    """A run in which these were seen."""
    return Outcome(
        arm="ray", code=0, seconds=1.0, seen=list(ranks), printed="", printed_bytes=0, trace="", end={"began": 0.0}
    )


GOOD = arm(rank(0, 2), rank(1, 2))
BASELINE = arm(rank(0, 1, batch=64), name="baseline", expected=1)


def test_ranks_that_share_the_work_are_in_order() -> None:
    """Rows are added up over ranks; nothing is wrong, and claim A can be reached."""
    both = facts.together({"baseline": BASELINE, "native": GOOD, "ray": replace(GOOD, arm="ray")})

    assert "" == GOOD.problem
    assert (64, ROWS) == (GOOD.rows_per_step, GOOD.rows_per_epoch)
    assert GOOD.weights_equal[0]
    assert GOOD.rows_disjoint[0]
    assert both.ray_changed_nothing
    assert not both.weak_scaling
    assert "A, same work" in show.claim({"baseline": BASELINE, "native": GOOD}, both, complete=True)


def test_gradients_that_are_not_synchronised() -> None:
    """No DDP wrapper: weights differ between ranks."""
    found = arm(rank(0, 2), rank(1, 2, weights="other"))

    assert found.weights_equal[0] is False
    assert "DIFFER" in found.weights_equal[1]
    assert found.weights is None


def test_ranks_that_train_on_everything() -> None:
    """No sampler: the rows of one are those of the other, and an epoch has them twice."""
    found = arm(rank(0, 2, rows=range(ROWS)), rank(1, 2, rows=range(ROWS)))
    both = facts.together({"baseline": BASELINE, "native": found})

    assert found.rows_disjoint == (False, "ranks SHARE 256 rows: each trains on data of the others")
    assert both.same_rows_per_epoch[0] is False
    assert "baseline 256, native 512" in both.same_rows_per_epoch[1]


def test_a_padded_batch_is_no_sharing() -> None:
    """Samplers repeat some rows so that all ranks have as many: less than one global batch."""
    found = arm(rank(0, 2, rows=range(129)), rank(1, 2, rows=range(128, ROWS)))

    assert found.rows_disjoint[0]
    assert facts.together({"baseline": BASELINE, "native": found}).same_rows_per_epoch[0]


def test_one_worker_is_no_distribution() -> None:
    """It runs, and what it is worth is said."""
    arms = {name: arm(rank(0, 1, batch=64), name=name, expected=1) for name in ("baseline", "native", "ray")}

    assert any("one worker shares its work with nobody" in said for said in show.findings(arms, facts.together(arms)))
    for others in ({"baseline": BASELINE, "native": GOOD}, {"baseline": BASELINE}):
        assert not any("one worker" in said for said in show.findings(others, facts.together(others)))


def test_reports_that_take_the_time_of_the_steps_are_named() -> None:
    """Ray's controller takes them every two seconds: a report a step makes that of each step."""
    often = arm(rank(0, 2, reports=4, reportSeconds=2.9), rank(1, 2, reports=4, reportSeconds=2.8), name="ray")
    seldom = arm(rank(0, 2, reports=1, reportSeconds=0.1), rank(1, 2), name="ray")

    said = "ray: 97 % of the time between its steps is in ray.train.report, 0.72 s a call: report less often"
    assert said in show.findings({"ray": often}, facts.together({}))
    assert not any("report" in one for one in show.findings({"ray": seldom}, facts.together({})))


def test_another_argument_on_one_rank() -> None:
    """Its batch, its learning rate, or its seed: rows a step, the rate of one rank, shared rows."""
    batch = facts.together({"baseline": BASELINE, "native": arm(rank(0, 2), rank(1, 2, batch=16))})
    rate = facts.together({"baseline": BASELINE, "native": arm(rank(0, 2), rank(1, 2, learningRates=[2e-3, 2e-3]))})
    seed = arm(rank(0, 2, rows=range(128)), rank(1, 2, rows=range(64, 192)))

    assert (False, "rows a step DIFFER: baseline 64, native 48") == batch.same_rows_per_step
    assert (False, "learning rates DIFFER: baseline 0.001, native 0.001 and 0.002") == rate.same_learning_rate
    assert (False, "ranks SHARE 64 rows: each trains on data of the others") == seed.rows_disjoint


def test_threads_that_differ() -> None:
    """A script that sets its own number in one arm, or in all, so that `wide` has no more than the baseline."""
    wide = arm(rank(0, 1, batch=64, threads=2), name="wide", expected=1)
    right = {"baseline": BASELINE, "wide": wide, "native": GOOD}
    own = {**right, "native": arm(rank(0, 2, threads=4), rank(1, 2, threads=4))}
    fixed = {**right, "wide": arm(rank(0, 1, batch=64), name="wide", expected=1)}

    assert facts.together(right).same_threads[0]
    assert "DIFFER: baseline 1, wide 2, native 4;" in facts.together(own).same_threads[1]
    assert "DIFFER: baseline 1, wide 1, native 1;" in facts.together(fixed).same_threads[1]
    assert "compute threads" in show.findings(own, facts.together(own))[0]
    assert "C, same script" in show.claim(own, facts.together(own), complete=True)


def test_a_learning_rate_that_is_scaled_in_one_arm() -> None:
    """At the first step, or by a schedule at the last; what is not known is no difference."""
    scaled = arm(*(rank(number, 2, learningRates=[2e-3, 2e-3]) for number in (0, 1)))
    schedule = arm(*(rank(number, 2, learningRates=[1e-3, 5e-4]) for number in (0, 1)))
    unknown = arm(*(rank(number, 2, learningRates=[None, None]) for number in (0, 1)))
    for found, words in (
        (scaled, "baseline 0.001, native 0.002"),
        (schedule, "baseline 0.001, native 0.001 to 0.0005"),
    ):
        arms = {"baseline": BASELINE, "native": found}

        assert (False, f"learning rates DIFFER: {words}") == facts.together(arms).same_learning_rate
        assert words in show.findings(arms, facts.together(arms))[0]
        assert "C, same script" in show.claim(arms, facts.together(arms), complete=True)
    arms = {"baseline": BASELINE, "native": unknown}

    assert facts.together(arms).same_learning_rate[0] is None
    assert "A, same work" in show.claim(arms, facts.together(arms), complete=True)


def test_a_baseline_on_half_of_the_data() -> None:
    """Its epoch is shorter, and so is all of it."""
    half = arm(rank(0, 1, batch=64, rows=range(ROWS // 2)), name="baseline", expected=1)
    both = facts.together({"baseline": half, "native": GOOD})

    assert (False, "rows an epoch DIFFER: baseline 128, native 256") == both.same_rows_per_epoch
    assert both.same_rows_per_step[0]


def test_a_metric_that_never_comes() -> None:
    """In no arm, or in some alone."""
    seen = {name: outcome(rank(0, 1, metrics=metrics)) for name, metrics in (("baseline", {}), ("ray", {"loss": 1.0}))}

    assert "metrics: loss (not in baseline)" == show.metrics(seen)
    assert "metrics: none seen in these steps" in show.metrics({"baseline": seen["baseline"]})


def test_few_steps_on_everything_are_still_sharing() -> None:
    """Less than a global batch, but all that either had."""
    found = arm(rank(0, 2, rows=range(32)), rank(1, 2, rows=range(32)))

    assert found.rows_disjoint[0] is False


def test_a_batch_of_each_worker_is_weak_scaling() -> None:
    """It is named, and not called another error."""
    found = arm(rank(0, 2, batch=64), rank(1, 2, batch=64), name="ray")
    arms = {"baseline": BASELINE, "ray": found}
    both = facts.together(arms)

    assert both.weak_scaling
    assert "weak scaling" in show.findings(arms, both)[0]
    assert "C, same script" in show.claim(arms, both, complete=True)


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ((rank(0, 1),), "1 process trained, 2 should have: the script ignores the number of workers"),
        ((rank(0, 2), rank(1, 2), rank(2, 2)), "3 processes trained, 2 should have"),
        ((rank(0, 1), rank(0, 1)), "2 processes trained, each alone"),
        ((rank(0, 2), rank(1, 2, steps=3)), "different numbers of steps: 3, 4"),
    ],
)
def test_processes_that_are_not_the_ranks_asked_for(ranks: tuple[Observation, ...], words: str) -> None:
    """Too few, too many, none that joined, one that ended before the others."""
    assert words in arm(*ranks).problem


def test_what_is_not_known_is_null_and_never_true() -> None:
    """Rows without numbers, weights without a digest: claim C, and what it lacks."""
    blind: dict[str, Any] = {
        "firstPassRows": None,
        "weights": None,
        "rowsAtStep": None,
        "rowsPerStepReported": 64,
        "epochRows": None,
    }
    found = arm(rank(0, 2, **blind), rank(1, 2, **blind))
    both = facts.together({"native": found})
    said = show.claim({"native": found}, both, complete=True)

    assert found.weights_equal[0] is None
    assert found.rows_disjoint[0] is None
    assert ("reported", 64) == (found.rows_known, found.rows_per_step)
    assert "C, same script" in said
    assert "no digest of the weights" in said


def test_the_claim_has_one_definition() -> None:
    """From the strongest to the weakest; what is unknown raises nothing."""
    assert "same work" == claims.strongest(steps=True, same_work=True, same_result=True)
    assert "same result" == claims.strongest(steps=True, same_work=None, same_result=True)
    assert "same script" == claims.strongest(steps=True, same_work=False)
    assert "it finished" == claims.strongest(steps=False, same_work=True)


def test_an_arm_that_did_not_train_leaves_the_weakest_claim() -> None:
    """D: never faster, never worth it."""
    both = facts.together({"baseline": BASELINE})

    assert "D, it finished" in show.claim({"baseline": BASELINE}, both, complete=False)
    assert "what keeps it from A: not every arm trained\n" in show.claim({}, facts.together({}), complete=False)


def test_the_estimate_has_what_is_imported_once_before_the_first_run() -> None:
    """Four repeats of one second, and a start of one."""
    said = show.estimate({"baseline": BASELINE}, {"baseline": outcome(rank(0, 1))}, 20)

    assert "a full measurement of 4 repeats, by these runs: 5 s at 20 steps an arm" in said


def test_a_step_is_the_median_of_the_later_half() -> None:
    """The first ones warm up: one slow step in the middle moves nothing."""
    ends = [0.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0, 16.0]

    assert 2.0 == rank(0, 1, steps=9, stepEnds=ends).step_seconds
    assert rank(0, 1, steps=3, stepEnds=[0.0, 1.0, 2.0]).step_seconds is None


@pytest.mark.parametrize(
    ("threads", "cpus"),
    [
        ([[[0, 1], 4.0]], (0, 1)),
        ([[[0, 1], 0.2], [[0], 4.0]], (0,)),
        ([[[0], 2.0], [[1], 2.0], [[0, 1, 2, 3], 0.1]], (0, 1)),
        ([[[0, 1], 0.0]], (0, 1)),
        (None, None),
    ],
    ids=["free", "a thread that is bound", "two of them", "no time that could be counted", "a system without affinity"],
)
def test_cpus_are_those_of_the_threads_that_work(threads: Any, cpus: tuple[int, ...] | None) -> None:
    """OpenMP binds threads one by one, and what the others of a process may use is no place where it computes."""
    assert cpus == rank(0, 1, threadCpus=threads).affinity
