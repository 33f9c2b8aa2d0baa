"""The comparison: ratios within a repeat, refusals, checks, reasons, and its JSON."""

import json
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from tests.unit.results import (
    STEP_SECONDS,
    make_context,
    make_provenance,
    make_recipe,
    make_result,
    make_run,
    make_runs,
)
from training.comparison import CompareError, Comparison, Run, compare
from training.comparison_schema import ComparisonData
from training.config import Recipe

DESIGNED_KEYS = {
    "schemaVersion", "speedup", "efficiency", "endToEndSpeedup", "rayOverhead", "accuracyGap", "breakEvenEpochs",
    "idleRayCpus", "verdict", "baseline", "native", "ray", "recipe", "settings", "checks", "reasons",
    "projection",
}  # fmt: skip


def data(runs: list[Run], recipe: Recipe | None = None, **context: Any) -> dict[str, Any]:
    """The comparison of runs as plain JSON data."""
    loaded: dict[str, Any] = json.loads(compare(runs, make_context(recipe, **context)).to_json())
    return loaded


def without_timed_steps(arm: str) -> Run:
    """A run all of whose steps were warm-up."""
    return make_run(arm, train_seconds=None, timed_steps=0, images_per_second=None, step_seconds=None)


def replaced(runs: list[Run], name: str, **summary: Any) -> list[Run]:
    """The runs with some summary values of one of them changed."""
    return [replace(run, summary=run.summary | summary) if run.name == name else run for run in runs]


def test_ratios_are_the_designs() -> None:
    """Each ratio has the arms above and below the line that the design says."""
    compared = data(make_runs())
    baseline, native, ray = (make_result(arm) for arm in ("baseline", "native", "ray"))

    assert compared["speedup"]["median"] == pytest.approx(STEP_SECONDS["baseline"] / STEP_SECONDS["ray"])
    assert compared["efficiency"]["median"] == pytest.approx(compared["speedup"]["median"] / 2)
    assert compared["rayOverhead"]["median"] == pytest.approx(STEP_SECONDS["ray"] / STEP_SECONDS["native"])
    assert compared["endToEndSpeedup"]["high"] == pytest.approx(11.12 / 16.2436)
    assert compared["accuracyGap"]["median"] == pytest.approx(0.2)
    assert compared["native"]["imagesPerSecond"] < native.images_per_second
    assert baseline.wall_seconds / ray.wall_seconds == pytest.approx(compared["endToEndSpeedup"]["low"])


def test_ratios_are_taken_within_a_repeat() -> None:
    """A machine that slows down between repeats changes no ratio, however far apart the arms' seconds are."""
    runs = [
        make_run(arm, repeat, step_seconds_mean=STEP_SECONDS[arm] * slower)
        for repeat, slower in ((1, 1.0), (2, 3.0), (3, 0.5))
        for arm in ("baseline", "native", "ray")
    ]

    speedup = data(runs)["speedup"]

    assert speedup["low"] == pytest.approx(speedup["high"])
    assert speedup["n"] == 3


def test_median_low_high() -> None:
    """The three numbers are the median and the ends of the repeats' ratios."""
    runs = [
        make_run(arm, repeat, step_seconds_mean=pace)
        for repeat, ray_pace in ((1, 0.05), (2, 0.0625), (3, 0.0625 / 1.25))
        for arm, pace in (("baseline", 0.1), ("native", 0.05), ("ray", ray_pace))
    ]

    assert data(runs)["speedup"] == pytest.approx({"median": 2.0, "low": 1.6, "high": 2.0, "n": 3})


def test_break_even_is_extra_startup_over_seconds_saved_an_epoch() -> None:
    """12 s of start-up instead of 4 s, and 20 steps of 0.0475 s saved an epoch."""
    compared = data(make_runs(repeats=1), repeats=1)

    assert compared["breakEvenEpochs"] == pytest.approx((12 - 4) / (20 * (0.1 - 0.053)))


@pytest.mark.parametrize("ray_pace", [0.2, 0.1])
def test_break_even_is_null_when_ray_saves_nothing(ray_pace: float) -> None:
    """A Ray arm that is not measurably faster earns no start-up back: null and why, not a huge number or 0."""
    runs = [make_run(arm, repeat) for repeat in (1, 2, 3) for arm in ("baseline", "native")]
    runs += [make_run("ray", repeat, step_seconds_mean=ray_pace) for repeat in (1, 2, 3)]

    compared = data(runs)

    assert compared["breakEvenEpochs"] is None
    assert "saves nothing" in compared["reasons"]["breakEvenEpochs"]


def test_top_level_keys_are_the_designs() -> None:
    """Nothing is added to or missing from what the design promises to scripts, whatever was measured."""
    assert set(data(make_runs())) == DESIGNED_KEYS
    assert set(data(make_runs(native=False), native_arm=False)) == DESIGNED_KEYS
    assert set(data([])) == DESIGNED_KEYS
    assert set(ComparisonData.__annotations__) == DESIGNED_KEYS


def test_json_is_canonical_and_round_trips() -> None:
    """The same runs in any order give the same text, and the text reads back to the same comparison."""
    runs = make_runs(repeats=1)
    texts = {compare(order, make_context(repeats=1)).to_json() for order in permutations(runs)}
    (text,) = texts

    assert Comparison.from_json(text).to_json() == text
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "no comparison"),
        ("[1]", "schemaVersion"),
        ('{"schemaVersion": 0}', "schemaVersion is 0"),
        ('{"schemaVersion": 1, "speedup": null}', "lacks accuracyGap"),
    ],
)
def test_from_json_refuses_what_is_no_comparison(text: str, names: str) -> None:
    """Damaged, old and partial texts are refused with what is wrong, not with a KeyError later."""
    with pytest.raises(CompareError, match=names):
        Comparison.from_json(text)


def test_nan_never_reaches_the_outputs() -> None:
    """A NaN that slipped into a result stops the comparison; JSON has no such number."""
    runs = replaced(make_runs(), "ray-1", testAccuracy=float("nan"))

    with pytest.raises(ValueError, match="not JSON compliant"):
        compare(runs, make_context()).to_json()


def test_scalars_are_medians_and_the_verdict() -> None:
    """Every scalar of the design, as a plain number or text; None for what was not measured."""
    scalars = compare(make_runs(native=False), make_context(native_arm=False)).scalars()
    names = {"speedup", "efficiency", "endToEndSpeedup", "rayOverhead", "accuracyGap", "breakEvenEpochs", "verdict"}

    assert set(scalars) == names
    assert {name for name, value in scalars.items() if value is None} == {"rayOverhead"}
    assert scalars["speedup"] == pytest.approx(0.1 / 0.053)


def test_native_off_is_null_with_a_reason() -> None:
    """Without the native arm its summary, rayOverhead and the projection are null, and each says why."""
    compared = data(make_runs(native=False), native_arm=False)

    for name in ("native", "rayOverhead", "projection"):
        assert compared[name] is None
        assert "nativeArm is off" in compared["reasons"][name]


@pytest.mark.parametrize(
    ("runs", "context"),
    [
        (make_runs(), {}),
        (make_runs(native=False), {"native_arm": False}),
        ([], {}),
        (make_runs(repeats=1)[:2], {}),
        (make_runs(make_recipe(workers=1)), {"recipe": make_recipe(workers=1)}),
        ([without_timed_steps(arm) for arm in ("baseline", "native", "ray")], {"repeats": 1}),
    ],
)
def test_every_null_has_a_reason(runs: list[Run], context: dict[str, Any]) -> None:
    """Design rule 9: whatever is null anywhere in the comparison is explained under its dotted name."""
    compared = data(runs, **context)
    nulls = {name for name, value in compared.items() if value is None}
    nulls |= {f"checks.{name}" for name, passed in compared["checks"].items() if passed is None}
    for arm in ("baseline", "native", "ray"):
        nulls |= {f"{arm}.{key}" for key, value in (compared[arm] or {}).items() if value is None}

    assert nulls
    assert nulls - set(compared["reasons"]) == set()


def test_run_reasons_reach_the_comparison() -> None:
    """A run that says why it has no number is quoted."""
    why = "every step was warm-up"
    runs = replaced(make_runs(), "ray-2", trainSeconds=None, reasons={"trainSeconds": why})

    compared = data(runs)

    assert compared["speedup"]["n"] == 2
    assert compared["reasons"]["speedup"] == f"ray-2 has no trainSeconds: {why}"


def test_a_repeat_that_lacks_an_arm_is_left_out() -> None:
    """Ratios of other repeats stand, and the reason names the repeat and the arm."""
    runs = [run for run in make_runs() if run.name != "native-2"]

    compared = data(runs)

    assert compared["speedup"]["n"] == 2
    assert [run["name"] for run in compared["ray"]["runs"]] == ["ray-1", "ray-3"]
    assert compared["reasons"]["repeats.2"] == "left out: no run of native"
    assert "Only 2 of 3 repeats" in compared["verdict"]


def test_no_whole_repeat_is_not_decided() -> None:
    """With nothing to compare, everything is null and the verdict says so."""
    compared = data(make_runs()[:2])

    assert compared["speedup"] is None
    assert compared["verdict"].startswith("Not decided: no repeat has a run of every arm")


def test_two_runs_of_one_arm_and_repeat_are_refused() -> None:
    """Which of the two to take is not this program's to choose."""
    with pytest.raises(CompareError, match="two runs of ray"):
        compare([*make_runs(), make_run("ray", 2)], make_context())


@pytest.mark.parametrize("key", sorted(set(make_recipe().to_dict()) - {"seed"}))
def test_recipes_that_differ_are_refused_by_name(key: str) -> None:
    """Each key of the recipe but the seed makes runs incomparable, and the message names it and the run."""
    runs = make_runs()
    other = runs[-1].summary["recipe"] | {key: "other"}

    with pytest.raises(CompareError, match=f"differ in `{key}`: ray-3"):
        compare(replaced(runs, "ray-3", recipe=other), make_context())


def test_an_absent_recipe_key_is_refused() -> None:
    """A result from before a key existed was not trained with today's recipe."""
    runs = make_runs()
    older = {key: value for key, value in runs[1].summary["recipe"].items() if key != "augmentation"}

    with pytest.raises(CompareError, match="augmentation"):
        compare(replaced(runs, "native-1", recipe=older), make_context())


def test_seeds_are_those_of_the_repeat() -> None:
    """Repeat r of every arm has seed + r - 1; a run with another seed is refused."""
    recipe = make_recipe(seed=7)
    runs = make_runs(recipe)
    unpaired = runs[-1].summary["recipe"] | {"seed": 7}

    assert [run["seed"] for run in data(runs, recipe)["baseline"]["runs"]] == [7, 8, 9]
    with pytest.raises(CompareError, match="differ in `seed`: ray-3"):
        compare(replaced(runs, "ray-3", recipe=unpaired), make_context(recipe))


def test_the_baselines_recipe_leaves_out_workers() -> None:
    """A baseline measured for 2 workers is the baseline for 3."""
    three = make_recipe(workers=3)
    runs = [run for run in make_runs(three) if run.arm != "baseline"]
    runs += [run for run in make_runs(make_recipe(workers=2)) if run.arm == "baseline"]

    assert data(runs, three)["efficiency"]["median"] == pytest.approx(0.1 / 0.053 / 3)


def test_results_of_another_version_are_refused() -> None:
    """The state of an older program is not guessed at."""
    with pytest.raises(CompareError, match=r"baseline-1 has schemaVersion 0.*make up"):
        compare(replaced(make_runs(), "baseline-1", schemaVersion=0), make_context())


@pytest.mark.parametrize(
    ("check", "name", "broken"),
    [
        ("replicasAsAsked", "ray-2", {"worldSize": 1}),
        ("replicasAsAsked", "baseline-1", {"worldSize": 2}),
        ("replicasAsAsked", "native-1", {"workers": make_run("baseline").summary["workers"]}),
        (
            "threadsAsAsked",
            "ray-1",
            {"workers": [w | {"computeThreads": 2} for w in make_run("ray").summary["workers"]]},
        ),
        ("sameWork", "ray-3", {"stepsPerEpoch": 19}),
        ("sameWork", "ray-3", {"timedSteps": 50}),
        ("sameWork", "native-2", {"trainImages": 640}),
        ("sameWork", "ray-1", {"workers": [w | {"images": 1280 * 3} for w in make_run("ray").summary["workers"]]}),
        ("sameWork", "ray-1", {"parameters": 1}),
        ("hashesEqual", "ray-1", {"provenance": make_run("ray").summary["provenance"] | {"dependenciesHash": "x"}}),
        ("hashesEqual", "ray-2", {"provenance": make_run("ray").summary["provenance"] | {"codeHash": "x"}}),
        ("hashesEqual", "ray-2", {"provenance": make_run("ray").summary["provenance"] | {"datasetHash": "x"}}),
        ("weightsEqual", "native-1", {"checks": make_run("native").summary["checks"] | {"weightsEqual": False}}),
        ("shardsCoverDataSet", "ray-1", {"checks": make_run("ray").summary["checks"] | {"shardsCoverDataSet": False}}),
        (
            "threadsAsAsked",
            "baseline-1",
            {"checks": make_run("baseline").summary["checks"] | {"threadsAsAsked": False}},
        ),
        ("replicasAsAsked", "ray-1", {"checks": make_run("ray").summary["checks"] | {"replicasAsAsked": False}}),
        ("somethingNew", "ray-1", {"checks": make_run("ray").summary["checks"] | {"somethingNew": False}}),
    ],
)
def test_a_broken_fairness_rule_leaves_no_ratio(check: str, name: str, broken: dict[str, Any]) -> None:
    """Whatever rule a run breaks: its check is false with the run's name, no ratio is given and nothing is faster."""
    compared = data(replaced(make_runs(), name, **broken))

    assert [key for key, passed in compared["checks"].items() if passed is False] == [check]
    assert name in compared["reasons"][f"checks.{check}"]
    assert [compared[ratio] for ratio in ("speedup", "endToEndSpeedup", "rayOverhead", "breakEvenEpochs")] == [None] * 4
    assert compared["verdict"].startswith("Not comparable")
    assert "faster" not in compared["verdict"].lower()


def test_fair_runs_pass_every_check() -> None:
    """All that is verified on whole runs is true."""
    checks = data(make_runs())["checks"]

    assert set(checks.values()) == {True}
    assert {"replicasAsAsked", "weightsEqual", "shardsCoverDataSet", "cpusDisjoint", "versionsEqual"} <= set(checks)


def test_code_may_differ_between_arms_and_data_between_seeds() -> None:
    """Each arm has its own entry point, and synthetic images follow the seed."""
    runs = [
        make_run(arm, repeat, provenance=make_provenance(code_hash=arm, dataset_hash=str(repeat)))
        for repeat in (1, 2, 3)
        for arm in ("baseline", "native", "ray")
    ]

    assert data(runs)["checks"]["hashesEqual"] is True


def test_a_check_that_a_run_left_open_is_null() -> None:
    """What a distributed run could not verify is not taken as verified, and the verdict says so."""
    runs = replaced(make_runs(), "ray-1", checks={"weightsEqual": None}, reasons={"weightsEqual": "too large"})

    compared = data(runs)

    assert compared["checks"]["weightsEqual"] is None
    assert compared["reasons"]["checks.weightsEqual"] == "not verified in ray-1: too large"
    assert "Not verified: shardsCoverDataSet, weightsEqual" in compared["verdict"]


def test_a_check_that_no_run_made_is_listed() -> None:
    """A body that forgot to verify is seen: the rules' own checks are null and never just absent."""
    checks = data([replace(run, summary=run.summary | {"checks": {}}) for run in make_runs()])["checks"]

    assert {name for name, passed in checks.items() if passed is None} == {
        "shardsCoverDataSet",
        "weightsEqual",
    }


def test_what_one_worker_could_not_measure_is_null_for_the_arm() -> None:
    """The largest of the workers that answered is not the largest worker."""
    first, second = make_run("ray").summary["workers"]
    runs = replaced(make_runs(repeats=1), "ray-1", workers=[first, second | {"peakMemoryBytes": None}])

    compared = data(runs, repeats=1)

    assert compared["ray"]["peakMemoryBytes"] is None
    assert "ray.peakMemoryBytes" in compared["reasons"]


def test_per_epoch_when_arms_stopped_at_different_epochs() -> None:
    """A baseline that trains one epoch more is not slower for it."""
    runs = [make_run(arm, repeat) for repeat in (1, 2, 3) for arm in ("native", "ray")]
    runs += [replace(make_run("baseline", r), summary=_stopped(make_run("baseline", r).summary)) for r in (1, 2, 3)]

    compared = data(runs)

    assert compared["speedup"]["median"] == pytest.approx(0.1 / 0.053)
    assert "stopped at different epochs, so the speedup is per epoch" in compared["verdict"]
    assert "training time to a validation accuracy of 0.850: baseline 4.0 s" in compared["verdict"]


def _stopped(summary: dict[str, Any]) -> dict[str, Any]:
    """A run that early stopping ended after two of its three epochs."""
    history = summary["history"][:2]
    steps = sum(epoch["timedSteps"] for epoch in history)
    workers = [worker | {"images": worker["images"] * 2 // 3} for worker in summary["workers"]]
    train_seconds = summary["trainSeconds"] * steps / summary["timedSteps"]
    return summary | {
        "history": history,
        "epochsCompleted": 2,
        "timedSteps": steps,
        "trainSeconds": train_seconds,
        "workers": workers,
    }


def test_summaries_lead_to_their_runs() -> None:
    """Every run compared is named with its file and hash, and a script finds the accuracy as a number."""
    compared = data(make_runs())

    assert compared["baseline"]["testAccuracy"] == 0.975
    assert [run["path"] for run in compared["ray"]["runs"]] == [f"runs/test/ray-{n}/result.json" for n in (1, 2, 3)]
    assert {len(run["sha256"]) for run in compared["ray"]["runs"]} == {64}
    assert compared["ray"]["spread"]["trainSeconds"]["low"] < compared["ray"]["trainSeconds"]
