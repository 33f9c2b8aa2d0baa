"""What a test leaves is charged to it, and the next test passes."""

import re
from contextlib import suppress
from pathlib import Path

import psutil

from tests.suite.test_groups import run_pytest

TEST = """
import os, pathlib, subprocess, sys
import pytest

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]
ORPHANS = [sys.executable, "-c", f"import subprocess as s; print(s.Popen({SLEEPS}, stdout=-3, process_group=0).pid)"]

@pytest.fixture(scope="session")
def server():
    with subprocess.Popen(SLEEPS) as started:
        yield started
        started.kill()

def test_1_uses(server): pass
def test_2_leaves_a_child():
    global kept
    kept = subprocess.Popen(SLEEPS)
def test_3_ends_it():
    kept.kill()
    kept.wait()
def test_4_leaves_an_orphan():
    pathlib.Path("orphan").write_text(subprocess.check_output(ORPHANS, text=True))
def test_9_leaves_what_another_pytest_started():
    other = {**os.environ, "TEST_PROCESS": "1"}
    pathlib.Path("other").write_text(subprocess.check_output(ORPHANS, text=True, env=other))
def test_5_opens():
    subprocess.run(["true"])
    left = [open("left", "w")]
    left.append(left)
def test_6_fails_and_leaves_a_pipe():
    left = subprocess.Popen(["true"], stdout=subprocess.PIPE)
    left.wait()
    assert not left.stdout
def test_10_sets_a_variable(): os.environ["RWI_DOOR"] = "-c"
def test_11_finds_it_no_more(): assert "RWI_DOOR" not in os.environ
def test_12_goes_to_another_folder(): os.chdir("/")
def test_13_is_in_its_own_again(): assert os.getcwd() != "/"
def test_14_sets_a_variable_and_leaves_a_child():
    os.environ["RWI_DOOR"] = "-c"
    global both
    both = subprocess.Popen(SLEEPS)
def test_15_finds_it_ended(): assert both.wait(60)
def test_7_starts(server): subprocess.run(["true"])
def test_8_starts_nothing(server): assert server.poll() is None
"""


def test_each_test_pays_for_what_it_left(tmp_path: Path) -> None:
    """A child, an orphan, an open file, what its failure holds, a variable and another current folder; what several
    tests use stays, and what is of a test of that name in another pytest."""
    (tmp_path / "tests/docs").mkdir(parents=True)
    (tmp_path / "tests/docs/test_a.py").write_text(TEST)
    (tmp_path / "tests/limits.py").write_text("LEFT_SECONDS = 0.1\n")
    shown = run_pytest(tmp_path, "-rfE", "-Werror", check=False)
    charged = {int(number) for number in re.findall(r"^(?:ERROR|FAILED) \S+::test_(\d+)", shown, re.MULTILINE)}

    assert {2, 4, 5, 6, 10, 12, 14} == charged, shown
    with suppress(psutil.NoSuchProcess):  # where process 1 reaps no orphans, it is there as a zombie
        assert psutil.STATUS_ZOMBIE == psutil.Process(int((tmp_path / "orphan").read_text())).status()
    psutil.Process(int((tmp_path / "other").read_text())).kill()
