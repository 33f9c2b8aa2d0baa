"""Tests find the same around them wherever pytest is started: in six surroundings that tests have failed in."""

import re
from pathlib import Path

import pytest

from tests.slow import slow_but
from tests.suite.test_groups import copy_rules
from tests.surroundings import SIX

TEST = """
import os, signal, subprocess, sys, tempfile

def test_what_is_around():
    seen = subprocess.run(
        ["sh", "-c", "umask; date +%Z; locale charmap; ls -l /proc/self/fd/0; grep SigIgn /proc/self/status"],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout.split()
    mode, zone, charmap, *_ = seen
    assert ("0022", "UTC", "UTF-8") == (mode, zone, charmap)
    assert not {number for number in signal.valid_signals() if int(seen[-1], 16) >> (number - 1) & 1}
    assert signal.default_int_handler is signal.getsignal(signal.SIGINT)
    assert not {"STACK", "SET", "ARGS", "KUBECONFIG", "COLUMNS"} & os.environ.keys()
    assert not [name for name in os.environ if name.startswith(("PYTHON", "PULUMI_", "RAY_", "AWS_", "MAKE"))]
    assert not sys.flags.optimize
    with tempfile.TemporaryFile(dir=os.environ["HOME"]):
        assert [] == [number for number in range(3) if not os.fstat(number)]
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux alone says which signals are ignored")
@pytest.mark.parametrize("name", slow_but({"background", "steered"}, SIX))
def test_pytest_makes_its_surroundings_plain(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In pytest-xdist's process, which inherits what pytest has; and what a test starts inherits that."""
    (tmp_path / "tests/docs").mkdir(parents=True)
    (tmp_path / "tests/docs/test_a.py").write_text(TEST)
    copy_rules(tmp_path)
    code = SIX[name].run(["-n", "1", "--import-mode=importlib", "tests"], tmp_path)
    shown = capfd.readouterr().out

    assert (0, ["1"]) == (code, re.findall(r"(\d+) passed", shown)), shown
