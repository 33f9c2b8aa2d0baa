"""Brings the observations of all ranks to rank 0, where ranks are pods of their own, and before that what rank 0 has
proved to the others. Standard library only."""

import json
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

WAIT_SECONDS = 7 * 86_400.0
"""Seconds to wait for the observations of all ranks, longer than any run, because a rank that fails, or the deadline,
ends the Job and so this pod."""
ANSWER_SECONDS = 10.0
ALIVE_SECONDS = 30
"""Seconds between signs of life (keepalives) of a connection that waits."""
MOST_BYTES = 256 * 2**20
"""Largest observation of a rank that rank 0 accepts; a million steps take about 50 MiB."""
MOST_ASKED = 1000
"""Most bytes of a rank's question to rank 0."""


class ApartError(ValueError):
    """Ranks did not reach each other; the message names the ranks that are missing."""


def listener_at(port: int) -> socket.socket:
    """Return a socket that listens at a port on all addresses of a pod, which may have IPv6 addresses alone."""
    if not socket.has_dualstack_ipv6():
        return socket.create_server(("", port))
    return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)


def give(listener: socket.socket, missing: set[int], what: Mapping[str, Any]) -> None:
    """Send `what` to each of the `missing` ranks that asks. Raise ApartError with the ranks that did not ask."""
    content = json.dumps(what).encode()
    deadline = time.monotonic() + WAIT_SECONDS
    while missing:
        connection = _next(listener, deadline, missing, "did not ask what was proved")
        connection.settimeout(ANSWER_SECONDS)
        with suppress(OSError, ValueError, RecursionError), connection:
            question = json.loads(_line(connection))
            if isinstance(question, dict) and isinstance(rank := question.get("asks"), int) and rank in missing:
                _wait_with(connection, deadline)  # as long as it takes: a rank that has it all goes on, heard or not
                connection.sendall(content)
                connection.shutdown(socket.SHUT_WR)
                if connection.recv(1):
                    missing.remove(rank)


def ask(meeting: tuple[str, int], rank: int) -> dict[str, Any]:
    """Return the answer of rank 0. Raise ApartError if rank 0 does not answer in time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError), socket.create_connection(meeting, ANSWER_SECONDS) as connection:
            connection.sendall(json.dumps({"asks": rank}).encode() + b"\n")
            _wait_with(connection, deadline)
            with connection.makefile("rb") as stream:
                answer: dict[str, Any] = json.loads(stream.read())
            connection.sendall(b"1")
            return answer
        time.sleep(0.5)
    raise ApartError(f"rank 0 at {meeting[0]} did not say what it proved to rank {rank}")


def _wait_with(connection: socket.socket, deadline: float) -> None:
    """Let a connection be silent until the deadline, with keepalives, because the network between pods may drop a
    silent connection."""
    connection.settimeout(max(ANSWER_SECONDS, deadline - time.monotonic()))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # on macOS there are no pods
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, ALIVE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, ALIVE_SECONDS)


def _line(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as stream:
        return stream.readline(MOST_ASKED)


def bring(meeting: tuple[str, int], what: Mapping[str, Any]) -> None:
    """Send `what`, which this rank observed, to rank 0. Raise ApartError if rank 0 does not take it."""
    deadline, content = time.monotonic() + WAIT_SECONDS, json.dumps(what).encode()
    if len(content) > MOST_BYTES:
        raise ApartError(f"what rank {what['rank']} did takes {len(content)} bytes, more than {MOST_BYTES}")
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(meeting, ANSWER_SECONDS) as connection:
                connection.sendall(content)
                connection.shutdown(socket.SHUT_WR)
                _wait_with(connection, deadline)
                if connection.recv(1):
                    return
        except OSError:
            pass  # it has ended, or has not started
        time.sleep(0.5)
    raise ApartError(f"rank 0 at {meeting[0]} did not take what rank {what['rank']} did")


def received(listener: socket.socket, missing: set[int]) -> list[dict[str, Any]]:
    """Return the observations that these ranks send. Raise ApartError with the ranks that did not send theirs."""
    observations_of_ranks: list[dict[str, Any]] = []
    deadline = time.monotonic() + WAIT_SECONDS
    with listener:
        while missing:
            brought = _taken(_next(listener, deadline, missing, "did not send its observations"))
            if brought.get("rank") in missing:
                missing.remove(brought["rank"])
                observations_of_ranks += brought["observations"]
    return observations_of_ranks


def _next(listener: socket.socket, deadline: float, missing: set[int], failed: str) -> socket.socket:
    """Return the next connection. Raise ApartError with the missing ranks if no connection comes in time."""
    listener.settimeout(max(0.001, deadline - time.monotonic()))
    try:
        return listener.accept()[0]
    except TimeoutError:
        ranks = ", ".join(map(str, sorted(missing)))
        raise ApartError(f"rank {ranks} {failed} within {WAIT_SECONDS:.0f} s") from None


def _taken(connection: socket.socket) -> dict[str, Any]:
    """Return what a rank sends; {} if the sender is no rank, or a rank that was cut off and will retry."""
    connection.settimeout(ANSWER_SECONDS)
    try:
        with connection, connection.makefile("rb") as stream:
            brought = json.loads(stream.read(MOST_BYTES))
            if not _is_of_a_rank(brought):
                return {}
            connection.sendall(b"1")
            return dict(brought)
    except (OSError, ValueError, RecursionError):
        return {}


def _is_of_a_rank(brought: Any) -> bool:
    return (
        isinstance(brought, dict)
        and isinstance(brought.get("rank"), int)
        and isinstance(brought.get("observations"), list)
    )
