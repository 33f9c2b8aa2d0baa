"""`rwi status --watch`: follows a running update from another terminal. It only reads."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.live import Live

from cli.follow.source import LocalSource, News, Source
from cli.follow.view import Board
from cli.setup.project import CLUSTER_TARGETS, ROOT, SWEEP_PREFIX, project_name, stack_text, target_of
from cli.stack import environment, state
from report import terminal
from report.errors import ShowError
from training.machine.command_line import rwi

POLL_SECONDS = 1.0
START_SECONDS = 20.0
"""Seconds for an update to start, because a user may type the watching command before the update."""
BETWEEN_SECONDS = 600.0
"""Seconds for the next run to start if only the backend knows whether an update is running. The cluster may wait for
nodes or an image."""
NOTHING_TO_FOLLOW = 3
"""Exit status if there is neither a run in progress nor an update."""


def _local(project: Path, stack: str, _: Mapping[str, str]) -> Source:
    return LocalSource(project, stack)


def _cluster(project: Path, stack: str, overrides: Mapping[str, str]) -> Source:
    from cli.follow.cluster import ClusterSource  # with packages that `local` does without

    return ClusterSource(project, stack, overrides)


SOURCES: dict[str, Callable[[Path, str, Mapping[str, str]], Source]] = {
    **dict.fromkeys(("local", "ray"), _local),  # of a job a process here writes the log and the progress
    **dict.fromkeys(CLUSTER_TARGETS, _cluster),
}
"""By target, the function that makes the source of progress from the project's folder, the stack's name and the
settings of the call."""


def follow(stack: str, overrides: Mapping[str, str]) -> int:
    """Follow a stack's update, and return the exit status. A sweep's stack is followed with the settings of the stack
    it was made from."""
    target = target_of(stack_text(stack.removeprefix(SWEEP_PREFIX)))
    return watch(source_of(target, ROOT, stack, overrides), stack, is_updating=lambda: is_updating(stack))


def source_of(target: str, project: Path, stack: str, overrides: Mapping[str, str]) -> Source:
    """Return the source of progress for a target. Raise ShowError if the target's runs cannot be followed."""
    if target not in SOURCES:
        raise ShowError(
            f"the runs of stack {stack} (target {target}) can't be followed here. "
            f"Their logs: `kubectl get jobs`, then `kubectl logs --follow job/…`. Followed: {', '.join(SOURCES)}"
        )
    return SOURCES[target](project, stack, overrides)


def watch(
    source: Source,
    stack: str,
    console: Console | None = None,
    is_updating: Callable[[], bool | None] = lambda: None,
) -> int:
    """Show news until the measurement is over, in a table on a terminal, else as a line for each event. Return the exit
    status.

    `console` is stdout if it is None. `is_updating` returns whether an update of the stack runs here; None if that is
    not known.
    """
    console = console or Console()
    current = _Current(source, is_updating)
    (_draw if console.is_terminal else _print)(current, source, stack, console)
    return NOTHING_TO_FOLLOW if current.end == "idle" else 0


def is_updating(stack: str) -> bool | None:
    """Return whether pulumi is working on the stack on this machine; None if only the backend knows."""
    backend = environment.file_backend()
    return None if backend is None else state.running(backend, project_name(), stack) is not None


class _Current:
    """The news of the measurement in progress. Runs that ended earlier are shown only if they belong to it."""

    def __init__(self, source: Source, is_updating: Callable[[], bool | None]) -> None:
        self._source, self._is_updating = source, is_updating
        self._ended: dict[str, News] | None = None
        self._idle_since = time.monotonic()
        self.end: Literal["", "over", "idle"] = ""
        """How watching has ended: the measurement is over, or nothing is there to follow."""

    def polls(self) -> Iterator[list[News]]:
        """Yield the news repeatedly. `end` is set before the last ones."""
        while True:
            news, over = self._poll()
            running = any(run.state == "running" for run in news)
            self.end = "over" if over else "idle" if self._is_idle(running=running) else ""
            yield news
            if self.end:
                return
            time.sleep(POLL_SECONDS)

    def _poll(self) -> tuple[list[News], bool]:
        news, over = self._source.poll(), self._source.is_over()
        is_first = self._ended is None
        if self._ended is None:
            self._ended = {run.key: run for run in news}
        if not over and all(run.key in self._ended and run.state != "running" for run in news):
            return [], over
        if not is_first:
            news = [_joined(self._ended.get(run.key), run) for run in news]
        self._ended = {}
        return news, over

    def _is_idle(self, *, running: bool) -> bool:
        """Return whether, for long enough, there was neither a run in progress nor an update that may start one."""
        now = time.monotonic()
        if running:
            self._idle_since = now
            return False
        if now - self._idle_since < START_SECONDS:
            return False
        updating = self._is_updating()
        if updating:
            self._idle_since = now
            return False
        patience = BETWEEN_SECONDS if updating is None else START_SECONDS
        return now - self._idle_since >= patience


def _joined(earlier: News | None, later: News) -> News:
    return replace(later, events=[*earlier.events, *later.events]) if earlier else later


def _draw(current: _Current, source: Source, stack: str, console: Console) -> None:
    board = Board()
    with Live(console=console, auto_refresh=False) as live:
        for news in current.polls():
            board.take(news)
            live.update(board.render(_status(board, current, source, stack)), refresh=True)


def _print(current: _Current, source: Source, stack: str, _: Console) -> None:
    board, printed_state = Board(), ("", "", True)
    for news in current.polls():
        for line in board.take(news):
            terminal.write(line)
        state_now = (source.trouble, source.waits_for, board.is_running)
        if current.end or (state_now != printed_state and (source.trouble or not board.is_running)):
            terminal.write(_status(board, current, source, stack))
        printed_state = state_now
        sys.stdout.flush()


def _status(board: Board, current: _Current, source: Source, stack: str) -> str:
    if current.end == "over":
        return f"stack {stack}: this measurement is over. `{rwi('outputs', stack)}` shows the comparison"
    if current.end == "idle":
        why = f"\n{source.trouble}" if source.trouble else ""
        return (
            f"stack {stack}: there is nothing to follow: no run is going on, and no update that would start one.{why}\n"
            f"  to start one, in another terminal:  {rwi('up', stack)}\n"
            f"  to see what the last one measured:  {rwi('outputs', stack)}"
        )
    if source.trouble:
        return f"stack {stack}: {source.trouble}\nIt is asked again and again (Ctrl-C ends watching, and nothing else)"
    waiting = ": ".join(filter(None, ["no run is going on; waiting for the next", source.waits_for]))
    going = "follows the runs" if board.is_running else waiting
    return f"stack {stack}: {going} (Ctrl-C ends watching, and nothing else)"
