"""The results of a stack as they lie in results/<stack>/: found, read, ordered, chosen by name. Writes nothing.

With the commit that a measurement was made from, as git tells it at publishing.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cli.setup.project import SWEEP_PREFIX
from compare.measurement import CompareError
from compare.schema import Comparison
from report.errors import HistoryError
from training.contract import provenance
from training.contract.arms import ARMS
from training.machine.command_line import rwi

COMPARISON, PAGE = "comparison.json", "report.html"
LATEST = "latest"

_FOLDER = re.compile(r"(?P<time>\d{8}T\d{6}Z)-(?P<recipe>[0-9a-f]{8})(?:\.(?P<edition>\d+))?")
SOURCE = "source.json"


@dataclass(frozen=True)
class Stored:
    """A published result, as its folder holds it."""

    folder: Path
    comparison: Comparison
    measured_at: datetime
    """Start of the newest run, in UTC."""
    recipe: str
    """Digest of the recipe."""
    commit: str | None
    edition: int = 1

    @property
    def name(self) -> str:
        """Return the name of the result's folder, by which users choose the result."""
        return self.folder.name


def newest_start(comparison: Comparison) -> datetime | None:
    """Return when the newest run started, in UTC; None without runs."""
    started = [datetime.fromisoformat(run.started_at) for arm in comparison.arms.values() for run in arm.runs]
    return max(started).astimezone(UTC) if started else None


def stored_results(project: Path, stack: str) -> tuple[list[Stored], list[str]]:
    """Return the results of a stack, oldest first, and a line for each folder that can't be read."""
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
    """Return the result that `wanted` names: a number in the list, `latest`, or the beginning of a folder's name.
    Raises HistoryError, which lists the results, if no result or several results match."""
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
        commit=_commit_of(folder),
        edition=int(parts["edition"] or 1),
    )


def described_source(comparison: Comparison, project: Path) -> str | None:
    """Return the text of `source.json`; None without git, or if the code has changed since the runs."""
    if not _is_code_of(comparison, project):
        return None
    commit = _git(project, "rev-parse", "HEAD")
    changes = _git(project, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return json.dumps({"commit": commit, "modified": bool(changes)}) + "\n"


def _commit_of(folder: Path) -> str | None:
    """Return the short hash of a result's commit, with a + if files differed from it; None if none was recorded."""
    try:
        source = json.loads((folder / SOURCE).read_text(encoding="utf-8"))
        return str(source["commit"])[:7] + ("+" if source["modified"] else "")
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_code_of(comparison: Comparison, project: Path) -> bool:
    """Return whether the runs were made with the code that is now checked out. `rwi report open` may publish a
    measurement long after the runs, and the commit may be another one by then."""
    return all(
        arm in ARMS and summary.provenance.code_hash == provenance.code_hash(arm, comparison.workload, project)
        for arm, summary in comparison.arms.items()
    )


def _git(project: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=project, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def publish_again(folder: Path, stack: str) -> str:
    """Return the command that publishes the result in `folder` again. For a sweep it reads the comparison from the
    folder, because the sweep's stack no longer exists."""
    if stack.startswith(SWEEP_PREFIX):
        return f"{sys.executable} -m report publish --stack {stack} < {folder / COMPARISON}"
    return rwi("report open", stack)
