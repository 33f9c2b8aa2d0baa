"""An arm of N processes that find each other, without Ray.

Told which of them it is (`rendezvous`), this process is that one; else it starts them all on this machine and waits.
"""

import os
import subprocess
import sys
import time

from training.contract.clock import Stamp
from training.contract.result import TrainingResult
from training.launch import entry, rendezvous
from training.launch.rendezvous import Rendezvous
from training.machine.ports import held_ports

POLL_SECONDS = 0.05
GRACE_SECONDS = 5.0


def launch_workers(request: entry.Request, arm: str) -> None:
    """Start the workers on this machine and wait until they have ended; rank 0 writes the result.

    Raises RuntimeError, which names the first worker that failed. The other workers are ended before.
    """
    with held_ports(request.recipe.workers) as ports:
        addresses = [f"127.0.0.1:{port}" for port in ports]
        workers = [_start(request, arm, Rendezvous(addresses, rank)) for rank in range(len(ports))]
        try:
            while None in (codes := [worker.poll() for worker in workers]) and not any(codes):
                time.sleep(POLL_SECONDS)
        finally:
            _end(workers)
    failed = [(rank, w.returncode) for rank, w in enumerate(workers) if w.returncode and w.returncode > 0] or [
        (rank, w.returncode) for rank, w in enumerate(workers) if w.returncode
    ]
    if failed:
        raise RuntimeError(
            f"worker {failed[0][0]} of the {arm} arm ended with code {failed[0][1]}; its output is above"
        )


def run_worker(request: entry.Request, arm: str, cluster: Rendezvous) -> TrainingResult | None:
    """Train as the worker with this address and rank, and return its result."""
    os.environ |= request.workload.rendezvous(cluster.addresses, cluster.rank)
    request.phases.add("launch", request.started.seconds_until(Stamp.now()) - sum(request.phases.seconds.values()))
    return entry.take_part(request, arm, cluster.rank, len(cluster.addresses))


def _start(request: entry.Request, arm: str, cluster: Rendezvous) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", f"training.{arm}", *sys.argv[1:]],
        env=os.environ | cluster.variable() | entry.pass_on_start(request.started),
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


def main(arm: str, doc: str | None) -> None:
    """Run as a worker if the environment names a rendezvous; else run as the launcher that starts all workers."""
    request, cluster = entry.begin(arm, doc), rendezvous.from_environment()
    if cluster:
        entry.run(lambda: run_worker(request, arm, cluster), request.result)
        return
    try:
        launch_workers(entry.on_this_machine(request), arm)
    except (RuntimeError, OSError) as error:
        sys.exit(f"error: {error}")
