"""Ports for servers that listen only seconds after others were told of them. Standard library only."""

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

LOOPBACK = "127.0.0.1"
CAN_BE_HELD = sys.platform.startswith("linux")
"""Whether a port can be held for a server. On other systems than Linux a socket that is bound and does not listen is in
the way of one that does: BSD, so macOS, gives connections to the more specific address, and lets nobody have the same
address twice."""


def _hold_port() -> socket.socket:
    """Return a socket that is bound to a free port, and so holds it for a server that listens with SO_REUSEADDR, as
    gRPC's does.

    A worker listens only when it has imported TensorFlow. A port that was only looked up may by then be used for an
    outgoing connection; a bound port is not used for those. Nobody connects before the worker listens.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((LOOPBACK, 0))
    return listener


@contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Give the body of the `with` this many different ports of this machine. They are held while the body runs, if the
    system allows that."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(_hold_port()) for _ in range(count)]
        ports = [int(listener.getsockname()[1]) for listener in sockets]
        if not CAN_BE_HELD:
            stack.close()
        yield ports
