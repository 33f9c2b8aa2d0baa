"""The benchmark's arithmetic: which ratio is of what. Its measurements are `rwi bench arms`'s own."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import arms as bench
from bench import figures
from tests.golden import Wording
from tests.typed import typed
from tests.unit.results import changed, make_result
from training.machine import cpu, machine_lock
from training.workloads.cnn.recipe import CnnRecipe


def repeat(baseline: float, limit: float, native: float, ray: float) -> figures.Repeat:
    """Every arm once, with these steady-state seconds; `wide` between baseline and limit."""
    seconds = {"baseline": baseline, "limit": limit, "wide": (baseline + limit) / 2, "native": native, "ray": ray}
    runs = {
        arm: changed(make_result("baseline" if arm == "limit" else arm), train_seconds=value)
        for arm, value in seconds.items()
    }
    return figures.Repeat(runs, fit_images_per_second=100.0)


@pytest.fixture
def found() -> dict[str, Any]:
    """Three repeats, of which the last is on a machine twice as slow."""
    return figures.summarise([repeat(20, 10, 10.5, 10.6), repeat(20, 10, 10.4, 10.5), repeat(40, 20, 21, 22)])


@pytest.mark.parametrize(
    ("name", "median", "low", "high"),
    [
        ("raySpeedup", 20 / 10.6, 40 / 22, 20 / 10.5),
        ("wideSpeedup", 20 / 15, 20 / 15, 20 / 15),
        ("limit", 2.0, 2.0, 2.0),
        ("rayOfLimit", 10 / 10.6, 20 / 22, 10 / 10.5),
        ("rayOverNative", 10.5 / 10.4, 10.6 / 10.5, 22 / 21),
    ],
)
def test_ratios_are_taken_within_a_repeat(
    found: dict[str, Any], name: str, median: float, low: float, high: float
) -> None:
    """A drift of the machine between repeats changes no ratio."""
    expected = {"median": median, "low": low, "high": high, "n": 3}

    assert expected == pytest.approx(found[name])


def test_the_table_has_a_line_a_figure_and_a_column_a_case(found: dict[str, Any]) -> None:
    """Median and range side by side."""
    lines = figures.table({"float32": found, "bfloat16": found}).splitlines()

    assert lines[0].split()[-2:] == ["float32", "bfloat16"]
    assert any("2.000 (2.000–2.000)" in line for line in lines)


@pytest.mark.parametrize("quick", [True, False])
def test_the_limit_divides_images_and_batch_without_rest(quick: bool) -> None:
    """Each part takes exactly as many steps as the whole, or it would not be a limit."""
    for case in bench.cases(quick=quick):
        recipe = case.recipe
        training = recipe.train_images - recipe.train_images // 10

        assert 0 == training % recipe.global_batch_size
        assert 0 == recipe.global_batch_size % recipe.workers


def with_more(measured: dict[str, float]) -> figures.Repeat:
    """A repeat whose steps take 0.64 s alone and 0.32 s in two, with native runs beside the arms."""
    paces = {"baseline": 0.64, "limit": 0.32, "wide": 0.4, "native": 0.32, "ray": 0.32} | measured
    arms = {"limit": "baseline"} | dict.fromkeys(measured, "native")
    runs = {name: make_result(arms.get(name, name), step_seconds_mean=pace) for name, pace in paces.items()}
    return figures.Repeat(runs, fit_images_per_second=None)


def test_what_a_column_lacks_is_empty_and_what_all_lack_has_no_line() -> None:
    """Gradients in the other type are of the columns that have them."""
    found = {
        "float32": figures.summarise([with_more({"otherGradients": 0.32})]),
        "x": figures.summarise([with_more({})]),
    }
    text = figures.table(found)

    (line,) = [line for line in text.splitlines() if "other type" in line]
    assert line.split()[-2:] == ["1.000", "(1.000–1.000)"]
    assert "model.fit" not in text


def test_keys_are_the_documented_ones_and_ray_is_in_every_column() -> None:
    """Scripts read `float32` and `bfloat16`. The question is about Ray, and its speed differs from batch to batch."""
    text = figures.table({name: figures.summarise([repeat(20, 10, 11, 12)]) for name in ("float32", "float32/512")})

    assert ["float32"] == [case.key for case in bench.cases(quick=True)]
    assert ["float32", "float32/512", "bfloat16", "bfloat16/512"] == [case.key for case in bench.cases(quick=False)]
    (speedup,) = [line for line in text.splitlines() if line.startswith("Ray, speedup")]
    assert "ray" in bench.ARMS
    assert 2 == speedup.count("1.667 (1.667–1.667)")


def test_every_repeat_begins_with_another_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """An arm that always came first, or last, would have the machine in another state than the others."""
    order: list[str] = []

    def made(_: bench.Case, name: str) -> Any:
        order.append(name)
        return make_result("ray")

    def plain_fit(_: CnnRecipe) -> float:
        order.append("model.fit")
        return 100.0

    monkeypatch.setattr(bench, "_run_of", made)
    monkeypatch.setattr(bench, "_plain_fit", plain_fit)
    case = replace(bench.cases(quick=True)[0], plain_fit=True)
    repeats = bench.measure(case, 3, lambda _: None)

    rounds = [order[start : start + 6] for start in (0, 6, 12)]
    assert ["baseline", "limit", "wide"] == [names[0] for names in rounds]
    assert all(sorted(names) == sorted((*bench.ARMS, "model.fit")) for names in rounds)
    assert [100.0] * 3 == [repeat.fit_images_per_second for repeat in repeats]


statuses: list[int] = []
"""Exit statuses of the command, the last at the end."""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[str]]:
    """Run the command line where Ctrl-C comes in the column `ends_in`; returns the columns that were begun."""

    def run(*flags: str, ends_in: str = "", lacks_bfloat16: bool = False) -> list[str]:
        begun: list[str] = []

        def measure(case: bench.Case, *_: object) -> list[figures.Repeat]:
            begun.append(case.key)
            if case.key == ends_in:
                raise KeyboardInterrupt
            return [repeat(20, 10, 10.5, 10.6)]

        monkeypatch.setattr(bench, "measure", measure)
        monkeypatch.setattr(bench, "BENCHMARKS", tmp_path)
        monkeypatch.setattr("training.contract.provenance.PROJECT", tmp_path)
        monkeypatch.setattr("training.contract.provenance.allowed_cpus", lambda: [0, 1])
        monkeypatch.setattr(machine_lock, "hold", lambda _: None)
        monkeypatch.setattr(cpu, "lacks_bfloat16", lambda: lacks_bfloat16)
        statuses.append(typed("bench", "arms", *flags))
        return begun

    return run


def test_columns_can_be_chosen(wording: Wording, command: Callable[..., list[str]]) -> None:
    """In the order of the table; a name that is of none is refused with those there are."""
    assert ["float32/512", "bfloat16"] == command("--only", "bfloat16 float32/512")
    names = "float32 float32/512 bfloat16 bfloat16/512"
    with pytest.raises(SystemExit, match=f"float64.*: {names}$") as refused:
        command("--only", "float64")
    wording("bench", str(refused.value))
    with pytest.raises(SystemExit, match=r"bfloat16.*: float32$"):
        command("--quick", "--only", "bfloat16")


def test_what_the_cpu_only_emulates_is_measured_when_it_is_named(
    wording: Wording, command: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """One run of it takes as long as the rest together."""
    assert ["float32", "float32/512"] == command(lacks_bfloat16=True)
    text = capsys.readouterr().err
    assert "bfloat16 bfloat16/512" in text
    wording("bench", text)
    assert ["bfloat16"] == command("--only", "bfloat16", lacks_bfloat16=True)
    assert ["float32"] == command("--quick", lacks_bfloat16=True)


def test_a_run_ends_with_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """However that ends: what goes on would share the CPUs of the next measurement."""
    monkeypatch.setattr(bench, "TIMEOUT_SECONDS", 0.1)
    sleeps = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    with pytest.raises(subprocess.TimeoutExpired):
        bench._wait([sleeps])
    assert sleeps.poll() is not None


def test_ctrl_c_keeps_the_columns_that_are_whole(
    command: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A column takes minutes: they are printed, and are in benchmarks/. In the first one there is nothing to keep."""
    with pytest.raises(SystemExit) as ended:
        command(ends_in="float32")
    assert (130, "", []) == (ended.value.code, capsys.readouterr().out, list(tmp_path.iterdir()))

    command(ends_in="bfloat16")

    (kept,) = tmp_path.glob("*.json")
    assert 130 == statuses.pop()
    assert ["float32", "float32/512"] == list(json.loads(kept.read_text())["cases"])
    assert ["float32", "float32/512"] == capsys.readouterr().out.splitlines()[1].split()[-2:]


def test_the_benchmark_has_the_machine_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """From before its first run on: another measurement beside it would spoil both."""
    held: list[bool] = []

    def measure(*_: object) -> list[figures.Repeat]:
        held.append(isinstance(machine_lock.take_name(machine_lock.NAME), machine_lock.Holder))
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "measure", measure)
    monkeypatch.setattr("training.contract.provenance.allowed_cpus", lambda: [0, 1])
    with pytest.raises(SystemExit):
        typed("bench", "arms", "--quick")

    assert [True] == held
