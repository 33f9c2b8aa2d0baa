"""From observations to results, and what a comparison of them may claim: A to D, each by what was seen."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compare import run_numbers
from compare.comparison import compare
from compare.in_short import in_short
from compare.measurement import Context, Run
from compare.schema import Comparison
from report import html, table
from tests.golden import Wording
from tests.unit.results import make_context, make_runs
from tests.unit.script.measurements import EPOCHS, result_of
from tests.unit.script.test_facts import rank
from training.contract.result import TrainingResult, summarise
from training.workloads.script import workload
from training.workloads.script.observations import Observation
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import Script
from training.workloads.script.step_clock import SeenPass, step_clock

ARMS = ("baseline", "native", "ray")
Results = Callable[..., TrainingResult]
Measured = Callable[..., Comparison]
Seen = Callable[[str], Sequence[Observation]]
STEPS = 12


def ticks(pace: float, steps: int = STEPS, start: float = 105.0) -> list[float]:
    """When steps ended, of so many seconds each."""
    return [start + pace * step for step in range(steps)]


def good(arm: str) -> list[Observation]:
    """Three epochs of 256 rows, 64 a step: ray is twice as fast as one process."""
    pace = {"baseline": 0.4, "native": 0.2, "ray": 0.2}[arm]
    weights = {"baseline": "one", "native": "two", "ray": "two"}[arm]
    world = 1 if arm == "baseline" else 2
    more: dict[str, Any] = {"weights": weights, "stepEnds": ticks(pace), "endedEarly": False, "passes": EPOCHS}
    return [rank(number, world, batch=64 // world, steps=STEPS, **more) for number in range(world)]


def weak() -> list[Observation]:
    """One process whose batch is that of each worker of the others: twice the steps."""
    more: dict[str, Any] = {
        "stepEnds": ticks(0.2, 2 * STEPS),
        "endedEarly": False,
        "passes": [[2 * start, True] for start, _ in EPOCHS],
    }
    return [rank(0, 1, batch=32, steps=2 * STEPS, **more)]


def changed(arm: str, *, seen: Seen = good, **fields: Any) -> Seen:
    """With other fields in each rank of one arm."""
    return lambda name: [replace(one, **fields) if name == arm else one for one in seen(name)]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """The result of a run of which this was seen."""
    path = tmp_path / "train.py"
    path.write_text("import torch.distributed\n")
    script = Script(path=path, kind="torchrun", modules=frozenset({"torch"}), arguments=(), files=frozenset({path}))

    def result(arm: str, seen: Seen = good, repeat: int = 1, wall: float = 20.0, **keys: Any) -> TrainingResult:
        own = ScriptRecipe(script=str(path), seed=repeat, **{"script_arguments": "--epochs 3"} | keys)
        return result_of(script, own, arm, seen=seen(arm), wall=wall + 0.01 * repeat + (15.0 if arm == "ray" else 0.0))

    return result


@pytest.fixture
def measured(results: Results, tmp_path: Path) -> Measured:
    """The comparison of four repeats of which this was seen."""

    def measure(
        seen: Seen = good, repeats: int = 4, absent: Mapping[str, str] = {}, wall: float = 20.0, **keys: Any
    ) -> Comparison:
        arms = tuple(arm for arm in ARMS if arm not in absent)
        runs = [
            Run(f"{arm}-{repeat}", repeat, results(arm, seen, repeat, wall, **keys))
            for repeat in range(1, repeats + 1)
            for arm in arms
        ]
        recipe = ScriptRecipe(script=str(tmp_path / "train.py"), **{"script_arguments": "--epochs 3"} | keys)
        context = Context(recipe=recipe, target="local", repeats=repeats, arms=arms, absent=absent)
        return compare(runs, context)

    return measure


def test_the_same_work_is_claim_a(wording: Wording, measured: Measured) -> None:
    """Rows counted and equal, disjoint, weights equal: everything may be said."""
    found = measured()

    assert "same work" == found.claim
    assert found.ratios["speedup"] is not None
    assert 2.0 == pytest.approx(found.ratios["speedup"].median)
    assert found.ratios["efficiency"] is not None
    assert "verdict.weights" in found.reasons
    assert " 3 epochs" in found.verdict
    assert "As far as" not in found.verdict
    wording("verdict", found.verdict)
    assert "rows/s" in table.render(found)
    assert not {"verdict.epochs", "verdict.rayInOthers"} & found.reasons.keys()  # as many steps, and Ray in its own arm


@pytest.mark.parametrize(("rows", "is_known"), [({}, True), ({"step_rows": None, "marked": None}, False)])
def test_a_pace_in_rows_is_a_number_or_has_a_reason(results: Results, rows: dict[str, Any], is_known: bool) -> None:
    """And never both."""
    found = results("ray", changed("ray", **rows))

    assert is_known == (found.amount.per_second is not None)
    assert is_known == ("amount.perSecond" not in found.reasons)


def test_what_can_be_verified_of_a_script_is_verified(measured: Measured) -> None:
    """No check is left open: ranks are bound by nobody, and the CPUs of their arm are looked at instead."""
    found = measured()

    assert {True} == set(found.checks.values())
    assert "cpusAsAsked" in found.checks
    assert "cpusDisjoint" not in found.checks
    assert "Not verified" not in found.verdict


def test_cpus_that_are_not_known_are_not_verified(wording: Wording, measured: Measured) -> None:
    """A system without affinity is said; a script of which no step was seen says nothing of the system."""
    without = measured(changed("ray", affinity=None))
    unseen = measured(lambda _: [])

    assert without.checks["cpusAsAsked"] is None
    assert unseen.checks["cpusAsAsked"] is None
    assert "verdict.affinity" not in unseen.reasons
    wording("verdict", without.reasons["verdict.affinity"], "no affinity")
    wording("comparison", unseen.reasons["checks.cpusAsAsked"], "no step")


@pytest.mark.usefixtures("undrawn")
def test_a_script_has_a_page(measured: Measured, tmp_path: Path) -> None:
    """Without the CNN's pictures and scores, and whatever was seen; rows have the name that a setting gives them."""
    everything: list[Seen] = [good, lambda _: []]
    for seen in everything:
        found = measured(seen)
        page, text = html.render(found, "local", tmp_path), table.render(found)

        assert "train.py --epochs 3" in text
        assert "4 epochs" not in text
        assert "rows/s" in text
        for word in ("accuracy", "Accuracy", "images"):
            assert word not in page + text
    named = measured(unit="tokens")
    assert "tokens/s" in table.render(named)
    assert "Tokens" in html.render(named, "local", tmp_path)


def test_the_heading_has_the_number_of_epochs(tmp_path: Path) -> None:
    """Of the key, where the arguments take it from there; what differs between arms stays as it was given."""
    recipe = {"script": "a/train.py", "scriptArguments": "--n {workers} --epochs {epochs}", "epochs": 7}

    assert "train.py --n {workers} --epochs 7" == workload.words(recipe)  # not prose: a command


@pytest.mark.usefixtures("undrawn")
def test_one_repeat_has_no_ends_of_a_break_even(measured: Measured, tmp_path: Path) -> None:
    """They are not known, which is not never."""
    page = html.render(measured(wall=5.0, repeats=1), "local", tmp_path)

    assert "epochs (one repeat)" in page
    assert "never to never" not in page


def test_weights_that_differ_between_native_and_ray_are_no_news(measured: Measured) -> None:
    """Each arm's own ranks have to agree, and no more."""
    found = measured(changed("ray", weights="three"))

    assert "same work" == found.claim
    assert "bit for bit" not in found.verdict


@pytest.mark.parametrize(
    ("seen", "item"),
    [
        (changed("ray", step_rows=None, marked=None, reported_rows=64), "rowsPerStep"),
        (changed("ray", step_rows=None, marked=None), "rowsPerStep"),
        (changed("ray", weights=None), "weights"),
        (changed("ray", marked=None), "rowsDisjoint"),
        (lambda arm: weak() if arm == "baseline" else good(arm), "rowsPerStep"),
        (changed("ray", dataset_identity=None), "rowsDisjoint"),
    ],
)
def test_what_is_not_known_is_claim_c(measured: Measured, seen: Seen, item: str) -> None:
    """It is named, nothing is decided, and no speedup is said."""
    found = measured(seen)

    assert ("same script", "Not decided") == (found.claim, found.answer)
    assert f"work.{item}" in found.reasons
    for name in ("speedup", "endToEndSpeedup", "efficiency", "rayOverhead"):
        assert found.ratios[name] is None
        assert "same script" in found.reasons[name]
    assert {} == found.break_even
    assert found.projection is None


def test_throughput_is_all_that_is_said_of_the_same_script(measured: Measured) -> None:
    """As far as its runs say, in rows: a step of weak scaling's one process has half of them. Of the same work it is
    the speedup that says it."""
    for seen in (changed("ray", marked=None), lambda arm: weak() if arm == "baseline" else good(arm)):
        ratio = measured(seen).ratios["throughputRatio"]

        assert ratio is not None
        assert pytest.approx(2.0) == ratio.median
        assert "" == ratio.decision
    assert measured().ratios["throughputRatio"] is None


def shown(found: Comparison) -> set[str]:
    """The names of what the last lines of the table say why it is missing."""
    lines = table.render(found).split("\n\n")[-1].replace("\n  ", " ").splitlines()
    return {name for line in lines for name in line.partition(":")[0].split(", ")}


@pytest.mark.parametrize(
    ("seen", "item"),
    [
        (lambda arm: [replace(one, weights=f"{one.rank}") if arm == "ray" else one for one in good(arm)], "weights"),
        (
            changed(
                "baseline",
                step_rows=tuple(64 * step for epoch in (0, 3, 6) for step in [*range(epoch + 1, epoch + 4), epoch + 3]),
            ),
            "rows",
        ),
        (changed("ray", step_rows=tuple(31 * step for step in range(1, STEPS + 1))), "rowsPerStep"),
        (
            lambda arm: [
                replace(one, passes=(), step_ends=one.step_ends[: 6 if arm == "ray" else STEPS]) for one in good(arm)
            ],
            "steps",
        ),
    ],
)
def test_other_work_is_not_comparable(measured: Measured, seen: Seen, item: str) -> None:
    """What was seen to differ leaves no ratio, no break-even and no claim."""
    found = measured(seen)

    assert ("Not comparable", None) == (found.answer, found.claim)
    assert found.checks["sameWork"] is False
    assert f"work.{item}" in found.reasons
    assert {None} == set(found.ratios.values())
    assert {"costRatio", "metricGap", "idleRayCpus", "workersCurve"}.isdisjoint(shown(found))
    assert "claim" in found.reasons


@pytest.mark.parametrize(
    ("seen", "check"),
    [
        (changed("native", world=1), "replicasAsAsked"),
        (lambda arm: good(arm)[:1], "replicasAsAsked"),
        (changed("ray", threads=2), "threadsAsAsked"),
        (changed("ray", affinity=(1,)), "cpusAsAsked"),
        (changed("baseline", affinity=(0, 1)), "cpusAsAsked"),
        (changed("baseline", affinity=(3,)), "cpusAsAsked"),
        (
            lambda arm: [replace(one, step_ends=one.step_ends[: STEPS - one.rank]) for one in good(arm)],
            "stepsOfRanksEqual",
        ),
    ],
)
def test_arms_that_are_not_as_asked_are_not_comparable(measured: Measured, seen: Seen, check: str) -> None:
    """Other ranks, threads or CPUs; ranks that made other numbers of steps."""
    found = measured(seen)

    assert ("Not comparable", None) == (found.answer, found.claim)
    assert found.checks[check] is False


def test_other_work_that_reached_one_result_is_claim_b(measured: Measured) -> None:
    """The time to it is compared, as of a batch that grows with the workers, or of a search by chance."""
    seen = lambda arm: [  # noqa: E731 (short)
        replace(one, work=replace(one.work, parameters=f"{len(arm)} float32")) for one in reaching(arm)
    ]
    found = measured(seen, metric="accuracy", metric_target=0.9)

    assert ("same result", "Worth it") == (found.claim, found.answer)
    assert found.checks["sameWork"] is None


def test_one_epoch_leaves_no_break_even(wording: Wording, measured: Measured) -> None:
    """What follows its steps was never seen; what was trained is compared, and its steps."""
    seen = lambda arm: [replace(one, passes=(SeenPass(start=0, finished=True),)) for one in good(arm)]  # noqa: E731
    found, several = measured(seen, script_arguments="--epochs {epochs}", epochs=1), measured()

    assert "same work" == found.claim
    assert found.ratios["speedup"] is not None
    assert found.break_even_epochs is None
    assert run_numbers.ONE_EPOCH in found.reasons["breakEvenEpochs"]
    assert run_numbers.ONE_EPOCH not in several.reasons.get("breakEvenEpochs", "")
    wording("verdict", found.verdict)  # two epochs may be too few to change the answer: they show what one takes


def reaching(arm: str) -> list[Observation]:
    """Rows are unknown; the accuracy of one process is at 0.9 after 12 s, and of the others after 10 s."""
    at = {"baseline": 112.0, "native": 110.0, "ray": 110.0}[arm]
    points = ((at - 2, "accuracy", 0.5), (at, "accuracy", 0.9), (at + 1, "accuracy", 0.8))
    return [replace(one, step_rows=None, marked=None, metric_points=points) for one in good(arm)]


def test_a_target_that_every_run_reached_is_claim_b(wording: Wording, measured: Measured) -> None:
    """Time to it is compared, whatever the runs took in all."""
    found = measured(reaching, metric="accuracy", metric_target=0.9)

    assert "same result" == found.claim
    assert found.ratios["timeToTargetSpeedup"] is not None
    assert 1.2 == pytest.approx(found.ratios["timeToTargetSpeedup"].median)
    assert {"accuracy", "0.9,", "1.20"} <= set(found.verdict.split())
    wording("verdict", found.verdict)
    assert "Worth it" == found.answer
    assert found.ratios["efficiency"] is None
    assert found.ratios["speedup"] is None
    assert "same result" in found.reasons["breakEvenEpochs"]


@pytest.mark.parametrize(
    "keys",
    [
        {"metric_target": 0.95},
        {"metric_target": 0.9, "metric_mode": "min", "metric": "loss"},
        {"metric_target": None},
        {"metric_target": 0.9, "measure_steps": STEPS},
    ],
)
def test_a_target_that_some_run_did_not_reach_is_no_claim(measured: Measured, keys: dict[str, Any]) -> None:
    """Nor one of a training that was ended."""
    found = measured(reaching, **{"metric": "accuracy"} | keys)

    assert "same script" == found.claim
    assert found.ratios["timeToTargetSpeedup"] is None


def test_a_metric_has_a_column_where_one_is_named(measured: Measured) -> None:
    """No column of dashes where nobody asked for it, nor where it never came."""
    headings = {
        name: next(
            line for line in table.render(measured(reaching, metric=name)).splitlines() if line.startswith("arm ")
        )
        for name in ("", "accuracy", "f1")
    }

    assert {"": False, "accuracy": True, "f1": False} == {name: "metric" in text for name, text in headings.items()}


def test_a_metric_that_never_comes_is_told(wording: Wording, measured: Measured) -> None:
    """With those that came."""
    found = measured(reaching, metric="f1", metric_target=0.9)

    assert {"f1", "accuracy"} <= set(re.findall(r"\w+", found.reasons["verdict.metric"]))
    wording("verdict", found.reasons["verdict.metric"])


def test_arms_that_end_apart_are_told(wording: Wording, measured: Measured) -> None:
    """By more than is tolerated."""
    worse = changed("ray", seen=reaching, metric_points=((111.0, "accuracy", 0.7),))
    strict, tolerant = (measured(worse, metric="accuracy", metric_tolerance=most).reasons for most in (0.05, 0.2))

    assert {"0.1", "0.05"} <= set(re.findall(r"\d\.\d+", strict["verdict.metric"]))
    assert "verdict.metric" not in tolerant
    wording("verdict", strict["verdict.metric"])


def test_start_and_end_alone_are_claim_d(measured: Measured) -> None:
    """The ratio of wall times as written; nothing is faster, slower or worth it."""
    found = measured(lambda _: [])

    assert ("it finished", "Not decided") == (found.claim, found.answer)
    assert {None} == set(found.ratios.values())
    for word in ("faster", "slower", "as fast", "orth it"):
        assert word not in found.verdict
    assert found.arms["ray"].median("startupSeconds") is None
    assert "the whole run" in table.render(found)
    assert table.render(found).count("have no seconds.train") <= 3  # each reason once, and not once a run


def test_steps_that_were_asked_for_are_no_epoch(wording: Wording, measured: Measured) -> None:
    """The measured part stands for the run, and nothing is said of what the training reaches."""
    seen = lambda arm: [replace(one, ended_early=True) for one in good(arm)]  # noqa: E731 (short)
    found = measured(seen, measure_steps=STEPS)

    assert "epoch" not in found.verdict
    assert f" {STEPS} steps" in found.verdict
    wording("verdict", found.verdict)


def test_epochs_that_one_arm_does_not_know_are_none(wording: Wording, measured: Measured) -> None:
    """Steps of whole runs are held against each other, and not those of an epoch against a run."""
    found = measured(changed("ray", passes=()))

    assert found.ratios["speedup"] is not None
    assert pytest.approx(2.0) == found.ratios["speedup"].median
    assert found.break_even_epochs is None
    wording("verdict", found.verdict)


def test_a_step_clock_has_the_parts_of_a_run() -> None:
    """Slow first steps warm up, and what lies before the first step of an epoch is no step."""
    lengths = [3.0, 1.0, 0.1, 0.1, 5.1, 0.1, 0.1, 0.1, 0.1, 2.1, 0.1, 0.1, 0.1, 0.1]
    ends = [10.0]
    for length in lengths:
        ends.append(ends[-1] + length)

    clock = step_clock(ends, seen_passes(5))

    assert (3, 5, True, 2) == (clock.epochs, clock.per_epoch, clock.whole_epochs, clock.gaps)
    assert 2 == clock.settled_after
    assert pytest.approx([4.0, 7.0]) == [clock.warmup_seconds, clock.between_seconds]
    assert pytest.approx([0.1] * 10) == clock.timed


def seen_passes(*steps: int, finished: bool = True) -> list[SeenPass]:
    """Three of so many steps, or one of each number."""
    each = steps if len(steps) > 1 else steps * 3
    return [SeenPass(start=sum(each[:number]), finished=finished) for number in range(len(each))]


@pytest.mark.parametrize(
    ("passes", "ended"),
    [([], False), (seen_passes(7, 8), False), (seen_passes(5), True), (seen_passes(5, finished=False), False)],
)
def test_a_run_of_no_whole_epochs_counts_as_one(passes: list[SeenPass], ended: bool) -> None:
    """Where its epochs end is not known, they are uneven, or it was broken off."""
    clock = step_clock(ticks(0.1, 15), passes, ended_early=ended)

    assert (1, 15, 0) == (clock.epochs, clock.per_epoch, clock.gaps)


def test_an_epoch_of_one_step_has_all_that_belongs_to_it() -> None:
    """A round of a booster: nothing lies between them."""
    clock = step_clock(ticks(0.1, 15), [SeenPass(start=step, finished=True) for step in range(15)])

    assert (15, 1, None) == (clock.epochs, clock.per_epoch, clock.gaps)
    assert 0 == clock.between_seconds
    assert 14 == len(clock.timed)


def test_an_epoch_ends_with_its_data_and_not_by_arithmetic() -> None:
    """2,000 rows, 64 a step, the last 16 dropped: 31 steps, of which the validation is none."""
    ends = [10.0]
    for number in range(1, 4 * 31):
        ends.append(ends[-1] + (0.5 if number % 31 == 0 else 0.01))
    clock = step_clock(ends, seen_passes(31, 31, 31, 31))

    assert (4, 31, 3) == (clock.epochs, clock.per_epoch, clock.gaps)
    assert pytest.approx(0.01) == max(clock.timed)
    assert pytest.approx(3 * 0.49) == clock.between_seconds


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_few_steps_are_no_error(steps: int) -> None:
    """Nothing is timed, or hardly anything."""
    assert len(step_clock(ticks(0.1, steps)).timed) == steps - 1


def test_a_step_may_take_several_batches() -> None:
    """Gradient accumulation: an epoch has fewer steps than batches."""
    accumulated = rank(0, 1, batch=64, steps=4, epochBatches=16, passes=[])

    assert 4 == accumulated.steps_per_epoch


def sampled(arm: str) -> list[Observation]:
    """As PyTorch's ranks are seen, with what they used; the observer took a second, and one more of the second rank."""
    used: dict[str, Any] = {"samples": ((1.0, 0.9, 5e8), (2.0, 1.1, 6e8)), "peak_memory_bytes": 7 * 2**20}
    return [replace(one, gradient_bytes=1_000_000, own_seconds=1.0 + one.rank, **used) for one in good(arm)]


def test_more_workers_are_projected(wording: Wording, measured: Measured) -> None:
    """Of any script that did the same work; what the observer took is in no clock."""
    found = measured(sampled)
    plain = measured()

    assert found.projection is not None, found.reasons
    assert [1, 2] == found.projection.measured
    assert 8 == found.projection.points[-1].workers
    wording("verdict", found.verdict)
    walls = [one.arms["native"].median("wallSeconds") or 0.0 for one in (plain, found)]
    assert 1.0 == pytest.approx(walls[0] - walls[1])


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(lambda arm: weak() if arm == "baseline" else sampled(arm), id="same script"),
        pytest.param(lambda _: [], id="it finished"),
    ],
)
def test_nothing_is_projected_without_what_it_needs(wording: Wording, measured: Measured, seen: Seen) -> None:
    """With its reason."""
    found = measured(seen)

    assert found.projection is None
    wording("comparison", found.reasons["projection"])


def test_cpu_time_and_memory_are_those_of_each_rank(measured: Measured) -> None:
    """CPU seconds a second over the timed steps, of half a second of CPU time each; the highest of the memory."""
    found = measured(sampled)
    means = {arm: found.arms[arm].median("meanCpus") for arm in ARMS}

    assert pytest.approx({"baseline": 1.25, "native": 2.5, "ray": 2.5}) == means
    assert 7 * 2**20 == found.arms["ray"].median("peakMemoryBytes")
    assert 0.0 == found.arms["ray"].median("throttledSeconds")
    assert (found.arms["ray"].median("cpuHours") or 0) > 0


def test_what_each_rank_used_is_in_the_result_of_a_run(results: Results) -> None:
    """Samples as the CNN has them, and how long it waited over its training and over its run."""
    run = results("native", sampled)

    assert [[1.0, 0.9, 5e8], [2.0, 1.1, 6e8]] == run.workers[1].samples
    assert [[0, 1], [0, 1]] == [worker.affinity for worker in run.workers]
    assert 1.0 == run.seconds.probe
    assert [0.01, 0.01] == [rank.training_wait.waited_seconds for rank in run.workers if rank.training_wait]
    assert [5.0, 5.0] == [rank.run_wait.cpu_seconds for rank in run.workers if rank.run_wait]
    assert [None] == [rank.training_wait for rank in results("ray", lambda _: []).workers]  # of a run that was not seen


def test_cpus_and_memory_are_drawn(results: Results, tmp_path: Path) -> None:
    """On the page, from the files of the runs."""
    runs = []
    for arm in ARMS:
        path = tmp_path / arm / "result.json"
        results(arm, sampled).write(path)
        runs.append(Run.from_summary(f"{arm}-1", 1, json.loads(summarise(path, tmp_path))))
    recipe = ScriptRecipe(script=str(tmp_path / "train.py"), script_arguments="--epochs 3")
    page = html.render(compare(runs, Context(recipe=recipe, target="local", repeats=1, arms=ARMS)), "local", tmp_path)

    headings = re.findall("<(?:h[1-4]|figcaption|summary|strong)[^>]*>(.*?)</", page)
    assert {"CPUs in use", "Memory"} <= {heading.split(",")[0] for heading in headings}, headings
    assert html.CHECKS["rowsDisjoint"] in page


def sampling(arm: str) -> list[Observation]:
    """RLlib's learner, which has two runners under Ray; it balances after as many iterations as its seed takes."""
    world, steps = (2, 9) if arm == "ray" else (1, STEPS)
    points = [(120.0, "episode_return_mean", 40.0), (130.0, "episode_return_mean", 101.0)]
    more: dict[str, Any] = {
        "framework": "rllib", "ray": True, "stepEnds": ticks(0.4, steps), "markedPasses": None, "epochRows": None,
        "epochBatches": None, "metrics": {"episode_return_mean": 101.0}, "metricPoints": points, "endedEarly": False,
        "threadCpus": [[list(range(world)), 1.0]],
    }  # fmt: skip
    return [rank(0, world, batch=64, steps=steps, **more)]


def test_ray_without_runners_is_said_of_the_baseline(wording: Wording, measured: Measured) -> None:
    """The time to a return is compared, and that Ray ran in the baseline, too; no figure of runners that nobody saw."""
    found = measured(sampling, absent={"native": "RLlib has none"}, metric="episode_return_mean", metric_target=100.0)

    assert "same result" == found.claim
    assert "baseline" in found.reasons["verdict.rayInOthers"]
    assert {"12", "9"} <= set(re.findall(r"\d+", found.reasons["verdict.epochs"]))
    wording("verdict", found.verdict)
    wording("verdict", in_short(found), "in short")
    assert found.checks["replicasAsAsked"]
    assert compare(make_runs(), make_context()).reasons["baseline.ray"] not in found.reasons.values()
    assert found.arms["ray"].measures["peakMemoryBytes"] is None
    assert found.arms["ray"].measures["meanCpus"] is None
    wording("comparison", found.reasons["ray.meanCpus"])
