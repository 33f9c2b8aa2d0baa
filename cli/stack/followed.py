"""Runs a pulumi command that runs the program, and follows its events: on a terminal with a screen of its own.

An error in following it is printed, and changes nothing of the command: it ends as if nobody had followed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cli.setup.project import ROOT, STATE, ToolError, say
from cli.stack import session
from cli.stack.update import SWITCH, EventLog, Update
from report.errors import ShowError
from training.machine import machine_lock

if TYPE_CHECKING:
    from cli.follow.source import Source
    from cli.stack.screen import Screen, Tail

LOOK_SECONDS = 0.3
"""Seconds between two reads of the event log, and between two updates of the screen."""
PLAN_SECONDS = 0.02
"""Seconds between two reads of the log until the preview has ended. The update that follows overwrites the preview's
log at once."""
PRINTED, ERRORS, EVENTS = "printed.txt", "errors.txt", "events.json"
PREVIEW = "preview"
"""Name of the folder with the output of the last preview, which must not replace the output of an update."""
LAST_SET = "set.json"
_UNWANTED = "unwanted"
"""Name of the file that ends the runs which wait for the machine's lock, and no other."""
_OWN = "run-"
"""Prefix of the folder of a command that is still running."""
_LOCK = "lock"
_LEFT_SECONDS = 3600

NewScreen = Callable[[Update], "Screen"]


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    stack: str,
    *,
    new_screen: NewScreen | None = None,
    previewed: Callable[[Update], None] = lambda _: None,
) -> tuple[int, Update]:
    """Run a command of pulumi that takes `--event-log`. Return its exit status, and the update as its events describe
    it.

    `new_screen` makes the screen that a terminal shows; None if pulumi shows its own display. `previewed` is called
    once, when the preview before an update has ended.
    """
    update = Update()
    with ExitStack() as stack_of:
        folder = stack_of.enter_context(_own_folder(folder_of(stack)))
        screen = stack_of.enter_context(_shown(new_screen, update))
        output = stack_of.enter_context(_files(folder)) if screen else None
        follower = Follower(folder, update, screen, previewed)
        stack_of.enter_context(_following(follower))
        command = [*command, "--event-log", str(folder / EVENTS)]
        variables = {**environment, **SWITCH, machine_lock.UNWANTED: str(folder / _UNWANTED)}
        status = session.run(command, variables, ROOT, output, follower.pressed)
    return status, update


def run_quietly(command: Sequence[str], environment: Mapping[str, str], stack: str) -> tuple[int, Update]:
    """Run a preview as an update is run, its output in files. Return the exit status and the preview's steps."""
    update = Update()
    with _own_folder(folder_of(stack) / PREVIEW) as folder:
        log = folder / EVENTS
        with _files(folder) as output:
            status = session.run(
                [*command, "--event-log", str(log)], {**environment, **SWITCH}, ROOT, output, _say_preview_ends
            )
        for event in EventLog(log).read():
            with _tolerated("the preview"):
                update.take(event)
    return status, update


def _say_preview_ends(presses: int) -> None:
    say("Stopping the preview, which has changed nothing." if presses == 1 else "Ending it now.")


def print_output(stack: str, reword: Callable[[str], str] = str) -> None:
    """Print the output of a stack's last preview to stdout and stderr, with its lines changed by `reword`."""
    folder = folder_of(stack) / PREVIEW
    for name, out in ((PRINTED, sys.stdout), (ERRORS, sys.stderr)):
        out.write(reword((folder / name).read_text(encoding="utf-8", errors="replace")))
        out.flush()


def new_screen(
    source: Source | None, known: Mapping[str, float], reword: Callable[[str], str], update: Update
) -> Screen:
    """Return a screen that shows the update and, if `source` is not None, the stack's runs."""
    from cli.stack.screen import Screen

    return Screen(update, source, known, reword=reword)


def source(target: str, stack: str, overrides: Mapping[str, str]) -> Source | None:
    """Return the source of progress for the stack's runs; None if the runs cannot be followed from this machine."""
    from cli.follow.watch import source_of

    try:
        return source_of(target, ROOT, stack, overrides)
    except (ShowError, ToolError):
        return None


def folder_of(stack: str) -> Path:
    """Return the folder for pulumi's last output for a stack, which is kept there while a screen is shown instead."""
    return STATE / "shown" / stack


def remember_set(stack: str, values: Mapping[str, str]) -> None:
    """Write the settings of the call that starts an update of the stack to a file."""
    folder = folder_of(stack)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / LAST_SET).write_text(json.dumps(dict(values)), encoding="utf-8")


def last_set(stack: str) -> dict[str, str]:
    """Return the settings of the call that started the last update of a stack; empty if they are not known."""
    try:
        values = json.loads((folder_of(stack) / LAST_SET).read_text(encoding="utf-8"))
        return {str(key): str(value) for key, value in values.items()}
    except (OSError, ValueError, AttributeError):
        return {}


@contextmanager
def _own_folder(kept: Path) -> Iterator[Path]:
    """Yield a folder for the files of one command, and keep its output in `kept` at the end.

    Two commands of one stack may run at once until pulumi refuses the second, so each writes to its own folder: the
    refused command must not empty the files of the running one.
    """
    kept.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_left(kept)
    own = Path(tempfile.mkdtemp(prefix=_OWN, dir=kept))
    with (own / _LOCK).open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield own
        finally:
            for name in (PRINTED, ERRORS):
                with suppress(FileNotFoundError):
                    (own / name).replace(kept / name)
            shutil.rmtree(own, ignore_errors=True)


def _remove_left(kept: Path) -> None:
    """Remove the folders that killed commands left. Nobody holds the lock of such a folder any more."""
    for own in kept.glob(f"{_OWN}*"):
        with suppress(OSError), (own / _LOCK).open(encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - own.stat().st_mtime > _LEFT_SECONDS:  # not one that is about to be locked
                shutil.rmtree(own, ignore_errors=True)


@contextmanager
def _files(folder: Path) -> Iterator[session.Output]:
    with (folder / PRINTED).open("wb") as printed, (folder / ERRORS).open("wb") as errors:
        yield printed, errors


@contextmanager
def _shown(new_screen: NewScreen | None, update: Update) -> Iterator[Screen | None]:
    """Yield the screen while it is shown. Yield None if there is no screen or it cannot be drawn; pulumi then draws its
    own display."""
    screen = None
    if new_screen:
        with _tolerated("the update"):
            screen = new_screen(update).__enter__()
    try:
        yield screen
    finally:
        if screen:
            with _tolerated("the update"):
                screen.__exit__(None, None, None)


@contextmanager
def _tolerated(what: str, troubles: set[str] | None = None) -> Iterator[None]:
    """Suppress an error inside the `with` block and print it, each text once, because a failing display must not end
    the update."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the update is worth more
        text = f"{type(error).__name__}: {error}"
        if text not in (troubles or ()):
            with suppress(OSError):  # the terminal itself may be gone
                say(f"{what} goes on, but can't be followed: {text}")
        if troubles is not None:
            troubles.add(text)


class Follower:
    """Reads the events and errors of an update while it runs, and shows them."""

    def __init__(
        self, folder: Path, update: Update, screen: Screen | None, previewed: Callable[[Update], None]
    ) -> None:
        self._log = EventLog(folder / EVENTS)
        self._unwanted = folder / _UNWANTED
        self._update, self._screen, self._previewed = update, screen, previewed
        self._tail: Tail | None = None
        self.is_previewed = False
        self._looked = 0.0
        self._troubles = set[str]()
        if screen:
            from cli.stack.screen import Tail

            self._tail = Tail(folder / ERRORS, screen.print)

    def pressed(self, presses: int) -> None:
        """Print an answer to Ctrl-C at once, whatever pulumi does with the signal."""
        text = self._update.stop(presses, "Ctrl-C" if session.is_in_foreground() else f"`kill -INT {os.getpid()}`")
        with self.tolerated():
            self._screen.print(text, "yellow") if self._screen else say(text)

    def tolerated(self) -> AbstractContextManager[None]:
        """Return a context manager that prints an error raised inside it, each text once, and suppresses it."""
        return _tolerated("the update", self._troubles)

    def step(self, *, is_last: bool = False) -> None:
        """Read the new events, and draw the screen, which is drawn less often than the log is read."""
        events = list(self._log.read())
        for event in events:  # all of them, before anything is shown that might fail
            with self.tolerated():
                self._update.take(event)
            if self._update.is_previewed and not self.is_previewed:  # as planned, before a step of the update
                self.is_previewed = True
                with self.tolerated():
                    self._previewed(self._update)
        if self._update.is_stopped:  # also by somebody who sent the signal to pulumi itself
            with self.tolerated():  # on a full disk, too, the rest is followed
                self._unwanted.touch()
        if not self._screen:
            return
        for event in events:
            with self.tolerated():
                self._screen.take(event)
        if is_last or time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = time.monotonic()
            if self._tail:
                self._tail.read(last=is_last)
            self._screen.tick()


@contextmanager
def _following(follower: Follower) -> Iterator[None]:
    """Follow in a thread, because signals reach the main thread, which waits for pulumi."""
    is_over = threading.Event()

    def follow() -> None:
        while True:
            was_over = is_over.wait(LOOK_SECONDS if follower.is_previewed else PLAN_SECONDS)
            with follower.tolerated():
                follower.step(is_last=was_over)
            if was_over:
                return

    thread = threading.Thread(target=follow, name="follower")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def is_on_terminal() -> bool:
    """Return whether this process may draw on its terminal."""
    return sys.stdout.isatty() and session.is_in_foreground() and os.environ.get("TERM", "dumb") != "dumb"


def may_ask(settings: str, environment: Mapping[str, str]) -> bool:
    """Return whether pulumi would ask for the passphrase of these settings, as only its own display can."""
    return "encryptionsalt:" in settings and not {
        "PULUMI_CONFIG_PASSPHRASE",
        "PULUMI_CONFIG_PASSPHRASE_FILE",
    } & set(environment)
