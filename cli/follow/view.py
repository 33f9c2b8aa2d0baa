"""Live progress as it is shown: a table drawn again and again on a terminal, plain lines elsewhere. Reads nothing."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cli.follow.source import News
from training.contract.progress import describe, epoch_of

_STYLES = {"running": "bold cyan", "finished": "green", "failed": "bold red", "interrupted": "yellow"}


@dataclass
class RunView:
    """The last known state of a run."""

    run: str
    state: str = "running"
    log: str = ""
    start: dict[str, Any] = field(default_factory=dict)
    epoch: dict[str, Any] = field(default_factory=dict)
    note: str = ""


class Board:
    """The last known states of all runs of the measurement."""

    def __init__(self) -> None:
        self._views: dict[str, RunView] = {}

    def take(self, news: Iterable[News]) -> list[str]:
        """Update the runs' states from news, and return the lines to print if there is no terminal."""
        lines: list[str] = []
        news = list(news)
        if not self._views.keys() <= {update.key for update in news}:
            self._views.clear()  # another measurement has begun
        for update in news:
            lines += self._take_one(update)
        return lines

    def _take_one(self, update: News) -> list[str]:
        view = self._views.setdefault(update.key, RunView(update.run))
        lines = [f"{update.run}: {describe(event)}" for event in update.events]
        for event in update.events:
            if event.get("event") in ("note", "line"):
                view.note = describe(event)
            elif event.get("event") in ("start", "epoch"):
                setattr(view, str(event["event"]), event)
            elif event.get("event") == "steps":
                view.epoch = event | {"epoch": epoch_of(event)}
        if update.state not in (view.state, "running"):
            lines.append(f"{update.run}: {update.state}" + (f", see {update.log}" if update.state == "failed" else ""))
        view.state, view.log = update.state, update.log
        return lines

    def render(self, status: str, most_rows: int | None = None) -> RenderableType:
        """Return the table of runs, the newest if there is no room for all, with a line below it that says what is
        going on. `most_rows`: lines for runs and remarks about them; None if there is room for all."""
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
        for title in ("run", "", "epoch", "loss", "accuracy", "validation", "images/s", "left"):
            table.add_column(title, justify="left" if title in ("run", "") else "right", no_wrap=True)
        views = list(self._views.values())
        room = len(views) if most_rows is None else max(1, most_rows - len(self._remarks()))
        for view in views[-room:]:
            table.add_row(*_row(view))
        lines = [Text(text, style="red" if failed else "dim", overflow="fold") for text, failed in self._remarks()]
        return Group(table, *lines, Text(status, style="dim"))

    def _remarks(self) -> list[tuple[str, bool]]:
        failed = [
            (f"{view.run} failed: see {view.log}", True) for view in self._views.values() if view.state == "failed"
        ]
        running = [view for view in self._views.values() if view.state == "running" and view.note]
        return failed + [(f"{view.run}: {view.note}", False) for view in running]

    @property
    def has_runs(self) -> bool:
        """Return whether any run is known."""
        return bool(self._views)

    @property
    def is_running(self) -> bool:
        """Return whether any run is still running."""
        return any(view.state == "running" for view in self._views.values())


def _row(view: RunView) -> list[RenderableType]:
    done, total = _how_far(view)
    bar = ProgressBar(total=total or 1, completed=done if total else 0, width=12, pulse=_is_pulsing(view, total))
    return [
        Text(view.run, style=_STYLES[view.state]),
        bar,
        _epoch(view),
        *(_number(view.epoch.get(key), form) for key, form in _COLUMNS),
        _left(view),
    ]


def _how_far(view: RunView) -> tuple[int, int | None]:
    """Return how far a run is, and the total, or None if that is not known; in steps for a script, else in epochs."""
    if "step" in view.epoch:
        return view.epoch["step"], view.epoch.get("steps")
    return view.epoch.get("epoch", 0), view.epoch.get("epochs") or view.start.get("epochs")


def _is_pulsing(view: RunView, total: int | None) -> bool:
    return view.state == "running" and (not view.epoch or not total)


def _epoch(view: RunView) -> str:
    epoch, epochs = view.epoch.get("epoch") or 0, view.epoch.get("epochs") or view.start.get("epochs")
    if epochs:
        return f"{epoch}/{epochs}"
    if "step" in view.epoch:
        return str(epoch) if epoch else f"step {view.epoch['step']}"
    return "starting" if view.state == "running" else "–"


_COLUMNS = (("loss", ".4f"), ("accuracy", ".3f"), ("validationAccuracy", ".3f"), ("imagesPerSecond", ",.0f"))


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _left(view: RunView) -> str:
    if view.state != "running":
        return view.state
    seconds = view.epoch.get("secondsLeft")
    return "" if seconds is None else f"{seconds:.0f} s"
