"""The comparison: ratios within a repeat, refusals, checks, reasons, costs, and its JSON."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from compare.comparison import compare, scalars
from compare.measurement import CompareError, Context, Prices, Reserved, Run
from compare.run_numbers import clock_of
from compare.schema import Comparison
from tests.golden import Wording
from tests.unit.results import (
    COMPARED,
    RUN,
    STEP_SECONDS,
    make_context,
    make_provenance,
    make_recipe,
    make_result,
    make_run,
    make_runs,
    ratio_of,
    replaced,
)
from training.contract.result import TrainingResult
from training.machine import command_line
from training.workloads.cnn.recipe import CnnRecipe

ALL = COMPARED
TWO = ("baseline", "ray")


def compared(runs: list[Run], recipe: CnnRecipe | None = None, **context: Any) -> Comparison:
    """The comparison of runs."""
    return compare(runs, make_context(recipe, **context))


def median(comparison: Comparison, name: str) -> float:
    """Of a ratio that was measured."""
    return ratio_of(comparison, name).median


def without_timed_steps(arm: str) -> Run:
    """A run all of whose steps were warm-up."""
    return make_run(arm, train_seconds=None, steps_timed=0, amount_per_second=None, steps_seconds=None)


def with_one(runs: list[Run], name: str, **fields: Any) -> list[Run]:
    """The runs with some fields of one of them changed."""
    return [replaced(run, **fields) if run.name == name else run for run in runs]


def test_ratios_are_the_designs() -> None:
    """Each ratio has the arms above and below the line that the design says."""
    comparison = compared(make_runs(arms=ALL), arms=ALL)
    pace = STEP_SECONDS

    assert median(comparison, "speedup") == pytest.approx(pace["baseline"] / pace["ray"])
    assert median(comparison, "wideSpeedup") == pytest.approx(pace["wide"] / pace["ray"])
    assert median(comparison, "efficiency") == pytest.approx(pace["baseline"] / pace["ray"] / 2)
    assert median(comparison, "rayOverhead") == pytest.approx(pace["ray"] / pace["native"])
    assert median(comparison, "accuracyGap") == pytest.approx(0.2)
    walls = [make_result(arm).seconds.wall for arm in TWO]
    assert ratio_of(comparison, "endToEndSpeedup").low == pytest.approx(walls[0] / walls[1])


def slower_ray(runs: list[Run], seconds: float, **fields: Any) -> list[Run]:
    """The runs, of which Ray's took so much longer; and what they say of it."""
    return [
        replaced(run, wall_seconds=run.result.seconds.wall + seconds, **fields) if run.arm == "ray" else run
        for run in runs
    ]


def test_what_only_our_probes_took_is_in_no_end_to_end_time() -> None:
    """Half a second of the native arm's probe makes Ray look no nearer to it."""
    runs = make_runs(repeats=2)
    slower = compared(slower_ray(runs, 0.5, probe_seconds=0.5), repeats=2)

    assert slower.ratios == compared(runs, repeats=2).ratios
    assert slower.arms["ray"].median("probeSeconds") == 0.5


def test_ratios_are_taken_within_a_repeat() -> None:
    """A machine that slows down between repeats changes no ratio, however far apart the arms' seconds are."""
    runs = [
        make_run(arm, repeat, step_seconds_mean=STEP_SECONDS[arm] * slower)
        for repeat, slower in ((1, 1.0), (2, 3.0), (3, 0.5))
        for arm in RUN
    ]

    speedup = ratio_of(compared(runs), "speedup")

    assert speedup.low == pytest.approx(speedup.high)
    assert (speedup.n, speedup.decision) == (3, "faster")


def test_median_ends_and_interval() -> None:
    """Median and ends of the repeats' ratios; the interval is wider than the ends where there are few of them."""
    paces = {1: 0.05, 2: 0.0625, 3: 0.0625 / 1.25}
    runs = [make_run("ray", repeat, step_seconds_mean=pace) for repeat, pace in paces.items()]
    runs += [make_run(arm, r, step_seconds_mean=p) for r in paces for arm, p in (("baseline", 0.1), ("native", 0.05))]

    speedup = ratio_of(compared(runs), "speedup")

    assert (speedup.median, speedup.low, speedup.high) == pytest.approx((2.0, 1.6, 2.0))
    assert speedup.values == pytest.approx([2.0, 1.6, 2.0])
    assert (speedup.lower or 2.0) < 1.6
    assert (speedup.upper or 1.6) > 2.0


def test_json_is_canonical_and_round_trips() -> None:
    """The same runs in any order give the same text, and the text reads back to the same comparison."""
    runs = make_runs(repeats=1)
    texts = {compare(order, make_context(repeats=1)).to_json() for order in permutations(runs)}
    (text,) = texts

    assert Comparison.from_json(text) == compare(runs, make_context(repeats=1))
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "no comparison"),
        ("[1]", "schemaVersion"),
        ('{"schemaVersion": 1}', "schemaVersion is 1.* 3"),
        ('{"schemaVersion": 3, "verdict": ""}', "lacks absent, answer"),
        (compared(make_runs()).to_json().replace('"verdict":"', '"verdict":7,"x":"'), "unknown keys x"),
    ],
)
def test_from_json_refuses_what_is_no_comparison(text: str, names: str) -> None:
    """Damaged, old and partial texts are refused with what is wrong, not with a KeyError later."""
    with pytest.raises(CompareError, match=names):
        Comparison.from_json(text)


def test_nan_never_reaches_the_outputs() -> None:
    """A NaN that slipped into a result stops the comparison, by its name; JSON has no such number."""
    summary = make_result().summary("p", "s") | {"scores": {"testAccuracy": float("nan")}}

    with pytest.raises(CompareError, match=r"^ray-1: result\.scores\.testAccuracy .*nan"):
        Run.from_summary("ray-1", 1, summary)


def test_scalars_are_medians_and_the_answer() -> None:
    """Every scalar of the design, as a plain number or text; None for what was not measured."""
    values = scalars(compared(make_runs(arms=TWO), arms=TWO))
    designed = {
        "speedup", "wideSpeedup", "efficiency", "endToEndSpeedup", "endToEndWideSpeedup", "rayOverhead", "accuracyGap",
        "breakEvenEpochs", "verdict", "answer", "cpuHours", "cost", "costRatio",
    }  # fmt: skip

    assert designed <= set(values)
    assert {"rayOverhead", "wideSpeedup", "cost", "costRatio"} <= {
        key for key, value in values.items() if value is None
    }
    assert values["speedup"] == pytest.approx(0.1 / 0.053)
    assert values["breakEvenEpochs"] == 9


@pytest.mark.parametrize("arms", [TWO, RUN, ("baseline", "wide", "ray"), ALL])
def test_any_subset_of_the_arms_is_compared(arms: tuple[str, ...]) -> None:
    """Whatever a place or a workload has: others are no null among the arms, and what needs them says why it is
    missing."""
    comparison, absent = compared(make_runs(arms=arms), arms=arms), make_context(arms=arms).absent

    assert set(comparison.arms) == set(arms)
    assert set(comparison.break_even) == {"baseline", "wide"} & set(arms)
    assert comparison.answer.startswith("Worth it from ")
    assert comparison.projection is not None
    assert comparison.absent == absent
    assert set(absent) == {"wide", "native"} - set(arms)
    for arm, ratio in (("native", "rayOverhead"), ("wide", "wideSpeedup")):
        assert absent.get(arm) == comparison.reasons.get(ratio)


@pytest.mark.parametrize(
    ("runs", "recipe", "context"),
    [
        (make_runs(), None, {}),
        (make_runs(arms=TWO), None, {"arms": TWO}),
        ([], None, {}),
        (make_runs(repeats=1)[:2], None, {}),
        (make_runs(make_recipe(workers=1)), make_recipe(workers=1), {}),
        ([without_timed_steps(arm) for arm in RUN], None, {"repeats": 1}),
    ],
)
def test_every_null_has_a_reason(runs: list[Run], recipe: CnnRecipe | None, context: dict[str, Any]) -> None:
    """Design rule 9: whatever is null anywhere in the comparison is explained under its dotted name."""
    data = json.loads(compared(runs, recipe, **context).to_json())
    nulls = {name for name, value in data.items() if value is None}
    nulls |= {name for name, value in data["ratios"].items() if value is None}
    nulls |= {f"checks.{name}" for name, passed in data["checks"].items() if passed is None}
    for arm, summary in data["arms"].items():
        nulls |= {f"{arm}.{key}" for key, value in (summary | summary["measures"]).items() if value is None}

    assert nulls
    nulls = {"breakEvenEpochs" if name == "breakEvenEpochs" else name for name in nulls}
    assert nulls - set(data["reasons"]) == set()


def test_run_reasons_reach_the_comparison() -> None:
    """A run that says why it has no number is quoted."""
    why = "every step was warm-up"
    runs = with_one(make_runs(), "ray-2", train_seconds=None, reasons={"seconds.train": why})

    comparison = compared(runs)

    assert ratio_of(comparison, "speedup").n == 2
    assert comparison.reasons["speedup"].startswith("ray-2 ")
    assert comparison.reasons["speedup"].endswith(f"seconds.train: {why}")


def test_a_repeat_that_lacks_an_arm_is_left_out(wording: Wording) -> None:
    """Ratios of other repeats stand, and the reason names the repeat and the arm."""
    comparison = compared([run for run in make_runs() if run.name != "native-2"])

    assert comparison.repeats == 2
    assert [run.name for run in comparison.arms["ray"].runs] == ["ray-1", "ray-3"]
    assert "native" in comparison.reasons["repeats.2"]
    assert comparison.reasons["verdict.repeats"] in comparison.verdict
    wording("verdict", comparison.reasons["repeats.2"], "repeats.2")
    wording("verdict", comparison.reasons["verdict.repeats"], "verdict.repeats")


def test_no_whole_repeat_is_not_decided(wording: Wording) -> None:
    """With nothing to compare, there is no number and the verdict says so."""
    comparison = compared(make_runs()[:2])

    assert comparison.ratios["speedup"] is None
    assert comparison.answer == "Not decided"
    wording("verdict", comparison.verdict)


def test_two_runs_of_one_arm_and_repeat_are_refused(wording: Wording) -> None:
    """Which of the two to take is not this program's to choose."""
    with pytest.raises(CompareError, match="ray") as caught:
        compared([*make_runs(), make_run("ray", 2)])
    wording("comparison", str(caught.value))


def test_recipes_that_differ_are_refused_by_name() -> None:
    """Each key of the recipe but the seed makes runs incomparable, and the message names it and the run; so does one
    that a result from before lacks."""
    runs = make_runs()
    recipe = runs[-1].result.recipe

    for key in recipe.keys() - {"seed"}:
        for other in (recipe | {key: "other"}, {name: value for name, value in recipe.items() if name != key}):
            with pytest.raises(CompareError, match=rf"`{key}`: ray-3\b"):
                compared(with_one(runs, "ray-3", recipe=other))


def test_seeds_are_those_of_the_repeat(wording: Wording) -> None:
    """Repeat r of every arm has seed + r - 1; a run with another seed is refused."""
    recipe = make_recipe(seed=7)
    runs = make_runs(recipe)

    assert [run.seed for run in compared(runs, recipe).arms["baseline"].runs] == [7, 8, 9]
    with pytest.raises(CompareError, match="`seed`: ray-3") as caught:
        compared(with_one(runs, "ray-3", recipe=runs[-1].result.recipe | {"seed": 7}), recipe)
    wording("comparison", str(caught.value))


def test_the_baselines_recipe_leaves_out_workers() -> None:
    """A baseline measured for 2 workers is the baseline for 3; one process on all their CPUs is not."""
    three = make_recipe(workers=3)
    runs = [run for run in make_runs(three) if run.arm != "baseline"]
    runs += [run for run in make_runs(make_recipe(workers=2)) if run.arm == "baseline"]

    assert median(compared(runs, three), "efficiency") == pytest.approx(0.1 / 0.053 / 3)
    wide = [make_run("wide", 1, make_recipe(workers=2)), *make_runs(three, repeats=1)]
    with pytest.raises(CompareError, match="`workers`: wide-1"):
        compared(wide, three, arms=(*RUN, "wide"), repeats=1)


def test_results_of_another_version_are_refused(wording: Wording) -> None:
    """The state of an older program is not guessed at."""
    summary = make_result().summary("p", "s") | {"schemaVersion": 0}

    with pytest.raises(CompareError, match=r"^ray-1: schemaVersion .*pulumi up") as caught:
        Run.from_summary("ray-1", 1, summary)
    wording("comparison", str(caught.value))


def threads(result: TrainingResult, number: int) -> list[Any]:
    """The workers of a result, each with so many compute threads."""
    return [replace(worker, compute_threads=number) for worker in result.workers]


RAY = make_result("ray")


@pytest.mark.parametrize(
    ("check", "name", "broken"),
    [
        ("replicasAsAsked", "ray-2", {"world_size": 1}),
        ("replicasAsAsked", "baseline-1", {"world_size": 2}),
        ("replicasAsAsked", "wide-1", {"world_size": 2}),
        ("neverRetried", "ray-2", {"retries": 1}),
        ("replicasAsAsked", "native-1", {"workers": make_result("baseline").workers}),
        ("threadsAsAsked", "ray-1", {"workers": threads(RAY, 2)}),
        ("threadsAsAsked", "wide-1", {"workers": threads(make_result("wide"), 1)}),
        ("sameWork", "ray-3", {"steps_per_epoch": 19}),
        ("sameWork", "ray-3", {"steps_timed": 50}),
        ("sameWork", "native-2", {"work": {"trainImages": 640}}),
        ("sameWork", "ray-1", {"workers": [replace(worker, amount=1280 * 3) for worker in RAY.workers]}),
        ("sameWork", "ray-1", {"work": {"parameters": 1}}),
        ("hashesEqual", "ray-1", {"provenance": make_provenance(dependencies_hash="x")}),
        ("hashesEqual", "ray-2", {"provenance": make_provenance(code_hash="x")}),
        ("hashesEqual", "ray-2", {"provenance": make_provenance(dataset_hash="x")}),
        ("weightsEqual", "native-1", {"checks": RAY.checks | {"weightsEqual": False}}),
        ("shardsCoverDataSet", "ray-1", {"checks": RAY.checks | {"shardsCoverDataSet": False}}),
        ("threadsAsAsked", "baseline-1", {"checks": RAY.checks | {"threadsAsAsked": False}}),
        ("replicasAsAsked", "ray-1", {"checks": RAY.checks | {"replicasAsAsked": False}}),
        ("somethingNew", "ray-1", {"checks": RAY.checks | {"somethingNew": False}}),
    ],
)
def test_a_broken_fairness_rule_leaves_no_ratio(check: str, name: str, broken: dict[str, Any]) -> None:
    """Whatever rule a run breaks: its check is false with the run's name, no ratio is given and nothing is worth it."""
    comparison = compared(with_one(make_runs(arms=ALL), name, **broken), arms=ALL)

    assert [key for key, passed in comparison.checks.items() if passed is False] == [check]
    assert name in comparison.reasons[f"checks.{check}"]
    assert set(comparison.ratios.values()) == {None}
    assert (comparison.break_even, comparison.break_even_epochs) == ({}, None)
    assert comparison.answer == "Not comparable"
    assert comparison.verdict.startswith("Not comparable: ")


def test_what_measures_again_is_as_the_user_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of the wheel's program, or by plain Pulumi."""
    runs = with_one(make_runs(arms=ALL), "ray-2", retries=1)
    monkeypatch.setenv(command_line.CALLED, "uvx ray-worth-it")
    by_wheel = compared(runs, arms=ALL).reasons["checks.neverRetried"]
    monkeypatch.delenv(command_line.CALLED)

    assert "uvx ray-worth-it destroy && uvx ray-worth-it up" in by_wheel  # not prose: a command
    assert "pulumi destroy && pulumi up" in compared(runs, arms=ALL).reasons["checks.neverRetried"]


def test_a_run_that_might_have_been_retried_and_was_not_counts() -> None:
    """The check is there where a run can fail it, and passes; without maxFailures there is none."""
    comparison = compared(with_one(make_runs(arms=ALL), "ray-2", retries=0), arms=ALL)

    assert comparison.checks["neverRetried"]
    assert comparison.answer != "Not comparable"
    assert "neverRetried" not in compared(make_runs(arms=ALL), arms=ALL).checks


def test_checkpoints_are_no_steps_and_are_in_the_whole_clock() -> None:
    """A second an epoch in one arm: the ratio of steps stays, and more epochs pay for more of them."""
    runs = make_runs(arms=ALL)
    slower = slower_ray(runs, 3.0, checkpoint_seconds=3.0)
    without, with_checkpoints = compared(runs, arms=ALL), compared(slower, arms=ALL)

    assert with_checkpoints.arms["ray"].median("checkpointSeconds") == 3
    assert "checkpointSeconds" in with_checkpoints.arms["ray"].measures
    assert with_checkpoints.ratios["speedup"] == without.ratios["speedup"]
    first, other = (clock_of(run.result) for run in (runs[-1], replaced(runs[-1], checkpoint_seconds=3.0)))
    assert first.per_epoch is not None
    assert other.per_epoch == pytest.approx(first.per_epoch + 1)


def test_fair_runs_pass_every_check() -> None:
    """All that is verified on whole runs is true; a body that forgot to verify is seen, by a null."""
    checks = compared(make_runs(arms=ALL), arms=ALL).checks
    unmade = compared([replaced(run, checks={}) for run in make_runs()]).checks

    assert set(checks.values()) == {True}
    assert {"replicasAsAsked", "weightsEqual", "shardsCoverDataSet", "cpusDisjoint", "versionsEqual"} <= set(checks)
    assert {"shardsCoverDataSet", "weightsEqual"} <= {name for name, passed in unmade.items() if passed is None}


def test_code_may_differ_between_arms_and_data_between_seeds() -> None:
    """Each arm has its own entry point, and synthetic images follow the seed."""
    runs = [
        make_run(arm, repeat, provenance=make_provenance(code_hash=arm, dataset_hash=str(repeat)))
        for repeat in (1, 2, 3)
        for arm in RUN
    ]

    assert compared(runs).checks["hashesEqual"] is True


def test_a_check_that_a_run_left_open_is_null(wording: Wording) -> None:
    """What a distributed run could not verify is not taken as verified: the claim is weaker, and that is said."""
    runs = with_one(make_runs(), "ray-1", checks={"weightsEqual": None}, reasons={"weightsEqual": "too large"})

    comparison = compared(runs)

    assert comparison.checks["weightsEqual"] is None
    assert comparison.reasons["checks.weightsEqual"].endswith("ray-1: too large")
    assert comparison.claim == "same script"
    assert "shardsCoverDataSet, weightsEqual" in comparison.verdict
    wording("verdict", comparison.verdict)


@pytest.mark.parametrize(
    ("change", "workers", "claim"),
    [
        ({}, 2, "same work"),
        ({"checks": {"shardsCoverDataSet": True}}, 2, "same script"),
        ({"checks": {}}, 1, "same work"),
        ({"epochs_completed": 0, "curve": [], "steps_timed": 0, "train_seconds": None}, 2, "it finished"),
    ],
)
def test_the_claim_follows_from_what_was_observed(change: dict[str, Any], workers: int, claim: str) -> None:
    """Never more than the checks allow; one worker has nobody to share weights with."""
    recipe = make_recipe(workers=workers)
    comparison = compared([replaced(run, **change) for run in make_runs(recipe)], recipe)

    assert comparison.claim == claim
    assert ("worth it" in comparison.answer.lower()) == (claim == "same work")
    assert (comparison.ratios["speedup"] is not None) == (claim == "same work")
    assert (comparison.projection is not None) == (claim == "same work" and workers > 1)


def test_what_one_worker_could_not_measure_is_null_for_the_arm() -> None:
    """The largest of the workers that answered is not the largest worker."""
    first, second = RAY.workers
    workers = [first, replace(second, peak_memory_bytes=None)]

    comparison = compared(with_one(make_runs(repeats=1), "ray-1", workers=workers), repeats=1)

    assert comparison.arms["ray"].measures["peakMemoryBytes"] is None
    assert "ray.peakMemoryBytes" in comparison.reasons


def stopped(run: Run) -> Run:
    """A run that early stopping ended after two of its three epochs."""
    result = run.result
    steps = result.steps.timed - result.steps.per_epoch
    assert result.seconds.train
    return replaced(
        run,
        curve=result.curve[:2],
        schedule=result.schedule[:2],
        validation_seconds=0.4,
        epochs_completed=2,
        steps_timed=steps,
        train_seconds=result.seconds.train * steps / result.steps.timed,
        wall_seconds=result.seconds.wall - result.seconds.train / result.steps.timed * result.steps.per_epoch - 0.2,
        workers=[replace(worker, amount=(worker.amount or 0) * 2 // 3) for worker in result.workers],
    )


def test_runs_that_stopped_at_different_epochs_are_compared_over_the_same(wording: Wording) -> None:
    """A baseline that trains one epoch less is not faster for it, and the text names the epochs really trained."""
    runs = [stopped(run) if run.arm == "baseline" else run for run in make_runs()]
    comparison = compared(runs)

    assert median(comparison, "speedup") == pytest.approx(0.1 / 0.053)
    two_epochs = stopped(make_run("baseline", 2)).result.seconds.wall / stopped(make_run("ray", 2)).result.seconds.wall
    assert median(comparison, "endToEndSpeedup") == pytest.approx(two_epochs, rel=0.01)
    assert f" {1 / two_epochs:.2f} times" in comparison.verdict
    assert " 2 epochs" in comparison.verdict
    assert {"2", "3", "0.850", "4.0"} <= set(re.findall(r"\d[\d.]*", comparison.reasons["verdict.epochs"]))
    wording("verdict", comparison.verdict)


def test_summaries_lead_to_their_runs() -> None:
    """Every run compared is named with its file and hash, and a script finds the accuracy as a number."""
    comparison = compared(make_runs())
    ray = comparison.arms["ray"]

    assert comparison.arms["baseline"].median("testAccuracy") == 0.975
    assert [run.path for run in ray.runs] == [f"runs/test/ray-{n}/result.json" for n in (1, 2, 3)]
    assert {len(run.sha256) for run in ray.runs} == {64}


def test_cpu_hours_are_reserved_cpus_times_start_to_result() -> None:
    """On this machine those of the workers; the wider process has as many as all of them."""
    arms = compared(make_runs(arms=ALL, repeats=1), arms=ALL, repeats=1).arms

    assert {name: arm.reserved_cpus for name, arm in arms.items()} == {
        "baseline": 1, "wide": 2, "native": 2, "ray": 2,
    }  # fmt: skip
    assert arms["ray"].median("cpuHours") == pytest.approx(2 * make_result("ray").seconds.wall / 3600)


@pytest.fixture
def on_cluster() -> Callable[..., Context]:
    """A context with a head of 1 CPU and 2 GiB, a submitter of 0.1, and workers of 1 CPU and 1 GiB."""

    def context(**changes: Any) -> Context:
        return make_context(
            target="minikube",
            repeats=1,
            worker_memory_bytes=2**30,
            ray_overhead=Reserved(cpus=1.1, memory_bytes=2.5 * 2**30),
            idle_ray=Reserved(cpus=3.0, memory_bytes=4 * 2**30),
            **changes,
        )

    return context


def test_head_and_submitter_are_on_rays_account(on_cluster: Callable[..., Context]) -> None:
    """And what Ray's idle pods hold while others run stands apart, on nobody's."""
    comparison = compare(make_runs(repeats=1), on_cluster())
    hours = {name: make_result(name).seconds.wall / 3600 for name in RUN}

    assert comparison.arms["ray"].median("cpuHours") == pytest.approx(3.1 * hours["ray"])
    assert comparison.arms["baseline"].median("cpuHours") == pytest.approx(hours["baseline"])
    assert comparison.arms["baseline"].median("idleRayCpuHours") == pytest.approx(3.0 * hours["baseline"])
    assert comparison.arms["ray"].median("idleRayCpuHours") is None


def test_cost_needs_a_price(on_cluster: Callable[..., Context]) -> None:
    """CPUs and memory at their prices; without any, no cost and why."""
    priced = compare(make_runs(repeats=1), on_cluster(prices=Prices(cpu_hour=0.10, gib_hour=0.01)))
    without = compare(make_runs(repeats=1), on_cluster())
    ray = make_result("ray").seconds.wall / 3600 * (3.1 * 0.10 + 4.5 * 0.01)
    baseline = make_result("baseline").seconds.wall / 3600 * (1.0 * 0.10 + 1.0 * 0.01)

    assert priced.arms["ray"].median("cost") == pytest.approx(ray)
    assert median(priced, "costRatio") == pytest.approx(ray / baseline)
    assert without.ratios["costRatio"] is None
    assert without.reasons["ray.cost"] == without.reasons["costRatio"]
    assert {"priceCpuHour", "priceGibHour"} <= set(re.findall(r"\w+", without.reasons["costRatio"]))


def test_prices_of_0_are_prices(wording: Wording, on_cluster: Callable[..., Context]) -> None:
    """The cost is then 0, which has no ratio; nobody is told to set a price that is set."""
    free = compare(make_runs(repeats=1), on_cluster(prices=Prices(cpu_hour=0.0, gib_hour=0.0)))

    assert free.arms["ray"].median("cost") == 0
    assert free.ratios["costRatio"] is None
    assert "priceCpuHour" not in free.reasons["costRatio"]
    wording("comparison", free.reasons["costRatio"])
