"""Measures a step of a plain script's ranks against one of a hand-written DDP port: python -m bench.spread PYTHON

The same file, examples/torch_ddp.py, is both: by torchrun it wraps its model and shards its rows itself; run as a
script of one process it does neither, and is distributed as `native` of a plain script is. Each has a clock after each
step and two ranks with one thread each; they take turns at being first. Measures; passes no judgement. PYTHON is the
interpreter of an environment with PyTorch.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.observer import EPOCHS, run, spread_of, step_seconds, with_clock
from training.machine import machine_lock
from training.workloads.script.plain import PROGRAM

REPEATS, RANKS, BATCH = 12, 2, 256
NAME = "torch_ddp.py"


def measure(python: str, number: int, epochs: int, rows: Sequence[str] = ()) -> dict[str, float]:
    """Run the script both ways, and return each one's seconds of a step. `rows`: the script's option for its batch."""
    with tempfile.TemporaryDirectory() as folder:
        script, plan, ticks = (Path(folder, name) for name in (NAME, "plan.json", "ticks.json"))
        script.write_text(with_clock(NAME), encoding="utf-8")
        command, spread = [str(script), "--epochs", str(epochs), *rows], [python, str(PROGRAM)]
        run([*spread, "plan", str(plan), *command], ticks)
        commands = {
            "ported": [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", *command],
            "plain": [*spread, "ranks", str(RANKS), str(plan), *command],
        }
        steps = {}
        for name in sorted(commands, reverse=bool(number % 2)):
            steps[name] = step_seconds(commands[name], ticks)
    return steps


def main() -> None:
    """Run the pairs of runs, and print the ratio of their steps."""
    parser = argparse.ArgumentParser(prog="python -m bench.spread", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("python", help="the interpreter of an environment with PyTorch")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="pairs of runs")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of each run")
    parser.add_argument("--batch", type=int, default=BATCH, help="rows of a step, over all ranks")
    options = parser.parse_args()
    machine_lock.hold(lambda text: print(text, file=sys.stderr))
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    measure(options.python, 0, epochs=1)  # reads files for the first time
    pairs = [
        measure(options.python, number, options.epochs, ("--batch", str(options.batch)))
        for number in range(options.repeats)
    ]
    ratios = [pair["plain"] / pair["ported"] for pair in pairs]
    print(
        f"a step of the port: {1000 * statistics.median(pair['ported'] for pair in pairs):.2f} ms, {len(pairs)} pairs"
    )
    print(f"a step of the plain script's ranks to one of the port: {spread_of(ratios)}")


if __name__ == "__main__":
    main()
