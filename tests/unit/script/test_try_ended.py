"""What is left of `rwi try` when a supervisor or a closed terminal ends it: nothing."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.setup.project import ROOT
from tests.golden import Wording

TRY = """
import os, pathlib, sys, tempfile, time
from cli import door
from cli.tryout import request
folder, number = sys.argv[1:]
def ended(*_, **__):
    with tempfile.TemporaryDirectory(dir=folder) as own:
        pathlib.Path(own, "checkpoint").touch()
        os.kill(os.getpid(), int(number))
        time.sleep(600)
request.read = ended
door.main(["try", "x.py"])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_try_that_is_ended_leaves_no_folder(number: signal.Signals, tmp_path: Path, wording: Wording) -> None:
    """Not even of checkpoints that the script wrote; and the status is the one that a shell gives."""
    command = [sys.executable, "-c", TRY, str(tmp_path), str(int(number))]
    done = subprocess.run(command, cwd=ROOT, check=False, stderr=subprocess.PIPE, text=True)

    assert (128 + number, []) == (done.returncode, list(tmp_path.iterdir()))
    wording("try", done.stderr)
