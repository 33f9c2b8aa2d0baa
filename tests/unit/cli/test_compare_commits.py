"""`rwi compare-commits`: what it says, what it refuses, and that the user's repository stays as it was."""

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from cli.commits import request
from cli.commits.checkouts import PREFIX, Checkout, checkouts, git, notes, repository
from cli.commits.measure import WARM_UP_STEPS, compare_commits
from cli.commits.request import CommitsRequest
from cli.pull_request.commits import LIMIT_BYTES, OF_RAY, commits_comment, in_words, rows
from cli.setup.project import ROOT, ToolError
from cli.tryout.request import Request
from cli.tryout.run_arm import Outcome
from cli.tryout.typed import Typed
from compare import commits
from compare.commits import Commit, CommitComparison, CommitsError
from compare.intervals import AUTO_CONFIDENCE
from tests.golden import Wording
from tests.unit.cli.test_pull_request import EVIL, MARKUP
from tests.unit.results import make_commits
from training.contract.codec import encode
from training.workloads.script.commands import ArmCommand


def rewritten(comparison: CommitComparison) -> dict[str, Any]:
    """Its file, as data."""
    data: dict[str, Any] = json.loads(json.dumps(encode(comparison)))
    return data


@pytest.mark.parametrize(
    ("ratios", "failed", "status"),
    [
        ({"baseline": 1.0}, {}, 0),
        ({"baseline": 0.7}, {}, 0),
        ({"baseline": 1.3}, {}, 3),
        ({"baseline": 0.7, "ray": 1.3}, {}, 3),
        ({"baseline": 1.3}, {"ray": "head: it ended with exit code 1"}, 1),
        ({}, {}, 1),
    ],
)
def test_the_exit_status_is_that_of_the_documents(
    ratios: dict[str, float], failed: dict[str, str], status: int
) -> None:
    """0: no change shown, or faster; 3: slower with confidence; 1: something failed, or nothing was measured."""
    assert status == replace(make_commits(**ratios), failed=failed).status


def test_three_repeats_decide_nothing() -> None:
    """However far apart they lie: the level is made for looks from the fourth on. Nor is an interval shown."""
    by = commits.rule(1)
    few, enough = (commits.arm_change([1.0] * n, [2.0, 2.1, 1.9, 2.0][:n], by) for n in (3, 4))

    shown = [rows(replace(make_commits(baseline=1.0), arms={"baseline": change}))[0][3] for change in (few, enough)]

    assert (commits.UNDECIDED, commits.SLOWER) == (commits.decision(few), commits.decision(enough))
    assert [False, True] == ["(" in ratio for ratio in shown]


def test_arms_share_the_level() -> None:
    """So that a call with four arms is wrong no more often than one with one (Bonferroni)."""
    assert (1 - AUTO_CONFIDENCE) / 4 == pytest.approx(1 - commits.rule(4).confidence)


def test_a_change_that_would_have_been_seen_is_told() -> None:
    """Wider noise, and fewer repeats, show less."""
    by = commits.rule(1)
    quiet, loud = (
        commits.arm_change([1.0] * 4, [1 + noise, 1 - noise, 1 + noise, 1 - noise], by).visible for noise in (0.01, 0.1)
    )

    assert 0.01 < (quiet or 0.0) < 0.1 < (loud or 0.0)


def test_what_a_terminal_and_a_pull_request_show(wording: Wording) -> None:
    """Changed arms, open ones, other work, failures and what a checkout lacks."""
    full = replace(make_commits(baseline=1.3, wide=1.3, native=1.0, ray=1.1), notes=["submodules are not checked out"])
    noisy = commits.arm_change([1.0, 1.3, 0.9, 1.2], [1.2, 1.0, 1.1, 0.9], commits.rule(4), (100, 50))
    some = replace(full, arms={**full.arms, "native": noisy}, ended=commits.TIME_UP, busy="other programs take 1 CPU")
    none = replace(
        make_commits(),
        ended=commits.DECIDED,
        failed={"head": "head: it ended with exit code 1\n    | ValueError: `no`"},
    )
    absent = replace(make_commits(baseline=1.0), absent={"ray": "its environment has no Ray"})

    for name, each in {"comment": full, "noisy": some, "failed": none, "absent": absent}.items():
        wording("compare-commits", commits_comment(each), name)
    wording("compare-commits", in_words(some), "terminal")
    assert OF_RAY[0] not in in_words(absent)


def test_no_text_of_the_file_becomes_markup() -> None:
    """Whoever wrote it: subjects, names, failures and notes are shown as they are, in one line each."""
    evil_commit = Commit(name=EVIL, sha="a" * 40, subject=EVIL)
    evil = replace(
        make_commits(baseline=1.0), base=evil_commit, head=evil_commit, script=EVIL,
        cpu_model=EVIL, busy=EVIL, absent={"ray": EVIL}, notes=[EVIL], ended=EVIL,
    )  # fmt: skip
    text = commits_comment(CommitComparison.from_json(json.dumps(encode(evil))))

    assert "evil" in text
    for line in text.splitlines()[2:]:
        assert not MARKUP.search(line.replace(f"`{'a' * 12}`", ""))


def test_of_a_long_failure_the_end_is_shown() -> None:
    """Its last words say what was wrong. The fence of its block is longer than any run of backticks in it."""
    failure = "first words" + "x" * 9999 + "last words\n````\n@you <b>"
    text = commits_comment(replace(make_commits(), failed={"head": failure}))

    assert (False, True) == ("first words" in text, "last words" in text)
    assert 2 == text.splitlines().count("`````") + text.splitlines().count("`````text")


def test_a_comment_is_never_too_long() -> None:
    """GitHub refuses more than 65,536 characters; what is left out is said to be in the artifact."""
    long = replace(
        make_commits(baseline=1.0), failed={f"arm{n}": "é" * 4000 for n in range(20)}, notes=["é" * 9999] * 99
    )
    text = commits_comment(long)

    assert len(text.encode()) <= LIMIT_BYTES
    assert "artifact" in text


@pytest.mark.parametrize(
    "change",
    [
        {"schemaVersion": 2},
        {"arms": {"<b>": {}}},
        {"base": {"name": "x", "sha": "a|b", "subject": ""}},
        {"workers": "2"},
        {"minutes": float("nan")},
        {"minutes": 10**400},
        {"more": 1},
    ],
    ids=str,
)
def test_a_file_that_is_none_is_refused(change: dict[str, Any]) -> None:
    """Before a word is made of it; so is one that is too large or nested without end."""
    data = rewritten(make_commits(baseline=1.0))
    assert make_commits(baseline=1.0) == CommitComparison.from_json(json.dumps(data))
    for text in (json.dumps({**data, **change}), "[" * 10**5, json.dumps(data) + " " * commits.LONGEST_BYTES, "no"):
        with pytest.raises(CommitsError):
            CommitComparison.from_json(text)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two commits of a script, and a change that is not committed."""
    folder = tmp_path_factory.mktemp("original")
    git(folder, "init", "-qb", "main")
    with (folder / ".git/config").open("a") as settings:
        settings.write("[user]\nemail = a@example.org\nname = A\n")
    for number in range(2):
        (folder / "train.py").write_text(f"print({number})\n")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", f"commit {number}")
    (folder / "train.py").write_text("print('not committed')\n")
    (folder / "new.txt").touch()
    return folder


@pytest.fixture
def repo(original: Path, tmp_path: Path) -> Path:
    """A copy of it for one test."""
    return shutil.copytree(original, tmp_path / "mine")


def read(repo: Path, base: str = "HEAD~1", head: str = "HEAD", **given: Any) -> CommitsRequest:
    """What was typed there."""
    typed = Typed(script=str(repo / given.pop("script", "train.py")), python=given.pop("python", ""))
    options = {"arms": (), "minutes": 1.0, "requirements": "", "json_to": "", "markdown_to": "", **given}
    return request.read(typed, base, head, **options)


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"base": "nowhere"}, "nowhere"),
        ({"base": "--help"}, "--help"),
        ({"head": "HEAD:train.py"}, "HEAD:train.py"),
        ({"script": "new.txt"}, "new.txt"),
        ({"script": "../other.py"}, "git"),
        ({"arms": ("fast",)}, "fast"),
        ({"requirements": "no.txt"}, "no.txt"),
        ({"requirements": "no.txt", "python": "x"}, "--python"),
    ],
    ids=str,
)
def test_a_wrong_call_is_refused_before_anything_is_done(original: Path, given: dict[str, Any], answer: str) -> None:
    """With click's error, whose exit status is 2."""
    with pytest.raises(click.UsageError, match=answer) as refused:
        read(original, **given)

    assert commits.WRONG_CALL == refused.value.exit_code


def state(repo: Path) -> list[str]:
    """All that a user has there: files, branches, settings, what is staged, and worktrees."""
    said = [git(repo, *line.split()) for line in ("status --porcelain", "for-each-ref", "worktree list", "stash list")]
    files = [str(path) for path in repo.rglob("*") if "index" != path.name and "objects" not in path.parts]
    return [*said, (repo / ".git/config").read_text(), (repo / "train.py").read_text(), *sorted(files)]


def test_the_repository_stays_as_it_was(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a hook would run, an earlier call was killed, a run damaged its checkout, or this one is stopped."""
    hook = repo / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {repo}/was-here\n")
    hook.chmod(0o755)
    git(repo, "config", "core.fsmonitor", str(hook))
    before, asked = state(repo), read(repo)
    assert ["commit 0", "commit 1"] == [each.subject for each in asked.commits.values()]
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed = tmp_path.resolve() / "another TMPDIR" / f"{PREFIX}of-another-call"
    git(repo, "worktree", "add", "-q", "--detach", str(killed / "base"))
    with pytest.raises(KeyboardInterrupt):
        stopped_while_it_measures(asked, killed)

    assert before == state(repo)
    assert [] == list(tmp_path.glob(f"{PREFIX}*"))


def stopped_while_it_measures(asked: CommitsRequest, killed: Path) -> None:
    """Damage both checkouts, have them cleaned, and stop. `killed`: the folder that an earlier call left."""
    with checkouts(asked.top, asked.commits) as found:
        assert not killed.exists()
        assert ["print(0)\n", "print(1)\n"] == [(each.folder / "train.py").read_text() for each in found.values()]
        (found["base"].folder / "train.py").write_text("print('by a run')\n")
        (found["base"].folder / "left.pt").touch()
        (found["head"].folder / ".git").unlink()
        for each in found.values():
            each.clean()
        assert ["train.py"] == [path.name for path in found["base"].folder.iterdir() if path.name != ".git"]
        assert "print(0)\n" == (found["base"].folder / "train.py").read_text()
        raise KeyboardInterrupt


Compare = Callable[..., CommitComparison]


@pytest.fixture(scope="module")
def both(original: Path) -> Iterator[tuple[CommitsRequest, dict[str, Checkout]]]:
    """A request for two arms of both commits, and their checkouts."""
    asked = read(original, python=sys.executable, arms=("baseline", "wide"))
    with checkouts(asked.top, asked.commits) as found:
        yield asked, found


@pytest.fixture
def compare(both: tuple[CommitsRequest, dict[str, Checkout]], monkeypatch: pytest.MonkeyPatch) -> Compare:
    """Compare with `run` in the place of what runs an arm: it leaves nothing in the checkouts, which are made once."""
    asked, found = both

    def compared(
        run: Callable[..., Outcome], clean: Callable[[Checkout], None] = lambda _: None, **changes: Any
    ) -> CommitComparison:
        monkeypatch.setattr("cli.tryout.run_arm.run", run)
        monkeypatch.setattr("cli.commits.measure.checkouts", lambda *_: nullcontext(found))
        monkeypatch.setattr(Checkout, "clean", clean)
        return compare_commits(replace(asked, **changes))

    return compared


def ended(arm: str, seconds: float, status: int = 0, printed: str = "", **end: float) -> Outcome:
    """How a run ended; `end`: what is known only of one that was not ended from outside."""
    return Outcome(
        arm=arm, code=status, seconds=seconds, seen=[], printed=printed, printed_bytes=0, trace="  File in_a_lock",
        end=end,
    )  # fmt: skip


def test_each_arm_runs_until_it_is_decided(compare: Compare, capsys: pytest.CaptureFixture[str]) -> None:
    """At the level of all arms, also once another one has failed: a time of one commit alone counts nothing.

    First each arm runs some steps of both commits: else the head alone would compile its modules in a run that counts.
    """
    asked: list[tuple[str, str, int]] = []

    def run(arm: ArmCommand, request: Request, folder: Path, *_: Any) -> Outcome:
        repeat = sum(each == (arm.arm, folder.name, 0) for each in asked)
        asked.append((arm.arm, folder.name, request.steps))
        fails = (arm.arm, folder.name, repeat) == ("wide", "base", 1)
        seconds = 10.0 + repeat if folder.name == "base" else (10.0 + repeat) * (1.1, 1.2)[repeat % 2]
        return ended(arm.arm, seconds, int(fails), "ValueError: broken", began=0.0, ended=seconds)

    compared = compare(run, minutes=9.0)
    steps = [steps for _, _, steps in asked]

    assert {"baseline": 5, "wide": 1} == {arm: len(change.head_seconds) for arm, change in compared.arms.items()}
    assert ["wide"] == list(compared.failed)
    assert compared.failed["wide"].startswith("base: ")
    assert commits.DECIDED == compared.ended
    assert [WARM_UP_STEPS] * 4 + [0] * (len(steps) - 4) == steps
    assert "  2 baseline: base 11.00 s, head 13.20 s" in capsys.readouterr().out.splitlines()  # not prose: figures


def test_a_run_that_hangs_leaves_the_others_their_time(compare: Compare) -> None:
    """It is ended after many times as long as the others, and has failed; an exit code alone is no sign of it."""
    limits = []
    end: dict[str, Any] = {"code": 124, "began": 0.0, "ended": 9.0}

    def run(arm: ArmCommand, request: Request, folder: Path, *_: Any) -> Outcome:
        if (arm.arm, folder.name, request.steps) != ("wide", "head", 0):
            return ended(arm.arm, 9.0, began=0.0, ended=9.0)
        limits.append(request.limit_seconds)
        return ended(arm.arm, 90.0, 124, **end)

    with_that_code = compare(run, minutes=60.0)
    end.clear()
    hung = compare(run, minutes=60.0)

    assert [90, 90] == limits
    assert [commits.FAILED] * 2 == [with_that_code.status, hung.status]
    assert {"baseline"} == with_that_code.arms.keys() == hung.arms.keys()
    assert "exit code 124" in with_that_code.failed["wide"]
    assert "in_a_lock" in hung.failed["wide"]


def test_of_an_arm_that_time_did_not_allow_it_is_said(compare: Compare) -> None:
    """With the run that was ended, also while it ended by itself; what was measured is kept, and nothing failed."""
    end: dict[str, Any] = {"code": 0, "began": 0.0, "ended": 50.0}

    def run(arm: ArmCommand, request: Request, folder: Path, *_: Any) -> Outcome:
        is_cut = (arm.arm, folder.name, request.steps) == ("wide", "head", 0)
        return ended(arm.arm, 50.0, 124, **end) if is_cut else ended(arm.arm, 50.0, began=0.0, ended=50.0)

    by_itself = compare(run, minutes=1.0)
    end.clear()

    for compared in (by_itself, compare(run, minutes=1.0)):
        assert (commits.TIME_UP, commits.NO_CHANGE) == (compared.ended, compared.status)
        assert (["baseline"], ["wide"]) == (list(compared.arms), list(compared.absent))
        assert any("wide" in note and "50" in note for note in compared.notes)


def test_an_error_of_git_loses_no_repeat(compare: Compare) -> None:
    """As where a run leaves a folder that may not be removed."""
    cleaned = []

    def clean(_: Checkout) -> None:
        cleaned.append(1)
        if len(cleaned) > 4:
            raise ToolError("git clean: Permission denied")

    def run(arm: ArmCommand, *_: Any) -> Outcome:
        return ended(arm.arm, 1.0, began=0.0, ended=1.0)

    compared = compare(run, clean, arms=("baseline",))

    assert [1.0] == compared.arms["baseline"].base_seconds
    assert ["both"] == list(compared.failed)
    assert commits.FAILED == compared.status


def test_a_link_to_a_file_that_no_commit_holds_is_refused(repo: Path, tmp_path: Path) -> None:
    """Both commits would run the same file."""
    (tmp_path / "elsewhere.py").touch()
    (repo / "link.py").symlink_to(tmp_path / "elsewhere.py")
    git(repo, "add", "link.py")
    git(repo, "commit", "-qm", "link")
    compared = compare_commits(read(repo, "HEAD", "HEAD", script="link.py", python=sys.executable))

    assert {"both"} == compared.failed.keys()
    assert str(tmp_path / "elsewhere.py") in compared.failed["both"]


def test_what_a_checkout_lacks_is_said(repo: Path) -> None:
    """Submodules, and files of Git LFS; nothing of a plain repository, or for another filter."""
    (repo / ".gitattributes").write_text("*.ipynb filter=nbstripout\n")
    git(repo, "add", ".gitattributes")
    git(repo, "commit", "-qm", "another filter")
    assert [] == notes(repo, read(repo).commits)
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{git(repo, 'rev-parse', 'HEAD')},vendored")
    (repo / ".gitattributes").write_text("*.bin filter=lfs\n")
    git(repo, "add", ".gitattributes")
    git(repo, "commit", "-qm", "both")

    assert 2 == len(notes(repo, read(repo).commits))


def test_what_is_installed_from_the_repository_is_of_each_commit(repo: Path, tmp_path: Path) -> None:
    """As by `pip install --editable`: else both commits would import the user's files."""
    venv.create(tmp_path / "env", symlinks=True)
    python = str(tmp_path / "env/bin/python")
    (packages,) = tmp_path.glob("env/lib/python*/site-packages")
    (repo / "src").mkdir()
    (repo / "not-installed").mkdir()
    (packages / "mine.pth").write_text(f"{repo / 'src'}\n")

    assert ["src"] == request.of_repository(python, repository(repo))


def test_the_step_of_the_action(repo: Path, tmp_path: Path) -> None:
    """Without GitHub: the commit where head left base, arguments with quotes, and slower as an output alone."""
    program, typed, said = (tmp_path / name for name in ("rwi", "typed", "out"))
    program.write_text(f'#!/bin/sh\nfor word in "$@"; do echo "[$word]"; done > {typed}\nexit "$ENDS_WITH"\n')
    program.chmod(0o755)
    (tmp_path / "cli").symlink_to(ROOT / "cli")
    base = git(repo, "commit-tree", "-p", "main~1", "-m", "went on", "main~1^{tree}")
    inputs = {"SCRIPT": "train.py", "ARGUMENTS": "--name 'a b' {workers} ''", "WORKERS": "2", "MINUTES": "5",
              "BASE": base, "HEAD": "main", "PYTHON": "", "REQUIREMENTS": "", "ARMS": ""}  # fmt: skip
    places = {"GITHUB_ACTION_PATH": tmp_path, "RUNNER_TEMP": tmp_path, "GITHUB_OUTPUT": said,
              "GITHUB_STEP_SUMMARY": tmp_path / "summary"}  # fmt: skip
    variables = {**os.environ, **inputs, **{name: str(path) for name, path in places.items()}}

    def step(**changed: str) -> int:
        script = ["bash", str(ROOT / "cli/commits/action.sh")]
        return subprocess.run(script, cwd=repo, env=variables | changed, check=False).returncode

    for status, ends in {0: 0, 1: 1, 2: 2, 3: 0}.items():
        said.unlink(missing_ok=True)
        assert (ends, f"status={status}\n") == (step(ENDS_WITH=str(status)), said.read_text())
    words = typed.read_text().splitlines()
    commit, head = (git(repo, "rev-parse", name) for name in ("main~1", "main"))
    assert [f"[{commit}]", f"[{head}]", "[train.py]"] == words[1:4]
    assert ["[--]", "[--name]", "[a b]", "[{workers}]", "[]"] == words[-5:]
    typed.unlink()
    for wrong in ({"ARGUMENTS": "--name 'a b"}, {"BASE": "--is-ancestor"}, {"HEAD": "--help"}, {"BASE": ""}):
        assert commits.WRONG_CALL == step(**wrong), wrong
    assert not typed.exists()
