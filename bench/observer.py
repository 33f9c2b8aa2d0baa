"""Measures the cost of observing a script by a clock of its own: python -m bench.observer SCRIPT PYTHON [--repeats N]

A copy of the script (an example, or one of bench) gets a clock after each step and runs in one process on one CPU, with
the observer and without, which take turns at being first. Two runs of one program differ more than their steps do: many
pairs of short runs say more than few of long ones. Measures; passes no judgement. PYTHON is the interpreter of an
environment with its framework.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compare.intervals import ratio_interval
from training.contract import provenance
from training.launch import environment
from training.machine import machine_lock, output, topology
from training.workloads.script.commands import WITHOUT_GPU, threading
from training.workloads.script.environment import observed_by
from training.workloads.script.observation_files import read
from training.workloads.script.observations import Observation, settled_step_seconds

FOLDERS = (provenance.PROJECT / "examples", provenance.PROJECT / "bench")
CLOCK = """import atexit, json, os, time
ticks = []
tick = lambda: ticks.append(time.monotonic())
if os.environ.get("RANK", "0") == "0":
    atexit.register(lambda: open(os.environ["TICKS"], "w").write(json.dumps(ticks)))
"""
TICK = {
    "torch_ddp.py": (
        "            optimizer.step()\n",
        "            optimizer.step(); tick()\n",
    ),
    "table_rows.py": (
        "            optimizer.step()\n",
        "            optimizer.step(); tick()\n",
    ),
    "many_parameters.py": (
        "                optimizer.step()\n",
        "                optimizer.step(); tick()\n",
    ),
    "keras_tf_config.py": (
        "verbose=2)",
        "verbose=2, callbacks=[keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: tick())])",
    ),
}
"""By script: the line that ends a step, and the same line with a tick of the clock added."""
EPOCHS, REPEATS = 2, 24
TIMEOUT_SECONDS = 600
MOST_SHOWN = 1000
"""Most characters that are shown of the end of a failed run's output."""


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Seconds of a step in a pair of runs: one with the observer, one without."""

    observed: float
    """By the observer's clock."""
    clock: float
    """Of the run with the observer, by the script's own clock."""
    without: float
    """Of the run without the observer, by the script's own clock."""
    hooks: float
    hooks_share: float
    """Share of hooks in the time from the end of the first step to the end of the last."""


def with_clock(name: str) -> str:
    """Return a script's text with a clock after each step. Raises ValueError unless one line ends a step."""
    path = next(folder / name for folder in FOLDERS if (folder / name).is_file())
    text = path.read_text(encoding="utf-8")
    old, new = TICK[name]
    if text.count(old) != 1:
        raise ValueError(f"{name} has no longer one {old.strip()!r}")
    return CLOCK + text.replace(old, new)


def measure(name: str, python: str, number: int, epochs: int) -> Repeat:
    """Run the script with the observer and without, and return both runs' times. `number` decides which is first."""
    with tempfile.TemporaryDirectory() as folder:
        script, ticks = Path(folder, name), Path(folder, "ticks.json")
        script.write_text(with_clock(name), encoding="utf-8")
        steps = {}
        for observed in ((True, False), (False, True))[number % 2]:
            command = [python, str(script), "--epochs", str(epochs)]
            steps[observed] = step_seconds(command, ticks, Path(folder) if observed else None)
        (seen,) = read(Path(folder))
    return repeat_of(seen, seen.step_seconds or 0.0, steps)


def repeat_of(seen: Observation, observed: float, steps: Mapping[bool, float]) -> Repeat:
    """Return a repeat: what the observer saw, its seconds of a step, and the script's with it (True) and without."""
    return Repeat(
        observed=observed,
        clock=steps[True],
        without=steps[False],
        hooks=seen.hook_seconds / len(seen.step_ends),
        hooks_share=seen.hook_seconds / (seen.step_ends[-1] - seen.step_ends[0]),
    )


def step_seconds(
    command: Sequence[str], ticks: Path, observed_into: Path | None = None, gpu: Mapping[str, str] = WITHOUT_GPU
) -> float:
    """Run a program that writes the ends of its steps to the file `ticks`, and return the seconds of a step."""
    run(command, ticks, observed_into, gpu)
    return settled_step_seconds(json.loads(ticks.read_text(encoding="utf-8"))) or 0.0


def run(
    command: Sequence[str], ticks: Path, observed_into: Path | None = None, gpu: Mapping[str, str] = WITHOUT_GPU
) -> None:
    """Run a program that writes the ends of its steps to the file `ticks`. If the program fails, exit with what it
    printed.

    `gpu`: the environment variables that say which GPU the program sees.
    """
    own = {"TICKS": str(ticks), "PYTHONHASHSEED": "0"}
    variables = environment.allowed(os.environ) | threading(1) | dict(gpu) | own
    if observed_into:
        variables |= observed_by(observed_into, steps=0)
    done = output.capture_text(command, seconds=TIMEOUT_SECONDS, env=variables)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)} ended with exit code {done.returncode}:\n{done.stderr[-MOST_SHOWN:]}")


def spread_of(ratios: Sequence[float]) -> str:
    """Return in words the geometric mean of ratios, their smallest and largest, and a 95 % interval."""
    interval = ratio_interval(ratios)
    sure = f", 95 % interval {interval.lower:.4f} to {interval.upper:.4f}" if interval else ""
    return f"{statistics.geometric_mean(ratios):.4f} ({min(ratios):.4f} to {max(ratios):.4f}{sure})"


def summary(repeats: Sequence[Repeat]) -> str:
    """Return the figures as text, each with its spread over the repeats."""
    off = [100 * abs(pair.observed / pair.clock - 1) for pair in repeats]
    shares = [100 * pair.hooks_share for pair in repeats]
    ratios = [pair.clock / pair.without for pair in repeats]
    return "\n".join(
        [
            f"a step of {1000 * statistics.median(pair.clock for pair in repeats):.2f} ms, {len(repeats)} repeats",
            f"observed against its own clock: {statistics.median(off):.3f} % off, at most {max(off):.3f} %",
            f"in hooks: {1e6 * statistics.median(pair.hooks for pair in repeats):.0f} µs a step, "
            f"{statistics.median(shares):.3f} % of it ({min(shares):.3f} to {max(shares):.3f} %)",
            f"a step with the observer to one without: {spread_of(ratios)}",
        ]
    )


def main() -> None:
    """Run the pairs of runs, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.observer", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("example", choices=sorted(TICK))
    parser.add_argument("python", help="the interpreter of an environment with its framework")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="pairs of runs")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of each run")
    options = parser.parse_args()
    machine_lock.hold(lambda text: print(text, file=sys.stderr))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, environment.share_of_cpus(topology.order(provenance.allowed_cpus()), 0, 1))
    measure(options.example, options.python, 0, epochs=1)  # reads files for the first time
    print(
        summary([measure(options.example, options.python, number, options.epochs) for number in range(options.repeats)])
    )


if __name__ == "__main__":
    main()
