"""`make watch`: follows a running update from another terminal. It only reads: what it shows, it cannot disturb."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.live import Live

from report import terminal
from report.errors import ShowError
from tools.follow.source import LocalSource, News, Source
from tools.follow.view import Board
from tools.setup.project import CLUSTER_TARGETS
from tools.stack import config as stack_config

POLL_SECONDS = 1.0


def _cluster(project: Path, stack: str) -> Source:
    from tools.follow.cluster import ClusterSource  # with packages that `local` does without

    return ClusterSource(project, stack, stack_config.parse_overrides(os.environ.get("SET", "")))


SOURCES: dict[str, Callable[[Path, str], Source]] = {
    **dict.fromkeys(("local", "ray"), LocalSource),  # of a job a process here writes the log and the progress
    **dict.fromkeys(CLUSTER_TARGETS, _cluster),
}
"""How the runs of a target are followed: made from the project's folder and the stack's name."""


def source_of(target: str, project: Path, stack: str) -> Source:
    """The source for a target; ShowError for one that has none."""
    if target not in SOURCES:
        raise ShowError(
            f"the runs of stack {stack} (target {target}) can't be followed here. "
            f"Their logs: `kubectl get jobs`, then `kubectl logs --follow job/…`. Followed: {', '.join(SOURCES)}"
        )
    return SOURCES[target](project, stack)


def watch(source: Source, stack: str, console: Console | None = None) -> None:
    """Show news until the measurement is over: a table on a terminal, else a line for each."""
    console = console or Console()
    if console.is_terminal:
        _draw(source, stack, console)
    else:
        _print(source, stack)


class _Current:
    """The news from the first run that goes on: what ended before is shown only with the measurement it belongs to."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._ended: dict[str, News] | None = None

    def poll(self) -> tuple[list[News], bool]:
        """Return the news, and whether the measurement is over."""
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


def _joined(earlier: News | None, later: News) -> News:
    return replace(later, events=[*earlier.events, *later.events]) if earlier else later


def _draw(source: Source, stack: str, console: Console) -> None:
    board, current = Board(), _Current(source)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            news, over = current.poll()
            board.take(news)
            live.update(board.render(_status(board, source, stack, over=over)), refresh=True)
            if over:
                return
            time.sleep(POLL_SECONDS)


def _print(source: Source, stack: str) -> None:
    board, current, printed_state = Board(), _Current(source), ("", True)
    while True:
        news, over = current.poll()
        for line in board.take(news):
            terminal.write(line)
        state = (source.trouble, board.is_running)
        if over or (state != printed_state and (source.trouble or not board.is_running)):
            terminal.write(_status(board, source, stack, over=over))
        printed_state = state
        sys.stdout.flush()
        if over:
            return
        time.sleep(POLL_SECONDS)


def _status(board: Board, source: Source, stack: str, *, over: bool) -> str:
    if source.trouble and not over:
        return f"stack {stack}: {source.trouble}\nIt is asked again and again (Ctrl-C ends watching, and nothing else)"
    if over:
        return f"stack {stack}: this measurement is over. `STACK={stack} make outputs` shows the comparison"
    going = "follows the runs" if board.is_running else "no run is going on; waiting for the next"
    return f"stack {stack}: {going} (Ctrl-C ends watching, and nothing else)"
