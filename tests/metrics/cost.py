"""Measures what it costs Ray's training to be read: python -m tests.metrics.cost [--pairs N] [--epochs N]

The arm `ray` trains on a Ray head with its ports of metrics, with a Prometheus that reads them as often as a cluster's
and with one that is stopped, which take turns at being first. Everything shares this machine's CPUs: in a cluster
Prometheus has its own, so this is the upper bound. Measures; passes no judgement. TRY_DASHBOARD_PYTHON is the
interpreter of an environment with the uv extra `image`; TRY_PROMETHEUS names Prometheus' program where it is not on
PATH.
"""

import argparse
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from compare.intervals import ratio_interval
from infra.places.cluster.manifests import monitoring
from tests.metrics import head, prometheus
from tests.metrics.prometheus import Prometheus
from tests.ray_head import PYTHON, Head
from training.contract import provenance, result
from training.launch import environment
from training.machine import machine_lock, output

PAIRS, EPOCHS, WORKERS = 8, 32, 2
TIMEOUT_SECONDS = 1800
MOST_SHOWN = 1000
"""Characters of the end of what a run that failed printed."""


@dataclass(frozen=True)
class Pair:
    """One run that is read and one that is not; seconds of their timed steps."""

    read: float
    not_read: float


def measure(started: Head, reader: Prometheus, number: int, epochs: int) -> Pair:
    """Run both halves of a pair."""
    seconds = {}
    for read in ((True, False), (False, True))[number % 2]:
        os.kill(reader.pid, signal.SIGCONT if read else signal.SIGSTOP)
        seconds[read] = _run(started, epochs)
    os.kill(reader.pid, signal.SIGCONT)
    return Pair(read=seconds[True], not_read=seconds[False])


def _run(started: Head, epochs: int) -> float:
    """Return the seconds of a run's timed steps."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {**started.environment, "RAY_ADDRESS": started.address, environment.RESULTS: folder}
        command = [
            *(PYTHON, "-m", "training.launch.pod.run", "ray", "--address=auto"),
            *("--dataset=synthetic", f"--epochs={epochs}", f"--workers={WORKERS}"),
        ]
        done = output.capture_text(command, seconds=TIMEOUT_SECONDS, cwd=provenance.PROJECT, env=variables)
        if done.returncode:
            sys.exit(f"error: the run ended with exit code {done.returncode}:\n{done.stderr[-MOST_SHOWN:]}")
        return result.read(Path(folder, "result.json")).seconds.train or 0.0


def summary(pairs: Sequence[Pair]) -> str:
    """Return the figures with their spread over the pairs."""
    ratios = [pair.read / pair.not_read for pair in pairs]
    interval = ratio_interval(ratios)
    sure = f", 95 % interval {interval.lower:.4f} to {interval.upper:.4f}" if interval else ""
    return (
        f"steps that are read take {statistics.median(ratios):.4f} of those that are not"
        f" ({min(ratios):.4f} to {max(ratios):.4f}{sure}; {len(ratios)} pairs, every {monitoring.EVERY_SECONDS} s)"
    )


def main() -> None:
    """Measure, one run after another."""
    parser = argparse.ArgumentParser(prog="python -m tests.metrics.cost", description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    if prometheus.program() is None:
        sys.exit(f"error: no Prometheus here: {prometheus.VARIABLE} names its program")
    machine_lock.hold(lambda text: print(text, flush=True))
    with (
        tempfile.TemporaryDirectory() as folder,
        head.running(cpus=os.cpu_count() or WORKERS) as (started, targets),
        prometheus.running(Path(folder), targets, monitoring.EVERY_SECONDS) as reader,
    ):
        pairs = []
        for number in range(options.pairs):
            pairs.append(measure(started, reader, number, options.epochs))
            print(f"{number + 1}: {pairs[-1].read:.2f} s read, {pairs[-1].not_read:.2f} s not", flush=True)
        print(summary(pairs))
        for value in reader.now("quantile_over_time(0.5, scrape_duration_seconds[1h])"):
            print(f"reading {value['metric']['instance']} takes {float(value['value'][1]):.3f} s")
        used = psutil.Process(reader.pid).cpu_times()
        print(f"Prometheus used {used.user + used.system:.1f} s of a CPU")


if __name__ == "__main__":
    main()
