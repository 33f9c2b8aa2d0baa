"""Ports of this machine that a test names before something listens there."""

import random
import socket
from contextlib import ExitStack, suppress
from itertools import count

LOWEST, HIGHEST = 20_000, 29_000
"""Systems give the ports above to who asks for any, and a Ray head gives the 10,000 below to its workers: neither takes
one of these."""


def free_ports(number: int) -> list[int]:
    """Return so many ports, one after the other, that nothing listens at on any address."""
    for _ in count():
        first = random.randrange(LOWEST, HIGHEST)  # noqa: S311 - so that two processes of pytest ask for others
        ports = list(range(first, first + number))
        with suppress(OSError), ExitStack() as held:
            for port in ports:
                held.enter_context(socket.create_server(("", port)))
            return ports
    raise AssertionError
