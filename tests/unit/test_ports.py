"""The ports of TensorFlow's servers on this machine: held until they listen there, and theirs alone."""

import socket

import pytest

from training.ports import held_ports


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
            with socket.create_connection(("127.0.0.1", ports[0]), timeout=5) as client:
                assert ports[0] == client.getpeername()[1]
