"""Addresses at which no API server answers, in each way that this happens."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

WAYS = ("dropped", "silent", "refused")


@contextmanager
def address(way: str) -> Iterator[str]:
    """Its URL: packets are dropped, as by a firewall; a connection is accepted and hears nothing; or it is refused."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        if way != "refused":
            listener.listen(0 if way == "dropped" else 64)
        for _ in range(3 if way == "dropped" else 0):  # a full queue: the kernel drops who comes next
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(listener.getsockname())
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
