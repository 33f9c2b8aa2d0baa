"""The screen of an update: which run of how many, what else the engine says, each thing once; and who follows it."""

import fcntl
import io
import json
import os
import re
import signal
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from cli.follow.source import News, State
from cli.stack import followed, session
from cli.stack import screen as screen_module
from cli.stack import stack as stack_main
from cli.stack.lines import for_rwi
from cli.stack.screen import DRAW_SECONDS, HINT, HINT_WAITING, Screen, Tail
from cli.stack.update import Update
from tests.unit.cli.test_stack_update import CANCELLING, FIRST, JOB, PREVIEWED, began, ended, error, planned, step
from training.machine import output
from training.machine.machine_lock import WAITED, WAITS

EPOCH = {
    "event": "epoch", "epoch": 2, "epochs": 4, "loss": 0.5, "accuracy": 0.8, "imagesPerSecond": 99.0,
    "secondsLeft": 7.0,
}  # fmt: skip


class Runs:
    """A source with one run, beside one that was there before."""

    trouble = waits_for = ""

    def __init__(self, run: str, state: State = "running") -> None:
        self._run, self._run_state = run, state
        self._polls = 0

    def poll(self) -> list[News]:
        """The old one at first; then both."""
        self._polls += 1
        old = News("old", "baseline-9", "finished", "log")
        return [old] if self._polls == 1 else [old, News("new", self._run, self._run_state, "log", [EPOCH])]

    def is_over(self) -> bool:
        """Never."""
        return False


def terminal(out: io.StringIO, width: int = 80) -> Console:
    """One whose characters are kept."""
    return Console(file=out, force_terminal=True, width=width, height=24)


def on(out: io.StringIO, source: Runs | None = None, kind: type[Screen] = Screen) -> Callable[[Update], Screen]:
    """What makes the screen of an update."""
    return lambda update: kind(update, source, {}, terminal(out))


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an update keeps lies in a folder of the test's."""
    monkeypatch.setattr(followed, "STATE", tmp_path)


def shown(
    events: list[dict[str, Any]], run: str = "ray-1", width: int = 80, known: Mapping[str, float] | None = None
) -> str:
    """What was drawn after these events."""
    out, update = io.StringIO(), Update()
    screen = Screen(update, Runs(run), known or {}, terminal(out, width))
    with screen:
        for event in events:
            update.take(event)
            screen.take(event)
        screen.draw()
        return out.getvalue()


TERMINATING = {"stdoutEvent": {"message": "^C received; terminating", "color": "always"}}
RUNNING = [*FIRST, began("baseline-1"), ended("baseline-1"), began("ray-1")]


def test_it_says_which_run_of_how_many_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    """And how to stop, once in the whole table; epochs as `rwi status --watch` has them, and nothing of earlier
    runs."""
    drawn = shown(RUNNING, known={"baseline": 60.0, "ray": 120.0})

    assert all(text in drawn for text in ("2 of 3", "ray-1", "4 min"))
    assert "2/4" in drawn.rpartition("run ")[0]
    assert "baseline-9" not in drawn
    assert drawn.rpartition("loss")[2].count(HINT) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    """Of a line that wrapped, the next drawing would leave a part."""
    plain = shown(RUNNING, width=width).replace("\r", "\n")
    lines = [_visible(line) for line in plain.splitlines()]

    assert max(map(len, lines)) <= width
    assert any("ray-1" in line and "2/4" in line for line in lines)


def _visible(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line)


def said(run: str, text: str) -> dict[str, Any]:
    """What a run's provider prints, as pulumi logs it."""
    return {"diagnosticEvent": {"message": f"{run}: {text}\n", "severity": "info"}}


def test_what_the_engine_says_is_printed_once_and_no_progress_of_runs() -> None:
    """Errors, warnings, notes, stops, downloads and what is made beside runs; not what the table shows."""
    warning = {"diagnosticEvent": {"message": "too little memory\n", "prefix": "warning: ", "severity": "warning"}}
    note = {"diagnosticEvent": {"message": "command: python train.py", "severity": "info"}}
    progress = {"diagnosticEvent": {"message": "ray-1: epoch 2/4  loss 0.5", "severity": "info"}}
    download = {"progressEvent": {"message": "kubernetes plugin downloaded", "done": True}}
    policy = {"policyEvent": {"message": "no such pod"}}
    cluster = [
        step(kind, "cluster", "create", of="command:local:Command", new={"x": 1})
        for kind in ("resourcePreEvent", "resOutputsEvent")
    ]
    job = step("resOutputsEvent", "ray-1", "create", of=JOB)
    said: list[dict[str, Any]] = [warning, warning, note, progress, download, policy, error("it broke"), CANCELLING]
    drawn = _visible(shown([*FIRST, *said, *cluster, job]))

    once = ["warning: too little memory", "command: python", "plugin downloaded", "no such pod", "error: it broke"]
    for text in (*once, "^C received; cancelling"):
        assert drawn.count(text) == 1
    assert len(re.findall(r"cluster \(\d+ s\)", drawn)) == 1
    assert "loss 0.5" not in drawn
    assert "created ray-1" not in drawn


@pytest.mark.parametrize(
    ("presses", "events", "state"),
    [
        (0, [], "failed"),
        (0, [CANCELLING], "interrupted"),  # by somebody who sent the signal to pulumi itself
        (2, [], "interrupted"),
    ],
)
def test_a_run_that_pulumi_did_not_take_over_is_lost(presses: int, events: list[dict[str, Any]], state: str) -> None:
    """Its own files may say that it finished; the next update makes it again. Ended by Ctrl-C it has not failed."""
    out, update = io.StringIO(), Update()
    with on(out, Runs("ray-1"))(update):
        for event in (*RUNNING, *events):
            update.take(event)
        for press in range(1, presses + 1):
            update.stop(press)

    last = out.getvalue().rpartition("run ")[2]
    assert [state] == [word for word in ("failed", "interrupted") if word in last]


def test_a_run_that_breaks_after_the_first_press_has_failed() -> None:
    """It was to be finished."""
    out, update = io.StringIO(), Update()
    with on(out, Runs("ray-1", "failed"))(update) as screen:
        for event in RUNNING:
            update.take(event)
        update.stop(1)
        screen.draw()
        meanwhile = out.getvalue().rpartition("run ")[2]

    assert "failed" in meanwhile
    assert "interrupted" not in meanwhile


def test_a_run_that_only_waits_is_interrupted_and_not_failed() -> None:
    """Nothing of it is lost, and the user ended it; also where the signals went to pulumi itself."""
    out, update = io.StringIO(), Update()
    with on(out, Runs("ray-1", "failed"))(update) as screen:
        for event in (*RUNNING, said("ray-1", f"{WAITS} (process 1)")):
            update.take(event)
        screen.draw()
        before = out.getvalue()
        update.take(CANCELLING)
        screen.draw()
        meanwhile = out.getvalue().rpartition("run ")[2]
    ended = Update()
    for event in (*RUNNING, CANCELLING, TERMINATING):
        ended.take(event)

    assert HINT_WAITING in before
    assert "interrupted" in meanwhile
    assert "failed" not in meanwhile
    assert "Ctrl-C" not in meanwhile
    assert 2 == ended.presses


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_stop_ends_the_runs_that_wait(is_stopped: bool, tmp_path: Path) -> None:
    """Whoever stopped it: their guards look for the file."""
    (tmp_path / followed.EVENTS).write_text(log_of(*RUNNING, *[CANCELLING] * is_stopped))
    followed.Follower(tmp_path, Update(), None, lambda _: None).step()

    assert is_stopped == (tmp_path / "unwanted").exists()


def test_fixing_lines_on_the_screen_are_ones_of_make() -> None:
    """Of pulumi's messages and of what it writes to stderr; plain `pulumi up` keeps its own."""
    out, update = io.StringIO(), Update()
    with Screen(update, None, {}, terminal(out, 120), lambda text: for_rwi(text, "local", {"workers": "9"})) as screen:
        screen.take(error("too few images; type: pulumi config set trainImages 64"))
        screen.print("  pulumi config set workers 2")

    assert "./rwi set trainImages=64" in out.getvalue()
    assert "--set workers=2" in out.getvalue()
    assert "pulumi config" not in out.getvalue()


def test_a_preview_is_printed_with_lines_of_make(capfd: pytest.CaptureFixture[str]) -> None:
    """On both streams."""
    followed.run_quietly(["sh", "-c", "echo pulumi config set workers 2 | tee /dev/stderr"], {}, "local")
    followed.print_output("local", lambda text: for_rwi(text, "local", {}))

    assert ("./rwi set workers=2\n", "./rwi set workers=2\n") == capfd.readouterr()


def test_the_answer_to_ctrl_c_stands_in_the_place_of_pulumis() -> None:
    """Which speaks of orphaned resources; one that nobody here pressed is told in pulumi's words."""
    out, update = io.StringIO(), Update()
    with on(out, Runs("ray-1"))(update) as screen:
        screen.print(update.stop(1))
        screen.take(CANCELLING)
        screen.draw()

    assert "received; cancelling" not in out.getvalue()
    assert "Stopping: " in out.getvalue()


def test_no_time_is_counted_down_while_a_run_waits_for_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as another measurement has it; it runs from the end of that, and what it learns from it does not."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    update = Update()
    screen = Screen(update, Runs("ray-1"), {"ray": 100.0}, terminal(io.StringIO()))
    for event in (*planned("ray-1"), PREVIEWED, began("ray-1")):
        update.take(event)
        screen.take(event)
    seconds = []
    for moment, text in ((0, f"{WAITS} (process 1)"), (50, ""), (50, WAITED), (80, "")):
        now[0] = moment
        if text:
            update.take(said("ray-1", text))
        screen.draw()
        seconds.append(screen._remaining.seconds(update, moment))

    assert [102, 102, 102, 72] == seconds


def test_a_run_that_takes_longer_than_expected_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time left that no longer changes would say that the rest is known."""
    now, out = [0.0], io.StringIO()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    update = Update()
    screen = Screen(update, Runs("ray-1"), {"ray": 35.0}, terminal(out))
    for event in (*planned("ray-1"), PREVIEWED, began("ray-1")):
        update.take(event)
        screen.take(event)
    lines = [line for now[0] in (1.0, 34.0, 36.0) for line in screen._status() if "ray-1" in line]

    assert [[35], [5], [35]] == [[int(number) for number in re.findall(r"(\d+) s", line)] for line in lines]
    assert ["left" in line for line in lines] == [True, True, False]


def test_the_table_is_drawn_again_once_enough_time_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not at every look: the runs are asked for their news as often."""
    now, asked, source = [0.0], list[int](), Runs("ray-1")
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    screen = Screen(Update(), source, {}, terminal(io.StringIO()))
    for now[0] in (10.0, 10.0, 10.0 + 0.9 * DRAW_SECONDS, 10.0 + DRAW_SECONDS):
        screen.tick()
        asked.append(source._polls)

    assert [0, 0, 0, 1] == [each - asked[0] for each in asked]


PULUMI = """
for event_log; do :; done
echo printed
echo said on stderr >&2
echo "$1" > "$event_log"
until [ -e "$3" ]; do sleep 0.02; done
echo "$2" > "$event_log"
exit 3
"""
"""A stand-in for pulumi: two phases, each in an empty log. The second begins once the preview was announced."""

FollowedRun = Callable[..., tuple[int, Update]]


def log_of(*events: dict[str, Any]) -> str:
    """The lines of an event log."""
    return "".join(f"{json.dumps(event)}\n" for event in events)


@pytest.fixture
def follow(tmp_path: Path) -> FollowedRun:
    """Follow that stand-in to its end."""
    phases = log_of(*planned("ray-1"), PREVIEWED), log_of(began("ray-1"), ended("ray-1"))
    announced = tmp_path / "announced"

    def run(previewed: Callable[[Update], None] = lambda _: None, **more: Any) -> tuple[int, Update]:
        def announce(update: Update) -> None:
            announced.touch()
            previewed(update)

        return followed.run(
            ["sh", "-c", PULUMI, "sh", *phases, str(announced)], {}, "local", previewed=announce, **more
        )

    return run


def test_both_phases_are_followed_without_a_screen(follow: FollowedRun, capfd: pytest.CaptureFixture[str]) -> None:
    """What pulumi prints goes where it always went; its preview is announced once."""
    previews: list[list[str]] = []
    status, update = follow(lambda update: previews.append(update.to_make))
    captured = capfd.readouterr()

    assert (3, 1, [["ray-1"]]) == (status, update.kept_runs, previews)
    assert ("printed\n", "said on stderr\n") == (captured.out, captured.err)


def test_with_a_screen_what_pulumi_prints_is_kept_and_its_errors_are_shown(follow: FollowedRun) -> None:
    """Nothing is swallowed: stdout lies in a file, stderr stands above the table."""
    out = io.StringIO()
    status, update = follow(new_screen=on(out, Runs("ray-1")))

    assert (3, 1) == (status, update.kept_runs)
    assert "said on stderr" in out.getvalue()
    assert (followed.folder_of("local") / followed.PRINTED).read_text() == "printed\n"
    assert not (followed.folder_of("local") / followed.EVENTS).exists()


def test_errors_are_shown_line_by_line(tmp_path: Path) -> None:
    """Each once, also the last one without an end; one that is too long is cut."""
    shown: list[str] = []
    file = tmp_path / "errors.txt"
    tail = Tail(file, shown.append)
    for text in ("one\ntw", "o\n", "y" * 3 * output.LONGEST_LINE, "yy\nlast"):
        with file.open("a") as out:
            out.write(text)
        tail.read()
    tail.read(last=True)

    assert ["one", "two", "y" * output.LONGEST_LINE + output.CUT.decode().rstrip(), "last"] == shown


BESIDE = """
import pathlib, sys
from cli.stack import followed
followed.STATE = pathlib.Path(sys.argv[1])
followed.run_quietly(["echo", "other preview"], {}, "local")
followed.run(["echo", "other update"], {}, "local")
"""


def test_another_command_leaves_the_files_of_an_update_beside_it(tmp_path: Path) -> None:
    """A preview takes no lock, and on a backend that is no folder pulumi alone refuses a second update: the first would
    count no run any more, and what it printed would be lost."""
    program = """
for event_log; do :; done
echo "$1" > "$event_log"
echo own
"$2" -c "$3" "$4" || exit
echo "$5" >> "$event_log"
"""
    before, after = log_of(*planned("ray-1"), PREVIEWED, began("ray-1")), log_of(ended("ray-1"))
    command = ["sh", "-c", program, "sh", before, sys.executable, BESIDE, str(tmp_path), after]
    status, update = followed.run(command, {**os.environ}, "local", new_screen=on(io.StringIO()))

    folder = followed.folder_of("local")
    assert (0, 1) == (status, update.kept_runs)
    assert "own" in (folder / followed.PRINTED).read_text(encoding="utf-8")
    assert not list(folder.glob("**/run-*"))


def test_what_a_killed_command_left_is_removed_and_a_running_one_kept() -> None:
    """By the lock on its folder, which goes with its process."""
    folder = followed.folder_of("local")
    left, running, young = (folder / f"run-{name}" for name in ("left", "running", "young"))
    for own in (left, running, young):
        own.mkdir(parents=True)
        (own / "lock").touch()
    for own in (left, running):
        os.utime(own, (0, 0))
    with (running / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        followed.run(["true"], {}, "local")

    assert {running, young} == set(folder.glob("run-*"))


class Counting:
    """A screen that counts what it is asked for."""

    ticks = 0

    def print(self, text: str) -> None:
        """Nothing is printed."""

    def tick(self) -> None:
        """One more."""
        self.ticks += 1


def test_the_screen_is_looked_at_less_often_than_the_log(tmp_path: Path) -> None:
    """The log every 20 ms while the preview runs; the last look is made all the same."""
    screen: Any = Counting()
    (tmp_path / followed.ERRORS).touch()
    follower = followed.Follower(tmp_path, Update(), screen, lambda _: None)
    for _ in range(9):
        follower.step()
    before = screen.ticks
    follower.step(is_last=True)

    assert (1, 2) == (before, screen.ticks)


def test_outputs_name_the_update_that_did_not_end_with_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them another measurement would begin."""
    monkeypatch.setattr(stack_main, "ROOT", tmp_path)
    stack = object.__new__(stack_main.Stack)
    stack.name, stack._recovery = "mine", cast("Any", SimpleNamespace(running=lambda: None))
    before = stack._why_no_measurement()
    followed.remember_set("mine", {"epochs": "1", "repeats": "2"})

    assert "`./rwi up --stack mine`" in before
    assert "`./rwi up --stack mine --set epochs=1 --set repeats=2`" in stack._why_no_measurement()


class Failing(Runs):
    """A source that can't be read any more."""

    def poll(self) -> list[News]:
        """Only at first."""
        if self._polls:
            raise PermissionError("no such runs")
        return super().poll()


def test_a_screen_that_can_be_drawn_no_more_ends_no_update(
    follow: FollowedRun, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each error is said once; the terminal gets its cursor and its echo back."""

    def fail(_: Update) -> None:
        raise ValueError("cannot draw")

    modes = ["quiet", ""]
    monkeypatch.setattr(screen_module, "_without_echo", modes.copy)
    monkeypatch.setattr(termios, "tcsetattr", lambda *_: modes.append("restored"))
    out = io.StringIO()
    status, update = follow(fail, new_screen=on(out, Failing("ray-1")))
    errors = capfd.readouterr().err

    assert (3, 1) == (status, update.kept_runs)
    assert "restored" in modes
    assert out.getvalue().rfind("\x1b[?25h") > out.getvalue().rfind("\x1b[?25l")
    assert [1, 1] == [errors.count(text) for text in ("cannot draw", "PermissionError")]


def test_an_end_that_can_t_be_drawn_ends_no_update(follow: FollowedRun, capfd: pytest.CaptureFixture[str]) -> None:
    """As where the terminal was closed meanwhile: the status of the update stays, and its result is published."""

    class Closed(Screen):
        def __exit__(self, *_: object) -> None:
            super().__exit__()
            raise OSError(5, "Input/output error")

    assert follow(new_screen=on(io.StringIO(), kind=Closed))[0] == 3
    assert "Input/output" in capfd.readouterr().err


def test_an_event_that_is_unknown_costs_no_other(capfd: pytest.CaptureFixture[str]) -> None:
    """As of an engine that is newer, all of them read at one look."""
    broken: list[Any] = [None, [], 1, {"resourcePreEvent": {}}, {"diagnosticEvent": {"severity": "error"}}, {"new": 1}]
    events = log_of(*planned("ray-1"), PREVIEWED, *broken, began("ray-1"), *broken, ended("ray-1"))
    command = ["sh", "-c", 'echo "$1" > "$3"', "sh", events]

    assert followed.run(command, {}, "local")[1].kept_runs == 1
    assert followed.run_quietly(command, {}, "local")[1].kept_runs == 1
    assert "KeyError" in capfd.readouterr().err


def test_a_passphrase_is_asked_for_by_pulumis_own_display() -> None:
    """Nobody else could: only where the settings need one and the environment has none."""
    salted = "encryptionsalt: v1:x\n"
    variables = [{}, {"PULUMI_CONFIG_PASSPHRASE_FILE": "x"}, {"PULUMI_CONFIG_PASSPHRASE": ""}]

    assert [True, False, False] == [followed.may_ask(salted, each) for each in variables]
    assert not followed.may_ask("config: {}\n", {})


PRESSES = ["sh", "-c", "kill -INT $PPID; exec sleep 60"]
"""A command during which Ctrl-C is pressed. No Python: it would run no handler of a signal that came just before it
waits."""


def test_signals_reach_a_followed_command() -> None:
    """As without files for its output; whoever waits for it learns of each at once, and may fail to show it."""
    pressed: list[int] = []

    def show(presses: int) -> None:
        pressed.append(presses)
        raise OSError(5, "Input/output error")

    with tempfile.TemporaryFile() as out:
        status = session.run(PRESSES, {}, Path("/"), (out, out), show)

    assert (128 + signal.SIGINT, [1]) == (status, pressed)


@pytest.mark.parametrize("has_screen", [True, False])
def test_ctrl_c_is_answered_on_the_screen_or_beside_a_pipe(has_screen: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """Also where pulumi says nothing, as while its preview runs."""
    out = io.StringIO()
    _, update = followed.run(PRESSES, {}, "local", new_screen=on(out) if has_screen else None)
    beside = capfd.readouterr().err

    assert (1, True) == (update.presses, update.is_stopped)
    assert [has_screen, not has_screen] == [text.count("Stopping: ") for text in (out.getvalue(), beside)]


def test_ctrl_c_beside_a_preview_is_answered(capfd: pytest.CaptureFixture[str]) -> None:
    """Its own output is in a file until it has ended."""
    followed.run_quietly(PRESSES, {}, "local")

    assert "preview" in capfd.readouterr().err
