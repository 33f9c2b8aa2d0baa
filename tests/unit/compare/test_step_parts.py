"""Where an arm's step goes over its repeats: parts, the slowest rank, waits, and their words."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compare.comparison import compare
from compare.intervals import AUTO_CONFIDENCE, CONFIDENCE
from compare.schema import Comparison, StepTimes
from compare.step_parts import NOT_CLOCKED, step_times, waits
from compare.value import Missing
from report import closing, html, step_parts, table
from tests.golden import Wording
from tests.unit.results import make_context, make_result, make_runs, replaced
from training.contract.cpu_use import CpuWait
from training.contract.result import StepParts, TrainingResult

SECONDS = {"input": 0.039, "compute": 0.028, "exchange": 0.015, "optimizer": 0.001, "between": 0.001}
BLOCKS = 10
NOISE = [0.0005 * (-1) ** number for number in range(BLOCKS)]


def parts(**changes: Any) -> StepParts:
    """Parts of a step of 84 ms, of two ranks of which rank 1 works 9 ms longer."""
    own_work = [[0.050 + noise for noise in NOISE], [0.059 - noise for noise in NOISE]]
    whole = StepParts(seconds=SECONDS, exchange=[0.015, 0.006], link=0.006, own_work=own_work)
    return replace(whole, **changes)


def result(**changes: Any) -> TrainingResult:
    """A run of Ray with these parts."""
    return replace(make_result(), step_parts=parts(**changes))


def times_of(runs: Sequence[TrainingResult], confidence: float = CONFIDENCE) -> StepTimes:
    """Where the step of these runs goes, which is known."""
    times = step_times(runs, confidence)
    assert isinstance(times, StepTimes)
    return times


def test_the_wait_for_slower_ranks_is_told_from_the_link() -> None:
    """Together they are rank 0's exchange, so the parts still sum to the step. The slowest rank has a name."""
    times = times_of([result(), result()])

    assert pytest.approx(0.006) == times.parts["exchange"]
    assert pytest.approx(0.009) == times.parts["waiting"]
    assert pytest.approx(sum(SECONDS.values())) == sum(times.parts.values())
    assert pytest.approx([0.009, 0.0]) == times.waiting_seconds
    assert 1 == times.slowest_rank
    assert pytest.approx(0.009, rel=0.1) == times.slower_seconds


def test_medians_are_over_the_repeats() -> None:
    """One odd run changes nothing."""
    odd = result(seconds=SECONDS | {"input": 5.0})

    assert SECONDS["input"] == times_of([result(), odd, result()]).parts["input"]


@pytest.mark.parametrize(
    "runs",
    [
        [[[0.050] * BLOCKS]] * 3,
        [[[0.050] * BLOCKS, [0.0505] * BLOCKS]] * 3,
        [[[0.050] * BLOCKS, [0.090] * BLOCKS], [[0.090] * BLOCKS, [0.055] * BLOCKS]] * 2,
        [[[0.050] * BLOCKS, [0.080] * BLOCKS]],
    ],
    ids=["one rank", "less than 2 % of a step", "as often one as the other", "one run"],
)
def test_no_rank_is_named_that_is_not_slower(runs: list[list[list[float]]]) -> None:
    """Neither one alone, nor a difference that is small or uncertain; nor after one run, however certain its blocks
    are: a rank may be slow for as long as it lives."""
    assert (None, None) == slowest(runs)


def slowest(runs: Sequence[list[list[float]]], confidence: float = CONFIDENCE) -> tuple[int | None, float | None]:
    """Which rank is named after runs in which each rank worked so long, block by block."""
    times = times_of([result(own_work=own_work) for own_work in runs], confidence)
    return times.slowest_rank, times.slower_seconds


def of_runs(*excesses: float, ranks: int = 2) -> list[list[list[float]]]:
    """Runs of ranks that take equally long, but for rank 1, which takes so much longer in each."""
    equal = [[[0.050] * BLOCKS for _ in range(ranks)] for _ in excesses]
    return [
        [[own + excess * (rank == 1) for own in blocks] for rank, blocks in enumerate(run)]
        for run, excess in zip(equal, excesses, strict=True)
    ]


def test_a_rank_that_was_slow_in_one_run_of_several_is_not_named() -> None:
    """The blocks of that run are all slow, and are one observation."""
    assert (None, None) == slowest(of_runs(0.020, 0.0, 0.0, 0.0))
    assert 1 == slowest(of_runs(0.020, 0.019, 0.021, 0.020))[0]


@pytest.mark.parametrize(("share", "rank"), [(0.019, None), (0.021, 1)])
def test_a_rank_is_named_from_two_hundredths_of_a_step_on(share: float, rank: int | None) -> None:
    """However certain less is."""
    assert rank == slowest(of_runs(*[share * sum(SECONDS.values())] * 4))[0]


def test_of_more_ranks_one_has_to_be_slower_by_more() -> None:
    """It is the largest of them; and with `repeats auto`, of looks at them."""
    excesses = (0.003, 0.007, 0.005, 0.004)

    assert 1 == slowest(of_runs(*excesses, ranks=2))[0]
    assert 1 == slowest(of_runs(*excesses, ranks=4))[0]
    assert slowest(of_runs(*excesses, ranks=16))[0] is None
    assert slowest(of_runs(*excesses, ranks=4), AUTO_CONFIDENCE)[0] is None


@pytest.mark.parametrize(("is_auto", "rank"), [(False, 1), (True, None)])
def test_a_measurement_that_is_looked_at_several_times_names_a_rank_later(is_auto: bool, rank: int | None) -> None:
    """The rank is decided by the same rule as everything else of it."""
    own_work = of_runs(0.005, 0.007, 0.009)
    runs = [replaced(run, step_parts=parts(own_work=own_work[run.repeat - 1])) for run in make_runs()]
    times = compare(runs, make_context(is_auto=is_auto)).arms["ray"].step_parts

    assert times is not None
    assert rank == times.slowest_rank


def test_parts_that_one_run_lacks_are_not_known() -> None:
    """Of the others a median would be of something else."""
    assert Missing(NOT_CLOCKED) == step_times([result(), make_result()], CONFIDENCE)
    times = times_of([result(), result(seconds={"compute": 0.08}, exchange=[], link=None)])

    assert {"compute"} == times.parts.keys()
    assert [] == times.waiting_seconds


def test_a_wait_for_cpus_is_that_of_a_step() -> None:
    """From the seconds that threads waited between the first step and the last."""
    waited = CpuWait(seconds=10.0, cpu_seconds=8.0, waited_seconds=5.0)
    run = result()
    run = replace(run, workers=[replace(run.workers[0], training_wait=waited), *run.workers[1:]])
    times = times_of([run])

    assert run.steps.seconds is not None
    assert pytest.approx(run.steps.seconds.mean / 2) == times.cpu_wait_seconds


def test_waits_are_told_from_a_twentieth_of_a_step_on(wording: Wording) -> None:
    """Input, gradients and the slowest rank, by its number if it has one."""
    named, unnamed = times_of([result(), result()]), times_of([result(own_work=[[0.05] * BLOCKS])])
    seconds = {"compute": 0.08, "input": 0.001, "exchange": 0.001}
    none = times_of([result(seconds=seconds, exchange=[0.001], link=0.001)])

    wording("verdict", waits(named))
    wording("verdict", waits(unnamed))
    assert "" == waits(none)


def test_the_table_has_the_parts_of_each_arm(wording: Wording) -> None:
    """A column a part that is at least a hundredth of a step somewhere; what an arm has not is a dash."""
    runs = [replaced(run, step_parts=of_arm(run.arm)) for run in make_runs()]
    comparison = compare(runs, make_context())

    heading, *rows = step_parts.rows(comparison)
    assert ["input", "compute", "exchange", "waiting"] == heading[1:5]
    assert "between" not in heading
    assert ["baseline", "39.0", "28.0", "–", "–"] == rows[0][:5]
    assert ["ray", "39.0", "28.0", "6.0", "9.0"] == rows[-1][:5]
    wording("table", "".join(table.render(comparison).partition(heading[0])[1:]).partition("\n\n")[0])
    wording("verdict", comparison.reasons["verdict.step"])


def waiting(share: float, arms: Sequence[str] = ("ray",)) -> Comparison:
    """A comparison in which so much of a step of 84 ms waits, a third each for input, gradients and slower ranks."""
    third = share * 0.084 / 3
    seconds = {"input": third, "exchange": 2 * third, "compute": 0.084 - 3 * third}
    of_step = StepParts(seconds=seconds, exchange=[2 * third, third], link=third, own_work=[[0.05], [0.05]])
    busy = parts(seconds={"compute": 0.084}, exchange=[], link=None)
    runs = [replaced(run, step_parts=of_step if run.arm in arms else busy) for run in make_runs()]
    return compare(runs, make_context(settings={"workers": "2"}))


@pytest.mark.usefixtures("undrawn")
def test_who_waits_long_is_told_of_the_tool_that_says_why(tmp_path: Path, wording: Wording) -> None:
    """From a tenth of a step of Ray or native on, on the page and below the table; a single process is none of them."""
    both, page = waiting(0.12, ["native", "ray"]), tmp_path / "report.html"

    assert "" == step_parts.long_waits(waiting(0.099, ["native", "ray"]))
    assert "" == step_parts.long_waits(waiting(0.5, ["baseline"]))
    assert "" == step_parts.long_waits(compare(make_runs(), make_context()))
    wording("table", step_parts.long_waits(waiting(0.101)))
    wording("table", step_parts.long_waits(both))
    lines = closing.render(both, "mine", page, {"workers": "3"}).splitlines()
    wording("table", lines[-2])
    wording("table", closing.render(both, "local", page, {}).splitlines()[-2])
    assert "./rwi why" not in closing.render(waiting(0.099), "mine", page, {})
    shown = html.render(both, "mine", tmp_path)
    assert step_parts.long_waits(both) in shown
    assert "./rwi why --stack mine --set workers=2" in shown
    assert "./rwi why" not in html.render(waiting(0.099), "mine", tmp_path)


def of_arm(arm: str) -> StepParts:
    """One process exchanges nothing."""
    if arm != "baseline":
        return parts(seconds=SECONDS | {"between": 0.0001})
    alone = {name: seconds for name, seconds in SECONDS.items() if name not in ("exchange", "between")}
    return parts(seconds=alone, exchange=[], link=None, own_work=[[0.05] * BLOCKS])
