"""`make watch`: follows a running update from another terminal. It only reads: what it shows, it cannot disturb."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.live import Live

from report import terminal
from report.errors import ShowError
from tools.follow.source import LocalSource, Source
from tools.follow.view import Board
from tools.setup.project import CLUSTER_TARGETS

POLL_SECONDS = 1.0


def _cluster(project: Path, stack: str) -> Source:
    from tools.follow.cluster import ClusterSource  # with packages that `local` does without
    from tools.stack import config as stack_config

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


def _draw(source: Source, stack: str, console: Console) -> None:
    board = Board()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            board.take(source.poll())
            over = source.is_over()
            live.update(board.render(_status(board, source, stack, over=over)), refresh=True)
            if over:
                return
            time.sleep(POLL_SECONDS)


def _print(source: Source, stack: str) -> None:
    board, said = Board(), ("", True)
    while True:
        for line in board.take(source.poll()):
            terminal.write(line)
        over = source.is_over()
        news = (source.trouble, board.is_running)
        if over or (news != said and (source.trouble or not board.is_running)):
            terminal.write(_status(board, source, stack, over=over))
        said = news
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
