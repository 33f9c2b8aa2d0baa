"""What listens while an arm runs, for real: nothing that another machine reaches, though TensorFlow binds it all."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from infra.places.local import guard
from training.machine import isolation

PROJECT = Path(__file__).resolve().parents[2]
LISTEN = "0A"
"""TCP_LISTEN, as /proc/net/tcp has it."""
FLAGS = ("--dataset=synthetic", "--train-images=500", "--model=cnn-half", "--epochs=3", "--global-batch-size=50")
reason = "no other machine is reached from here anyway" if isolation.is_alone() else isolation.refusal()
pytestmark = pytest.mark.skipif(reason is not None, reason=reason or "")


class Listening(NamedTuple):
    """A TCP socket that accepts connections, and the network that it is in."""

    network: str
    address: str
    port: int


@pytest.fixture(scope="module", params=["native", "ray"])
def listening(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[Listening]]:
    """All that listened in the session of a guarded run, which goes on while it is looked at."""
    folder = tmp_path_factory.mktemp(request.param)
    command = [
        *(sys.executable, "-m", "infra.places.local.guard", "--deadline", "300", "--progress", str(folder), "--"),
        *(sys.executable, "-m", f"training.{request.param}", "--result", str(folder / "result.json"), *FLAGS),
    ]
    with (folder / "log.txt").open("wb") as log:
        running = subprocess.Popen(
            command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
        )
    seen: set[Listening] = set()
    try:
        while "epoch" not in read(folder / "progress.jsonl"):
            assert running.poll() is None, read(folder / "log.txt")[-3000:]
            seen |= of_session(running.pid)
            time.sleep(0.5)
        seen |= of_session(running.pid)
        yield seen
        assert 0 == running.wait(120)
        assert [] == guard.session_members(running.pid)
    finally:
        guard.end_session(running.pid)
        running.kill()
        running.communicate()


def read(path: Path) -> str:
    """What a file holds, or nothing yet."""
    return path.read_text(errors="replace") if path.exists() else ""


def network_of(pid: int | str) -> str:
    """The network namespace of a process."""
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def of_session(session: int) -> set[Listening]:
    """What listens now in a session, in whatever network: psutil asks that of this process alone."""
    seen = set()
    for pid in [session, *guard.session_members(session)]:
        with suppress(OSError):  # it ended meanwhile
            descriptors = {os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()}  # noqa: PTH115 (no paths)
            for listening, inode in in_network_of(pid):
                if f"socket:[{inode}]" in descriptors:
                    seen.add(listening)
    return seen


def in_network_of(pid: int | str) -> Iterator[tuple[Listening, str]]:
    """All that listens in the network of a process, whoever's it is, each with its inode."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTEN:
                address, port = local.split(":")
                yield Listening(network_of(pid), in_words(address), int(port, 16)), inode


def in_words(address: str) -> str:
    """An address as the kernel's tables have it: words in this machine's byte order."""
    words = bytes.fromhex(address)
    in_order = b"".join(words[at : at + 4][:: 1 if sys.byteorder == "big" else -1] for at in range(0, len(words), 4))
    return str(ip_address(in_order))


def test_what_binds_every_address_is_in_a_network_of_the_run_s_own(listening: set[Listening]) -> None:
    """TensorFlow's servers are seen to bind every address, so that this looks at what it should; none of them here."""
    outside = network_of("self")

    assert [] == [one for one in listening if one.network == outside]
    assert [one for one in listening if ip_address(one.address).is_unspecified]
    assert 1 == len({one.network for one in listening} - {outside})


def test_no_port_of_the_run_is_reached_from_this_machine_s_own_network(listening: set[Listening]) -> None:
    """Neither through an address that other machines reach, nor through loopback."""
    addresses = [one.address for all_ in psutil.net_if_addrs().values() for one in all_ if one.family == socket.AF_INET]
    outside = network_of("self")
    of_others = {one.port for one, _ in in_network_of("self")}  # that of a test beside this one may be the same number
    ports = {one.port for one in listening if one.network != outside} - of_others

    assert ports
    for address in addresses:
        for port in ports:
            with pytest.raises(OSError, match="refused"):
                socket.create_connection((address, port), 5)
