"""Ports for TensorFlow's servers, which listen seconds after others were told of them. Standard library only."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

LOOPBACK = "127.0.0.1"


def hold_port(host: str) -> socket.socket:
    """A free port of `host` that is kept, until the socket is closed, for who listens with SO_REUSEADDR, as gRPC does.

    A worker listens when it has imported TensorFlow. A port that was only looked up may by then be that of somebody's
    outgoing connection; one that is bound is no candidate for those. Nobody connects before the worker listens.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((host, 0))
    return held


@contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """So many ports of this machine, kept while the body runs."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(hold_port(LOOPBACK)) for _ in range(count)]
        yield [int(held.getsockname()[1]) for held in sockets]
