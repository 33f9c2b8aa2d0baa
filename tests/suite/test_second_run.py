"""cli.second_run: a failure is forgiven where it passed alone, in a run that had all tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli import second_run
from tests.suite.test_groups import copy_rules

ROOT = Path(__file__).resolve().parents[2]
CASE = '<testcase classname="tests.unit.test_a" name="{}">{}</testcase>'

FAILS_ITSELF = """
def pytest_testnodedown(node, error):
    if error:
        raise OSError("cannot send")  # as xdist does where it hands a test to a process that has just died
"""


def report(path: Path, **outcomes: str) -> Path:
    """A JUnit file with these tests, each by how it ended: "" is passed."""
    cases = [CASE.format(name, f'<{outcome} message="m"/>' if outcome else "") for name, outcome in outcomes.items()]
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("again", "stays"),
    [
        ({"b": "", "c": ""}, []),
        ({"b": "", "c": "skipped"}, ["c"]),
        ({"b": ""}, ["c"]),
        ({"b": "failure", "c": "error"}, ["b", "c"]),
    ],
    ids=["both pass", "one is skipped", "one is not found", "both fail"],
)
def test_what_did_not_pass_alone_stays_a_failure(again: dict[str, str], stays: list[str], tmp_path: Path) -> None:
    """However well the second run ended: pytest calls a run with a skipped test, or one test less, a success."""
    first = report(tmp_path / "first.xml", a="", b="failure", c="error", d="skipped")
    first.with_suffix(second_run.COLLECTED).write_text("4")
    second = report(tmp_path / "second.xml", **again)

    assert [f"tests.unit.test_a::{name}" for name in stays] == [
        line.partition(": ")[0] for line in second_run.problems(first, second)
    ]


@pytest.mark.parametrize(("collected", "early"), [("4", False), ("5", True), (None, True)])
def test_a_run_that_ended_early_forgives_nothing(collected: str | None, early: bool, tmp_path: Path) -> None:
    """Tests that never ran stand in no report."""
    first = report(tmp_path / "first.xml", a="", b="failure", c="error", d="skipped")
    if collected:
        first.with_suffix(second_run.COLLECTED).write_text(collected)

    assert early == bool(second_run.problems(first, report(tmp_path / "second.xml", b="", c="")))


def test_a_test_that_has_no_result_did_not_run(tmp_path: Path) -> None:
    """pytest writes it down without its name where it fails itself meanwhile."""
    first = report(tmp_path / "first.xml", a="", b="failure")
    first.write_text(first.read_text(encoding="utf-8").replace("</testsuite>", '<testcase time="0.000"/></testsuite>'))
    first.with_suffix(second_run.COLLECTED).write_text("3")

    (early,) = second_run.problems(first, report(tmp_path / "second.xml", b=""))

    assert ["2", "3"] == re.findall(r"\d", early)


@pytest.mark.parametrize("gives_up", [False, True], ids=["it ends", "it fails itself"])
def test_processes_that_die_too_often_end_a_run_early(gives_up: bool, tmp_path: Path) -> None:
    """For real: pytest-xdist hands out no more tests, and the second run passes; or it fails itself, before it knows of
    a failure, and there is nothing to run again. Its report holds what ran so far."""
    tests = tmp_path / "tests/docs"
    tests.mkdir(parents=True)
    copy_rules(tmp_path)
    (tmp_path / "conftest.py").write_text(FAILS_ITSELF if gives_up else "")
    (tests / "test_a.py").write_text(
        "import os, pathlib, pytest\n"
        "@pytest.mark.parametrize('number', range(20))\n"
        "def test_it(number):\n"
        "    if number in (3, 5, 7) and not pathlib.Path('first.xml').exists(): os._exit(9)\n"
    )
    first, second = tmp_path / "first.xml", tmp_path / "second.xml"

    def run(to: Path, *flags: str) -> int:
        command = [sys.executable, "-m", "pytest", "--import-mode=importlib", f"--junitxml={to}", *flags, "tests"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode

    ended = run(first, "-n", "2", "--max-worker-restart=1")
    again = run(second, "--last-failed", "--last-failed-no-failures=none")

    # A busy machine may make xdist fail itself anyway. .ci/run takes 5, no test, for a failure.
    assert (ended, again) in ([(3, 5)] if gives_up else [(1, 0), (3, 0), (3, 5)])
    assert "20" == first.with_suffix(second_run.COLLECTED).read_text()
    assert "only " in [line[:5] for line in second_run.problems(first, second)]
