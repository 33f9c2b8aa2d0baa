"""Checks whether the files of a comparison's runs are still there, and unchanged. Changes none."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from compare.schema import Comparison, RunLink

State = Literal["present", "changed", "missing"]


@dataclass(frozen=True)
class RunFile:
    """A run that was compared, and whether its result file is present, changed or missing."""

    link: RunLink
    state: State


def run_files(comparison: Comparison, project: Path) -> list[RunFile]:
    """Return the compared runs, arm by arm, with the state of their result files, whose paths start at `project`."""
    summaries = [comparison.arms[name] for name in comparison.shown_arms()]
    return [RunFile(link, state(link, project)) for summary in summaries for link in summary.runs]


def state(link: RunLink, project: Path) -> State:
    """Return whether a run's result file is present, missing or changed."""
    path = project / link.path
    if not path.is_file():
        return "missing"
    return "present" if hashlib.sha256(path.read_bytes()).hexdigest() == link.sha256 else "changed"
