"""Whether bands hold where more workers are measured, too: `PYTHON -m tests.simulations.tenth_cores`, as root.

PYTHON has PyTorch. Eight ranks train a small network with DistributedDataParallel (gloo) and one global batch (strong
scaling). Each has a tenth of a core by a quota of its own, so that all of them together need less than one. Their steps
are timed with 1, 2, 4 and 8 of them in turns, four times; that makes one measurement. Of ten, each with new processes,
it prints what the projection says of 4 and 8 workers by 1 and 2, and of 8 by 1, 2 and 4, beside what was measured.
About 20 minutes. `--kept FILE` keeps the seconds, or reads them: measurements there are not made again.
"""

import argparse
import importlib
import itertools
import json
import math
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from compare.intervals import mean_interval
from compare.projection import Trend

NUMBERS, REPEATS, MEASUREMENTS, WARM_UP, STEPS, BATCH = (1, 2, 4, 8), 4, 10, 2, 16, 1024
SHARE, PERIOD_MICROSECONDS, SHARES = 0.1, 20_000, 4096
CGROUPS = Path("/sys/fs/cgroup")
Seconds = Mapping[int, list[float]]
"""Mean seconds of a timed step by number of workers, of each repeat."""


def train(rank: int, port: int, orders: Connection) -> None:
    """Train with so many ranks as each order says, and answer with the mean seconds of a timed step."""
    import torch
    import torch.distributed as dist
    from torch.nn import Linear, ReLU, Sequential, functional
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=max(NUMBERS))
    groups = {number: dist.new_group(range(number)) for number in NUMBERS}
    torch.manual_seed(1)
    rows, labels = torch.randn(BATCH, 256), torch.randint(0, 10, (BATCH,))

    def seconds(number: int) -> float:
        network = Sequential(Linear(256, 384), ReLU(), Linear(384, 384), ReLU(), Linear(384, 10))
        model = network if number == 1 else DistributedDataParallel(network, process_group=groups[number])
        optimizer, start = torch.optim.SGD(model.parameters(), lr=0.01), math.nan
        for step in range(WARM_UP + STEPS):
            if step == WARM_UP:
                start = time.monotonic()
            optimizer.zero_grad()
            functional.cross_entropy(model(rows[rank::number]), labels[rank::number]).backward()
            optimizer.step()
        return (time.monotonic() - start) / STEPS

    orders.send(seconds(max(NUMBERS)))  # what PyTorch loads late
    while number := orders.recv():
        orders.send(seconds(number))


@contextmanager
def a_tenth(process: BaseProcess) -> Iterator[None]:
    """Put a process into a cgroup of its own, v1 or v2, with a quota of a tenth of a core; end both."""
    is_first, quota = (CGROUPS / "cpu").is_dir(), round(SHARE * PERIOD_MICROSECONDS)
    group = (CGROUPS / "cpu" if is_first else CGROUPS) / f"tenth-cores-{process.pid}"
    of_first = {"cpu.cfs_period_us": PERIOD_MICROSECONDS, "cpu.cfs_quota_us": quota, "cpu.shares": SHARES}
    of_second = {"cpu.max": f"{quota} {PERIOD_MICROSECONDS}", "cpu.weight": SHARES // 10}
    group.mkdir()
    try:
        for name, value in {**(of_first if is_first else of_second), "cgroup.procs": process.pid}.items():
            (group / name).write_text(f"{value}")
        yield
    finally:
        process.kill()
        process.join()
        while group.is_dir():  # busy for a moment after its last process
            with suppress(OSError):
                group.rmdir()
            time.sleep(0.01)


def measure() -> Seconds:
    """Return one measurement of new processes; PyTorch is imported once, before they are forked."""
    [importlib.import_module(name) for name in ("torch._dynamo", "torch.distributed")]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    seconds: dict[int, list[float]] = {number: [] for number in NUMBERS}
    with ExitStack() as stack:
        ranks, processes = list[Connection](), list[BaseProcess]()
        for rank in range(max(NUMBERS)):
            ours, of_rank = multiprocessing.Pipe()
            fork = multiprocessing.get_context("fork")
            processes.append(fork.Process(target=train, args=(rank, port, of_rank), daemon=True))
            processes[-1].start()
            of_rank.close()
            ranks.append(ours)
        [orders.recv() for orders in ranks]
        for process in processes:
            stack.enter_context(a_tenth(process))
        for repeat, turn in itertools.product(range(REPEATS), range(len(NUMBERS))):
            number = NUMBERS[(repeat + turn) % len(NUMBERS)]
            for orders in ranks[:number]:
                orders.send(number)
            seconds[number].append([orders.recv() for orders in ranks[:number]][-1])
    return seconds


def said_and_measured(seconds: Seconds) -> Iterator[tuple[list[str], bool]]:
    """Yield a row for each number of workers that is predicted, and whether what was measured lies inside."""
    speedups = {n: [one / step for one, step in zip(seconds[1], seconds[n], strict=True)] for n in NUMBERS}
    for known, workers in (((1, 2), 4), ((1, 2), 8), ((1, 2, 4), 8)):
        band = Trend({number: speedups[number] for number in known}).band(workers)
        measured = mean_interval([math.log(value) for value in speedups[workers]], 0.95)
        truth = math.exp(measured.centre) if measured else math.nan
        cells = [", ".join(map(str, known)), str(workers), f"{band.lower:.2f} to {band.upper:.2f}", f"{truth:.2f}"]
        yield cells, band.lower <= truth <= band.upper


def main() -> None:
    """Print a table as Markdown, with a row for each prediction."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulations.tenth_cores", description=__doc__)
    parser.add_argument("--measurements", type=int, default=MEASUREMENTS)
    parser.add_argument("--kept", type=Path, default=Path(os.devnull))
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no cgroup is left
    lines = asked.kept.read_text(encoding="utf-8").splitlines() if asked.kept.is_file() else []
    found: list[Seconds] = [{int(number): values for number, values in json.loads(line).items()} for line in lines]
    print("| measurement | fitted to | workers | said | measured | |\n" + "| --- " * 6 + "|", flush=True)
    inside: dict[str, list[bool]] = {}
    for number in range(asked.measurements):
        if number == len(found):
            found.append(measure())
            with asked.kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found[-1]) + "\n")
        for cells, is_inside in said_and_measured(found[number]):
            inside.setdefault(f"{cells[1]} by {cells[0]}", []).append(is_inside)
            print(f"| {number + 1} | {' | '.join(cells)} | {'inside' if is_inside else 'OUTSIDE'} |", flush=True)
    for what, each in inside.items():
        print(f"\n{what}: {sum(each)} of {len(each)} inside")


if __name__ == "__main__":
    main()
