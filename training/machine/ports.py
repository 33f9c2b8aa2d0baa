"""Ports for TensorFlow's servers, which listen seconds after others were told of them. Standard library only."""

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

LOOPBACK = "127.0.0.1"
CAN_BE_HELD = sys.platform.startswith("linux")
"""Elsewhere a socket that is bound and does not listen is in the way of one that does: BSD, so macOS, gives connections
to the more specific address, and lets nobody have the same one twice."""


def _hold_port() -> socket.socket:
    """Bind a free port, until the socket is closed, for a server that listens with SO_REUSEADDR, as gRPC does.

    A worker listens when it has imported TensorFlow. A port that was only looked up may by then be that of an
    outgoing connection; one that is bound is no candidate for those. Nobody connects before the worker listens.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((LOOPBACK, 0))
    return listener


@contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Give this many ports of this machine, all different, held while the body runs where the system allows that."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(_hold_port()) for _ in range(count)]
        ports = [int(listener.getsockname()[1]) for listener in sockets]
        if not CAN_BE_HELD:
            stack.close()
        yield ports
