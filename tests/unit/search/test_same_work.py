"""Arms of a search are compared trial by trial."""

from dataclasses import replace

import pytest

from tests.golden import Wording
from tests.unit.search.made import ALONE, RECIPE, TOGETHER, failed, result, trial
from training.workloads.search.detail import Trial
from training.workloads.search.same_work import of_results

ALL = ("baseline", "wide", "native", "ray")
ARMS = ("baseline", "native", "ray")


def test_equal_trials_are_the_same_work() -> None:
    """In all four arms."""
    known = of_results([result(arm, ALONE if arm in ALL[:2] else TOGETHER) for arm in ALL])

    assert {item: value for item, (value, _) in known.items()} == {
        "configurations": True, "epochs": True, "weights": True, "metric": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("item", "other"),
    [
        ("configurations", {"config": {"lr": 0.5}}),
        ("epochs", {"epochs": 2}),
        ("weights", {"weights": "f" * 64}),
    ],
)
def test_a_trial_that_differs_is_named(item: str, other: dict[str, object]) -> None:
    """With the arm where it differs."""
    changed = [*TOGETHER[:2], replace(TOGETHER[2], **other), TOGETHER[3]]  # type: ignore[arg-type]

    value, why = of_results([result("baseline", ALONE), result("native", TOGETHER), result("ray", changed)])[item]

    assert value is False
    assert "trial 2" in why
    assert "ray" in why


def test_weights_that_nobody_saw_are_not_known() -> None:
    """Neither equal nor different."""
    unseen = [replace(each, weights=None) for each in TOGETHER]

    assert of_results([result("native", unseen), result("ray", unseen)])["weights"][0] is None


def test_weights_that_chance_made_are_not_known_to_be_equal(wording: Wording) -> None:
    """Without a seed each arm has its own, and the script is right: no arm did other work that anybody could prove."""
    others = [replace(each, weights=f"{each.number:a<64}") for each in TOGETHER]
    again = [replace(each, weights=f"{each.number:b<64}") for each in TOGETHER]

    value, why = of_results([result("baseline", ALONE), result("native", others), result("ray", again)])["weights"]

    assert value is None
    wording("search", why)
    assert of_results([result("baseline", ALONE), result("ray", again)])["weights"][0] is None


@pytest.mark.parametrize("reason", ["two threads", "few trials", "another processor", "one trial apart"])
def test_equal_weights_by_chance_prove_nothing(reason: str) -> None:
    """Where sums may be in another order, or chance has few outcomes: an arm that differs may be right."""
    recipe = replace(RECIPE, worker_cpus=2) if reason == "two threads" else RECIPE
    some = slice(0, 3) if reason == "few trials" else slice(0, 4)
    apart = [replace(TOGETHER[0], weights="e" * 64), *TOGETHER[1:]] if reason == "one trial apart" else TOGETHER
    changed = [*TOGETHER[:2], replace(TOGETHER[2], weights="f" * 64), TOGETHER[3]]
    results = [result(arm, trials[some], recipe) for arm, trials in zip(ARMS, (ALONE, apart, changed), strict=True)]
    if reason == "another processor":
        of_ray = [replace(worker, cpu_model="another CPU") for worker in results[2].workers]
        results[2] = replace(results[2], workers=of_ray)

    assert of_results(results)["weights"][0] is None


@pytest.mark.parametrize("item", ["steps", "rows", "parameters"])
def test_what_was_counted_differently_is_other_work(item: str) -> None:
    """Whatever chance did to the weights; and what was not counted in one arm is none."""
    counted = {"steps": "128", "rows": "4096", "parameters": "17154 float32"}
    alone = [replace(each, counted=counted) for each in ALONE]
    chance = [replace(each, counted=counted, weights="f" * 64) for each in TOGETHER]
    other = [*chance[:3], replace(chance[3], counted=counted | {item: "7 float32" if item == "parameters" else "64"})]
    unseen = [replace(each, counted={}) for each in chance]

    known = [of_results([result("baseline", alone), result("ray", each)]) for each in (other, chance, unseen)]

    assert [False, True, None] == [each.get(item, (None,))[0] for each in known]
    assert "trial 3" in known[0][item][1]


def test_other_threads_give_other_weights_and_nearly_the_same_metric() -> None:
    """Weights are compared among arms of equal threads alone."""
    wide = [replace(each, weights="e" * 64, metric=(each.metric or 0) + 0.001) for each in ALONE]

    known = of_results([result("baseline", ALONE), result("wide", wide), result("ray", TOGETHER)])

    assert known["weights"][0] is True
    assert known["metric"][0] is True


@pytest.mark.parametrize(("tolerance", "value"), [(None, None), (0.2, True)])
def test_a_metric_far_off_is_no_proof_of_the_same_work(tolerance: float | None, value: bool | None) -> None:
    """Unless `metricTolerance` allows it."""
    recipe = replace(RECIPE, metric_tolerance=tolerance)
    wide = [replace(each, metric=(each.metric or 0) + 0.1) for each in ALONE]

    known = of_results([result("baseline", ALONE, recipe), result("wide", wide, recipe)])

    assert known["metric"][0] is value


@pytest.mark.parametrize(
    ("alone", "together"),
    [(ALONE[3], failed(3, 14, 15)), (replace(failed(3, 18, 19), epochs=3), replace(failed(3, 14, 15), epochs=1))],
    ids=["in one arm alone", "later in one arm, where it trained longer, and the clock has it"],
)
def test_a_trial_that_failed_otherwise_is_other_work(alone: Trial, together: Trial) -> None:
    """Whatever the other trials did."""
    results = [result("baseline", [*ALONE[:3], alone]), result("ray", [*TOGETHER[:3], together])]
    value, why = of_results(results)["epochs"]

    assert value is False
    assert "trial 3" in why


def test_a_trial_that_failed_everywhere_is_the_same() -> None:
    """It is a bad configuration."""
    alone, together = [*ALONE[:3], failed(3, 18, 19)], [*TOGETHER[:3], failed(3, 14, 15)]

    assert {value for value, _ in of_results([result("baseline", alone), result("ray", together)]).values()} == {True}


@pytest.mark.parametrize(
    ("chosen", "items"),
    [
        ({"search_scheduler": "asha"}, {"configurations": True, "epochs": None}),
        ({"search_algorithm": "tpe"}, {"configurations": None, "epochs": True}),
    ],
)
def test_what_a_rule_chose_is_never_proved_equal(chosen: dict[str, str], items: dict[str, bool | None]) -> None:
    """Stopping chooses epochs, an algorithm configurations."""
    recipe = replace(RECIPE, **chosen)  # type: ignore[arg-type]

    known = of_results([result("baseline", ALONE, recipe), result("ray", TOGETHER, recipe)])

    assert {item: value for item, (value, _) in known.items()} == items


def test_an_arm_may_make_its_trials_in_another_order() -> None:
    """Trials are known by their number."""
    late = [trial(0, 16, 20), *TOGETHER[1:3], trial(3, 10, 13)]

    assert of_results([result("native", TOGETHER), result("ray", late)])["weights"][0] is True
