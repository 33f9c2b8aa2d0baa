"""A rank that fails ends the others at once, whichever it is: one that waits for it would wait for ever."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from training.launch import peers
from training.launch.rendezvous import Rendezvous
from training.workloads.script.commands import RANKS

HANGS = """
import json, os, sys, time
if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == int(sys.argv[1]):
    os._exit(3)
time.sleep(60)
open(__file__ + ".goes-on", "w").close()
"""


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_script_s_rank_that_fails_ends_the_others(tmp_path: Path, failing: int) -> None:
    """The launcher gives its exit code, or 1 where that of a rank that it ended comes first."""
    script = tmp_path / "train.py"
    script.write_text(HANGS, encoding="utf-8")

    code = subprocess.call([sys.executable, str(RANKS / "processes.py"), "3", "tf-config", str(script), str(failing)])

    assert code == (3 if failing == 0 else 1)
    assert not Path(f"{script}.goes-on").exists()


@pytest.mark.parametrize("failing", [0, 1])
def test_a_worker_that_fails_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    """And is the one that is named."""

    def start(_: Any, arm: str, cluster: Rendezvous) -> subprocess.Popen[bytes]:
        goes_on = f"import time; time.sleep(60); open({str(tmp_path / 'goes-on')!r}, 'w').close()"
        text = "import os; os._exit(3)" if cluster.rank == failing else goes_on
        return subprocess.Popen([sys.executable, "-c", text])

    monkeypatch.setattr(peers, "_start", start)
    request: Any = SimpleNamespace(recipe=SimpleNamespace(workers=2))

    with pytest.raises(RuntimeError, match=rf"\b{failing}\b"):
        peers.launch_workers(request, "native")

    assert not (tmp_path / "goes-on").exists()
