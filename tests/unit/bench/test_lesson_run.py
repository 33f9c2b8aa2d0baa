"""How a lesson is measured: what is timed, in which order, when it ends, and what is kept of it."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.lesson import lesson as command
from bench.lesson import ways
from bench.lesson.table import Repeat
from bench.lesson.ways import BATCHES, EACH, WAYS, Block, Way
from tests.typed import typed
from tests.unit.bench.lessons import repeat, repeats, use
from training.machine import isolation, machine_lock


class Noted(Way):
    """Notes what it is asked for, and does nothing."""

    is_loop = False

    def __init__(self, fails: bool = False) -> None:
        self.spins: list[tuple[int, int, int]] = []
        self.is_stopped, self._fails = False, fails

    def start(self) -> dict[str, float]:
        """At once, or never."""
        if self._fails:
            raise OSError("no more processes")
        return {}

    def together(self, function: Any, arguments: Any, size: int = 1) -> None:
        """Noted of `spin`: tasks, iterations of each, and the size of a batch."""
        if function == ways.spin:
            self.spins.append((len(arguments), arguments[0], size))

    def stop(self) -> None:
        """Noted."""
        self.is_stopped = True


def test_each_length_is_handed_out_one_by_one_and_in_a_batch_for_each_cpu() -> None:
    """As many iterations as fit into its length; where a CPU has one task, that is its batch, and is timed once."""
    way = Noted()
    measured = ways.measure(way, 2, 1e6)

    assert [
        (1000, 100, 1), (1000, 100, 500),
        (200, 1000, 1), (200, 1000, 100),
        (40, 10_000, 1), (40, 10_000, 20),
        (6, 100_000, 1), (6, 100_000, 3),
        (2, 1_000_000, 1),
    ] == way.spins  # fmt: skip
    assert measured.tasks[EACH]["1 s"] == measured.tasks[BATCHES]["1 s"]
    assert measured.tasks[EACH]["100 ms"] != measured.tasks[BATCHES]["100 ms"]
    assert way.is_stopped


def test_a_way_that_fails_is_ended() -> None:
    """What it had started would be there while the next is timed."""
    way = Noted(fails=True)

    with pytest.raises(OSError, match="processes"):
        ways.measure(way, 2, 1e6)
    assert way.is_stopped


def test_only_a_loop_says_what_it_waited() -> None:
    """Others wait for their processes. A loop has no batches: that is not timed again."""
    measured = ways.measure(Way(), 1, 1000.0)

    assert measured.waited is not None
    assert measured.tasks[EACH] == measured.tasks[BATCHES]
    assert ways.measure(Noted(), 1, 1000.0).waited is None


def test_the_pace_is_that_of_the_fastest_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """What disturbs one makes it slower, never faster."""
    taken = iter([0.02, 0.01, *[0.03] * ways.CALIBRATIONS])
    monkeypatch.setattr(ways, "timed", lambda _: next(taken))

    assert ways.CALIBRATION_ITERATIONS / 0.01 == ways.iterations_per_second()


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Repeat]]:
    """Run the repeats with made-up blocks; `busy` is the repeat in which others take CPUs."""

    def run(order: list[str], *, busy: int = 0, block_seconds: float = 5.0) -> list[Repeat]:
        clock = SimpleNamespace(now=0.0)

        class Counted:
            """In the place of the count of other programs."""

            number = 0

            def __init__(self, **_: float) -> None:
                Counted.number += 1

            def __enter__(self) -> "Counted":
                return self

            def __exit__(self, *_: object) -> None: ...

            def use(self) -> Any:
                return use(others=1.0 if Counted.number == busy else 0.0)

            def in_words(self) -> str:
                return "others" if Counted.number == busy else ""

        def made(way: str, *_: Any) -> Block:
            order.append(way)
            clock.now += block_seconds
            return repeat().blocks[way]

        monkeypatch.setattr(command, "Others", Counted)
        monkeypatch.setattr(command, "_block", made)
        monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: clock.now))
        monkeypatch.setattr("sys.argv", ["measure", "--cpus=2", f"--folder={tmp_path}"])
        command.main()
        return command.read(tmp_path)

    return run


def test_ways_take_turns(measuring: Callable[..., list[Repeat]]) -> None:
    """Over four repeats each is first once, and follows each other one once."""
    order: list[str] = []
    measured = measuring(order)

    rounds = [order[start : start + 4] for start in range(0, 16, 4)]
    assert 5 == len(measured)
    assert sorted(WAYS) == sorted(names[0] for names in rounds)
    assert 12 == len({pair for names in rounds for pair in pairwise(names)})


def test_it_ends_with_a_repeat_that_was_not_quiet(
    measuring: Callable[..., list[Repeat]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever came after, nothing could be concluded; minutes are saved, and who it was is said."""
    assert 2 == len(measuring([], busy=2))
    assert capsys.readouterr().err.splitlines()[1].endswith("others")


def test_it_ends_in_time(measuring: Callable[..., list[Repeat]], tmp_path: Path) -> None:
    """A repeat of 40 s has no place after 140 s; the guard ends what a slow machine has begun. Where the first repeat
    was ended there is none."""
    assert command.LIMIT_SECONDS + command.MORE_SECONDS <= 180
    assert [] == command.read(tmp_path)
    assert 4 == len(measuring([], block_seconds=10.0))


@pytest.fixture
def lesson(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Run the command line with made-up repeats."""

    def run(measured: Callable[[], list[Repeat]], *flags: str, locked: list[str] | None = None) -> int:
        monkeypatch.setattr(isolation, "refusal", lambda: None)
        monkeypatch.setattr(machine_lock, "hold", lambda _: locked.append("locked") if locked is not None else None)
        monkeypatch.setattr(command, "_measured", lambda _: (measured(), 100.0))
        monkeypatch.setattr(command, "BENCHMARKS", tmp_path / "benchmarks")
        monkeypatch.setattr("training.contract.provenance.PROJECT", tmp_path)
        monkeypatch.setattr("training.contract.provenance.allowed_cpus", lambda: [0, 1])
        return typed("bench", "lesson", *flags)

    return run


def test_what_is_concluded_is_kept_with_its_picture(
    lesson: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As JSON, with every number that was measured."""
    assert 0 == lesson(repeats)

    files = sorted((tmp_path / "benchmarks").iterdir())
    kept = json.loads(files[0].read_text())
    assert [".json", ".svg"] == [file.suffix for file in files]
    assert (5, []) == (len(kept["repeats"]), kept["refused"])
    assert 0.0007 * 1.96 / 0.96 == pytest.approx(
        kept["lesson"]["breakEvens"]["ray"]["each"]["seconds"]["centre"], rel=0.02
    )
    printed = capsys.readouterr().out
    assert all(str(file.relative_to(tmp_path)) in printed for file in files)


def test_where_nothing_is_concluded_there_is_no_picture(
    lesson: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code says it, too, and JSON has a reason and no lesson."""
    assert 1 == lesson(lambda: repeats(machine=use(others=1.0)), "--json")

    (file,) = (tmp_path / "benchmarks").iterdir()
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(file.read_text())
    assert (None, 5) == (printed["lesson"], len(printed["refused"]))


def test_ctrl_c_keeps_nothing(lesson: Callable[..., int], tmp_path: Path) -> None:
    """Some repeats of five conclude nothing."""

    def stopped() -> list[Repeat]:
        raise KeyboardInterrupt

    assert 130 == lesson(stopped)
    assert [] == list(tmp_path.iterdir())


def test_the_machine_is_its_own(lesson: Callable[..., int]) -> None:
    """Another measurement beside it would spoil both."""
    order: list[str] = []

    def measured() -> list[Repeat]:
        order.append("measured")
        return repeats()

    lesson(measured, locked=order)

    assert ["locked", "measured"] == order


def test_one_cpu_is_refused(lesson: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be done at a time there."""
    monkeypatch.setattr(command, "MOST_CPUS", 1)
    with pytest.raises(SystemExit) as refused:
        lesson(repeats)

    assert str(refused.value).startswith("error: ")
