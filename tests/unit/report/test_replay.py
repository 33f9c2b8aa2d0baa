"""The replay of a search's curves: the two rules, as their authors have them, and what a replay counts."""

import pytest

from report.replay import ORDERS, Curve, OptunasRule, RaysRule, quantile, replay, replays, rungs_of


def curve(*values: float, pace: float = 1.0) -> Curve:
    """A trial that reports these values, one after so many seconds; its end is half of that later."""
    return Curve([pace * number for number in range(1, len(values) + 1)], values, pace * (len(values) + 0.5))


def decisions(rule: OptunasRule | RaysRule, *values: float, report: int = 1) -> list[bool]:
    """Whether trials that report these values, one after the other, go on."""
    return [rule.goes_on(trial, report, value) for trial, value in enumerate(values)]


def test_optunas_rule_keeps_the_best_third_itself_included() -> None:
    """The first is the best of one; the next two have to be the best of all; of six the second best goes on."""
    assert decisions(OptunasRule(1, 3), 5, 4, 6, 1, 2, 5.5) == [True, False, True, False, False, True]


def test_rays_rule_stops_below_the_quantile_of_those_before() -> None:
    """The first survives, whatever it is; the next is stopped only if it is below it; equal is not below."""
    assert decisions(RaysRule(1, 3, 27), 5, 4, 6, 5, 5.5) == [True, False, True, False, True]


def test_the_rules_differ_in_the_second_best() -> None:
    """Of the same values, in one order: that is the difference between the two."""
    values = (4, 1, 2, 3, 3.5)

    assert decisions(OptunasRule(1, 2), *values) == [True, False, False, True, True]
    assert decisions(RaysRule(1, 2, 8), *values) == [True, False, False, True, True]
    assert decisions(OptunasRule(1, 3), *values) == [True, False, False, False, False]
    assert decisions(RaysRule(1, 3, 9), *values) == [True, False, False, True, True]


@pytest.mark.parametrize("rule", [OptunasRule(2, 3), RaysRule(2, 3, 18)])
def test_a_rule_decides_at_its_rungs_alone(rule: OptunasRule | RaysRule) -> None:
    """At 2, 6 and 18 reports; a trial that falls behind between them goes on to the next."""
    for report in range(1, 18):
        assert rule.goes_on(0, report, 10.0 + report)

    assert [rule.goes_on(1, report, 1.0 if report != 2 else 20.0) for report in range(1, 7)] == [True] * 5 + [False]


def test_rungs_and_quantiles() -> None:
    """Rungs go up to what a trial makes, and begin at the grace; quantiles lie between values as numpy has them."""
    assert [[1, 3, 9, 27], [2, 6], [5]] == [rungs_of(*given) for given in ((1, 3, 27), (2, 3, 17), (5, 2, 4))]
    assert (4.0, 2.0, 2.5) == (quantile([4.0], 0.9), quantile([1.0, 2.0, 3.0], 0.5), quantile([0.0, 10.0], 0.25))


@pytest.mark.parametrize(
    ("curves", "slots", "rule", "rungs", "expected"),
    [
        # Two at a time of 3.5, 1.5 and 2.5 s: the third begins at 1.5 and ends at 4
        ([curve(1, 2, 3), curve(5), curve(1, 1)], 2, None, [], (6, 4.0, 5)),
        # The second is behind at its first report, at 4.5 s, and the third begins then; what is stopped is not the best
        ([curve(3, 3, 3), curve(1, 1, 9), curve(4, 4, 4)], 1, OptunasRule(1, 3), [1, 3], (7, 8.0, 4)),
        # A trial ends at its own last report, before a rung to which others come
        ([curve(1, 2, 3, 4), curve(1, 2)], 1, RaysRule(1, 3, 4), [1, 3], (6, 7.0, 4)),
        # One that ended has nothing to be stopped of, although it stands at a rung
        ([curve(3, 3, 3), curve(3, 3, 1)], 1, OptunasRule(1, 3), [1, 3], (6, 7.0, 3)),
    ],
    ids=["slots", "a stopped trial", "fewer reports", "the last report"],
)
def test_a_slot_takes_the_next_trial_when_it_is_free(
    curves: list[Curve],
    slots: int,
    rule: OptunasRule | RaysRule | None,
    rungs: list[int],
    expected: tuple[float, ...],
) -> None:
    """Epochs, seconds and the best of the finished ones."""
    found = replay(curves, slots, rule, rungs)

    assert expected == (found.epochs, found.seconds, found.best)


def test_every_rule_sees_the_same_orders() -> None:
    """The same curves give the same numbers; what no rule stops is the same in every order."""
    curves = [curve(*(value * (1 - 0.5**step) for step in range(1, 10))) for value in (3, 9, 5, 1, 7, 2, 8, 4)]

    nothing, optuna, ray = replays(curves, 2, 1, 3)

    assert replays(curves, 2, 1, 3) == [nothing, optuna, ray]
    assert (nothing.epochs.low, nothing.epochs.high, nothing.finds_best) == (72, 72, 1.0)
    assert optuna.epochs.median < ray.epochs.median < nothing.epochs.median
    assert optuna.seconds.median < nothing.seconds.median
    assert 0 < optuna.finds_best <= ray.finds_best <= 1
    assert ORDERS == 300


def test_a_trial_that_leads_late_may_be_stopped() -> None:
    """The replay says how often: it is not always found."""
    late = curve(0, 0, 0, 0, 0, 0, 0, 0, 10)
    others = [curve(*[float(value)] * 9) for value in range(1, 9)]

    nothing, optuna, ray = replays([late, *others], 2, 1, 3)

    assert nothing.finds_best == 1
    assert optuna.finds_best < 0.5
    assert ray.finds_best < 0.5
