"""The display of a terminal while pulumi updates a stack: the runs as in `rwi status --watch`, and what else happens.

pulumi's own display is used if it may ask something, and without a terminal. Otherwise its output goes to files next to
its log of events, so that pulumi never waits for a reader, even if this process is killed.
"""

from __future__ import annotations

import sys
import termios
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from cli.follow.view import Board
from cli.setup.project import printable
from cli.stack.remaining import Remaining, in_words
from cli.stack.update import Event, Update, is_stop, plain
from compare.words import duration
from training.machine import output

if TYPE_CHECKING:
    from cli.follow.source import News, Source, State

DRAW_SECONDS = 1.0
"""Seconds between two looks at the runs. Each look takes some milliseconds of a CPU that a run may need."""
HINT = "Ctrl-C finishes this run, keeps it and stops; pressed twice, it ends the run now"
HINT_WAITING = "Ctrl-C stops at once: this run has not begun"
STYLES = {"error": "red", "warning": "yellow"}
_DONE = {"create": "created", "delete": "deleted", "update": "updated", "replace": "replaced", "read": "read"}
_OWN = ("pulumi:pulumi:Stack", "pulumi:providers:")


class Screen:
    """Draws an update's progress on a terminal, from entering to leaving the `with` block."""

    def __init__(
        self,
        update: Update,
        source: Source | None,
        known: Mapping[str, float],
        console: Console | None = None,
        reword: Callable[[str], str] = str,
    ) -> None:
        self._reword = reword
        self._update, self._source, self._board = update, source, Board()
        self._console = console or Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
        self._old = {news.key for news in source.poll()} if source else set()
        self._drawn = 0.0
        self._steps: dict[str, float] = {}
        self._printed: set[str] = set()
        self._note = ""
        self._modes: list[Any] | None = None
        self._remaining = Remaining(known)

    def __enter__(self) -> Screen:
        self._modes = _without_echo()
        try:
            self._live.start()
            self.draw()
        except Exception:
            self._restore()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.draw(is_over=True)
        finally:
            self._restore()

    def _restore(self) -> None:
        """Restore the terminal's cursor and echo, even if drawing failed."""
        try:
            self._live.stop()
        finally:
            if self._modes:
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._modes)

    def take(self, event: Event) -> None:
        """Print those parts of an event that remain visible, above the table."""
        self._remaining.follow(self._update, time.monotonic())
        for text, style in self._lines(event):
            self.print(text, style)

    def print(self, text: str, style: str = "") -> None:
        """Print a line above the table; the line scrolls away with earlier lines."""
        self._console.print(Text(printable(self._reword(text)), style=style))

    def tick(self) -> None:
        """Draw the table again if enough time has passed since the last drawing."""
        if time.monotonic() - self._drawn >= DRAW_SECONDS:
            self.draw()

    def draw(self, *, is_over: bool = False) -> None:
        """Draw the table with the present state of the runs."""
        self._drawn = time.monotonic()
        if self._update.is_waiting:
            self._remaining.wait(self._update.current, self._drawn)
        self._board.take(self._news(is_over=is_over))
        status = [] if is_over else self._status()
        rows = self._console.size.height - len(status) - 4
        table = self._board.render("\n".join(status), rows)
        self._live.update(table if self._board.has_runs else Group(*map(Text, status)), refresh=True)

    def _news(self, *, is_over: bool) -> list[News]:
        """Return the news of the runs that this update started, without runs that are kept or belong to another update.
        At the end, a run that pulumi did not complete is failed or interrupted, whatever its files say."""
        if not self._source:
            return []
        news = [each for each in self._source.poll() if each.key not in self._old]
        return [replace(each, state=self._state(each, is_over=is_over)) for each in news]

    def _state(self, news: News, *, is_over: bool) -> State:
        """Return the state of a run; `interrupted` or `failed` if pulumi ended the run or gave it up."""
        update = self._update
        is_lost = news.run == update.current and (is_over or news.state == "failed")
        if not is_lost:
            return news.state
        is_ended = update.is_stopped and (is_over or update.presses > 1 or update.is_waiting)
        return "interrupted" if is_ended else "failed"

    def _lines(self, event: Event) -> Iterator[tuple[str, str]]:
        """Yield the messages of an event that do not concern runs, each text once."""
        for text, style in _texts(event, self._update, follows_runs=self._source is not None):
            if text and text not in self._printed and not (self._update.presses and is_stop(text)):
                self._printed.add(text)
                yield text, style
        if diagnostic := event.get("diagnosticEvent"):
            self._note = plain(diagnostic["message"]) if diagnostic.get("ephemeral") else self._note
        if progress := event.get("progressEvent"):
            self._note = "" if progress.get("done") else plain(progress["message"])
        yield from self._steps_of(event)

    def _steps_of(self, event: Event) -> Iterator[tuple[str, str]]:
        """Yield a line for each other resource and its duration: a cluster, its operator, an image."""
        start = event.get("resourcePreEvent")
        step = start or event.get("resOutputsEvent")
        if not step or step.get("planning") or not _is_shown(step["metadata"], self._update):
            return
        name, operation = step["metadata"]["urn"].rpartition("::")[2], step["metadata"]["op"]
        if start:
            self._steps[name] = time.monotonic()
        elif name in self._steps:
            seconds = time.monotonic() - self._steps.pop(name)
            yield f"{_DONE.get(operation, operation)} {name} ({seconds:.0f} s)", ""

    def _status(self) -> list[str]:
        update, now = self._update, time.monotonic()
        if update.presses > 1:
            return ["ends now"]
        if update.is_stopped and (update.is_waiting or not update.current):
            return ["stops"]
        if not update.is_previewed:
            return ["looks at what there is to do" + (f": {self._note}" if self._note else "")]
        if update.current and update.to_make:
            number = 1 + sum(run in update.kept for run in update.to_make)
            left = self._remaining.seconds(update, now)
            until = "from when it has the machine" if update.is_waiting else "left"
            about = f", {in_words(left)} {until}" if left is not None else ""
            if expected := self._remaining.overdue(update.current, now):
                about = f", longer than the {duration(expected)} that were expected"
            note = [self._source.trouble] if self._source and self._source.trouble else []
            if update.is_stopped:
                return [f"stops when {update.current} has ended", *note, "Ctrl-C once more ends it now, and loses it"]
            hint = HINT_WAITING if update.is_waiting else HINT
            return [f"run {number} of {len(update.to_make)}: {update.current}{about}", *note, hint]
        steps = [f"{name} ({now - started:.0f} s)" for name, started in self._steps.items()]
        return [f"works on {', '.join(steps)}" if steps else "works", *([self._note] if self._note else [])]


def _without_echo() -> list[Any] | None:
    """Switch off the terminal's echo, so that typed text does not move the table. Return the terminal modes to restore,
    or None if there is no terminal."""
    try:
        modes = termios.tcgetattr(sys.stdin)
    except (termios.error, OSError, ValueError):
        return None
    local_modes = 3
    quiet = [*modes[:local_modes], modes[local_modes] & ~termios.ECHO, *modes[local_modes + 1 :]]
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
    return modes


def _is_shown(metadata: Mapping[str, object], update: Update) -> bool:
    """Return whether a step gets a line on the screen: its resource is a real one, changes, and is not a run."""
    name, kind = str(metadata["urn"]).rpartition("::")[2], str(metadata["type"])
    custom = any((metadata.get(state) or {}).get("custom") for state in ("new", "old"))  # type: ignore[attr-defined]
    is_run = name.removesuffix("-result") in update.planned
    return bool(custom) and not is_run and metadata["op"] != "same" and not kind.startswith(_OWN)


def _texts(event: Event, update: Update, *, follows_runs: bool) -> Iterator[tuple[str, str]]:
    if diagnostic := event.get("diagnosticEvent"):
        text, severity = plain(diagnostic["message"]), diagnostic.get("severity", "")
        is_of_run = follows_runs and severity == "info" and text.partition(": ")[0] in update.planned
        if not diagnostic.get("ephemeral") and not is_of_run:
            yield (
                plain(diagnostic.get("prefix") or "") + (" " if diagnostic.get("prefix") else "") + text,
                STYLES.get(severity, ""),
            )
    for name in ("stdoutEvent", "policyEvent", "errorEvent"):
        if payload := event.get(name):
            yield plain(payload.get("message") or payload.get("error") or ""), "yellow"
    progress = event.get("progressEvent") or {}
    if progress.get("done"):
        yield plain(progress["message"]), ""


class Tail:
    """Reads the lines that were appended to a file since the last read."""

    def __init__(self, path: Path, hand_on: Callable[[str], None]) -> None:
        self._path, self._hand_on, self._offset = path, hand_on, 0
        self._lines = output.Lines()

    def read(self, *, last: bool = False) -> None:
        """Pass on the new complete lines; with `last` also the incomplete rest."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for chunk in output.chunks(file):
                self._offset += len(chunk)
                self._pass_on(self._lines.take(chunk))
        if last:
            self._pass_on(self._lines.rest())

    def _pass_on(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._hand_on(line.decode(errors="replace").rstrip("\r\n"))
