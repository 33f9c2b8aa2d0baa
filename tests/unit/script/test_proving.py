"""The proof before a run: kept where a later run finds it, agreed on by ranks in pods, and never the end of a pod."""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.tryout import prove, run_arm
from cli.tryout.request import Request
from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from tests.ports import free_ports
from tests.typed import tried
from training.contract.provenance import PROJECT
from training.launch.rendezvous import Rendezvous
from training.machine import cgroup
from training.workloads.script import execution_site, plain, proving, rank_exchange
from training.workloads.script.commands import ArmCommand, WithRay
from training.workloads.script.execution_site import Machine, RankPod
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import recognise
from training.workloads.script.resolve import ResolvedScript

EQUAL = {"outcome": "equal", "line": "", "plan": {"passes": []}}


class Place(Machine):
    """A place whose proof is another program."""

    def __init__(self, program: str, proofs: Path | None = None, like: type[Machine] = Machine) -> None:
        super().__init__()
        self.program, self.proofs = program, proofs
        self.memory_key, self.others_share_memory = like.memory_key, like.others_share_memory

    def proof(self, resolved: ResolvedScript, storage: Path, file: Path) -> ArmCommand:
        """Return the program with the outcome's path."""
        return ArmCommand(arm="proof", command=(sys.executable, "-c", self.program, str(file)))

    def unobserved(self, _: ArmCommand, needed: Mapping[str, str], own_ray: Path, storage: str = "") -> dict[str, str]:
        """Return the test's own environment, with the folder for files of a moment."""
        return {**os.environ, "RAY_TMPDIR": str(own_ray), "PYTHONPATH": str(PROJECT)}


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


@pytest.mark.parametrize("name", ["seed", "epochs", "workers", "storage"])
def test_a_proof_is_of_the_arguments_that_the_script_gets(resolved: ResolvedScript, name: str) -> None:
    """Not of settings that do not reach it; one that a try made is that of a measurement as the settings are."""
    script = replace(resolved.script, arguments=("--own", "7"))
    given = replace(script, arguments=("--own", f"{{{name}}}"))
    keys = []
    for own in (script, given):
        for number in (3, 4):
            more: dict[str, Any] = {} if name == "storage" else {name: number}
            recipe = replace(resolved.recipe, **more)
            keys.append(replace(resolved, recipe=recipe, script=own).proof_key({}))

    assert (name == "workers") == (keys[0] != keys[1])
    assert (name == "storage") == (keys[2] == keys[3])
    assert keys[0] != keys[2]


def test_a_try_proves_as_a_measurement_will(tmp_path: Path) -> None:
    """Whatever its own arms train."""
    path = tmp_path / "train.py"
    path.write_text("import torch\n", encoding="utf-8")
    asked = tried(str(path), "--", "--epochs", "{epochs}", "--seed", "{seed}", "--to", "{storage}")
    script = recognise(path, asked.arguments)
    arms, proves = prove.arms(script, asked, tmp_path, WithRay(python="python"), epochs=9)
    recipe = ScriptRecipe(script=str(path), script_arguments=asked.keys["scriptArguments"], workers=2)
    measured = ResolvedScript(recipe=recipe, script=script, python=asked.python, versions={})
    file, to = tmp_path / plain.OUTCOME, tmp_path / "storage"

    assert proves is not None
    assert measured.proof(to, file).command == proves.command
    assert ("--epochs", "9", "--seed", "1") == arms[0].command[-6:-2]


def test_a_proof_of_a_try_has_its_two_minutes(
    resolved: ResolvedScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those of its imports; one that hung has no outcome."""
    limits = []

    def run(command: ArmCommand, request: Request, *_: object) -> SimpleNamespace:
        limits.append(request.limit_seconds)
        return SimpleNamespace(hung=True)

    monkeypatch.setattr(run_arm, "run", run)
    monkeypatch.setattr(prove, "_key", lambda _: "a-proof")
    monkeypatch.setattr(proving, "keep", lambda *_: None)
    command = ArmCommand(arm="proof", command=("python",))

    assert not prove.prove(resolved.script, command, tried(resolved.recipe.script), tmp_path).works
    assert [plain.PROOF_SECONDS + plain.START_SECONDS] == limits


FOLDER = "import os, pathlib, sys, time; from training.workloads.script.spread import folders\n"
FOLDER += "own = folders.temporary()\n"
FOLDER += "pathlib.Path(sys.argv[1]).with_name('where').write_text(own.__enter__())\n"
"""Makes its folder, and says where."""


@pytest.mark.parametrize("like", [execution_site.HeadPod, RankPod, execution_site.RayJob])
def test_a_proof_ends_before_its_pod_lacks_memory(
    resolved: ResolvedScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording, like: type[Machine]
) -> None:
    """The pod would be ended as a whole, and the run with it, which needs less; so would the node of a Ray cluster.
    Nothing of the proof's files is left, though nobody could end it gently."""
    where = tmp_path / "where"
    monkeypatch.setattr(cgroup, "memory_limit", lambda: 2**30)
    monkeypatch.setattr(cgroup, "memory_available", lambda: 2**27 if where.exists() and where.stat().st_size else 2**30)
    proof = proving.proved(Place(f"{FOLDER}time.sleep(600)", like=like), resolved, {}, (), tmp_path)

    assert not proof.works
    assert not Path(where.read_text(encoding="utf-8")).exists()
    wording("script", proof.words)


RANKS_FAIL = {"outcome": "bound", "reason": "ranks fail", "line": "", "error": "RuntimeError: Connection closed"}


@pytest.mark.parametrize(
    ("outcome", "killed"), [(RANKS_FAIL, False), (RANKS_FAIL, True), (EQUAL, True), (None, True), (None, False)]
)
def test_why_a_proof_has_no_outcome(
    resolved: ResolvedScript,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wording: Wording,
    outcome: Mapping[str, Any] | None,
    *,
    killed: bool,
) -> None:
    """A rank that the system ended for its memory, whatever the others say of it; or its own last line."""
    kills = iter([3, 3 + killed])
    monkeypatch.setattr(cgroup, "memory_kills", lambda: next(kills))
    monkeypatch.setattr(cgroup, "memory_limit", lambda: 2**30)
    monkeypatch.setattr(cgroup, "memory_available", lambda: 2**30)
    says = f"import pathlib, sys; pathlib.Path(sys.argv[1]).write_text({json.dumps(outcome)!r})"
    fails = "print('OSError: [Errno 28] No space left on device'); raise SystemExit(1)"
    place = Place(says if outcome else fails, like=RankPod)
    proof = proving.proved(place, resolved, {}, (), tmp_path)

    assert (outcome == EQUAL) is proof.works
    if outcome != EQUAL:
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


def test_a_rank_that_has_the_outcome_counts_however_late_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one whose node is busy: it goes on, so rank 0 may not wait for it to ask once more."""
    monkeypatch.setattr(rank_exchange, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(rank_exchange, "WAIT_SECONDS", LONGEST_SECONDS)
    given: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def be_slow() -> None:
            with socket.create_connection(listener.getsockname()) as connection, connection.makefile("rb") as stream:
                connection.sendall(b'{"asks": 1}\n')
                given.append(json.loads(stream.read()))
                time.sleep(5 * rank_exchange.ANSWER_SECONDS)
                connection.sendall(b"1")

        rank = threading.Thread(target=be_slow)
        rank.start()
        rank_exchange.give(listener, {1}, EQUAL)
        rank.join(LONGEST_SECONDS)

    assert [EQUAL] == given


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_rank_0_is_reached_by_every_address_of_its_pod(address: str) -> None:
    """Of a cluster with IPv6 alone, too; in one without it by those that there are."""
    if address == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with rank_exchange.listener_at(0) as listener:
        try:
            socket.create_connection((address, listener.getsockname()[1]), LONGEST_SECONDS).close()
        except OSError as error:
            assert address == "::1"
            pytest.skip(f"its loopback has no address of IPv6: {error}")
