"""The sentence for who decides: for every answer the numbers that it is about, of the arm that it is about."""

import re
from dataclasses import replace
from typing import Any

import pytest

from compare.comparison import compare
from compare.in_short import in_short, is_disturbed, machine_in_short
from compare.schema import ArmSummary, Comparison, Estimate, Spread
from compare.words import shown_seconds
from report import words
from tests.golden import Wording
from tests.unit.results import COMPARED as ALL
from tests.unit.results import disturbed, estimated, make_context, make_runs, quiet_machine, ratio_of, replaced


def compared(arms: tuple[str, ...] = ALL, repeats: int = 3) -> Comparison:
    """A comparison of made-up runs of these arms."""
    return compare(make_runs(arms=arms, repeats=repeats), make_context(arms=arms, repeats=repeats))


def took(arm: ArmSummary, measure: str, seconds: float | None) -> ArmSummary:
    """The arm with another median of a measure."""
    spread = None if seconds is None else Spread(median=seconds, low=seconds, high=seconds, n=3, values=[seconds] * 3)
    return replace(arm, measures={**arm.measures, measure: spread})


def answered(answer: str, ratios: dict[str, Estimate], **changes: Any) -> Comparison:
    """A comparison in which baseline, wide and Ray took 30, 20 and 25 s, with this answer."""
    made_up = compared()
    seconds = {"baseline": 30.0, "wide": 20.0, "ray": 25.0}
    arms = {
        name: took(arm, "wallSeconds", seconds[name]) if name in seconds else arm for name, arm in made_up.arms.items()
    }
    return replace(made_up, answer=answer, arms=arms, ratios={**made_up.ratios, **ratios}, **changes)


def alternative_of(comparison: Comparison) -> str:
    """The arm with which the sentence compares Ray."""
    sentence = in_short(comparison).lower()
    (name,) = [name for name, arm in comparison.arms.items() if f"{arm.title.lower()} takes" in sentence]
    return name


FASTER, SLOWER, OPEN = estimated(1.5, 1.25, 1.6), estimated(0.5, 0.4, 0.625), estimated(1.0, 0.8, 1.25)
TWICE, EQUAL = "takes 2.00 times as long (1.60 to 2.50)", "is 1.00 times as fast (0.80 to 1.25)"


@pytest.mark.parametrize(
    ("answer", "baseline", "wide", "alternative", "times"),
    [
        ("Worth it", FASTER, FASTER, "wide", "is 1.50 times as fast (1.25 to 1.60)"),
        ("Worth it from 12 epochs on", SLOWER, SLOWER, "wide", TWICE),
        ("Not worth it here", SLOWER, SLOWER, "wide", TWICE),
        # What the answer follows from, and not the fastest of all
        ("Not worth it here", SLOWER, OPEN, "baseline", TWICE),
        ("Not decided", FASTER, OPEN, "wide", EQUAL),
        ("Not decided", OPEN, FASTER, "baseline", EQUAL),
    ],
)
def test_the_alternative_is_what_the_answer_follows_from(
    answer: str, baseline: Estimate, wide: Estimate, alternative: str, times: str
) -> None:
    """Of those the fastest; its time and Ray's stand in the sentence, and how many times as long Ray takes."""
    comparison = answered(answer, {"endToEndSpeedup": baseline, "endToEndWideSpeedup": wide})
    sentence = in_short(comparison)

    assert alternative == alternative_of(comparison)
    assert times in sentence
    assert {"baseline": "30.0 s", "wide": "20.0 s"}[alternative] in sentence
    assert "25.0 s" in sentence


def test_numbers_are_those_of_the_runs() -> None:
    """Of a real comparison: medians of the times from start to end, start-up, and the ratio within repeats."""
    comparison = compared()
    sentence = in_short(comparison)
    ratio = ratio_of(comparison, "endToEndWideSpeedup")

    assert ratio.lower
    assert ratio.upper
    seconds = (comparison.arms["ray"].median("wallSeconds"), comparison.arms["wide"].median("wallSeconds"), 12.0)
    assert all(shown_seconds(each) in sentence for each in seconds)
    assert all(f"{1 / each:.2f}" in sentence for each in (ratio.median, ratio.upper, ratio.lower))
    assert str(comparison.break_even_epochs) in sentence


def test_an_absent_arm_is_not_named() -> None:
    """Without a bigger process Ray is compared with one on a worker's CPUs."""
    assert alternative_of(compared(("baseline", "native", "ray"))) == "baseline"
    assert alternative_of(compared(("baseline", "ray"))) == "baseline"


def test_one_repeat_has_no_interval() -> None:
    """And no confidence is claimed."""
    sentence = in_short(compared(repeats=1))

    assert "in one repeat" in sentence
    assert "95 %" not in sentence


def test_repeats_that_would_decide_are_named() -> None:
    """Where it is not decided; and where no number would, none is."""
    for repeats in (9, None):
        undecided = replace(OPEN, repeats_to_decide=repeats)
        ratios = {"endToEndSpeedup": undecided, "endToEndWideSpeedup": undecided}
        sentence = in_short(answered("Not decided", ratios))

        assert ("9 repeats" in sentence) == (repeats is not None)
        assert "None" not in sentence


@pytest.mark.parametrize("claim", ["same script", "it finished"])
def test_weaker_claims_give_times_and_no_ratio(claim: str) -> None:
    """What each took, as written; no times as long, and no confidence."""
    comparison = answered("Not decided", dict.fromkeys(("endToEndSpeedup", "endToEndWideSpeedup")), claim=claim)  # type: ignore[arg-type]
    sentence = in_short(comparison)

    assert "wide" == alternative_of(comparison)
    assert all(text in sentence for text in ("As written", "20.0 s", "25.0 s"))
    assert not re.search("times as|95 %", sentence)


def test_the_same_result_compares_the_time_to_the_target() -> None:
    """And names it; the time from start to end is not in the sentence."""
    comparison = answered("Worth it", {"timeToTargetSpeedup": FASTER}, claim="same result")
    arms = {
        "baseline": took(comparison.arms["baseline"], "secondsToTarget", 9.0),
        "ray": took(comparison.arms["ray"], "secondsToTarget", 6.0),
        "wide": took(comparison.arms["wide"], "secondsToTarget", None),
    }
    recipe = {**comparison.recipe, "metric": "return", "metricTarget": 450}
    comparison = replace(comparison, arms=arms, recipe=recipe)
    sentence = in_short(comparison)

    assert "baseline" == alternative_of(comparison)
    assert all(text in sentence for text in ("return", "450", "9.0 s", "6.0 s", "1.50", "(1.25 to 1.60)"))
    assert "25.0 s" not in sentence


def test_what_cannot_be_compared_has_no_number() -> None:
    """A failed check is named; without a whole repeat there is nothing."""
    failed = in_short(answered("Not comparable", {}, claim=None, checks={"sameWork": False, "hashesEqual": True}))
    empty = in_short(compare([], make_context()))

    assert "sameWork" in failed
    assert "hashesEqual" not in failed
    assert not re.search(r"\d", failed + empty)


def test_runs_that_stopped_at_different_epochs_have_no_ratio() -> None:
    """The ratio is of as many epochs as all trained, and so of other times than those in the sentence."""
    comparison = compared()
    arms = {**comparison.arms, "ray": took(comparison.arms["ray"], "epochsCompleted", 2.0)}

    apart = in_short(replace(comparison, arms=arms))

    assert "times as" not in apart
    assert "different epochs" in apart
    assert "different epochs" not in in_short(comparison)


def test_the_start_of_rays_cluster_stands_beside_it() -> None:
    """Once, and in no run's time."""
    comparison = compared()
    arms = {**comparison.arms, "ray": took(comparison.arms["ray"], "rayClusterStartSeconds", 64.0)}
    with_cluster = in_short(replace(comparison, arms=arms))

    assert with_cluster.startswith(in_short(comparison))
    assert "64.0 s" in with_cluster.removeprefix(in_short(comparison))


def test_a_machine_that_was_not_quiet_is_named(wording: Wording) -> None:
    """With what others took, and what that did, in the words of the verdict."""
    runs = make_runs()
    beside = [replaced(run, machine=quiet_machine(20, other_cpu_seconds=30)) for run in runs]

    assert machine_in_short(compare(runs, make_context())) == ""
    for label, measured in {"quiet enough": beside, "not quiet": [disturbed(run) for run in runs]}.items():
        found = compare(measured, make_context())
        text = machine_in_short(found)

        assert is_disturbed(found) is (label == "not quiet")
        assert {"1.5", "4"} <= set(re.findall(r"\d[\d.]*", text))
        assert text in found.verdict
        assert "machineQuiet" not in " ".join(words.details(found))
        wording("verdict", text, label)


@pytest.mark.parametrize(
    ("seconds", "text"), [(8.34, "8.3 s"), (179.0, "179.0 s"), (312.0, "5.2 min"), (11160.0, "3.1 h")]
)
def test_times_have_the_unit_of_their_size(seconds: float, text: str) -> None:
    """Seconds up to three minutes, minutes up to two hours."""
    assert shown_seconds(seconds) == text


@pytest.mark.parametrize(("baseline", "wide", "repeats"), [(9, 40, "40"), (40, 9, "40"), (9, None, "")])
def test_as_many_repeats_as_the_verdict_says(baseline: int | None, wide: int | None, repeats: str) -> None:
    """They decide all that is open, not the ratio of the sentence alone."""
    ratios = {
        "endToEndSpeedup": replace(OPEN, repeats_to_decide=baseline),
        "endToEndWideSpeedup": replace(OPEN, repeats_to_decide=wide),
    }
    last = in_short(answered("Not decided", ratios)).rpartition(". ")[2]

    assert repeats == "".join(re.findall(r"\d+", last))
