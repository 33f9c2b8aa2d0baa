"""A network of a run's own: what is reached in it and out of it, for whom, and what is said where there is none."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from training.launch import entry
from training.machine import isolation, machine_lock, port_forward
from training.workloads.cnn import fetch
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.registry import DATASETS, DatasetEntry
from training.workloads.cnn.shapes import Source

ROOT = Path(__file__).resolve().parents[3]
reason = "no other machine is reached from here anyway" if isolation.is_alone() else isolation.refusal()
possible = pytest.mark.skipif(reason is not None, reason=reason or "")
AS_USER = """
import ctypes, encodings.idna, json, os, socket, subprocess, sys
from training.machine import isolation, port_forward
user = int(sys.argv[1])
if user:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: as after an exec, which this user's Python would begin with
outside = socket.create_server(("127.0.0.1", 0))
refused = isolation.enter()
server = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
inside = socket.create_connection(("127.0.0.1", server.getsockname()[1]), 5)
inside.close()
server.accept()
port_forward.start(outside, "127.0.0.1", server.getsockname()[1])
status = open("/proc/self/status").read()
seen = {
    "refused": refused, "alone": isolation.is_alone(), "user": [os.getuid(), os.geteuid(), os.getgid()],
    "capabilities": int(status.split("CapEff:")[1].split()[0], 16),
    "child": os.readlink("/proc/self/ns/net") == os.readlink(f"/proc/{os.getpid()}/ns/net"),
    "port": server.getsockname()[1], "forwarded": outside.getsockname()[1],
}
print(json.dumps(seen), flush=True)
accepted, _ = server.accept()
accepted.sendall(accepted.recv(9)[::-1])
accepted.close()
sys.stdin.read()
"""


def addresses() -> list[str]:
    """Those of this machine that it has for others."""
    return [
        one.address
        for interface in psutil.net_if_addrs().values()
        for one in interface
        if one.family == socket.AF_INET and not one.address.startswith("127.")
    ]


DATASET = CnnRecipe().dataset
"""Of a recipe without a word about it."""


@pytest.fixture(params=[pytest.param(0, id="this user"), pytest.param(65534, id="nobody")])
def running(request: pytest.FixtureRequest) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """A process that has a network of its own; for root also as a user without rights."""
    if request.param and os.geteuid() != 0:
        pytest.skip("only root can be another user")
    command = [sys.executable, "-c", AS_USER, str(request.param)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield request.param or os.geteuid(), process
        process.kill()


@possible
def test_inside_loopback_works_and_from_outside_nothing_is_reached(
    running: tuple[int, "subprocess.Popen[str]"],
) -> None:
    """A server on every address is on loopback alone; user and group stay, and no rights are gained."""
    user, process = running
    assert process.stdout
    seen = json.loads(process.stdout.readline())

    assert (None, True, True) == (seen["refused"], seen["alone"], seen["child"])
    assert [user, user] == seen["user"][:2]
    assert 0 == seen["capabilities"] or user == 0
    for address in ["127.0.0.1", *addresses()]:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((address, seen["port"]), 5)
    # What was made before is reached as before, and hands on: so Ray's dashboard is.
    with socket.create_connection(("127.0.0.1", seen["forwarded"]), 5) as through:
        through.sendall(b"abc")
        assert b"cba" == through.recv(9)


ENTER_WITH = """
import sys, threading
from training.machine import isolation
if sys.argv[1] == "thread":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print(isolation.enter(), isolation.is_alone())
"""


@possible
def test_threads_would_keep_the_old_network(wording: Wording) -> None:
    """So it is refused, and said, once there are any."""
    said = subprocess.run(
        [sys.executable, "-c", ENTER_WITH, "thread"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=True,
    )

    why, _, entered = said.stdout.strip().rpartition(" ")
    assert "False" == entered
    wording("run", why)


@possible
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="takes root and setpriv")
@pytest.mark.parametrize("without", ["-net_admin", "-sys_admin", "-sys_admin,-net_admin"])
def test_root_without_a_right_gets_it_in_a_user_namespace(without: str) -> None:
    """As in containers that have some of root's capabilities."""
    said = subprocess.run(
        ["setpriv", f"--bounding-set={without}", sys.executable, "-c", ENTER_WITH, "none"],
        cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=True,
    )  # fmt: skip

    assert "None True" == said.stdout.strip()


@possible
def test_a_system_that_refuses_it_leaves_everything_as_it_was(wording: Wording) -> None:
    """Here one that allows no network namespace in it; the reason is the system's own."""
    forbid = "echo 0 > /proc/sys/user/max_net_namespaces"
    said = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", f'{forbid} && exec "$@"', "sh",
         sys.executable, "-c", ENTER_WITH, "none"],
        cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=True,
    )  # fmt: skip

    why, _, entered = said.stdout.strip().rpartition(" ")
    assert "False" == entered
    assert "[Errno 28]" in why
    wording("run", why)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has network namespaces")
def test_an_interface_that_goes_while_they_are_looked_at_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with containers they come and go."""
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (99, "veth-gone")])

    assert isolation.is_alone()


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on this machine takes from its environment what was for downloading."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> entry.Request:
    """A run by hand whose lock is free; the network is each test's."""
    monkeypatch.setattr(machine_lock, "hold", lambda _: None)
    return entry.parse("baseline", None, ["--result", str(tmp_path / "run" / "result.json")])


def test_a_run_that_others_can_reach_says_so_in_its_first_line(
    wording: Wording, request_: entry.Request, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the reason; `up` prints notes, and a run by hand its stderr."""
    why = "no namespaces on this moon"
    monkeypatch.setattr(isolation, "enter", lambda: why)
    entry.on_this_machine(request_)
    first = json.loads((request_.result.parent / "progress.jsonl").read_text().splitlines()[0])

    assert "note" == first["event"]
    assert why in first["text"]
    wording("run", first["text"])
    assert first["text"] in capsys.readouterr().err


def test_data_is_downloaded_before_and_neither_that_nor_waiting_is_on_the_clock(
    request_: entry.Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Afterwards there is no network; and what may take minutes once is no part of any arm."""
    steps: list[str] = []
    monkeypatch.setattr(isolation, "enter", lambda: steps.append("enter"))
    monkeypatch.setitem(DATASETS, DATASET, DatasetEntry("x", lambda _: None, 1, False, False, lambda _: None))  # type: ignore[arg-type, return-value]

    def fetched(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        steps.append(" ".join(command[1:]))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", fetched)
    clock = iter([100.0, 160.0])
    monkeypatch.setattr("training.launch.entry.time.monotonic", lambda: next(clock))
    begun = entry.on_this_machine(request_)

    assert [f"-m training.workloads.cnn.fetch {DATASET} ", "enter"] == steps
    assert 60 == pytest.approx(request_.started.seconds_until(begun.started))


def test_a_run_by_hand_has_the_machine_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one under its guard, which has the lock then."""
    monkeypatch.setattr(isolation, "enter", lambda: None)
    entry.on_this_machine(entry.parse("native", None, ["--result", str(tmp_path / "result.json")]))

    assert isinstance(machine_lock.take_name(machine_lock.NAME), machine_lock.Holder)


def test_data_that_can_t_be_had_ends_the_run_with_its_message(
    monkeypatch: pytest.MonkeyPatch, request_: entry.Request
) -> None:
    """Before anything trains."""

    def fail(_: Source) -> None:
        raise ValueError("elsewhere")

    monkeypatch.setitem(DATASETS, "x", DatasetEntry("x", lambda _: None, 1, False, False, fail))  # type: ignore[arg-type, return-value]
    with pytest.raises(SystemExit, match=r"^error: elsewhere$"):
        fetch.main("x", "")
    fetch.main(DATASET, "")


def test_a_pod_keeps_its_network() -> None:
    """It has one that policies guard, and its peers are in it."""
    request = entry.parse("baseline", None, ["--no-bind-cpus", "--result", "result.json"])

    assert request is entry.on_this_machine(request)


def test_a_ray_cluster_elsewhere_is_reached() -> None:
    """What joins one needs the network."""
    request = entry.parse("ray", None, ["--address", "ray://head:10001", "--result", "result.json"])

    assert request is entry.on_this_machine(request)


def test_a_forwarded_port_that_is_in_use_is_followed_by_the_next() -> None:
    """And all of them in use is said."""
    with port_forward.listen(39000) as first, port_forward.listen(first.getsockname()[1]) as second:
        assert "127.0.0.1" == second.getsockname()[0]
        assert first.getsockname()[1] < second.getsockname()[1]
