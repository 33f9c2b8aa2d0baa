"""The native arm: one process a worker under TensorFlow's MultiWorkerMirroredStrategy, without Ray.

Told which of the workers it is (`entry.CLUSTER`), this process is that one; else it starts them all on this machine and
waits.
"""

import json
import os
import subprocess
import sys
import time

from training.contract.clock import Stamp
from training.contract.result import TrainingResult
from training.launch import entry
from training.machine.ports import held_ports

POLL_SECONDS = 0.05
GRACE_SECONDS = 5.0


def launch_workers(request: entry.Request) -> None:
    """Start the workers and wait for them; rank 0 writes the result.

    Raises RuntimeError naming the first worker that failed; the others are ended then.
    """
    with held_ports(request.recipe.workers) as ports:
        workers = [_start(request, rank, ports) for rank in range(request.recipe.workers)]
        try:
            while any(worker.poll() is None for worker in workers):
                if any(worker.returncode for worker in workers):
                    break
                time.sleep(POLL_SECONDS)
        finally:
            _end(workers)
    failed = [(rank, w.returncode) for rank, w in enumerate(workers) if w.returncode and w.returncode > 0] or [
        (rank, w.returncode) for rank, w in enumerate(workers) if w.returncode
    ]
    if failed:
        raise RuntimeError("worker {} of the native arm ended with code {}; its output is above".format(*failed[0]))


def run_worker(request: entry.Request) -> TrainingResult | None:
    """Be the worker that this process was told to be."""
    os.environ["TF_CONFIG"] = os.environ[entry.CLUSTER]  # where TensorFlow looks
    request.phases.add("launch", request.started.seconds_until(Stamp.now()) - sum(request.phases.seconds.values()))
    config = json.loads(os.environ[entry.CLUSTER])
    rank, world = int(config["task"]["index"]), len(config["cluster"]["worker"])
    return entry.take_part(request, "native", rank, world)


def _start(request: entry.Request, rank: int, ports: list[int]) -> subprocess.Popen[bytes]:
    config = {
        "cluster": {"worker": [f"127.0.0.1:{port}" for port in ports]},
        "task": {"type": "worker", "index": rank},
    }
    return subprocess.Popen(
        [sys.executable, "-m", "training.native", *sys.argv[1:]],
        env=os.environ | {entry.CLUSTER: json.dumps(config)} | entry.pass_on_start(request.started),
    )


def _end(workers: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + GRACE_SECONDS
    for worker in workers:
        if worker.poll() is None:
            worker.terminate()
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def main() -> None:
    """One of the workers, or the launcher of them all."""
    request = entry.begin("native", __doc__)
    if entry.CLUSTER in os.environ:
        entry.run(lambda: run_worker(request), request.result)
        return
    try:
        launch_workers(entry.on_this_machine(request))
    except (RuntimeError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
