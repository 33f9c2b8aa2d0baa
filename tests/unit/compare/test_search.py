"""A search in the comparison: its alternatives, its words, how long a trial has to be, failed and stopped trials."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from compare import measures
from compare.comparison import OF_SEARCH, compare, scalar_names, scalars
from compare.in_short import in_short
from compare.intervals import ONCE
from compare.run_numbers import whole_seconds
from compare.schema import Comparison, LongerRun, TrialBreakEven
from compare.search import (
    NO_SEARCH,
    ONE_REPEAT,
    OWN_RULES,
    POPULATION,
    SPLIT,
    Line,
    SearchFindings,
    break_even,
    length_words,
    line,
    prefixed,
)
from compare.value import Missing
from report import closing
from tests.golden import Wording
from tests.unit.results import as_run, make_context, make_runs
from tests.unit.searches import ALL, RECIPE, compared, make_search, make_searches

FAST = {"ray": {"stretch": 0.6}}
"""Ray's trials take less than those of others; its start takes more."""
NEVER = TrialBreakEven(probably=None, possibly=None, surely=None)
STOPPING = replace(RECIPE, search_scheduler="asha")
STOPPED = {
    "baseline": {"stopped": {2: 3, 3: 1}}, "wide": {"stopped": {2: 3, 3: 1}}, "native": {"stopped": {2: 3, 3: 1, 6: 1}},
    "ray": {"stopped": {3: 3}},
}  # fmt: skip
"""Epochs of the trials that the rule of each arm stopped."""


def seconds(lines: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]) -> TrialBreakEven:
    """The break-even of clocks by what they have once, and for each length of a trial: of an alternative, and Ray's."""
    return break_even([(Line(*above), Line(*below)) for above, below in zip(lines, others, strict=True)], ONCE)


def test_native_is_an_alternative_and_stays_the_divisor_of_the_overhead() -> None:
    """What one would use instead: the answer is about it, too; what Ray adds to it is still said."""
    comparison = compared(make_searches())

    assert set(comparison.break_even) == {"baseline", "wide", "native"}
    assert comparison.arms["native"].role == "alternative"
    assert all(comparison.arms[arm].title in comparison.verdict for arm in ALL)
    for name in ("rayOverhead", "endToEndNativeSpeedup"):
        assert comparison.ratios[name] is not None
    assert in_short(comparison).startswith(comparison.arms["native"].title)


@pytest.mark.parametrize(
    ("case", "of_arms", "arms"),
    [
        ("not worth it", {}, ALL),
        ("worth it", {"ray": {"stretch": 0.05}}, ALL),
        ("worth it from", FAST, ALL),
        ("without native", {"ray": {"stretch": 0.9}}, ("baseline", "wide", "ray")),
    ],
)
def test_words(wording: Wording, case: str, of_arms: Mapping[str, dict[str, Any]], arms: tuple[str, ...]) -> None:
    """A pass is a trial, and a run with more of them is a longer search."""
    comparison = compared(make_searches(arms=arms, of_arms=of_arms), arms=arms)

    wording("verdict", comparison.verdict, f"{case}: verdict")
    wording("verdict", in_short(comparison), f"{case}: in short")
    below = [f"{name}: {why}" for name, why in comparison.reasons.items() if name.startswith("verdict.")]
    wording("verdict", "\n".join(below), f"{case}: details")


def test_one_repeat_says_what_it_cannot(wording: Wording) -> None:
    """A length of a trial without its interval is no output."""
    comparison = compared(make_searches(1, of_arms=FAST))

    assert comparison.search is not None
    assert comparison.search.break_even_trial_seconds is None
    assert comparison.reasons["breakEvenTrialSeconds"]
    wording("verdict", comparison.verdict)


def test_a_search_has_its_own_measures() -> None:
    """None of steps, which a search has not, and none of trials where nothing is searched.

    Of Ray two at a time: eight of 4.4 s, three waits of a second in each slot.
    """
    of_search, of_script = ({each.name: each for each in measures.measures_of(name)} for name in ("search", "script"))
    own = {"trialSeconds", "betweenTrialsSeconds", "epochsTrained"}
    ray = compared(make_searches(1)).arms["ray"]

    assert own <= of_search.keys()
    assert not own & of_script.keys()
    assert {"warmupSeconds", "stepSecondsMean"} <= of_script.keys() - of_search.keys()
    assert of_search["epochsCompleted"].title != measures.measure("epochsCompleted").title
    expected = {"trialSeconds": 4.4, "betweenTrialsSeconds": 6 / 8, "epochsTrained": 8 * 9, "epochsCompleted": 8}
    assert expected == pytest.approx({name: ray.median(name) for name in expected})


def test_every_null_has_a_reason() -> None:
    """Of a search as of everything else."""
    for runs in (make_searches(), make_searches(1), make_searches(of_arms=STOPPED, recipe=STOPPING)):
        recipe = STOPPING if runs[-1].result.search and runs[-1].result.search.stopped else RECIPE
        comparison = compared(runs, recipe)
        data = json.loads(comparison.to_json())
        nulls = {name for name, value in data.items() if value is None}
        nulls |= {name for name, value in data["ratios"].items() if value is None}
        nulls |= {name for name, value in scalars(comparison).items() if value is None}
        nulls -= set(scalar_names()) - {each.name for each in measures.ratios_of("search")} - set(OF_SEARCH)
        for arm, summary in data["arms"].items():
            nulls |= {f"{arm}.{key}" for key, value in (summary | summary["measures"]).items() if value is None}

        assert nulls - set(comparison.reasons) == set()


def test_outputs_of_a_search() -> None:
    """The best configuration of all runs, and what became of every trial of theirs."""
    runs = make_searches(2, of_arms={arm: {"failed": (0,)} for arm in ALL})
    values = scalars(compared(runs))

    assert json.loads(str(values["bestConfig"])) == {"lr": 0.005, "width": 32}
    assert values["bestMetric"] == pytest.approx(0.95 * (1 - 0.5**9))
    assert json.loads(str(values["trials"])) == {"finished": 56, "stopped": 0, "failed": 8}


def test_the_best_is_the_lowest_where_less_is_better() -> None:
    """Of a loss."""
    recipe = replace(RECIPE, metric_mode="min")
    runs = make_searches(recipe=recipe)
    lowest = replace(runs[3].result, search=replace(runs[3].result.search, best_metric=0.1, best_config='{"lr":9}'))  # type: ignore[type-var]

    search = compared([*runs[:3], as_run(lowest), *runs[4:]], recipe).search

    assert search is not None
    assert (search.best_config, search.best_metric) == ('{"lr":9}', 0.1)


def test_nothing_of_a_search_where_nothing_was_searched() -> None:
    """One null with its reason, and outputs that Pulumi omits."""
    comparison = compare(make_runs(), make_context())

    assert comparison.search is None
    assert comparison.reasons["search"] == NO_SEARCH
    assert not any(scalars(comparison)[name] for name in OF_SEARCH)
    assert Comparison.from_json(comparison.to_json()) == comparison


def test_a_projection_is_not_of_trials() -> None:
    """They exchange nothing, and it is of workers that do."""
    comparison = compared(make_searches())

    assert comparison.projection is None
    assert comparison.reasons["projection"]


def test_arms_whose_failed_trials_differ_are_not_comparable(wording: Wording) -> None:
    """Even where all reached the target: the others trained something that this one did not."""
    recipe = replace(RECIPE, metric_target=0.9)
    runs = make_searches(of_arms={"ray": {"failed": (1,)}}, recipe=recipe)
    comparison = compared(runs, recipe)

    assert comparison.answer == "Not comparable"
    assert comparison.checks["sameFailedTrials"] is False
    wording("verdict", comparison.reasons["checks.sameFailedTrials"])


def test_failed_trials_are_said_where_every_arm_has_them(wording: Wording) -> None:
    """A search with holes is compared, and never looks whole. A trial may fail in one repeat alone, whose
    configurations are its own: then they are said by run."""
    comparison = compared(make_searches(2, of_arms={arm: {"failed": (1, 6)} for arm in ALL}))
    failing = make_searches(1, of_arms={arm: {"failed": (1,)} for arm in ALL})
    of_one = compared([*failing, *make_searches(2)[4:]])

    assert comparison.checks["sameFailedTrials"] is True
    assert comparison.reasons["verdict.failedTrials"] in comparison.verdict
    wording("verdict", comparison.reasons["verdict.failedTrials"])
    wording("verdict", of_one.reasons["verdict.failedTrials"], "of one repeat")


@pytest.mark.parametrize(("failed", "passed"), [({"baseline": (1,), "ray": (2,)}, True), ({"ray": (2,)}, False)])
def test_trials_of_a_population_fail_by_no_number(failed: dict[str, tuple[int, ...]], *, passed: bool) -> None:
    """Each changes its values; but an arm whose trials fail where no other's does has done less."""
    recipe = replace(RECIPE, search_scheduler="pbt")
    of_arms = {arm: {"failed": numbers} for arm, numbers in failed.items()}
    comparison = compared(make_searches(arms=("baseline", "ray"), of_arms=of_arms, recipe=recipe), recipe,
                          arms=("baseline", "ray"))  # fmt: skip

    assert comparison.checks["sameFailedTrials"] is passed
    assert comparison.claim != "same work"


def test_a_script_without_a_seed_is_compared_as_the_same_script(wording: Wording) -> None:
    """Its weights are other ones in each arm and repeat, and nobody did other work."""
    runs = make_searches()
    by_chance = {run.name: " ".join(f"{run.name}-{number}" for number in range(RECIPE.search_trials)) for run in runs}
    comparison = compared(
        [
            replace(run, result=replace(run.result, did=run.result.did | {"weights": by_chance[run.name]}))
            for run in runs
        ]
    )

    assert comparison.claim == "same script"
    assert comparison.checks["sameWork"] is None
    wording("verdict", comparison.verdict)


def test_stopping_splits_the_ratio_of_whole_times(wording: Wording) -> None:
    """Epochs trained by seconds an epoch is the ratio of the clocks, repeat by repeat; only the second is Ray's."""
    runs = make_searches(of_arms=STOPPED, recipe=STOPPING)
    comparison = compared(runs, STOPPING)
    clocks = {(run.arm, run.repeat): whole_seconds(run.result) for run in runs}

    for prefix, arm in (("", "baseline"), ("wide", "wide"), ("native", "native")):
        epochs, of_epoch = (comparison.ratios[prefixed(prefix, name)] for name in SPLIT)
        assert epochs is not None
        assert of_epoch is not None
        whole = [clocks[arm, repeat] / clocks["ray", repeat] for repeat in (1, 2, 3, 4)]
        product = [one * other for one, other in zip(epochs.values, of_epoch.values, strict=True)]
        assert product == pytest.approx(whole)
    assert comparison.claim == "same script"
    assert comparison.reasons["verdict.stoppedTrials"] in comparison.verdict
    wording("verdict", comparison.verdict)


def test_a_population_is_no_rule_that_stops() -> None:
    """Ray's trials go on with what others learned; the rule is that of the other arms."""
    said = {
        recipe.search_scheduler: compared(make_searches(of_arms=STOPPED, recipe=recipe), recipe).reasons[
            "verdict.stoppedTrials"
        ]
        for recipe in (STOPPING, replace(STOPPING, search_scheduler="pbt"))
    }

    assert said["asha"].startswith(OWN_RULES)
    assert said["pbt"].startswith(POPULATION)
    assert said["asha"].removeprefix(OWN_RULES) == said["pbt"].removeprefix(POPULATION)


def test_nothing_is_split_where_nothing_was_stopped() -> None:
    """Every arm trained the same epochs."""
    comparison = compared(make_searches())

    assert not any(comparison.ratios[prefixed(prefix, name)] for prefix in ("", "wide", "native") for name in SPLIT)
    assert "verdict.stoppedTrials" not in comparison.reasons


def test_the_line_goes_through_what_was_measured() -> None:
    """At the length that trials of the baseline had the clock is the measured one, of any arm.

    What is paid once does not grow with a trial. Of Ray: its start, its end, and three seconds between the trials of a
    slot; of its trials four in a slot.
    """
    for arm in ALL:
        result = make_search(arm, 2, trial_seconds=3.0)
        clock = line(result, 3.03)
        assert clock is not None
        assert clock.at(3.03) == pytest.approx(whole_seconds(result))

    clock = line(make_search("ray"), 4.0)
    assert clock is not None
    assert (clock.once, clock.lengths) == pytest.approx((12 + 0.5 + 3, 4 * 1.1))


def test_where_the_clocks_meet() -> None:
    """2 + 8 T against 20 + 4 T: at 4.5 s. Without noise all three say so; repeats that differ give an interval."""
    meets = seconds([(2, 8)] * 4, [(20, 4)] * 4)
    apart = seconds([(2, 8)] * 4, [(19, 4), (20, 4), (21, 4), (20, 4.1)])

    assert (meets.probably, meets.possibly, meets.surely) == (4.501, 4.501, 4.501)
    assert 0 < (apart.possibly or 0) < (apart.probably or 0) < (apart.surely or 0)


def test_clocks_that_do_not_meet() -> None:
    """Where each trial takes Ray longer; where it is ahead at once; and one repeat, whose interval nobody knows."""
    assert seconds([(2, 4)] * 4, [(20, 4.1)] * 4) == NEVER
    assert seconds([(20, 4)] * 4, [(2, 4)] * 4).surely == 0.001
    assert seconds([(2, 8)], [(20, 4)]) == TrialBreakEven(probably=4.501, possibly=None, surely=None)


def test_the_output_is_that_against_every_alternative() -> None:
    """The longest of the sure ones."""
    comparison = compared(make_searches(of_arms=FAST))

    assert comparison.search is not None
    each = {arm: meets.surely for arm, meets in comparison.search.break_even.items() if meets}
    assert set(each) == {"baseline", "wide", "native"}
    assert comparison.search.break_even_trial_seconds == max(length for length in each.values() if length)
    assert scalars(comparison)["breakEvenTrialSeconds"] == comparison.search.break_even_trial_seconds


def test_below_and_above_it_the_other_one_wins() -> None:
    """Searches whose trials are so much shorter or longer have that answer."""
    length = compared(make_searches(of_arms=FAST)).search
    assert length is not None
    assert length.break_even_trial_seconds is not None

    answers = [
        compared(make_searches(of_arms=FAST, trial_seconds=factor * length.break_even_trial_seconds)).answer
        for factor in (0.8, 1.2)
    ]

    assert answers[0] != "Worth it"
    assert answers[1] == "Worth it"


def test_more_trials_are_a_setting_of_its_own() -> None:
    """The line to type has it."""
    longer = LongerRun(passes=30, probably=40, seconds=600.0, not_advised="")
    comparison = replace(compared(make_searches()), answer="Not worth it here", longer=longer)

    assert "searchTrials=40" in closing.next_step(comparison, "local", {})


@pytest.mark.parametrize(
    ("name", "each", "seconds"),
    [
        ("known", {"a": TrialBreakEven(probably=6.0, possibly=5.2, surely=7.4)}, 7.4),
        ("open above", {"a": TrialBreakEven(probably=6.0, possibly=0.04, surely=None)}, Missing("nothing is proven")),
        ("of two the longer", {"a": TrialBreakEven(probably=600.0, possibly=500.0, surely=800.0),
                               "b": TrialBreakEven(probably=6.0, possibly=5.2, surely=7.4)}, 800.0),
        ("one repeat", {"a": TrialBreakEven(probably=6.0, possibly=None, surely=None)}, Missing("one repeat")),
        ("one repeat, never", {"a": NEVER}, Missing(ONE_REPEAT)),
        ("at once", {"a": TrialBreakEven(probably=0.001, possibly=0.001, surely=0.001)}, 0.001),
        ("never", {"a": NEVER}, Missing("never")),
        ("not compared", {"a": Missing("not measured")}, Missing("not measured")),
    ],
)  # fmt: skip
def test_lengths_in_words(
    wording: Wording, name: str, each: Mapping[str, TrialBreakEven | Missing], seconds: float | Missing
) -> None:
    """With as much of an interval as is known."""
    wording("verdict", length_words(SearchFindings({}, Missing(""), each, seconds)) or "nothing", name)
