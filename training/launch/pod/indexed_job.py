"""Addresses of the pods of an Indexed Job, from a pod's own name and index. Standard library only.

Kubernetes names such a pod JOB-INDEX, and a headless Service gives it the address JOB-INDEX.SERVICE.
"""

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence

from training.launch.rendezvous import Rendezvous

INDEX = "JOB_COMPLETION_INDEX"
"""Environment variable that Kubernetes sets in each pod of an Indexed Job."""
SERVICE = "TRAINING_SERVICE"
"""Environment variable with the name of the headless Service."""
WORKERS = "TRAINING_WORKERS"
"""Environment variable with the number of pods."""
PORT = 2222
WAIT_SECONDS = 600.0
"""Time limit until all names resolve: the slowest pod may have to wait for a place."""
POLL_SECONDS = 0.5


def addresses(hostname: str, index: int, service: str, workers: int) -> list[str]:
    """Return `host:port` of every pod in the order of their indices; `hostname` is that of pod `index`."""
    job, _, last = hostname.rpartition("-")
    if last != str(index) or not job:
        raise ValueError(
            f"the host name {hostname} does not end with this pod's index, {index}: no Indexed Job made it"
        )
    return [f"{job}-{peer}.{service}:{PORT}" for peer in range(workers)]


def join(environment: Mapping[str, str] = os.environ) -> Rendezvous:
    """Return this pod's rendezvous when the names of all pods resolve. Raises TimeoutError with one that never did."""
    index, workers = int(environment[INDEX]), int(environment[WORKERS])
    peers = addresses(socket.gethostname(), index, environment[SERVICE], workers)
    wait_for([peer.partition(":")[0] for peer in peers])
    return Rendezvous(peers, index)


def wait_for(
    names: Sequence[str],
    *,
    resolve: Callable[[str], object] = lambda name: socket.getaddrinfo(name, None),
    seconds: float = WAIT_SECONDS,
    poll_seconds: float = POLL_SECONDS,
) -> None:
    """Return when every name resolves; raises TimeoutError naming the first that did not within `seconds`."""
    deadline = time.monotonic() + seconds
    for name in names:
        while not _resolves(name, resolve):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{name} did not resolve within {seconds:.0f} s: its pod has not started (`kubectl get pods`)"
                )
            time.sleep(poll_seconds)


def _resolves(name: str, resolve: Callable[[str], object]) -> bool:
    try:
        resolve(name)
    except OSError:
        return False
    return True
