"""Brings the observations of all ranks to rank 0, where ranks are pods of their own. Standard library only."""

import json
import socket
import time
from collections.abc import Mapping
from typing import Any

WAIT_SECONDS = 7 * 86_400.0
"""Time limit for the observations of all ranks, longer than any run: a rank that fails, or the deadline, ends the Job
and so this pod."""
ANSWER_SECONDS = 10.0
MOST_BYTES = 256 * 2**20
"""Largest observation of a rank that rank 0 accepts; a million steps take about 50 MiB."""


class ApartError(ValueError):
    """Ranks did not come together; the message says which."""


def bring(meeting: tuple[str, int], what: Mapping[str, Any]) -> None:
    """Give rank 0 what this rank did. Raises ApartError when it does not take it."""
    deadline, content = time.monotonic() + WAIT_SECONDS, json.dumps(what).encode()
    if len(content) > MOST_BYTES:
        raise ApartError(f"what rank {what['rank']} did takes {len(content)} bytes, more than {MOST_BYTES}")
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(meeting, ANSWER_SECONDS) as connection:
                connection.sendall(content)
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(max(ANSWER_SECONDS, deadline - time.monotonic()))
                if connection.recv(1):
                    return
        except OSError:
            pass  # it has ended, or has not started
        time.sleep(0.5)
    raise ApartError(f"rank 0 at {meeting[0]} did not take what rank {what['rank']} did")


def received(listener: socket.socket, missing: set[int]) -> list[dict[str, Any]]:
    """Receive the observations of these ranks. Raises ApartError with those that did not send theirs."""
    observations_of_ranks: list[dict[str, Any]] = []
    deadline = time.monotonic() + WAIT_SECONDS
    with listener:
        while missing:
            listener.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                ranks = ", ".join(map(str, sorted(missing)))
                raise ApartError(f"rank {ranks} did not send its observations within {WAIT_SECONDS:.0f} s") from None
            brought = _taken(connection)
            if brought.get("rank") in missing:
                missing.remove(brought["rank"])
                observations_of_ranks += brought["observations"]
    return observations_of_ranks


def _taken(connection: socket.socket) -> dict[str, Any]:
    """Return what a rank sends; {} from a stranger, or a rank that was cut off and retries."""
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
