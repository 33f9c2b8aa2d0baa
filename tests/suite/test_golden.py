"""The golden files of wording, tried in a project of two tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import read, write
from tests.suite.test_groups import copy_rules

ROOT = Path(__file__).resolve().parents[2]
TEST = """
import pytest

@pytest.mark.parametrize("workers", [3, 5])
def test_refusals(wording, tmp_path, workers):
    wording("settings", f"workers = {workers} in {tmp_path}\\n\\n    fix: workers 2 ")

def test_two(wording):
    wording("settings", "a warning", "warned")
    wording("settings", "another", "warned")
"""
ABOUT = "What a user reads.\n"
SETTINGS = """
== tests/test_a.py

-- test_refusals[3]
    workers = 3 in <tmp>

        fix: workers 2

-- test_refusals[5]
    workers = 5 in <tmp>

        fix: workers 2

-- test_two · warned
    a warning

-- test_two · warned (2)
    another
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the plugin, a file of tests, and its golden file."""
    (tmp_path / "tests/golden").mkdir(parents=True)
    copy_rules(tmp_path)
    (tmp_path / "tests/test_a.py").write_text(TEST)
    (tmp_path / "tests/golden/settings.txt").write_text(ABOUT + SETTINGS)
    return tmp_path


def run(project: Path, *arguments: str) -> tuple[int, str]:
    """Pytest's exit code there, and what it prints."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--import-mode=importlib", *arguments]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def golden(project: Path) -> str:
    """The golden file there, without what it says of itself."""
    return "\n" + (project / "tests/golden/settings.txt").read_text(encoding="utf-8").partition("\n\n")[2]


def test_what_is_written_is_read() -> None:
    """Headings within a text are text, and several of one text are several sections."""
    sections = {("t.py::test_a[x y]", "a label"): "== a\n\n  -- b"}
    sections |= {
        ("t.py::test_b", ""): "c",
        ("t.py::test_c", "a"): "c",
        ("t.py::test_c", "b"): "d",
        ("u.py::e", ""): "d",
    }

    assert sections == read(write(sections))
    assert 1 == write(sections).count("    c\n")


def test_the_flag_writes_what_the_tests_say(project: Path) -> None:
    """Without the paths of this machine; before it they fail, after it they pass."""
    (project / "tests/golden/settings.txt").unlink()

    assert run(project)[0] == 1
    code, shown = run(project, "--update-golden")
    assert (code, golden(project)) == (0, SETTINGS), shown
    assert run(project)[0] == 0


def test_a_changed_sentence_fails_with_its_lines_and_the_command(project: Path) -> None:
    """The line that was, the line that is, and how to rewrite it."""
    (project / "tests/golden/settings.txt").write_text(ABOUT + SETTINGS.replace("another", "the other"))
    code, shown = run(project)

    assert code == 1
    assert "  -the other\n  +another\n" in shown
    assert "--update-golden tests/test_a.py::test_two\n" in shown


@pytest.mark.parametrize("gone", ["\n-- test_two · other\n    x\n", "\n-- test_refusals[7]\n    x\n"])
def test_a_section_that_no_test_asks_for_is_refused_and_dropped(project: Path, gone: str) -> None:
    """A person would read it as something that the program says. With the flag two processes write one file."""
    (project / "tests/golden/settings.txt").write_text(ABOUT + SETTINGS + gone)

    assert run(project)[0] == 1
    assert run(project, "-n", "2", "--update-golden")[0] == 0
    assert golden(project) == SETTINGS


@pytest.mark.parametrize("selection", [["tests/test_a.py::test_two"], ["-k", "two"]])
def test_what_was_not_run_stays(project: Path, selection: list[str]) -> None:
    """Nor is it refused."""
    (project / "tests/golden/settings.txt").write_text(ABOUT + SETTINGS.replace("fix: workers 2", "fix: none"))

    assert run(project, *selection)[0] == 0
    assert run(project, "--update-golden", *selection)[0] == 0
    assert "fix: none" in golden(project)


def test_nothing_is_no_wording(project: Path) -> None:
    """A message that is gone is no new wording, whatever the flag says."""
    (project / "tests/test_a.py").write_text(TEST.replace("another", " "))

    assert run(project, "--update-golden")[0] == 1
    assert golden(project) == SETTINGS


def test_a_test_that_fails_keeps_its_sections(project: Path) -> None:
    """What it would have said next is not known."""
    (project / "tests/test_a.py").write_text(TEST.replace('    wording("settings", "another"', '    assert 0, ("b"'))

    assert run(project, "--update-golden")[0] == 1
    assert golden(project) == SETTINGS
