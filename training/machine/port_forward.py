"""Hands connections on: those of this machine's loopback to a server in a run's own network, one port to another.

A socket stays in the network in which it was made: a listener made before `training.machine.isolation.enter` is reached
from this machine, and the connections made after it reach what listens inside.
"""

import selectors
import socket
import threading
from contextlib import suppress
from typing import Any

LOOPBACK = "127.0.0.1"
CHUNK_BYTES = 65536
PORTS_TRIED = 50


def listen(port: int) -> socket.socket:
    """Return a socket that listens on loopback at `port`, or the next free one. Raises OSError if none is free."""
    for candidate in range(port, port + PORTS_TRIED):
        with suppress(OSError):
            return socket.create_server((LOOPBACK, candidate))
    raise OSError(f"ports {port} to {port + PORTS_TRIED - 1} of {LOOPBACK} are all in use: end what uses one of them")


def start(listener: socket.socket, address: str, port: int) -> None:
    """Forward the listener's connections to `address` and `port`, in threads that end with the process."""
    threading.Thread(target=_accept, args=(listener, address, port), name="port-forward", daemon=True).start()


def _accept(listener: socket.socket, address: str, port: int) -> None:
    while True:
        accepted, _ = listener.accept()
        threading.Thread(target=_serve, args=(accepted, address, port), daemon=True).start()


def _serve(accepted: socket.socket, address: str, port: int) -> None:
    # Nobody listens inside yet or any more, or either side went away: the other sees its connection closed.
    with accepted, suppress(OSError), socket.create_connection((address, port)) as inside:
        copy_both_ways(accepted, inside)


def copy_both_ways(near: Any, far: Any) -> None:
    """Copy bytes between two sockets, or objects like them, until either side has ended."""
    with selectors.DefaultSelector() as ready:
        ready.register(near, selectors.EVENT_READ, far)
        ready.register(far, selectors.EVENT_READ, near)
        while True:
            for key, _ in ready.select():
                chunk = key.fileobj.recv(CHUNK_BYTES)  # type: ignore[union-attr]  # they are sockets
                if not chunk:
                    return
                key.data.sendall(chunk)
