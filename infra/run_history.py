"""Collects how long a stack's runs take: from its own earlier runs, and from `rwi try` of the same script.

Reads files of this machine, and contacts no cluster. A file that cannot be read is skipped.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from infra import estimate
from infra.estimate import Wanted
from infra.settings.key import LOCAL
from infra.settings.settings import Settings
from training.contract import result, timed
from training.contract.arms import counted
from training.contract.codec import ResultError
from training.contract.provenance import PROJECT
from training.contract.timed import Timed
from training.machine.command_line import rwi

NEWEST = 60
"""The number of a stack's newest runs that are read."""


@dataclass(frozen=True, kw_only=True)
class Basis:
    """The runs that an estimate is based on."""

    runs: tuple[Timed, ...]
    words: str
    """A description of these runs for users."""


def known(settings: Settings, request: Wanted, project: Path = PROJECT) -> Basis:
    """Return the stack's own runs if they cover every side, else those of `rwi try` if they do, else both."""
    own = [each for each in _of_stack(project / "runs" / settings.stack) if _is_of(each, request)]
    tried = [each for each in _tried(project / ".state" / "tried") if _is_of(each, request)]
    if not tried or not estimate.missing(request, own):
        return Basis(runs=tuple(own), words=_own_words(own))
    here = "" if settings.target in LOCAL else "; on this machine, whose CPUs are not the cluster's, and without pods"
    words = f"what `{rwi('try')}` took at {_time(tried)}, one run of each arm{here}"
    if not estimate.missing(request, tried):
        return Basis(runs=tuple(tried), words=words)
    return Basis(runs=(*own, *tried), words=" and ".join(part for part in (_own_words(own), words) if part))


def _own_words(own: list[Timed]) -> str:
    return f"{counted(len(own), 'run')} of this stack, the newest of {_time(own)}" if own else ""


def _time(runs: list[Timed]) -> str:
    newest = max(each.began for each in runs)
    return f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d %H:%M} UTC"


def _is_of(each: Timed, request: Wanted) -> bool:
    """Return whether a run has the same workload as the measurement, and the same script if it has a script."""
    own = request.recipe.to_dict()
    files = [_path(recipe.get("script", "")) for recipe in (each.recipe, own)]
    return each.recipe["workload"] == own["workload"] and files[0] == files[1]


def _path(text: str) -> str:
    return os.path.normpath(PROJECT / Path(text).expanduser())


def _of_stack(folder: Path) -> Iterator[Timed]:
    files = sorted(folder.glob(f"*/{result.NAME}"), key=lambda path: path.stat().st_mtime)
    for path in files[-NEWEST:]:
        try:
            training_result = result.read(path)
        except ResultError:
            continue  # of another version
        yield timed.of_result(training_result, datetime.fromisoformat(training_result.started_at).timestamp())


def _tried(folder: Path) -> Iterator[Timed]:
    for path in folder.glob("*.json"):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            yield from [timed.from_dict(each) for each in data]
        except (OSError, ValueError, TypeError, KeyError):
            continue
