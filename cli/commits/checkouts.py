"""Checkouts of two commits of somebody's repository, beside it: detached worktrees in a folder that is gone at the end.

Nothing of theirs changes: no file, branch, index or setting. What git keeps of a worktree is removed with it, and after
a kill by the next call. Their hooks do not run. Runs can leave files, so each begins with the commit's own.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from cli.setup.project import ToolError, capture, last_line
from compare.commits import LONGEST_TEXT, Commit

PREFIX = "rwi-commits-"
OF_ANOTHER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY")
"""Environment variables that point git at another repository. Git sets them when it calls a hook."""
WITHOUT_HOOKS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
"""Options of git with which no program that the repository's settings name is called after, or asked what changed."""
SUBMODULE = "160000"
"""The mode of a submodule's entry in a git tree."""


@dataclass(frozen=True)
class Checkout:
    """The files of one commit."""

    folder: Path
    git_dir: str

    def clean(self) -> None:
        """Restore the commit's files and remove all others except bytecode. git gets the folder of its data explicitly,
        because a run may have changed `.git`."""
        where = {"GIT_DIR": self.git_dir, "GIT_WORK_TREE": str(self.folder)}
        git(self.folder, "reset", "--quiet", "--hard", more=where)
        git(self.folder, "clean", "-ffdxq", "-e", "__pycache__", more=where)


def git(folder: Path, *arguments: str, more: Mapping[str, str] | None = None) -> str:
    """Return the output of a git command without the last line break. Raise ToolError if the command fails."""
    done = _run(folder, arguments, more)
    if done.returncode:
        raise ToolError(f"git {arguments[0]}: {last_line(done.stderr)}")
    return done.stdout.rstrip("\n")


def _run(
    folder: Path, arguments: tuple[str, ...], more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in OF_ANOTHER}
    try:
        return capture(["git", *WITHOUT_HOOKS, *arguments], folder, {**kept, **(more or {})})
    except FileNotFoundError:
        raise ToolError("git is not on PATH: install it") from None


def repository(folder: Path) -> Path:
    """Return the root of the repository that contains a folder. Raise UsageError if there is no readable repository."""
    done = _run(folder, ("rev-parse", "--show-toplevel"))
    if done.returncode:
        raise click.UsageError(f"{folder} is in no git repository that can be read: {last_line(done.stderr)}")
    return Path(done.stdout.rstrip("\n"))


def commit(top: Path, name: str, script: str) -> Commit:
    """Return the commit that `name` means. Raise UsageError if there is no such commit, or if it does not contain the
    script."""
    parsed = _run(top, ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"))
    if parsed.returncode:
        raise click.UsageError(
            f"{name!r} is no commit in {top}. A clone of few commits lacks it: fetch it, or with actions/checkout set"
            " fetch-depth: 0"
        )
    sha = parsed.stdout.strip()
    if _run(top, ("cat-file", "-e", f"{sha}:{script}")).returncode:
        raise click.UsageError(f"{script} is not in commit {name}: name a script that both commits have")
    subject = git(top, "show", "--no-patch", "--no-show-signature", "--format=%s", sha)
    return Commit(name=name[:LONGEST_TEXT], sha=sha, subject=subject[:LONGEST_TEXT])


def notes(top: Path, commits: Mapping[str, Commit]) -> list[str]:
    """Return notes on what the checkouts lack: submodules, and files of Git LFS."""
    lacking = []
    if any(f"\n{SUBMODULE} " in f"\n{git(top, 'ls-tree', '-r', each.sha)}" for each in commits.values()):
        lacking.append("submodules are not checked out: their folders are empty")
    attributes = ("grep", "-l", "filter=lfs")
    if any(not _run(top, (*attributes, each.sha, "--", "**.gitattributes")).returncode for each in commits.values()):
        has_lfs = shutil.which("git-lfs")
        lacking.append(f"files of Git LFS are {'fetched' if has_lfs else 'pointers: install git-lfs'}")
    return lacking


@contextmanager
def checkouts(top: Path, commits: Mapping[str, Commit]) -> Iterator[dict[str, Checkout]]:
    """Check out all commits, yield the checkouts by name, and remove them at the end, whatever happens.

    Worktrees that a killed call left are removed first, so no other call may measure here at the same time.
    """
    for line in git(top, "worktree", "list", "--porcelain").splitlines():
        path = Path(line.removeprefix("worktree "))
        if line.startswith("worktree ") and path.parent.name.startswith(PREFIX):
            _remove(top, path)
            shutil.rmtree(path.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    try:
        by_name = {}
        for name, each in commits.items():
            git(top, "worktree", "add", "--quiet", "--detach", str(folder / name), each.sha)
            by_name[name] = Checkout(folder / name, git(folder / name, "rev-parse", "--absolute-git-dir"))
        yield by_name
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # first: git fails where the repository is gone
        for name in commits:
            _remove(top, folder / name)


def _remove(top: Path, worktree: Path) -> None:
    """Remove a worktree. The folder is removed first, because git then does not inspect what a run did to it."""
    shutil.rmtree(worktree, ignore_errors=True)
    _run(top, ("worktree", "remove", "--force", "--force", str(worktree)))
