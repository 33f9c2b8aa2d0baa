"""What is said of as many repeats as it takes: how many there were, what is still open, when both words are true."""

from collections.abc import Mapping, Sequence

import pytest

from compare.comparison import compare
from compare.schema import Comparison
from tests.golden import Wording
from tests.unit.results import RUN, make_context, make_recipe, make_run
from training.contract.repeats import NOT_BESIDE_AUTO

OPEN = (1.0, 1.5, 0.8, 1.2)
WOULD = (1.1, 1.28, 1.02, 1.2)
"""Eight fixed repeats would probably decide, and eleven of `auto`."""
TIE = (1.02, 1.03, 1.02, 1.03)


def compared(
    baselines: Sequence[float],
    epochs: Sequence[float] = (),
    *,
    is_auto: bool = True,
    settings: Mapping[str, str] | None = None,
) -> Comparison:
    """A measurement whose baselines take so many times as long as Ray, and an epoch of theirs, if not as many."""
    recipe, runs = make_recipe(), []
    for repeat, (whole, epoch) in enumerate(zip(baselines, epochs or baselines, strict=True), 1):
        for arm in RUN:
            of_run, of_epoch = (whole, epoch) if arm == "baseline" else (1.0, 1.0)
            seconds = {"wall_seconds": 100 * of_run, "validation_seconds": 0.1 * of_epoch, "report_seconds": 0.0}
            runs.append(make_run(arm, repeat, recipe, step_seconds_mean=0.1 * of_epoch, **seconds))
    return compare(runs, make_context(recipe, repeats=len(baselines), is_auto=is_auto, settings=settings or {}))


@pytest.mark.parametrize(
    ("name", "baselines", "auto"),
    [
        ("decided", (1.3, 1.4, 1.2, 1.35, 1.3, 1.3), "decided"),
        ("after the last one", OPEN * 3, "most repeats"),
        ("some would", (1.25, 1.5, 0.98, 1.3), "goes on"),
        ("none would", OPEN, "goes on"),
        ("a small gain", TIE, "decided"),
        ("no gain that matters", (1.02, 1.03, 1.0, 1.01), "goes on"),
    ],
)
def test_the_verdict_says_how_many_it_took(name: str, baselines: Sequence[float], auto: str, wording: Wording) -> None:
    """And what the next update does where it is not decided."""
    comparison = compared(baselines)

    assert auto == comparison.auto
    wording("verdict", comparison.verdict.partition(". ")[0], name)


@pytest.mark.parametrize(
    ("name", "baselines"),
    [("open", OPEN), ("some would", (1.25, 1.5, 0.98, 1.3)), ("auto would", WOULD), ("tie", TIE)],
)
def test_of_a_fixed_number_the_advice_is_to_measure_anew(
    name: str, baselines: Sequence[float], wording: Wording
) -> None:
    """Repeats that are added until it is decided err more often than 95 % says."""
    wording("verdict", compared(baselines, is_auto=False).verdict.partition(". ")[0], name)


def test_intervals_of_auto_are_wider_and_of_a_fixed_number_as_before() -> None:
    """By t(0.99375; 3) = 5.392 instead of t(0.975; 3) = 3.182, in every ratio."""
    auto, fixed = (compared(OPEN, is_auto=is_auto).ratios["endToEndSpeedup"] for is_auto in (True, False))

    assert auto is not None
    assert fixed is not None
    assert auto.values == fixed.values
    assert (auto.lower or 1) < (fixed.lower or 0)
    assert fixed.repeats_to_decide != auto.repeats_to_decide


def test_auto_is_not_proposed_beside_what_refuses_it() -> None:
    """The advice would be refused."""
    assert "auto" in compared(WOULD, is_auto=False).verdict
    for key in NOT_BESIDE_AUTO:
        assert "auto" not in compared(WOULD, is_auto=False, settings={key: "1"}).verdict


NO = "Not worth it here"
LOST, EPOCHS = (0.8, 0.81, 0.79, 0.8), (1.4, 0.8, 1.3, 0.8)


@pytest.mark.parametrize(
    ("name", "times", "auto"), [("goes on", 1, "goes on"), ("after the last one", 3, "most repeats")]
)
def test_a_no_that_longer_training_might_change_says_what_is_next(
    name: str, times: int, auto: str, wording: Wording
) -> None:
    """The next update, or longer training; no more repeats, of which there are none."""
    comparison = compared(LOST * times, EPOCHS * times)

    assert (auto, NO) == (comparison.auto, comparison.answer)
    wording("verdict", comparison.verdict.split(". ")[1], name)


def test_a_budget_without_time_for_a_repeat_is_no_promise(wording: Wording) -> None:
    """The next update would add none."""
    no, undecided = (compared(*clocks, settings={"budgetMinutes": "4"}) for clocks in ((LOST, EPOCHS), (OPEN,)))

    assert "goes on" == no.auto == undecided.auto
    wording("verdict", no.verdict.split(". ")[1], "no")
    wording("verdict", undecided.verdict.partition(". ")[0], "undecided")


@pytest.mark.parametrize("is_auto", [False, True])
def test_what_is_lost_to_one_now_and_to_another_later_may_be_won_between(is_auto: bool, wording: Wording) -> None:
    """One process starts fast, and one with all CPUs has fast epochs: at three times the epochs Ray beats both."""
    clocks = {"baseline": (80.0, 1.5), "wide": (140.0, 0.98), "native": (100.0, 1.0), "ray": (100.0, 1.0)}
    recipe, runs = make_recipe(), []
    for repeat in range(1, 5):
        for arm, (whole, epoch) in clocks.items():
            luck = 1 + 0.002 * ((repeat * len(arm)) % 3)
            seconds = {"wall_seconds": luck * whole, "validation_seconds": 3 * epoch, "report_seconds": 0.0}
            runs.append(make_run(arm, repeat, recipe, step_seconds_mean=0.5 * luck * epoch, **seconds))
    comparison = compare(runs, make_context(recipe, arms=tuple(clocks), repeats=4, is_auto=is_auto))

    assert comparison.answer == NO
    assert comparison.auto == ("goes on" if is_auto else "")
    wording("verdict", comparison.verdict.split(". ")[1], comparison.auto or "fixed")
