"""The results of a stack as they lie in results/<stack>/: found, read, ordered, chosen by name. Writes nothing."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from compare.measurement import CompareError
from compare.schema import Comparison
from report import source
from report.errors import HistoryError

COMPARISON, PAGE = "comparison.json", "report.html"
LATEST = "latest"

_FOLDER = re.compile(r"(?P<time>\d{8}T\d{6}Z)-(?P<recipe>[0-9a-f]{8})(?:\.(?P<edition>\d+))?")


@dataclass(frozen=True)
class Stored:
    """One published result."""

    folder: Path
    comparison: Comparison
    measured_at: datetime
    """UTC start of its newest run."""
    recipe: str
    """The recipe's digest."""
    commit: str | None
    edition: int = 1

    @property
    def name(self) -> str:
        """The folder's name, which is how people choose it."""
        return self.folder.name


def newest_start(comparison: Comparison) -> datetime | None:
    """Return when the newest run started, in UTC; None without runs."""
    started = [datetime.fromisoformat(run.started_at) for arm in comparison.arms.values() for run in arm.runs]
    return max(started).astimezone(UTC) if started else None


def stored_results(project: Path, stack: str) -> tuple[list[Stored], list[str]]:
    """The results of a stack, oldest first, and a line for each folder that can't be read."""
    results, problems = [], []
    for folder in (project / "results" / stack).glob("*/"):
        parts = _FOLDER.fullmatch(folder.name)
        if parts is None or folder.is_symlink():
            continue
        try:
            results.append(_read(folder, parts))
        except (CompareError, OSError) as error:
            problems.append(f"{folder.name} is left out: {error}")
    return sorted(results, key=lambda result: (result.measured_at, result.edition)), sorted(problems)


def choose(results: list[Stored], wanted: str, stack: str) -> Stored:
    """The result of a number in the list, of `latest`, or of the beginning of a name; HistoryError that lists them."""
    if wanted == LATEST and results:
        return results[-1]
    if wanted.isascii() and wanted.isdigit() and 1 <= int(wanted) <= len(results):
        return results[int(wanted) - 1]
    matching = [result for result in results if result.name == wanted] or [
        result for result in results if result.name.startswith(wanted)
    ]
    if len(matching) == 1:
        return matching[0]
    names = "".join(f"\n  {number}  {result.name}" for number, result in enumerate(results, start=1)) or " none"
    what = "several results of that name" if matching else "no such result"
    raise HistoryError(f"{wanted!r}: {what}. Stack {stack} has, by number and name:{names}")


def _read(folder: Path, parts: re.Match[str]) -> Stored:
    return Stored(
        folder=folder,
        comparison=Comparison.from_json((folder / COMPARISON).read_text(encoding="utf-8")),
        measured_at=datetime.strptime(parts["time"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC),
        recipe=parts["recipe"],
        commit=source.read(folder),
        edition=int(parts["edition"] or 1),
    )
