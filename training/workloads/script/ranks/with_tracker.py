"""A rank of XGBoost in a pod of its own: python with_tracker.py script.py …

Rank 0 has XGBoost's tracker beside it, through which the ranks find each other; TRAINING_CLUSTER names its address to
all of them. Runs in the user's Python, 3.9 or newer, on its standard library and XGBoost.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Run the script, on rank 0 with XGBoost's tracker beside it; return the script's exit code."""
    command = [sys.executable, *sys.argv[1:]]
    cluster = json.loads(os.environ["TRAINING_CLUSTER"])
    if cluster["rank"] != 0:
        os.execv(sys.executable, command)  # noqa: S606 (the user's own command)
    _track(len(cluster["addresses"]), cluster["tracker"])  # first: a rank that does not find it waits for seconds
    script = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: script.terminate())
    code = script.wait()
    return code if code >= 0 else 128 - code


def _track(ranks: int, where: dict[str, str | int]) -> None:
    """Start XGBoost's tracker for `ranks` ranks in a thread of this process, at the address `where`."""
    from xgboost.tracker import RabitTracker

    host, port = str(where["dmlc_tracker_uri"]), int(where["dmlc_tracker_port"])
    tracker = RabitTracker(n_workers=ranks, host_ip=host, port=port, sortby="task")
    tracker.start()
    threading.Thread(target=tracker.wait_for, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
