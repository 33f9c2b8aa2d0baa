"""The ports of TensorFlow's servers on this machine: held until they listen there, and theirs alone."""

import socket
from types import SimpleNamespace

import pytest

from tests.limits import LONGEST_SECONDS
from training.machine import ports as ports_module
from training.machine.ports import CAN_BE_HELD, held_ports
from training.workloads.script.ranks import variables


@pytest.mark.skipif(not CAN_BE_HELD, reason="this system lets nobody listen at a port that is held")
def test_a_held_port_is_for_who_listens_as_grpc_does_and_for_nobody_else() -> None:
    """A plain bind finds it in use; SO_REUSEADDR, on all addresses, may listen, and is then connected to."""
    with held_ports(2) as ports:
        assert 2 == len(set(ports))
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", ports[0]))
        with socket.socket(socket.AF_INET6) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("::", ports[0]))
            server.listen()
            with socket.create_connection(("127.0.0.1", ports[0]), timeout=LONGEST_SECONDS) as client:
                assert ports[0] == client.getpeername()[1]


def test_where_a_held_port_would_be_in_the_way_it_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS a connection would be for the socket that holds it, and that does not listen."""
    monkeypatch.setattr(ports_module, "CAN_BE_HELD", False)
    with held_ports(2) as ports:
        assert 2 == len(set(ports))
        with socket.socket() as other:
            other.bind(("127.0.0.1", ports[0]))


@pytest.mark.parametrize(("platform", "is_held"), [("linux", True), ("darwin", False)])
def test_ports_of_a_script_s_ranks_are_held_as_well(
    platform: str, monkeypatch: pytest.MonkeyPatch, *, is_held: bool
) -> None:
    """In a script's own Python, which can't import this project; and not where that would be in the way."""
    monkeypatch.setattr(variables, "sys", SimpleNamespace(platform=platform))
    held = variables.hold_ports(2, "127.0.0.1")
    assert 2 == len(held)
    try:
        assert [is_held] * 2 == [_is_taken(port) for port in held]
    finally:
        for holder in held.values():
            holder.close()


def _is_taken(port: int) -> bool:
    """Whether a plain bind finds this port in use."""
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
