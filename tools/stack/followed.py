"""Runs a pulumi command that runs the program, and follows its events: on a terminal with a screen of its own.

Whatever goes wrong in following it is said, and changes nothing of the command: it ends as if nobody had followed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tools.setup.project import ROOT, STATE, ToolError, say
from tools.stack import session
from tools.stack.update import SWITCH, EventLog, Update

if TYPE_CHECKING:
    from tools.stack.screen import Screen

LOOK_SECONDS = 0.3
"""Between two looks at the log of events."""
PLAN_SECONDS = 0.02
"""Likewise until the preview has ended: the update that follows overwrites its log at once. No run is there yet."""
PRINTED, ERRORS, EVENTS = "printed.txt", "errors.txt", "events.json"
PREVIEW = "preview"
"""The folder of a preview, which takes no lock: beside an update it would empty the files that are followed."""

NewScreen = Callable[[Update], "Screen"]


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    stack: str,
    *,
    new_screen: NewScreen | None = None,
    previewed: Callable[[Update], None] = lambda _: None,
) -> tuple[int, Update]:
    """The command's exit status, and what it did.

    Args:
        command: A command of pulumi that takes `--event-log`.
        environment: Its environment.
        stack: Name of the stack.
        new_screen: Makes what a terminal shows instead of pulumi's own display; None: that.
        previewed: Called once, when the preview before an update has ended.
    """
    folder = folder_of(stack)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in (PRINTED, ERRORS, EVENTS):
        (folder / name).unlink(missing_ok=True)
    update = Update()
    command = [*command, "--event-log", str(folder / EVENTS)]
    with ExitStack() as stack_of:
        screen = stack_of.enter_context(_shown(new_screen, update))
        output = stack_of.enter_context(_files(folder)) if screen else None
        stack_of.enter_context(_following(Follower(folder, update, screen, previewed)))
        status = session.run(command, {**environment, **SWITCH}, ROOT, output)
    (folder / EVENTS).unlink(missing_ok=True)
    return status, update


def run_quietly(command: Sequence[str], environment: Mapping[str, str], stack: str) -> tuple[int, Update]:
    """Run a preview like an update; its output stays in files of its own."""
    folder = folder_of(stack) / PREVIEW
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    update, log = Update(), folder / EVENTS
    log.unlink(missing_ok=True)
    with _files(folder) as output:
        status = session.run([*command, "--event-log", str(log)], {**environment, **SWITCH}, ROOT, output)
    for event in EventLog(log).read():
        with _tolerated("the preview"):
            update.take(event)
    log.unlink(missing_ok=True)
    return status, update


def print_output(stack: str) -> None:
    """Print the output of a stack's last preview, to stdout and stderr."""
    folder = folder_of(stack) / PREVIEW
    for name, out in ((PRINTED, sys.stdout), (ERRORS, sys.stderr)):
        out.write((folder / name).read_text(encoding="utf-8", errors="replace"))
        out.flush()


def new_screen(target: str, stack: str, known: Mapping[str, float], update: Update) -> Screen:
    """A screen with the runs of the stack, without them where they can't be followed from here."""
    from report.errors import ShowError
    from tools.follow.watch import source_of
    from tools.stack.screen import Screen

    try:
        source = source_of(target, ROOT, stack)
    except (ShowError, ToolError):
        source = None
    return Screen(update, source, known)


def folder_of(stack: str) -> Path:
    """Return the folder with pulumi's last output of a stack, if a screen was shown instead of it."""
    return STATE / "shown" / stack


@contextmanager
def _files(folder: Path) -> Iterator[session.Output]:
    with (folder / PRINTED).open("wb") as printed, (folder / ERRORS).open("wb") as errors:
        yield printed, errors


@contextmanager
def _shown(new_screen: NewScreen | None, update: Update) -> Iterator[Screen | None]:
    """Yield the screen while it is shown; None if there is none or it can't be drawn: then pulumi draws its own."""
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
    """Print what went wrong, each text once, and go on: a display that fails must end no update."""
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
    """Reads events and errors as they come, for as long as it is wanted."""

    def __init__(
        self, folder: Path, update: Update, screen: Screen | None, previewed: Callable[[Update], None]
    ) -> None:
        self._log = EventLog(folder / EVENTS)
        self._update, self._screen, self._previewed = update, screen, previewed
        self._tail: Callable[[], None] = lambda: None
        self.is_previewed = False
        self._troubles = set[str]()
        if screen:
            from tools.stack.screen import Tail

            self._tail = Tail(folder / ERRORS, screen.print).read

    def tolerated(self) -> AbstractContextManager[None]:
        """Print what goes wrong in it once, and go on."""
        return _tolerated("the update", self._troubles)

    def step(self) -> None:
        """Take what is new."""
        events = list(self._log.read())
        for event in events:  # all of them, before anything is shown that might fail
            with self.tolerated():
                self._update.take(event)
            if self._update.is_previewed and not self.is_previewed:  # as planned, before a step of the update
                self.is_previewed = True
                with self.tolerated():
                    self._previewed(self._update)
        if self._screen:
            for event in events:
                with self.tolerated():
                    self._screen.take(event)
        self._tail()
        if self._screen:
            self._screen.tick()


@contextmanager
def _following(follower: Follower) -> Iterator[None]:
    """Follow in a thread, because signals reach the main thread, which waits for pulumi."""
    is_over = threading.Event()

    def follow() -> None:
        while True:
            was_over = is_over.wait(LOOK_SECONDS if follower.is_previewed else PLAN_SECONDS)
            with follower.tolerated():
                follower.step()
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
    """Return whether pulumi would ask for the passphrase of these settings, which only its own display can."""
    return "encryptionsalt:" in settings and not {
        "PULUMI_CONFIG_PASSPHRASE",
        "PULUMI_CONFIG_PASSPHRASE_FILE",
    } & set(environment)
