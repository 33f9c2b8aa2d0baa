"""What is left of `make try` when a supervisor or a closed terminal ends it: nothing."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.setup.project import ROOT

TRY = """
import os, pathlib, sys, tempfile
from tools.tryout import __main__ as tryout
tryout.end_with_its_files()
with tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder:
    pathlib.Path(folder, "checkpoint").touch()
    os.kill(os.getpid(), int(sys.argv[2]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_try_that_is_ended_leaves_no_folder(number: signal.Signals, tmp_path: Path) -> None:
    """Not even of checkpoints that the script wrote; and the status is the one that a shell gives."""
    command = [sys.executable, "-c", TRY, str(tmp_path), str(int(number))]
    done = subprocess.run(command, cwd=ROOT, check=False)

    assert (128 + number, []) == (done.returncode, list(tmp_path.iterdir()))
