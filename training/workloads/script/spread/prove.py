"""Proves that ranks do the work of the script's single process, or names what they do else.

python spread prove [--workers N] [--write FILE] -- SCRIPT ARGUMENTS

It runs some steps of the script, in processes of their own whose files are thrown away: alone, alone with the rows of
each batch reversed, and as ranks; in 64 bits, and in the script's own types. What reversed rows change is what equal
work may differ by.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import forks
from .judge import Judge
from .records import INFINITE, Run
from .settings import Settings

STEPS, SECONDS = 8, 120.0


class Runs:
    """Runs of one script, each in a folder of its own."""

    def __init__(self, torch: Any, command: Sequence[str], world: int, folder: Path, seconds: float) -> None:
        """Run nothing yet."""
        self.torch, self.world = torch, world
        self.command, self.folder, self._deadline = command, folder, time.monotonic() + seconds
        self.forks: list[forks.Fork] = []

    def start(self, name: str, world: int, **settings: Any) -> Run:
        """Start one process, or ranks."""
        folder = self.folder / name
        folder.mkdir()
        common = Settings(world=world, out=str(folder), steps=STEPS, watches=True, store=str(folder / "store"))
        common = replace(common, **settings)
        started = []
        for rank in range(world):
            private = folder / f"private-{rank}"
            private.mkdir()
            own = replace(common, rank=rank, private=str(private))
            started.append(forks.start(own, self.command, folder / f"printed-{rank}"))
            self.forks.append(started[-1])
        return Run(name, folder, started)

    def wait(self, *runs: Run, seconds: float = INFINITE) -> None:
        """Wait for all of them, and no longer than so many seconds for one."""
        for run in runs:
            run.ended = forks.wait(run.forks, max(0.1, min(seconds, self._deadline - time.monotonic())))

    def end(self) -> None:
        """End what still runs."""
        forks.end(self.forks)

    def plan(self) -> Run:
        """Run the script alone; the facts are the plan."""
        run = self.start("plan", 1)
        self.wait(run)
        return run


def prove(torch: Any, command: Sequence[str], world: int, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the outcome and its evidence, and the plan that ranks followed where they did."""
    folder = Path(tempfile.mkdtemp(prefix="spread-"))
    began = time.monotonic()
    runs = Runs(torch, command, world, folder, seconds)
    try:
        outcome = Judge(runs).outcome()
        plan = folder / "plan" / "facts-rank0.json"
        if outcome["outcome"] in ("equal", "named"):
            outcome["plan"] = json.loads(plan.read_text(encoding="utf-8"))
    finally:
        runs.end()
        shutil.rmtree(folder, ignore_errors=True)
    return {**outcome, "workers": world, "seconds": round(time.monotonic() - began, 2)}


def load() -> Any:
    """Import PyTorch, and what optimizers import when they are made; no thread may compute before a fork."""
    import torch
    import torch._dynamo
    import torch.distributed
    import torch.utils.data

    from . import batches, chance, exchange, files, fits, operations, origins, record, watch, weights  # noqa: F401 (once for all)

    return torch


def main(of: Callable[..., dict[str, Any]] = prove, text: str = __doc__ or "") -> int:
    """Print the outcome as JSON, or write it into a file; return 0 where it is `equal`, or a port."""
    parser = argparse.ArgumentParser(prog=of.__name__, description=text.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--write", default="", help="a file that gets the outcome")
    parser.add_argument("command", nargs="+", help="the script and its own arguments, after --")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    outcome = of(load(), options.command, options.workers, options.seconds)
    if options.write:
        Path(options.write).write_text(json.dumps(outcome), encoding="utf-8")
    else:
        print(json.dumps(outcome, indent=2))
    return int(outcome["outcome"] not in ("equal", "port"))


if __name__ == "__main__":
    sys.exit(main())
