"""What is said of as many repeats as it takes: how many there were, what is still open, when both words are true."""

from collections.abc import Sequence

import pytest

from compare.comparison import compare
from compare.schema import Comparison
from tests.golden import Wording
from tests.unit.results import RUN, make_context, make_recipe, make_run

OPEN = (1.0, 1.5, 0.8, 1.2)
TIE = (1.02, 1.03, 1.02, 1.03)


def compared(baselines: Sequence[float], *, is_auto: bool = True) -> Comparison:
    """A measurement whose baselines take so many times as long as Ray, the whole and an epoch."""
    recipe, runs = make_recipe(), []
    for repeat, times in enumerate(baselines, 1):
        paces = {"baseline": times}
        runs += [
            make_run(
                arm,
                repeat,
                recipe,
                wall_seconds=100 * paces.get(arm, 1.0),
                step_seconds_mean=0.1 * paces.get(arm, 1.0),
                validation_seconds=0.1 * paces.get(arm, 1.0),
                report_seconds=0.0,
            )
            for arm in RUN
        ]
    return compare(runs, make_context(recipe, repeats=len(baselines), is_auto=is_auto))


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


@pytest.mark.parametrize(("name", "baselines"), [("open", OPEN), ("some would", (1.25, 1.5, 0.98, 1.3)), ("tie", TIE)])
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
