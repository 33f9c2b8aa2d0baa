"""The proof before a run: kept where a later run finds it, agreed on by ranks in pods, and never the end of a pod."""

import json
import os
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from tests.ports import free_ports
from training.launch.rendezvous import Rendezvous
from training.machine import cgroup
from training.workloads.script import plain, proving, rank_exchange
from training.workloads.script.commands import ArmCommand
from training.workloads.script.execution_site import Machine, RankPod
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import recognise
from training.workloads.script.resolve import ResolvedScript

EQUAL = {"outcome": "equal", "line": "", "plan": {"passes": []}}


class Place(Machine):
    """A place whose proof is another program."""

    memory_key = "headMemory"

    def __init__(self, program: str, proofs: Path | None = None) -> None:
        super().__init__()
        self.program, self.proofs = program, proofs

    def proof(self, resolved: ResolvedScript, storage: Path, file: Path) -> ArmCommand:
        """Return the program with the outcome's path."""
        return ArmCommand(arm="proof", command=(sys.executable, "-c", self.program, str(file)))

    def unobserved(self, *_: Any) -> dict[str, str]:
        """Return the test's own environment."""
        return dict(os.environ)


@pytest.fixture
def resolved(tmp_path: Path) -> ResolvedScript:
    """A script of PyTorch."""
    path = tmp_path / "train.py"
    path.write_text("import torch\n", encoding="utf-8")
    recipe = ScriptRecipe(script=str(path), workers=2)
    return ResolvedScript(recipe=recipe, script=recognise(path, ()), python="python", versions={"ray": "2.60"})


def test_a_later_run_finds_the_outcome(resolved: ResolvedScript, tmp_path: Path) -> None:
    """Its own program would fail; without a folder in common each run proves."""
    proves = f"import pathlib, sys; pathlib.Path(sys.argv[1]).write_text({json.dumps(EQUAL)!r})"
    kept = tmp_path / "kept"
    first = proving.proved(Place(proves, kept), resolved, {}, (), tmp_path)
    again = proving.proved(Place("1 / 0", kept), resolved, {}, (), tmp_path)

    assert first == again
    assert first.works
    assert EQUAL["plan"] == json.loads((tmp_path / plain.PLAN).read_text())
    assert not (tmp_path / plain.OUTCOME).exists()
    assert not proving.proved(Place("1 / 0"), resolved, {}, (), tmp_path).works


def test_a_proof_ends_before_its_pod_lacks_memory(
    resolved: ResolvedScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """The pod would be ended as a whole, and the run with it, which needs less."""
    monkeypatch.setattr(cgroup, "memory_limit", lambda: 2**30)
    monkeypatch.setattr(cgroup, "memory_available", lambda: 2**27)
    proof = proving.proved(Place("import time; time.sleep(600)"), resolved, {}, (), tmp_path)

    assert not proof.works
    wording("script", proof.words)


def test_all_pods_of_a_run_have_the_outcome_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks first waits; a stranger is told nothing, and no other pod proves."""
    monkeypatch.setattr(rank_exchange, "ANSWER_SECONDS", 1.0)
    port = free_ports(2)[0]
    agreed: dict[int, Mapping[str, Any]] = {}
    proves = threading.Event()
    addresses = [f"127.0.0.1:{port}", "127.0.0.1:1", "127.0.0.1:2"]

    def be(rank: int) -> None:
        def prove() -> Mapping[str, Any]:
            assert rank == 0
            proves.wait(LONGEST_SECONDS)
            return EQUAL

        pod = object.__new__(RankPod)
        pod._cluster = Rendezvous(addresses, rank)
        pod._meeting = ("127.0.0.1", port)
        pod._listener = None if rank else listener
        assert pod.gives_result is not bool(rank)
        agreed[rank] = pod.agreed(prove)

    with socket.create_server(("127.0.0.1", port)) as listener:
        ranks = [threading.Thread(target=be, args=(rank,)) for rank in (2, 0, 1)]
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b'{"asks": 7}\n')
        for each in ranks:
            each.start()
        proves.set()
        for each in ranks:
            each.join(LONGEST_SECONDS)

    assert dict.fromkeys((0, 1, 2), EQUAL) == agreed
