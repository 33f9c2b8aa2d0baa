"""The table of GPUs on the page: what each arm's ranks had, over ranks and runs, and why some of it is not known."""

from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from compare.comparison import compare
from compare.schema import Comparison
from report import gpus
from report.gpus import Cell, Gpus
from report.html import render
from report.plots import ShownRun
from tests import nvml
from tests.golden import Wording
from tests.unit.report.test_html import EVIL, tags_of
from tests.unit.results import RUN as ARMS
from tests.unit.results import as_run, make_context, make_result, written_run
from training.contract.gpu_use import UNKNOWN, GpuUse
from training.contract.result import TrainingResult
from training.workloads.script.recipe import ScriptRecipe

PEAK, OF_HIGHEST = "Peak memory of PyTorch", "Share of its highest SM clock"
WATTS = {"baseline": 400.0, "native": 450.0, "ray": 440.0}


def gpu_of(arm: str, rank: int, repeat: int, **changes: Any) -> GpuUse:
    """A GPU whose power tells arm, rank and repeat; one sample has none of it."""
    watts = WATTS[arm] + 10 * rank + repeat
    samples: list[list[float | None]] = [[0.0, 80.0, watts - 1, 1900.0, 9e9], [1.0, 90.0, watts + 1, 1700.0, 9e9]]
    whole = GpuUse(
        uuid=nvml.uuid(rank + 1),
        name=nvml.NAME,
        driver="580.00",
        backend=None if arm == "baseline" else "nccl",
        peak_memory_bytes=(3 + rank) * 2**30,
        max_sm_mhz=2000,
        samples=[*samples, [2.0, None, None, None, None]],
        throttled={},
    )
    return replace(whole, **changes)


def result_of(arm: str, repeat: int, reasons: dict[str, str] | None = None, **changes: Any) -> TrainingResult:
    """A result whose ranks have a GPU each; `changes` of all of them."""
    made = make_result(arm, repeat)
    workers = [replace(worker, gpu=gpu_of(arm, worker.rank, repeat, **changes)) for worker in made.workers]
    return replace(made, workers=workers, reasons=made.reasons | (reasons or {}))


def results(**changes: dict[str, Any]) -> dict[str, list[TrainingResult]]:
    """Two repeats of every arm; `changes` by arm."""
    return {arm: [result_of(arm, repeat, **changes.get(arm, {})) for repeat in (1, 2)] for arm in ARMS}


def unequal() -> dict[str, list[TrainingResult]]:
    """GPUs of a long name, held back by all reasons in one arm, and without figures in another."""
    name = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
    shares = {"power cap": 1.0, "heat, by the hardware": 0.25, "hardware slowdown": 0.01}
    why = "rank 0: nvmlDeviceGetPowerUsage of NVIDIA's driver gave error 3"
    lacking = {"samples": [[0.0, 80.0, None, 1900.0, 9e9]], "throttled": None, "reasons": {"workers.gpu.power": why}}
    made = results(ray={"name": name, "throttled": shares}, native={"name": name}, baseline={"name": name} | lacking)
    first = made["native"][0]
    made["native"][0] = replace(first, workers=[replace(first.workers[0], gpu=UNKNOWN), *first.workers[1:]])
    return made


def comparison_of(of_arms: dict[str, list[TrainingResult]]) -> Comparison:
    """Their comparison."""
    runs = [as_run(result, number + 1) for of_arm in of_arms.values() for number, result in enumerate(of_arm)]
    return compare(runs, make_context(repeats=2))


def table_of(of_arms: dict[str, list[TrainingResult]]) -> Gpus:
    """Their table."""
    runs = [
        ShownRun(f"{arm}-{number + 1}", number + 1, result)
        for arm, of_arm in of_arms.items()
        for number, result in enumerate(of_arm)
    ]
    found = gpus.table(comparison_of(of_arms), runs, ARMS)
    assert found
    return found


def row(found: Gpus, title: str) -> dict[str, Cell | None]:
    """The cells of one row."""
    (cells,) = [each.cells for each in found.rows if each.title == title]
    return cells


def text_of(found: Gpus, arm: str) -> str:
    """An arm's cells, a line a row, and the notes."""
    lines = [f"{each.title} {each.unit}: {', '.join(filter(None, each.cells[arm] or ('-',)))}" for each in found.rows]
    return "\n".join([*lines, *found.notes])


def test_a_cell_is_the_median_over_ranks_and_runs(wording: Wording) -> None:
    """With lowest and highest; of each rank the mean of the samples that have it."""
    found = table_of(results())

    assert Cell("402", "401 to 402", "") == row(found, "Power")["baseline"]
    assert Cell("456", "451 to 462", "") == row(found, "Power")["native"]
    assert Cell("3.50", "3.00 to 4.00", "") == row(found, PEAK)["ray"]
    assert Cell("85", "85 to 85", "") == row(found, "Time busy")["ray"]
    assert Cell("1,800", "1,800 to 1,800", "") == row(found, "SM clock")["ray"]
    assert Cell("90.0", "90.0 to 90.0", "") == row(found, OF_HIGHEST)["ray"]
    assert [] == found.notes
    wording("report", text_of(found, "ray"))


def test_what_held_gpus_back_has_a_row_a_reason() -> None:
    """The most frequent first; an arm that it never held back has a zero that was measured."""
    shares = {
        "ray": {"throttled": {"power cap": 0.25, "power brake": 0.5}},
        "native": {"throttled": {"power brake": 0.1}},
    }
    found = table_of(results(**shares))
    titles = [each.title for each in found.rows if each.title.startswith("Held back")]

    assert ["power brake", "power cap"] == [title.partition(": ")[2] for title in titles]
    assert Cell("25.0", "25.0 to 25.0", "") == row(found, titles[1])["ray"]
    assert Cell("0.0", "0.0 to 0.0", "") == row(found, titles[1])["native"]
    assert {"0.0"} == {cell.median for cell in row(table_of(results()), "Held back").values() if cell}


def test_what_the_driver_did_not_say_has_its_reason(wording: Wording) -> None:
    """Once for all rows and arms that lack it for the same one; never a zero."""
    silent = [[0.0, 80.0, None, 1900.0, 9e9]]
    why = "rank 1: nvmlDeviceGetPowerUsage of NVIDIA's driver gave error 3"
    lacking = {"samples": silent, "max_sm_mhz": None, "reasons": {"workers.gpu.power": why}}
    found = table_of(results(ray=lacking, native=lacking | {"throttled": None}))

    assert None is row(found, "Power")["ray"]
    assert None is row(found, OF_HIGHEST)["ray"]
    assert None is row(found, "Held back")["native"]
    assert row(found, "SM clock")["ray"]
    assert row(found, "Power")["baseline"]
    assert 1 == " ".join(found.notes).count(why)
    wording("report", "\n".join(found.notes))


def test_what_some_ranks_have_says_of_how_many(wording: Wording) -> None:
    """The others' reason is told."""
    of_arms = results()
    first = of_arms["ray"][0]
    unseen = [replace(worker, gpu=UNKNOWN if worker.rank else worker.gpu) for worker in first.workers]
    why = {"workers.gpu": "rank 1: there is no libnvidia-ml.so.1"}
    of_arms["ray"][0] = replace(first, workers=unseen, reasons=first.reasons | why)
    found = table_of(of_arms)

    assert {True} == {bool(each.cells["ray"] and each.cells["ray"].known_of) for each in found.rows}
    assert {False} == {bool(each.cells["native"] and each.cells["native"].known_of) for each in found.rows}
    wording("report", text_of(found, "ray"))


@pytest.mark.parametrize("world_size", [2, None])
def test_ranks_without_a_gpu_are_told(world_size: int | None, wording: Wording) -> None:
    """An arm whose ranks computed on none, or were not seen, beside others."""
    of_arms = results()
    of_arms["ray"] = [make_result("ray", repeat, world_size=world_size) for repeat in (1, 2)]
    found = table_of(of_arms)

    assert {None} == {each.cells["ray"] for each in found.rows}
    assert None not in {each.cells["native"] for each in found.rows}
    wording("report", "\n".join(found.notes))


def test_one_rank_of_one_run_has_no_range(wording: Wording) -> None:
    """As one repeat has none."""
    found = table_of({arm: of_arm[:1] for arm, of_arm in results().items()})

    assert Cell("401", gpus.ALONE, "") == row(found, "Power")["baseline"]
    wording("report", text_of(found, "baseline"))


@pytest.mark.parametrize("gpus_asked", [0, 1])
def test_without_files_it_is_said_where_gpus_were_asked_for(gpus_asked: int, wording: Wording) -> None:
    """Where none was, the page has no word of them."""
    recipe = ScriptRecipe(worker_gpus=gpus_asked)
    comparison = replace(comparison_of(results()), workload="script", recipe=recipe.to_dict())
    found = gpus.table(comparison, [], ARMS)

    assert (found is not None) == bool(gpus_asked)
    if found:
        assert [] == found.rows
        wording("report", "\n".join(found.notes))


def test_an_arm_without_files_is_named() -> None:
    """The others keep their cells."""
    of_arms = results()
    runs = [ShownRun("native-1", 1, of_arms["native"][0])]
    found = gpus.table(comparison_of(of_arms), runs, ARMS)

    assert found
    assert row(found, "Power")["native"]
    assert None is row(found, "Power")["ray"]
    assert [True] == [gpus.NO_FILE in note for note in found.notes]


@pytest.fixture
def page(tmp_path: Path) -> str:
    """A page with a model of a hostile name."""
    return page_of(results(ray={"name": EVIL}), tmp_path)


def page_of(of_arms: dict[str, list[TrainingResult]], project: Path) -> str:
    """The page of these results, whose files lie in the project."""
    runs = [
        written_run(project, result, repeat)
        for of_arm in of_arms.values()
        for repeat, result in enumerate(of_arm, start=1)
    ]
    return render(compare(runs, make_context(repeats=2)), "local", project)


def test_the_page_has_the_table(page: str) -> None:
    """From the runs' files, whose samples the summaries lack; every tag is closed, and a name is text."""
    tags = tags_of(page)

    assert ([], []) == (tags.open, tags.wrong)
    assert "451 to 462" in page
    assert EVIL not in page
    assert EVIL in unescape(page)


@pytest.mark.usefixtures("undrawn")
def test_a_page_without_gpus_has_none(tmp_path: Path) -> None:
    """Not even a heading."""
    runs = {arm: [make_result(arm)] for arm in ARMS}

    assert "GPU" not in page_of(runs, tmp_path)
