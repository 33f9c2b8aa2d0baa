"""N processes of this machine that find each other without Ray: python processes.py N KIND script.py …

KIND says how: by TF_CONFIG, by XGBoost's tracker, or by LightGBM's list of machines. Runs in the user's Python, 3.9 or
newer, on its standard library (and XGBoost, whose tracker runs here). When a process fails, the others are ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import variables  # type: ignore[import-not-found]  # beside this file, which is run as a command

BOOSTERS = ("ray-xgboost", "ray-lightgbm")
GRACE_SECONDS = 5.0


def main() -> int:
    """Start the processes and wait for them; return 0, or the exit code of a process that failed."""
    count, kind, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    holders_by_port = variables.hold_ports(count, "127.0.0.1")
    addresses = [f"127.0.0.1:{port}" for port in holders_by_port]
    if kind in BOOSTERS:
        tracker = _tracker(count) if kind == "ray-xgboost" else None
        by_rank = [variables.booster(addresses, rank, tracker) for rank in range(count)]
        for holder in holders_by_port.values():
            holder.close()  # LightGBM shares no address
    else:
        by_rank = [variables.tf_config(addresses, rank) for rank in range(count)]
    ranks = [subprocess.Popen([sys.executable, *command], env={**os.environ, **more}) for more in by_rank]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        while None in (states := [rank.poll() for rank in ranks]) and not any(states):
            time.sleep(0.05)
    finally:
        _end(ranks)
    codes = [rank.returncode for rank in ranks if rank.returncode]
    return codes[0] if codes and codes[0] > 0 else 1 if codes else 0


def _tracker(count: int) -> dict[str, str | int]:
    """Start XGBoost's tracker, through which ranks find each other; return the parameters to reach it with."""
    from xgboost.tracker import RabitTracker

    tracker = RabitTracker(n_workers=count, host_ip="127.0.0.1", sortby="task")
    tracker.start()
    threading.Thread(target=tracker.wait_for, daemon=True).start()
    return dict(tracker.worker_args())


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
