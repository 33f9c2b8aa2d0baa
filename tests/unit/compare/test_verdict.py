"""The verdict: its first words by one rule, and everything that it says and that qualifies it."""

import re
import textwrap
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from compare.answer import Contest, answer
from compare.comparison import compare
from compare.measurement import Run, of_repeats
from compare.schema import BreakEven, Claim, Estimate
from compare.value import Missing
from compare.verdict import DETAILS, first_words
from tests.golden import Wording
from tests.unit.results import (
    COMPARED,
    RUN,
    disturbed,
    estimated,
    make_context,
    make_recipe,
    make_result,
    make_run,
    make_runs,
    replaced,
    stamp,
)
from training.contract.arms import ARMS

ALL = COMPARED
SUBJECT = ARMS["ray"].words(make_recipe())


def verdict(runs: list[Run], **context: Any) -> str:
    """The verdict on runs."""
    return compare(runs, make_context(**context)).verdict


def changed(runs: list[Run], arm: str, **fields: Any) -> list[Run]:
    """The runs, with some fields of one arm's results changed."""
    return [replaced(run, **fields) if run.arm == arm else run for run in runs]


def ratio(lower: float, upper: float) -> Estimate:
    """One with this interval."""
    return estimated((lower + upper) / 2, lower, upper)


def held(now: tuple[float, float] | None, per_epoch: tuple[float, float] | None, surely: int | None = None) -> Contest:
    """Ray against one alternative: R at the epochs trained, R of an epoch alone, and from when Ray surely leads."""
    return Contest(
        against="another",
        now=ratio(*now) if now else estimated(1.5),
        per_epoch=ratio(*per_epoch) if per_epoch else Missing("no step was timed"),
        meets=BreakEven(probably=surely, possibly=surely, surely=surely),
    )


WON = held((1.1, 1.3), (1.5, 1.7), 3)
LATER = held((0.6, 0.7), (1.5, 1.7), 12)
LATER_STILL = held((0.4, 0.5), (1.1, 1.2), 61)
LOST = held((0.4, 0.5), (0.9, 1.0))
OPEN = held((0.9, 1.4), (0.95, 1.6))
UNTIMED = replace(OPEN, now=Missing("no time was measured"), meets=BreakEven(probably=23, possibly=23, surely=23))


@pytest.mark.parametrize(
    ("against", "claim", "expected"),
    [
        ([WON], "same work", "Worth it"),
        ([WON, WON], "same work", "Worth it"),
        ([WON, LATER], "same work", "Worth it from 12 epochs on"),
        ([LATER, WON], "same work", "Worth it from 12 epochs on"),
        ([LATER], "same work", "Worth it from 12 epochs on"),
        ([LATER, LATER_STILL], "same work", "Worth it from 61 epochs on"),
        ([WON, LOST], "same work", "Not worth it here"),
        ([LATER, LOST], "same work", "Not worth it here"),
        ([LOST], "same work", "Not worth it here"),
        ([LOST, LOST], "same work", "Not worth it here"),
        ([OPEN, LOST], "same work", "Not worth it here"),
        ([OPEN], "same work", "Not decided"),
        ([WON, OPEN], "same work", "Not decided"),
        ([OPEN, OPEN], "same work", "Not decided"),
        ([LATER, OPEN], "same work", "Not worth it here"),
        # The interval's ends decide, and not its middle
        ([held((1.001, 1.002), (1.0, 1.1))], "same work", "Worth it"),
        ([held((1.0, 1.3), (0.99, 1.3))], "same work", "Not decided"),
        ([held((0.98, 1.049), (0.99, 1.3))], "same work", "Not worth it here"),
        ([held((0.98, 1.05), (0.99, 1.3))], "same work", "Not decided"),
        ([held((0.97, 1.03), (0.97, 1.03))], "same work", "Not worth it here"),
        ([held((0.7, 0.8), (1.001, 1.002), 9000)], "same work", "Worth it from 9,000 epochs on"),
        # An epoch is faster, but its start-up is never earned back within any number of epochs
        ([held((0.7, 0.8), (1.0001, 1.0002), None)], "same work", "Not worth it here"),
        ([held((0.7, 0.8), (0.99, 1.5), None)], "same work", "Not worth it here"),
        # Faster to start and slower an epoch: what was asked for is what is answered
        ([held((1.2, 1.4), (0.8, 0.9))], "same work", "Worth it"),
        # One repeat has no interval; a run without a timed step no epoch
        ([held(None, None)], "same work", "Not decided"),
        ([held(None, None), LOST], "same work", "Not worth it here"),
        ([held((1.1, 1.3), None)], "same work", "Worth it"),
        ([held((0.4, 0.5), None)], "same work", "Not worth it here"),
        ([held((0.9, 1.4), None)], "same work", "Not decided"),
        # Absent arms, and weaker claims
        ([], "same work", "Not decided"),
        ([UNTIMED, WON], "same work", "Not decided"),
        ([UNTIMED, LOST], "same work", "Not decided"),
        ([WON, WON], "same result", "Worth it"),
        ([WON, WON], "same script", "Not decided"),
        ([LOST], "same script", "Not decided"),
        ([WON, WON], "it finished", "Not decided"),
        ([LOST], "it finished", "Not decided"),
        ([LATER], "it finished", "Not decided"),
    ],
)  # fmt: skip
def test_the_first_words(against: list[Contest], claim: Claim, expected: str) -> None:
    """One rule: surely faster than each alternative now, or from some epoch on; surely not by 5 % than one; or open."""
    counting_epochs = of_repeats([], make_context())

    assert first_words(answer(against, claim), against, counting_epochs) == expected


def numbers(text: str) -> list[str]:
    """Those of a text, in order."""
    return re.findall(r"\d+(?:[.,]\d+)*", text.partition(": ")[2])


def test_the_whole_text_of_the_plain_case(wording: Wording) -> None:
    """The answer, compared with what, how certain, where the time goes; eight lines of a terminal at most."""
    text = verdict(make_runs(arms=RUN))

    assert SUBJECT in text
    assert numbers(text) == ["3", "2", "1.47", "1.45", "1.48", "1", "95", "3", "12.0", "16.2", "1", "4.0", "11.1"]
    assert len(textwrap.wrap(text, 80)) <= 8
    wording("verdict", text)


def test_the_details_stand_below_it(wording: Wording) -> None:
    """By name, in their order and each once; none of them is in the verdict, and each has its numbers."""
    comparison = compare(make_runs(arms=RUN), make_context())
    texts = {name: comparison.reasons[f"verdict.{name}"] for name in DETAILS if f"verdict.{name}" in comparison.reasons}

    assert list(texts) == ["epoch", "native", "model", "accuracyGap", "wide", "batchStatistics"]
    assert [name for name, text in texts.items() if text in comparison.verdict] == []
    assert numbers(f": {texts['epoch']}") == ["1.72", "1.72", "1.73", "1"]
    assert numbers(f": {texts['native']}")[:3] == ["1.02", "1.02", "1.02"]
    assert numbers(f": {texts['model']}") == ["4", "1.97", "4.04", "3.47"]
    assert "0.2" in texts["accuracyGap"]
    for name, text in texts.items():
        wording("verdict", text, name)


def test_an_estimate_from_a_machine_that_was_not_quiet_says_so(wording: Wording) -> None:
    """Beside its numbers; as one from a machine of which nothing is known does."""
    beside = [disturbed(run) for run in make_runs()]
    unknown = changed(make_runs(), "ray", machine=None)
    plain, busy, doubtful = (
        compare(runs, make_context()).reasons["verdict.model"] for runs in (make_runs(), beside, unknown)
    )

    assert len({plain, busy, doubtful}) == 3
    assert numbers(f": {plain}") == numbers(f": {busy}") == numbers(f": {doubtful}")
    wording("verdict", busy, "disturbed")
    wording("verdict", doubtful, "not known to be quiet")


def test_every_alternative_is_named(wording: Wording) -> None:
    """What is held against Ray is said with its CPUs, and the bigger process decides with the baseline."""
    comparison = compare(make_runs(arms=ALL), make_context(arms=ALL))

    assert {"1.77", "(1.77", "1.78)"} <= set(comparison.verdict.split())
    wording("verdict", comparison.verdict)
    assert str(comparison.break_even_epochs) in comparison.answer
    assert comparison.break_even["wide"] is not None
    assert comparison.break_even["wide"].surely == comparison.break_even_epochs
    assert "verdict.wide" not in comparison.reasons


def paced(paces: list[float], arm: str = "ray", startup: float = 12.0, epochs: int = 3) -> list[Run]:
    """Runs in which an arm has these seconds a step, repeat by repeat."""
    recipe = make_recipe(epochs=epochs)
    others = [make_run(name, r, recipe) for r in range(1, len(paces) + 1) for name in RUN if name != arm]
    return others + [
        make_run(arm, repeat, recipe, step_seconds_mean=pace, startup_seconds=startup)
        for repeat, pace in enumerate(paces, start=1)
    ]


@pytest.mark.parametrize(
    ("paces", "startup", "answered"),
    [
        pytest.param([0.2, 0.2, 0.2], 12.0, "Not worth it here", id="nothing changes it"),
        pytest.param([0.05, 0.05, 0.05], 3.5, "Worth it", id="worth it"),
        pytest.param([0.1, 0.05, 0.2], 3.5, "Not decided", id="more repeats"),
        pytest.param([0.05], 3.5, "Not decided", id="one repeat"),
        pytest.param([0.12, 0.05, 0.08], 20.0, "Not worth it here", id="more epochs or repeats"),
    ],
)
def test_other_answers_say_what_would_change_them(
    wording: Wording, paces: list[float], startup: float, answered: str
) -> None:
    """More epochs, more repeats, or nothing."""
    text = verdict(paced(paces, startup=startup), repeats=len(paces))

    assert text.startswith(f"{answered}: ")
    wording("verdict", text)


NO = "Not worth it here"


def sentence_on_longer(**of_arms: dict[str, Any]) -> str:
    """What the verdict *Not worth it here* says of longer training, with these fields of some arms' results."""
    runs = [make_run(arm, repeat, **of_arms.get(arm, {})) for repeat in (1, 2, 3) for arm in ALL]
    comparison = compare(runs, make_context(arms=ALL))
    assert comparison.answer == NO
    return comparison.verdict.partition(" repeats")[2].partition(". ")[2].partition(" Ray spends")[0]


@pytest.mark.parametrize(
    ("of_arms", "against", "absent"),
    [
        pytest.param({"ray": {"step_seconds_mean": 0.065}}, "on 2 CPUs", "on 1 CPU", id="slower than one of them"),
        pytest.param({"ray": {"step_seconds_mean": 0.0585}}, "on 2 CPUs", "on 1 CPU", id="hardly faster than one"),
        # From each epoch it gains 5.2 %, and its start is as long as thousands of epochs
        pytest.param(
            {"ray": {"step_seconds_mean": 0.0478, "startup_seconds": 5000.0}, "wide": {"step_seconds_mean": 0.06}},
            "10,000", "without start-up", id="never enough",
        ),
        # Only an epoch of one of them is not known
        pytest.param(
            {"ray": {"step_seconds_mean": 0.065}, "wide": {"steps_gaps": 0}}, "a step of Ray", "on 1 CPU",
            id="by the steps",
        ),
        # One of them is ahead of Ray for now, and the other one in the end
        pytest.param(
            {
                "ray": {"step_seconds_mean": 0.11}, "baseline": {"startup_seconds": 60.0},
                "wide": {"step_seconds_mean": 0.15, "startup_seconds": 1.0},
            },
            "--set epochs=", "More repeats tell", id="no repeats needed",
        ),
    ],
)  # fmt: skip
def test_what_is_said_of_longer_training_where_it_is_a_no(
    wording: Wording, of_arms: dict[str, dict[str, Any]], against: str, absent: str
) -> None:
    """Of those alternatives alone that decide it."""
    text = sentence_on_longer(**of_arms)

    assert against in text
    assert absent not in text
    wording("verdict", text)


def test_break_even_is_where_the_whole_clocks_meet() -> None:
    """By each run's own clock: 12.4 s against 4.4 fixed, 1.26 (with its report) against 2.2 s an epoch."""
    runs = make_runs(repeats=2)
    comparison = compare(runs, make_context(repeats=2))
    ray, baseline = make_result("ray"), make_result("baseline")
    saved = 20 * (0.1 - 0.053) - 0.05 / 3
    extra = (ray.seconds.wall - baseline.seconds.wall) + 3 * saved

    assert comparison.break_even["baseline"] is not None
    assert comparison.break_even["baseline"].probably == int(extra / saved) + 1


def test_no_break_even_is_below_what_was_trained_and_lost() -> None:
    """Evaluation and shut-down count: more of both than the baseline's move it later than start-up and steps alone."""
    slow_end = [
        replaced(run, wall_seconds=run.result.seconds.wall + 0.9) if run.arm == "ray" else run for run in make_runs()
    ]
    plain, later = (compare(runs, make_context()).break_even_epochs for runs in (make_runs(), slow_end))

    assert plain is not None
    assert later == plain + 1


@pytest.mark.parametrize(
    ("accuracy", "name", "said"),
    [
        (0.954, "accuracy", "2.1"),
        (0.998, "accuracy", "2.3"),
        (0.956, "accuracyGap", "1.9"),
        (0.965, "accuracyGap", "lower"),
        (0.985, "accuracyGap", "higher"),
        (0.975, "accuracyGap", "0.1"),
    ],
)
def test_an_accuracy_gap_above_two_points_qualifies(wording: Wording, accuracy: float, name: str, said: str) -> None:
    """In either direction: a faster arm that learnt something else is not the same training. A small one is a detail,
    with its direction."""
    reasons = compare(changed(make_runs(), "ray", scores={"testAccuracy": accuracy}), make_context()).reasons

    assert ("verdict.accuracy" in reasons) == (name == "accuracy")
    assert said in reasons[f"verdict.{name}"]
    wording("verdict", reasons[f"verdict.{name}"])


def test_an_accuracy_gap_that_may_be_none_is_said_to_be_not_proven(wording: Wording) -> None:
    """Its median has a direction that the next repeats may turn."""
    accuracies = {1: 0.955, 2: 0.965, 3: 0.99}
    runs = [
        replaced(run, scores={"testAccuracy": accuracies[run.repeat]}) if run.arm == "ray" else run
        for run in make_runs()
    ]
    comparison = compare(runs, make_context())

    assert (gap := comparison.ratios["accuracyGap"])
    assert 1.0 == pytest.approx(gap.median)
    assert not re.search(r"\d|lower|higher", comparison.reasons["verdict.accuracyGap"])
    wording("verdict", comparison.reasons["verdict.accuracyGap"])


@pytest.mark.parametrize(
    ("accuracies", "is_proven"),
    [((0.95, 0.951, 0.949), True), ((0.9, 0.95, 0.99), False), ((0.95,), False)],
    ids=["proven", "not proven", "one repeat"],
)
def test_a_large_accuracy_gap_proves_nothing_if_its_interval_contains_0(
    wording: Wording, accuracies: tuple[float, ...], is_proven: bool
) -> None:
    """Its size is said, and that the next repeats may turn it; of one repeat there is no interval."""
    runs = [
        replaced(run, scores={"testAccuracy": accuracies[run.repeat - 1]}) if run.arm == "ray" else run
        for run in make_runs(repeats=len(accuracies))
    ]
    comparison = compare(runs, make_context(repeats=len(accuracies)))

    assert (gap := comparison.ratios["accuracyGap"])
    assert is_proven is (gap.lower is not None and gap.lower > 0)
    assert f"{gap.median:.1f}" in comparison.reasons["verdict.accuracy"]
    wording("verdict", comparison.reasons["verdict.accuracy"])


def test_throttling_qualifies(wording: Wording) -> None:
    """The verdict names the runs that the quota held back and for how long."""
    workers = [replace(worker, throttled_seconds=1.5) for worker in make_result("ray").workers]

    reasons = compare(changed(make_runs(), "ray", workers=workers), make_context()).reasons

    assert re.findall(r"ray-\d", reasons["verdict.throttling"]) == ["ray-1", "ray-2", "ray-3"]
    assert reasons["verdict.throttling"].count("1.5 s") == 3
    assert "verdict.throttling" not in compare(make_runs(), make_context()).reasons
    wording("verdict", reasons["verdict.throttling"])


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"left_files": ["cache.pt"]}, "verdict.leftFiles"),
        ({"observer_seconds": 0.2}, "verdict.observer"),
    ],
)
def test_what_stands_between_runs_qualifies(fields: dict[str, Any], key: str) -> None:
    """What a script left where later runs find it, and an observer that took more than one of a hundred of a step."""
    runs = make_runs()
    found, plain = (compare(each, make_context()).reasons for each in (changed(runs, "ray", **fields), runs))

    assert "ray-1" in found[key]
    assert key not in plain


def test_oversubscription_qualifies() -> None:
    """What the stack allowed is repeated in the verdict, and in the reasons, from which a report lists it."""
    text = "2 workers × 1 CPU on 1 core"
    comparison = compare(make_runs(), make_context(oversubscription=text))

    assert f"Oversubscribed: {text}." in comparison.verdict
    assert comparison.reasons["verdict.oversubscription"] in comparison.verdict


def test_no_affinity_qualifies_on_this_machine_alone() -> None:
    """macOS has none; on a cluster the quota does its work, and a check that never passes there is no news."""
    workers = [replace(worker, affinity=None, bound=False) for worker in make_result("baseline").workers]
    runs = changed(make_runs(), "baseline", workers=workers)

    here, in_pods = compare(runs, make_context()), compare(runs, make_context(target="minikube"))

    assert "no CPU affinity" in here.verdict
    assert "cpusDisjoint" in here.reasons["verdict.checks"]
    assert not {"verdict.affinity", "verdict.checks"} & in_pods.reasons.keys()


def earlier(run: Run, **ago: float) -> Run:
    """The run, so long before."""
    return replaced(run, started_at=(datetime.fromisoformat(run.result.started_at) - timedelta(**ago)).isoformat())


@pytest.mark.parametrize("arm", RUN)
def test_runs_of_a_repeat_that_stand_apart_are_said(wording: Wording, arm: str) -> None:
    """A week, whichever arm it is and whether it was kept or made before an interruption; and five minutes. One is no
    news: pods take their time."""

    def apart(repeats: tuple[int, ...], **ago: float) -> str:
        runs = [earlier(run, **ago) if run.arm == arm and run.repeat in repeats else run for run in make_runs()]
        return compare(runs, make_context()).reasons.get("verdict.apart", "")

    week = apart((1, 3), days=7)
    assert "1, 3" in week
    assert "7 days" in week
    assert "5 minutes" in apart((1, 2, 3), minutes=5) or arm != "baseline"
    assert not apart((1, 2, 3), minutes=1)
    assert not apart(())
    wording("verdict", week)


def test_learning_rates_reduced_at_different_epochs_qualify(wording: Wording) -> None:
    """With `plateau` the arms may reduce at different epochs; the epochs are the same, their schedules are not."""
    runs = changed(make_runs(), "ray", schedule=[0.0005 / epoch for epoch in (1, 2, 3)])
    reasons = compare(runs, make_context()).reasons

    assert {"baseline 6.1 s", "native 3.2 s", "ray 3.2 s"} <= set(
        re.findall(r"\w+ [\d.]+ s", reasons["verdict.epochs"])
    )
    assert "verdict.epochs" not in compare(make_runs(), make_context()).reasons
    wording("verdict", reasons["verdict.epochs"])


@pytest.mark.parametrize(
    ("recipe", "key_helps"),
    [
        (make_recipe(sync_batch_norm=True), False),
        (make_recipe(), True),
    ],
)
def test_batch_statistics_are_said(recipe: Any, key_helps: bool, wording: Wording) -> None:
    """Replicas that normalise by their own statistics train another model than one process does."""
    text = compare(make_runs(recipe), make_context(recipe)).reasons["verdict.batchStatistics"]

    assert ("syncBatchNorm" in text) == key_helps
    wording("verdict", text)


def test_one_worker_has_no_replicas_to_speak_of() -> None:
    """With one worker neither batch statistics, nor unverified weights, nor a bigger process are news."""
    recipe = make_recipe(workers=1)
    comparison = compare(make_runs(recipe), make_context(recipe))

    assert ARMS["ray"].words(recipe) in comparison.verdict
    assert not {"verdict.batchStatistics", "verdict.checks", "verdict.wide"} & comparison.reasons.keys()


def placed(runs: list[Run], arm: str, *nodes: str, cpu_model: str = "Example CPU") -> list[Run]:
    """The runs, with the ranks of one arm on these nodes; the CPU model is the last rank's."""
    workers = [
        replace(worker, node=node, cpu_model=cpu_model if rank == len(nodes) - 1 else "Example CPU")
        for rank, (worker, node) in enumerate(zip(make_result(arm).workers, nodes, strict=True))
    ]
    return changed(runs, arm, workers=workers)


def test_a_different_cpu_model_of_any_rank_qualifies(wording: Wording) -> None:
    """A cluster may place one worker on another kind of node, and all wait for it."""
    runs = placed(make_runs(), "ray", "this-machine", "this-machine", cpu_model="Other")

    reasons = compare(runs, make_context()).reasons
    assert "Other (ray rank 1)" in reasons["verdict.hosts"]  # not prose: a CPU, and where it is
    assert "verdict.hosts" not in compare(make_runs(), make_context()).reasons
    wording("verdict", reasons["verdict.hosts"])


@pytest.mark.parametrize(
    ("native", "ray", "qualified"),
    [(("a", "b"), ("b", "a"), False), (("a", "b"), ("a", "a"), True), (("a", "b"), ("a", "c"), True)],
)
def test_distributed_arms_on_other_nodes_qualify(
    wording: Wording, native: tuple[str, ...], ray: tuple[str, ...], *, qualified: bool
) -> None:
    """Two workers of one node share its memory bandwidth, and reduce over loopback."""
    runs = placed(placed(placed(make_runs(), "baseline", "a"), "native", *native), "ray", *ray)
    reasons = compare(runs, make_context()).reasons

    assert ("verdict.hosts" in reasons) == qualified
    if qualified:
        wording("verdict", reasons["verdict.hosts"])


def test_ranks_that_share_nodes_alike_need_no_word() -> None:
    """Of three workers on two nodes it makes no difference which node has two."""
    recipe = make_recipe(workers=3)
    runs = {arm: make_run(arm, 1, recipe) for arm in ("baseline", "native", "ray")}
    nodes = {"baseline": "a", "native": "aab", "ray": "bba"}
    moved = [
        replaced(run, workers=[replace(w, node=n) for w, n in zip(run.result.workers, nodes[arm], strict=True)])
        for arm, run in runs.items()
    ]

    assert "verdict.hosts" not in compare(moved, make_context(recipe, repeats=1)).reasons


def test_one_process_on_a_node_that_no_worker_had_qualifies(wording: Wording) -> None:
    """It is then compared with other machines."""
    runs = placed(placed(placed(make_runs(), "native", "a", "b"), "ray", "a", "b"), "baseline", "c")

    reasons = compare(runs, make_context()).reasons
    assert "verdict.hosts" not in compare(placed(runs, "baseline", "b"), make_context()).reasons
    wording("verdict", reasons["verdict.hosts"])


def test_the_verdict_begins_with_the_answer() -> None:
    """A script that reads the output `answer` and a person who reads the verdict learn the same."""
    for runs in (make_runs(), make_runs()[:2], [make_run(started_at=stamp("ray", 1))]):
        comparison = compare(runs, make_context())

        assert comparison.verdict.startswith(f"{comparison.answer}: ")


@pytest.mark.parametrize(("repeats", "said"), [(1, False), (2, True), (3, False), (4, False)])
def test_fewer_repeats_than_arms_are_not_balanced(repeats: int, said: bool) -> None:
    """Then not every arm stands in every place; of one repeat nothing is decided anyway."""
    reasons = compare(make_runs(repeats=repeats), make_context(repeats=repeats)).reasons

    assert said == ("verdict.order" in reasons)
