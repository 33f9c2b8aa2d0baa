"""The rules that the page replays decide as the real ones do, value by value."""

import random

import pytest

from report.replay import OptunasRule, RaysRule

CASES = [(1, 3, 27), (2, 2, 20), (1, 4, 9), (3, 3, 81)]


def curves(most: int, trials: int = 25) -> list[list[float]]:
    """Curves that rise to values of their own, with noise, some alike."""
    rng = random.Random(most)  # noqa: S311 - no secret
    ends = [round(rng.random(), 1) for _ in range(trials)]
    return [[end * (1 - 0.7**step) + 0.02 * rng.random() for step in range(1, most + 1)] for end in ends]


def interleaved(most: int) -> list[tuple[int, int, float]]:
    """Trial, report and value in the order of four slots, as if none was ever stopped."""
    waiting, order = list(enumerate(curves(most))), []
    running: list[tuple[int, list[float], int]] = []
    while waiting or running:
        while waiting and len(running) < 4:
            running.append((*waiting.pop(0), 0))
        trial, values, done = running.pop(0)
        order.append((trial, done + 1, values[done]))
        if done + 1 < most:
            running.append((trial, values, done + 1))
    return order


@pytest.mark.parametrize(("grace", "reduction", "most"), CASES)
def test_rays_rule_is_rays(grace: int, reduction: int, most: int) -> None:
    """The bracket of the ASHAScheduler, asked of every report but those of trials that it stopped."""
    from ray.tune.schedulers.async_hyperband import _Bracket
    from ray.tune.schedulers.trial_scheduler import TrialScheduler

    class Trial:
        def __init__(self, trial_id: str) -> None:
            self.trial_id = trial_id

    real, ours, stopped = _Bracket(grace, most, reduction, 0), RaysRule(grace, reduction, most), set()
    for trial, report, value in interleaved(most):
        if trial in stopped or report == most:
            continue
        goes_on = real.on_result(Trial(str(trial)), report, value) == TrialScheduler.CONTINUE
        assert ours.goes_on(trial, report, value) == goes_on, (trial, report)
        stopped |= set() if goes_on else {trial}

    assert 0 < len(stopped) < 25


@pytest.mark.parametrize(("grace", "reduction", "most"), CASES)
def test_optunas_rule_is_optunas(grace: int, reduction: int, most: int) -> None:
    """The SuccessiveHalvingPruner of a study in memory, likewise."""
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=grace, reduction_factor=reduction)
    study = optuna.create_study(direction="maximize", pruner=pruner)
    trials = [study.ask() for _ in curves(most)]
    ours, stopped = OptunasRule(grace, reduction), set()
    for trial, report, value in interleaved(most):
        if trial in stopped or report == most:
            continue
        trials[trial].report(value, step=report)
        goes_on = not trials[trial].should_prune()
        assert ours.goes_on(trial, report, value) == goes_on, (trial, report)
        stopped |= set() if goes_on else {trial}

    assert 0 < len(stopped) < 25
