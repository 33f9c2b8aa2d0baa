"""N processes of this machine with TF_CONFIG, as TensorFlow's guide has it: python processes.py N script.py …

Runs in the user's Python, 3.9 or newer, on its standard library. When a process fails, the others are ended.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import variables  # type: ignore[import-not-found]  # beside this file, which is run as a command

GRACE_SECONDS = 5.0


def main() -> int:
    """Start the processes, wait for them, and pass the first failure on."""
    count, command = int(sys.argv[1]), sys.argv[2:]
    sockets = [_held() for _ in range(count)]
    workers = [f"127.0.0.1:{held.getsockname()[1]}" for held in sockets]
    ranks = [_start(command, workers, index) for index in range(count)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        while any(rank.poll() is None for rank in ranks) and not any(rank.returncode for rank in ranks):
            time.sleep(0.05)
    finally:
        _end(ranks)
    codes = [rank.returncode for rank in ranks if rank.returncode]
    return codes[0] if codes and codes[0] > 0 else 1 if codes else 0


def _held() -> socket.socket:
    """A free port that stays this one's until gRPC, which shares addresses, listens on it."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def _start(command: list[str], workers: list[str], index: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, *command], env={**os.environ, **variables.tf_config(workers, index)})


def _end(ranks: list[subprocess.Popen[bytes]]) -> None:
    for rank in ranks:
        if rank.poll() is None:
            rank.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for rank in ranks:
        try:
            rank.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            rank.kill()
            rank.wait()


if __name__ == "__main__":
    sys.exit(main())
