"""The commit that a measurement was made from, as git tells it at publishing. Runs `git`; changes nothing."""

import json
import subprocess
from pathlib import Path

from compare.schema import Comparison
from training.contract import provenance
from training.contract.arms import ARMS

NAME = "source.json"


def describe(comparison: Comparison, project: Path) -> str | None:
    """The text of `source.json`; None where there is no git, or where the code has changed since the runs."""
    if not _is_code_of(comparison, project):
        return None
    commit = _git(project, "rev-parse", "HEAD")
    changes = _git(project, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return json.dumps({"commit": commit, "modified": bool(changes)}) + "\n"


def read(folder: Path) -> str | None:
    """A result's commit, shortened, with a + where files differed from it; None where none was recorded."""
    try:
        source = json.loads((folder / NAME).read_text(encoding="utf-8"))
        return str(source["commit"])[:7] + ("+" if source["modified"] else "")
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_code_of(comparison: Comparison, project: Path) -> bool:
    """`rwi report open` may publish a measurement long after it was made: its commit is then not the one checked
    out."""
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
