"""The verdict: each of its kinds, and each thing that qualifies it."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.unit.results import make_context, make_recipe, make_run, make_runs, stamp
from training.comparison import Comparison, Run, compare
from training.comparison_schema import Spread
from training.verdict import Kind, decide


def spread(low: float, high: float, n: int = 3) -> Spread:
    """A spread whose median is in the middle."""
    return {"median": (low + high) / 2, "low": low, "high": high, "n": n}


def verdict(runs: list[Run], **context: Any) -> str:
    """The verdict on runs."""
    return compare(runs, make_context(**context)).data["verdict"]


def changed(runs: list[Run], arm: str, **summary: Any) -> list[Run]:
    """The runs, with some summary values of one arm changed."""
    return [replace(run, summary=run.summary | summary) if run.arm == arm else run for run in runs]


@pytest.mark.parametrize(
    ("speedup", "expected"),
    [
        (spread(1.8, 1.9), "faster"),
        (spread(1.001, 1.002), "faster"),
        (spread(0.7, 0.9), "slower"),
        (spread(0.9, 1.9), "no measurable difference"),
        (spread(1.0, 1.9), "no measurable difference"),
        (spread(0.5, 1.0), "no measurable difference"),
        (spread(1.9, 1.9, n=1), "not decided"),
        (spread(0.5, 0.5, n=1), "not decided"),
        (None, "not decided"),
    ],
)
def test_the_range_decides(speedup: Spread | None, expected: Kind) -> None:
    """Faster or slower only where every repeat says so; one repeat decides nothing."""
    assert decide(speedup) == expected
    assert decide(speedup, comparable=False) == "not comparable"


def test_faster_reads_as_a_sentence_with_its_numbers() -> None:
    """The whole text of the plain case: what, how much, range, repeats, end to end, when it pays."""
    assert verdict(make_runs()) == (
        "Faster: Ray with 2 workers trains 1.89× (1.89× to 1.89×) as fast as one process, in steady state, over 3 "
        "repeats. End to end (start-up included, 3 epochs) it is 0.68× (0.68× to 0.68×) as fast; Ray pays from 8.4 "
        "epochs on. The accuracy gap is +0.2 percentage points. Batch statistics are those of each replica."
    )


@pytest.mark.parametrize(
    ("paces", "begins"),
    [
        ((0.2, 0.2, 0.2), "Slower: Ray with 2 workers trains 0.51× (0.50× to 0.51×)"),
        ((0.1, 0.05, 0.2), "No measurable difference: Ray with 2 workers trains 1.00× (0.51× to 2.02×)"),
        (
            (0.05,),
            "Not decided: Ray with 2 workers trains 2.00× as fast as one process, in steady state, in one repeat",
        ),
    ],
)
def test_other_kinds_begin_with_their_name(paces: tuple[float, ...], begins: str) -> None:
    """The first word is the finding; the numbers stand beside it."""
    runs = [make_run(arm, repeat) for repeat in range(1, len(paces) + 1) for arm in ("baseline", "native")]
    runs += [make_run("ray", repeat, step_seconds_mean=pace) for repeat, pace in enumerate(paces, start=1)]

    assert verdict(runs, repeats=len(paces)).startswith(begins)


@pytest.mark.parametrize(
    ("accuracy", "expected"),
    [
        (0.954, "But Ray's test accuracy is 2.1 percentage points lower: the arms did not learn the same"),
        (0.998, "But Ray's test accuracy is 2.3 percentage points higher: the arms did not learn the same"),
        (0.956, "The accuracy gap is +1.9 percentage points"),
    ],
)
def test_accuracy_gap_above_two_points_qualifies(accuracy: float, expected: str) -> None:
    """In either direction: a faster arm that learnt something else is not the same training."""
    assert expected in verdict(changed(make_runs(), "ray", testAccuracy=accuracy))


def test_throttling_qualifies() -> None:
    """The verdict names the runs that the quota held back and for how long."""
    runs = changed(make_runs(), "ray", workers=[w | {"throttledSeconds": 1.5} for w in make_run().summary["workers"]])

    assert "Throttled: the CPU quota held back ray-1 for 1.5 s, ray-2 for 1.5 s, ray-3 for 1.5 s" in verdict(runs)
    assert "hrottled" not in verdict(make_runs())


def test_oversubscription_qualifies() -> None:
    """What the stack allowed is repeated in the verdict."""
    text = "2 workers × 1 CPU on 1 core"

    assert f"Oversubscribed: {text}." in verdict(make_runs(), oversubscription=text)


def test_no_affinity_qualifies_on_this_machine_alone() -> None:
    """macOS has none; on a cluster the quota does its work."""
    runs = changed(
        make_runs(),
        "baseline",
        workers=[make_run("baseline").summary["workers"][0] | {"affinity": None, "bound": False}],
    )

    assert "no CPU affinity" in verdict(runs)
    assert "no CPU affinity" not in verdict(runs, target="minikube")


def test_an_older_kept_baseline_qualifies() -> None:
    """Baselines kept from yesterday are said to be older; those of this measurement are not."""
    runs = [
        replace(run, summary=run.summary | {"startedAt": _day_before(run.summary["startedAt"])})
        if run.arm == "baseline"
        else run
        for run in make_runs()
    ]

    assert "The baseline is older: kept from up to 24 hours before (baseline-1, baseline-2, baseline-3)" in verdict(
        runs, keep_baseline=True
    )
    assert "older" not in verdict(make_runs(), keep_baseline=True)


def _day_before(started_at: str) -> str:
    return (datetime.fromisoformat(started_at) - timedelta(days=1)).isoformat()


def test_a_baseline_kept_from_just_before_is_older_too() -> None:
    """Kept baselines run one after another, so all but the last ended before another's repeat began."""
    runs = [
        replace(run, summary=run.summary | {"startedAt": stamp(run.arm, run.repeat, later=90)})
        if run.arm != "baseline"
        else run
        for run in make_runs(repeats=1)
    ]

    assert "older: kept from up to 2 minutes before (baseline-1)" in verdict(runs, repeats=1, keep_baseline=True)


def test_learning_rates_reduced_at_different_epochs_qualify() -> None:
    """With `plateau` the arms may reduce at different epochs; the epochs are the same, their schedules are not."""
    history = [epoch | {"learningRate": 0.0005 / epoch["epoch"]} for epoch in make_run("ray").summary["history"]]

    text = verdict(changed(make_runs(), "ray", history=history))

    assert "reduced the learning rate at different epochs, so the speedup is per epoch" in text
    assert "training time to a validation accuracy of 0.900: baseline 6.1 s, native 3.2 s, ray 3.2 s" in text


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (make_recipe(sync_batch_norm=True), "Batch statistics are synchronised over the workers"),
        (make_recipe(), "Batch statistics are those of each replica"),
    ],
)
def test_batch_statistics_are_said(recipe: Any, expected: str) -> None:
    """Replicas that normalise by their own statistics train another model than one process does."""
    comparison = compare(make_runs(recipe), make_context(recipe))

    assert expected in comparison.data["verdict"]


def test_one_worker_has_no_replicas_to_speak_of() -> None:
    """With one worker neither batch statistics nor unverified weights are news."""
    recipe = make_recipe(workers=1)
    text = compare(make_runs(recipe), make_context(recipe)).data["verdict"]

    assert "Ray with 1 worker trains" in text
    assert "Batch statistics" not in text
    assert "Not verified" not in text


def placed(runs: list[Run], arm: str, *nodes: str, cpu_model: str = "Example CPU") -> list[Run]:
    """The runs, with the ranks of one arm on these nodes; the CPU model is the last rank's."""
    workers = [
        worker | {"node": node, "cpuModel": cpu_model if rank == len(nodes) - 1 else "Example CPU"}
        for rank, (worker, node) in enumerate(zip(make_run(arm).summary["workers"], nodes, strict=True))
    ]
    return changed(runs, arm, workers=workers)


def test_a_different_cpu_model_of_any_rank_qualifies() -> None:
    """A cluster may place one worker on another kind of node, and all wait for it."""
    runs = placed(make_runs(), "ray", "this-machine", "this-machine", cpu_model="Other")

    first = "Example CPU (baseline rank 0, native rank 0, native rank 1, ray rank 0)"
    assert f"different CPU models: {first}, Other (ray rank 1)" in verdict(runs)
    assert "CPU models" not in verdict(make_runs())


@pytest.mark.parametrize(
    ("native", "ray", "expected"),
    [
        (("a", "b"), ("b", "a"), ""),
        (("a", "b"), ("a", "a"), "placed differently: 2 ranks on a (ray), a, b (native)"),
        (("a", "b"), ("a", "c"), "placed differently: a, b (native), a, c (ray)"),
    ],
)
def test_distributed_arms_on_other_nodes_qualify(native: tuple[str, ...], ray: tuple[str, ...], expected: str) -> None:
    """Two workers of one node share its memory bandwidth, and reduce over loopback."""
    text = verdict(placed(placed(placed(make_runs(), "baseline", "a"), "native", *native), "ray", *ray))

    assert expected in text
    assert ("placed differently" in text) == bool(expected)


def test_ranks_that_share_nodes_alike_need_no_word() -> None:
    """Of three workers on two nodes it makes no difference which node has two."""
    recipe = make_recipe(workers=3)
    runs = {arm: make_run(arm, 1, recipe) for arm in ("baseline", "native", "ray")}
    nodes = {"baseline": "a", "native": "aab", "ray": "bba"}
    moved = [
        replace(
            run,
            summary=run.summary
            | {"workers": [w | {"node": n} for w, n in zip(run.summary["workers"], nodes[arm], strict=True)]},
        )
        for arm, run in runs.items()
    ]

    assert "placed" not in compare(moved, make_context(recipe, repeats=1)).data["verdict"]


def test_one_process_on_a_node_that_no_worker_had_qualifies() -> None:
    """It is then compared with other machines."""
    runs = placed(placed(placed(make_runs(), "native", "a", "b"), "ray", "a", "b"), "baseline", "c")

    assert "One process ran on c, where no worker of the others ran" in verdict(runs)
    assert "where no worker" not in verdict(placed(runs, "baseline", "b"))


def test_qualifiers_stand_in_reasons_too() -> None:
    """A report can list them without taking the sentence apart."""
    comparison: Comparison = compare(make_runs(), make_context(oversubscription="3 on 2"))
    reasons = comparison.data["reasons"]

    assert reasons["verdict.oversubscription"] == "Oversubscribed: 3 on 2"
    assert reasons["verdict.oversubscription"] in comparison.data["verdict"]


def test_unequal_startup_in_rays_favour() -> None:
    """When Ray starts no later it pays from the first epoch: 0 is then measured."""
    runs = [run for run in make_runs() if run.arm != "ray"] + [
        make_run("ray", repeat, startup_seconds=3.5) for repeat in (1, 2, 3)
    ]

    comparison = compare(runs, make_context())

    assert comparison.data["breakEvenEpochs"] == 0.0
    assert "Ray starts no later than one process" in comparison.data["verdict"]
