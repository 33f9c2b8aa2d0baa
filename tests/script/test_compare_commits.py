"""`rwi compare-commits` on a real repository, as it is typed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.commits.checkouts import git
from cli.setup.project import ROOT
from tests.limits import LONGEST_SECONDS

SCRIPT = "import time\n\ntime.sleep(0.2)\n"
HEADS = {"slower": SCRIPT.replace("0.2", "6"), "fails": "raise ValueError('broken')\n"}
"""So much slower that four repeats show it on any machine."""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a commit that is tagged base, and one for each of HEADS."""
    folder = tmp_path / "mine"
    subprocess.run(["git", "init", "-qb", "main", str(folder)], check=True)
    for key in ("user.email", "user.name"):
        git(folder, "config", key, "a@example.org")
    for name, text in {"base": SCRIPT, **HEADS}.items():
        (folder / "train.py").write_text(text, encoding="utf-8")
        git(folder, "add", "train.py")
        git(folder, "commit", "-qm", name)
        git(folder, "tag", name)
    return folder


def call(repo: Path, head: str) -> list[str]:
    """The command, which writes its numbers beside the repository."""
    options = ["--python", sys.executable, "--arms", "baseline", "--json", str(repo.parent / "out.json")]
    return [sys.executable, "-m", "cli.door", "compare-commits", "base", head, str(repo / "train.py"), *options]


@pytest.mark.slow
@pytest.mark.parametrize(("head", "status"), [("slower", 3), ("fails", 1)])
def test_a_pull_request_is_answered(repo: Path, head: str, status: int) -> None:
    """Slower with confidence: 3; a head that fails: 1, with its last words. The repository stays as it was."""
    before = git(repo, "for-each-ref") + git(repo, "status", "--porcelain")
    done = subprocess.run(
        call(repo, head), cwd=ROOT, capture_output=True, text=True, check=False, timeout=LONGEST_SECONDS
    )
    kept = json.loads((repo.parent / "out.json").read_text(encoding="utf-8"))

    assert status == done.returncode, done.stdout + done.stderr
    assert before == git(repo, "for-each-ref") + git(repo, "status", "--porcelain")
    assert 1 == len(git(repo, "worktree", "list").splitlines())
    if head == "slower":
        assert 1 < kept["arms"]["baseline"]["ratio"]["lower"]
    else:
        assert "broken" in kept["failed"]["baseline"]


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(repo: Path, tmp_path: Path) -> None:
    """Amid a run: no checkout, no worktree that git knows, and the status of a shell."""
    running = subprocess.Popen(
        call(repo, "slower"), cwd=ROOT, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert running.stdout is not None
    assert any(line.startswith("  1 baseline") for line in running.stdout)
    running.send_signal(signal.SIGINT)

    assert 130 == running.wait(LONGEST_SECONDS)
    running.stdout.close()
    assert 1 == len(git(repo, "worktree", "list").splitlines())
    assert ["mine"] == [path.name for path in tmp_path.iterdir()]
