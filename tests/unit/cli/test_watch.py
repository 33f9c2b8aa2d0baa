"""Watching: the newest measurement's runs, their news once each, a table on a terminal and lines elsewhere."""

import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from cli.follow import watch as watching
from cli.follow.source import LocalSource, News, newest_measurement, started
from cli.follow.view import Board
from cli.follow.watch import source_of, watch
from report.errors import ShowError
from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from training.contract.progress import Progress
from training.contract.provenance import PROJECT

START: dict[str, Any] = {"event": "start", "arm": "ray", "workers": 2, "epochs": 3, "images": 1280, "stepsPerEpoch": 20}
EPOCH: dict[str, Any] = {
    "event": "epoch", "secondsLeft": 9.0, "epoch": 2, "epochs": 3, "loss": 0.5, "accuracy": 0.8,
    "validationAccuracy": 0.7, "imagesPerSecond": 1234.0,
}  # fmt: skip


def make_folder(project: Path, run: str, stamp: str, *, finished: bool = True, old: bool = True) -> Path:
    """A run's folder, made some minutes ago unless told otherwise."""
    folder = project / "runs/local" / f"{run}-20250301T{stamp}Z-abc123"
    folder.mkdir(parents=True)
    if finished:
        (folder / "result.json").write_text("{}")
    if old:
        os.utime(folder, (time.time() - 600,) * 2)
    return folder


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("baseline-1 native-1 ray-1 baseline-2", "baseline-1 native-1 ray-1 baseline-2"),
        ("baseline-1 native-1 ray-1 baseline-1", "baseline-1"),
        ("baseline-1 ray-1 baseline-2 ray-2 native-1 ray-1", "native-1 ray-1"),
        ("baseline-1 native-1 native-1", "native-1"),
        ("ray-9 ray-10", "ray-9 ray-10"),
        (
            "baseline-1 wide-1 ray-1 native-1 wide-2 native-2 baseline-2 ray-w1-2",
            "baseline-1 wide-1 ray-1 native-1 wide-2 native-2 baseline-2 ray-w1-2",
        ),
        ("ray-1 native-1 ray-2 native-2 baseline-1 wide-1", "baseline-1 wide-1"),
        ("", ""),
    ],
)
def test_the_newest_measurement_ends_where_the_order_does(tmp_path: Path, made: str, expected: str) -> None:
    """Going back, the baseline of repeat 1 is the first; and what comes again, or is a later repeat's, is older."""
    folders = [make_folder(tmp_path, run, f"1200{number:02d}") for number, run in enumerate(made.split())]

    assert expected.split() == [
        path.name.rpartition("-2025")[0] for path in newest_measurement(reversed(folders), started)
    ]


def test_news_are_told_once(tmp_path: Path) -> None:
    """Every event of every run, in order; a half-written line waits for its end."""
    folder = make_folder(tmp_path, "ray-1", "120000", finished=False, old=False)
    progress, source = Progress(folder), LocalSource(tmp_path, "local")
    progress.write(**START)
    with (folder / "progress.jsonl").open("a") as out:
        out.write('{"event": "no')

    first = source.poll()
    with (folder / "progress.jsonl").open("a") as out:
        out.write('te", "text": "x"}\n')
    second, third = source.poll(), source.poll()

    assert [["start"], ["note"], []] == [
        [event["event"] for event in news[0].events] for news in (first, second, third)
    ]
    assert ("ray-1", "running") == (first[0].run, first[0].state)
    assert first[0].log == f"runs/local/{folder.name}/log.txt"


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose command line names the folder, as a run's guard does."""
    folder = make_folder(tmp_path, "ray-1", "120000", finished=False)
    with subprocess.Popen(["sh", "-c", "read line", "-m", str(folder)], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_run_is_what_its_files_and_processes_say(tmp_path: Path, guard: subprocess.Popen[bytes]) -> None:
    """Running while a process names its folder, then failed; a result makes it finished."""
    source = LocalSource(tmp_path, "local")

    assert ["running"] == [its.state for its in source.poll()]
    assert not source.is_over()
    guard.kill()
    guard.wait()
    assert ["failed"] == [its.state for its in source.poll()]
    assert source.is_over()
    make_folder(tmp_path, "ray-2", "120100")
    assert ["failed", "finished"] == [its.state for its in source.poll()]


def test_an_old_failure_does_not_end_watching(tmp_path: Path) -> None:
    """Whoever starts watching first and updates then wants to see the update."""
    make_folder(tmp_path, "ray-1", "120000", finished=False)
    source = LocalSource(tmp_path, "local")

    assert ["failed"] == [its.state for its in source.poll()]
    assert not source.is_over()


def test_publishing_ends_watching(tmp_path: Path) -> None:
    """What was published before does not count."""
    results = tmp_path / "results/local"
    results.mkdir(parents=True)
    (results / "latest").symlink_to("a")
    source = LocalSource(tmp_path, "local")
    before = source.is_over()
    (results / "latest").unlink()
    (results / "latest").symlink_to("b")

    assert (False, True) == (before, source.is_over())


def news(run: str, state: Any, *events: dict[str, Any]) -> News:
    """News of a run whose key is its name."""
    return News(run, run, state, f"runs/{run}/log.txt", list(events))


class Told:
    """A source that tells given news, one list a poll, and is over after the last."""

    def __init__(self, *polls: list[News] | str) -> None:
        self._polls = list(polls)
        self.trouble = self.waits_for = ""

    def poll(self) -> list[News]:
        """The next list; none where a text says why there is none."""
        told = self._polls.pop(0)
        self.trouble = told if isinstance(told, str) else ""
        return [] if isinstance(told, str) else told

    def is_over(self) -> bool:
        """Whether all was told."""
        return not self._polls


def test_without_a_terminal_every_event_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """In order, prefixed with the run; waiting is said once; the end is said."""
    monkeypatch.setattr(watching, "POLL_SECONDS", 0)
    of_ray = ([news("ray-1", "running", START)], [news("ray-1", "running", EPOCH)], [news("ray-1", "failed")])

    watch(Told([], [], *of_ray), "local", Console(force_terminal=False))

    text = capsys.readouterr().out
    names = ["stack local", "ray-1", "ray-1", "ray-1", "stack local"]
    assert names == [line.partition(":")[0] for line in text.splitlines()]
    assert "epoch 2/3" in text
    wording("follow", text)


def test_what_ended_before_is_not_shown_while_nothing_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The life of a stack that was destroyed is no news; the runs of the measurement that goes on are."""
    monkeypatch.setattr(watching, "POLL_SECONDS", 0)
    ended = news("baseline-1", "finished", START, EPOCH)
    told_once = news("baseline-1", "finished")

    def names(*polls: list[News]) -> list[str]:
        watch(Told(*polls, []), "local", Console(force_terminal=False))
        return [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]

    of_another = names([ended], [told_once], [news("baseline-2", "running", EPOCH)])
    of_the_same = names([ended], [told_once], [told_once, news("ray-1", "running")])
    of_a_run_that_goes_on = names([ended, news("ray-1", "running", EPOCH)])

    assert ["stack local", "baseline-2", "stack local"] == of_another
    assert ["stack local", *["baseline-1"] * 3, "stack local"] == of_the_same
    assert [*["baseline-1"] * 3, "ray-1", "stack local"] == of_a_run_that_goes_on


class Idle:
    """A source whose runs are given by the number of the poll, and which is never over by itself."""

    trouble = waits_for = ""

    def __init__(self, *running: int, trouble: str = "") -> None:
        self.count, self._running, self.trouble = 0, running, trouble

    def poll(self) -> list[News]:
        """A run goes on in these polls."""
        self.count += 1
        return [news("ray-1", "running")] if self.count in self._running else []

    def is_over(self) -> bool:
        """Never."""
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that counts polls as seconds."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: now.__setitem__(0, now[0] + 1))
    monkeypatch.setattr(watching, "time", clock)
    return now


@pytest.mark.parametrize(
    ("running", "updating", "ends_after", "is_terminal"),
    [
        ((), lambda _: False, watching.START_SECONDS, False),
        ((), lambda _: None, watching.BETWEEN_SECONDS, False),
        ((), lambda now: now < 100, 100, False),
        ((10, 11), lambda _: False, 10 + watching.START_SECONDS, False),
        ((10, 11), lambda _: None, 10 + watching.BETWEEN_SECONDS, False),
        ((10, 11), lambda now: now < 100, 100, False),
        ((10, 11), lambda _: False, 10 + watching.START_SECONDS, True),
    ],
    ids=["nothing", "unknown backend", "update", "run", "run, unknown backend", "update and a run", "on a terminal"],
)
def test_watching_ends_where_nothing_is_there_to_follow(
    clock: list[float], running: tuple[int, ...], updating: Any, ends_after: float, is_terminal: bool
) -> None:
    """Soon after the end of the update, if that is known; after the last run else."""
    console = Console(file=io.StringIO(), force_terminal=is_terminal)

    status = watch(Idle(*running), "local", console, lambda: updating(clock[0]))

    assert watching.NOTHING_TO_FOLLOW == status
    assert ends_after <= clock[0] <= ends_after + watching.START_SECONDS


@pytest.mark.usefixtures("clock")
def test_an_end_without_anything_to_follow_says_what_to_do(
    capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """And why a cluster could not be asked."""
    plain = Console(force_terminal=False)
    watch(Idle(), "ci", plain)
    wording("follow", capsys.readouterr().out, "nothing")
    watch(Idle(trouble="https://a is silent:\n  curl it"), "ci", plain)
    wording("follow", capsys.readouterr().out, "silent")


def test_watching_needs_no_input(tmp_path: Path) -> None:
    """Of a job of cron's, nobody has opened it."""
    code = (
        f"import pathlib, sys\nfrom cli.follow import watch\nwatch.START_SECONDS = 0\n"
        f"watch.ROOT = pathlib.Path({str(tmp_path)!r})\nsys.exit(watch.follow('local', {{}}))"
    )
    backend = {"PULUMI_BACKEND_URL": f"file://{tmp_path}"}

    done = subprocess.run(
        [*("sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", code)], env=os.environ | backend, cwd=PROJECT,
        capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip

    assert (watching.NOTHING_TO_FOLLOW, "") == (done.returncode, done.stderr)
    assert "./rwi up\n" in done.stdout


def shown(board: Board, width: int = 80) -> str:
    """The board as a terminal shows it."""
    out = io.StringIO()
    Console(file=out, force_terminal=False, width=width).print(board.render("status"))
    return out.getvalue()


def test_the_table_has_a_row_a_run() -> None:
    """Epoch, numbers and seconds left of each; where the log of a failed one is; notes of the one that runs. What was
    not measured, as the rate of an epoch of warm-up, is a dash and not 0."""
    board = Board()
    board.take(
        [
            news("baseline-1", "finished", START, EPOCH),
            news("native-1", "failed"),
            news("ray-1", "running", EPOCH, {"event": "note", "text": "waits"}),
            news("baseline-2", "running"),
            news("native-2", "running", {**EPOCH, "imagesPerSecond": None}),
        ]
    )
    lines = shown(board).splitlines()

    assert ["baseline-1", "2/3", "0.5000", "0.800", "0.700", "1,234", "finished"] == _words(lines[1])
    assert ["native-1", "–", "–", "–", "–", "–", "failed"] == _words(lines[2])
    assert ["ray-1", "2/3", "0.5000", "0.800", "0.700", "1,234", "9", "s"] == _words(lines[3])
    assert ["baseline-2", "starting", "–", "–", "–", "–"] == _words(lines[4])
    assert ["–", "9", "s"] == lines[5].split()[-3:]
    failed, *notes = (line.strip() for line in lines[6:])
    assert failed.startswith("native-1 ")
    assert failed.endswith(" runs/native-1/log.txt")
    assert ["ray-1: waits", "status"] == notes


@pytest.mark.parametrize(
    ("event", "epoch", "left"),
    [
        ({"step": 40, "steps": 96, "stepsPerEpoch": 32, "epochs": 3, "secondsLeft": 7.0}, "2/3", ["7", "s"]),
        ({"step": 40, "steps": None, "stepsPerEpoch": 32, "epochs": None, "secondsLeft": None}, "2", []),
        ({"step": 40, "steps": 50, "stepsPerEpoch": None, "epochs": None, "secondsLeft": 7.0}, "step 40", ["7", "s"]),
    ],
)
def test_a_script_has_a_row_by_its_steps(event: dict[str, Any], epoch: str, left: list[str]) -> None:
    """Which epoch it is in, where that is known."""
    board = Board()
    board.take([news("ray-1", "running", {"event": "steps", **event})])

    assert ["ray-1", *epoch.split(), "–", "–", "–", "–", *left] == _words(shown(board).splitlines()[1])


def _words(line: str) -> list[str]:
    return [word for word in line.split() if word.strip("━╸╺ ")]


def test_a_new_measurement_takes_the_table_over() -> None:
    """Rows of the one before would look like its runs."""
    board = Board()
    board.take([news("ray-3", "finished")])
    board.take([news("baseline-1", "running")])

    assert "ray-3" not in shown(board)


def test_a_terminal_gets_the_table() -> None:
    """Drawn in place, ended with what to type next. The end of a measurement is success, unlike that of nothing."""
    out = io.StringIO()
    status = watch(Told([news("ray-1", "finished")]), "local", Console(file=out, force_terminal=True, width=100))

    assert 0 == status
    assert "images/s" in out.getvalue()
    assert "./rwi outputs" in out.getvalue()


def test_a_target_without_a_source_is_refused(tmp_path: Path) -> None:
    """With what shows its logs meanwhile."""
    with pytest.raises(ShowError, match=r"kubectl logs.*Followed: local"):
        source_of("elsewhere", tmp_path, "local", {})


def test_a_source_that_nobody_answers_is_said_once_each_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to do; without it a watcher would see a run that goes on for ever."""
    monkeypatch.setattr(watching, "POLL_SECONDS", 0)
    silent = "https://a is silent:\n  curl it"
    running = [news("ray-1", "running", START)]

    watch(Told(running, silent, silent, running, silent, running, []), "ci", Console(force_terminal=False))

    text = capsys.readouterr().out
    assert 2 == text.count(f"stack ci: {silent}\n")
    assert 1 == text.count("`./rwi outputs --stack ci`")
