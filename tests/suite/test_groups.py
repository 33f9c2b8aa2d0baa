"""What runs beside what under `pytest -n 4`, and what is left out, as tests/conftest.py has it."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli import tiers
from tests.conftest import BESIDE, TOGETHER, TRAIN, WITHOUT_SLOW, group_of
from tests.skipped import BEGIN_UNTIL, COMMAND, LATE, LEFT_OUT

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", [*TRAIN, *BESIDE, *TOGETHER])
def test_what_is_named_is_there(name: str) -> None:
    """A file that is renamed would train beside more than a search, or make its story twice."""
    assert (ROOT / name).exists()


def copy_rules(folder: Path) -> None:
    """Have the tests in a folder run under the rules of tests/conftest.py."""
    for path in (ROOT / "tests").glob("*.py"):
        if not (folder / "tests" / path.name).exists():  # the test's own instead
            shutil.copy(path, folder / "tests")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow: it is\n")


def run_pytest(folder: Path, *flags: str, addopts: str = "", check: bool = True) -> str:
    """What pytest prints of the tests in a folder, under the rules of tests/conftest.py."""
    copy_rules(folder)
    command = [sys.executable, "-m", "pytest", *flags, "--import-mode=importlib", "tests"]
    environment = os.environ | {"PYTEST_ADDOPTS": addopts}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=check).stdout


def test_groups_stay_together(tmp_path: Path) -> None:
    """Seen in a real run: each group has one process, and what is in no group uses both."""
    for folder in ("training", "search", "docs"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        for file in ("a", "b"):
            path = tmp_path / "tests" / folder / f"test_{file}.py"
            path.write_text("def test_1(): pass\ndef test_2(): pass\n")
    shown = run_pytest(tmp_path, "-n", "2", "-v")
    processes: dict[str, set[str]] = {}
    for process, name in re.findall(r"\[(gw\d)\].* PASSED (\S+)", shown):
        processes.setdefault(group_of(name) if group_of(name) in TRAIN.values() else "others", set()).add(process)

    assert 12 == len(re.findall("PASSED", shown)), shown
    assert [1, 1] == [len(processes[group]) for group in ("trains", "searches")]
    assert processes["others"]


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["alone", "two processes"])
def test_slow_tests_are_left_out_by_name_where_that_is_asked_for(tmp_path: Path, processes: tuple[str, ...]) -> None:
    """The file is named, and how many there are, with the command that runs them; without the flag they run."""
    (tmp_path / "tests/docs").mkdir(parents=True)
    text = "import pytest\n@pytest.mark.slow\ndef test_1(): pass\ndef test_2(): pass\n"
    (tmp_path / "tests/docs/test_a.py").write_text(text)

    whole, without = (run_pytest(tmp_path, "-ra", *processes, *flags) for flags in ((), (WITHOUT_SLOW,)))

    assert "2 passed" in whole
    assert COMMAND not in whole
    assert "1 passed" in without
    assert "1 skipped" in without
    assert re.search(rf"tests/docs/test_a\.py.*: {LEFT_OUT}", without)
    assert re.search(rf"^1 skipped .*{COMMAND}", without, re.MULTILINE)


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["alone", "two processes"])
@pytest.mark.parametrize("ahead", [60, -1], ids=["in time", "late"])
def test_what_may_be_late_comes_last_and_does_not_begin_late(
    tmp_path: Path, processes: tuple[str, ...], ahead: int
) -> None:
    """Nor do its fixtures; unit tests always run. The time is in pytest's variable, which what tests start has not."""
    (tmp_path / "tests/training").mkdir(parents=True)
    (tmp_path / "tests/unit").mkdir()
    text = (
        "import os, pytest\n@pytest.fixture\ndef made(): open('made', 'w').close()\n"
        "@pytest.mark.slow\ndef test_1(made): assert os.path.exists('ran')\n"
        "def test_2(): open('ran', 'w').close()\n"
    )
    (tmp_path / "tests/training/test_a.py").write_text(text)
    (tmp_path / "tests/unit/test_b.py").write_text(
        "import os\ndef test_3(): assert 'PYTEST_ADDOPTS' not in os.environ\n"
    )
    shown = run_pytest(tmp_path, *processes, "-rs", addopts=f"{BEGIN_UNTIL}={time.time() + ahead:.0f}")

    assert ("3 passed" if ahead > 0 else "1 passed") in shown
    assert (tmp_path / "made").exists() == (ahead > 0)
    assert (LATE in shown) == (ahead < 0)


def test_what_is_left_out_is_counted_by_its_reason() -> None:
    """`.ci/run` asks the report of a run whether anything was."""
    assert LEFT_OUT.startswith(tiers.LEFT_OUT)
    assert LATE.startswith(tiers.LATE)
