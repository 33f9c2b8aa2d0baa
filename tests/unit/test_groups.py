"""What runs beside what under `pytest -n 4`, as tests/conftest.py has it: two trainings at once measure each other."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import BESIDE, TOGETHER, TRAIN, group_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", [*TRAIN, *BESIDE, *TOGETHER])
def test_what_is_named_is_there(name: str) -> None:
    """A file that is renamed would train beside a training again, or make its story twice."""
    assert (ROOT / name).exists()


def test_groups_stay_together(tmp_path: Path) -> None:
    """Seen in a real run: each group has one process, and what is in no group uses both."""
    for folder in ("training", "docs"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        for file in ("a", "b"):
            path = tmp_path / "tests" / folder / f"test_{file}.py"
            path.write_text("import time\ndef test_1(): time.sleep(0.2)\ndef test_2(): time.sleep(0.2)\n")
    for name in ("conftest.py", "golden.py"):
        (tmp_path / "tests" / name).write_text((ROOT / "tests" / name).read_text(encoding="utf-8"))
    (tmp_path / "pytest.ini").touch()
    command = [sys.executable, "-m", "pytest", "-n", "2", "-v", "--import-mode=importlib", "tests"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    processes: dict[str, set[str]] = {}
    for process, name in re.findall(r"\[(gw\d)\].* PASSED (\S+)", shown):
        processes.setdefault(group_of(name) if group_of(name) == "trains" else "others", set()).add(process)

    assert 8 == len(re.findall("PASSED", shown)), shown
    assert 1 == len(processes["trains"])
    assert processes["others"]
