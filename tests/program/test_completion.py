"""Tab in a real shell on a terminal of its own, after the line that docs/getting-started.md says to type."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cli.setup.project import ROOT
from tests.limits import wait_for
from tests.program.rwi_project import terminal

SHELLS = {"bash": ("--norc", "--noprofile", "-i"), "zsh": ("-f", "-i")}


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("../here/rwi out", "outputs"),
        ("../here/rwi up --stack kub", "kubernetes"),
        ("../here/rwi try x.py --li", "--limit"),
    ],
)
@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes(shell: str, typed: str, completed: str, tmp_path: Path) -> None:
    """From another folder, and in zsh where nothing has set up its own completion, as on macOS."""
    if not shutil.which(shell):
        pytest.skip(f"needs {shell} on PATH")
    (tmp_path / "here").symlink_to(ROOT)
    (tmp_path / "there").mkdir()
    environment = {**os.environ, "HOME": str(tmp_path), "RWI_SETUP": "no", "TERM": "xterm", "PS1": "", "PROMPT": ""}
    with terminal([shell, *SHELLS[shell]], tmp_path / "there", environment) as shown:
        os.write(shown.master, f'eval "$(_RWI_COMPLETE={shell}_source ../here/rwi)"; echo sour""ced\n'.encode())
        wait_for(lambda: "sourced" in shown.output, "the end of the first line")
        os.write(shown.master, f"{typed}\t".encode())
        rest = completed.removeprefix(typed.rpartition(" ")[2])
        wait_for(lambda: rest in shown.output.rpartition(typed)[2], completed)
