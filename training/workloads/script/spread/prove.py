"""Proves that ranks do the work of the script's single process, or names what they do else.

python spread prove [--framework NAME] [--workers N] [--write FILE] -- SCRIPT ARGUMENTS

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
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from . import folders, forks, keras_judge, reads, trees_judge
from .judge import Judge
from .records import INFINITE, Run
from .settings import Settings, addresses

STEPS, SECONDS = 8, 120.0


class Runs:
    """Runs of one script, each in a folder of its own."""

    framework = "torch"
    """The framework whose changes make the script run as ranks: a key of `process.AROUND`."""

    def __init__(self, torch: Any, command: Sequence[str], world: int, folder: Path, seconds: float) -> None:
        """Keep the arguments, and start no run yet. `seconds`: the time limit for all runs together."""
        self.torch, self.world = torch, world
        self.command, self.folder, self._seconds, self._began = command, folder, seconds, time.monotonic()
        self.forks: list[forks.Fork] = []

    def start(self, name: str, world: int, **settings: Any) -> Run:
        """Start a run with that name, as `world` ranks."""
        folder = self.folder / name
        folder.mkdir()
        store = str(folder / "store") if self.framework == "torch" else addresses(self.framework, world)
        common = Settings(self.framework, world=world, out=str(folder), steps=STEPS, watches=True, store=store)
        common = replace(common, **settings)
        started = []
        for rank in range(world):
            private = folder / f"private-{rank}"
            private.mkdir()
            own = replace(common, rank=rank, private=str(private))
            started.append(self.fork(own, folder))
        return Run(name, folder, started)

    def fork(self, settings: Settings, folder: Path, variables: Mapping[str, str] = MappingProxyType({})) -> forks.Fork:
        """Start one rank, whose output goes to a file in `folder`."""
        self.forks.append(forks.start(settings, self.command, folder / f"printed-{settings.rank}", variables))
        return self.forks[-1]

    def wait(self, *runs: Run, seconds: float = INFINITE) -> None:
        """Wait for all the runs to end, but at most `seconds` for each of them."""
        for run in runs:
            run.ended = forks.wait(run.forks, max(0.1, min(seconds, self.left())))

    def left(self) -> float:
        """Return the seconds that are left of the time limit for all runs."""
        return self._began + self._seconds - time.monotonic()

    def lacks_room(self, plan: Run) -> str:
        """Return the reason why the tensors of all runs, or files of the script, may fill the disk, estimated from the
        run `plan`; "" if there is enough room."""
        tensors, files = (_size(plan.folder.glob(each)) for each in ("*.pt", "*/**/*"))
        needed = tensors * (9 + 7 * self.world)  # of the most runs, most of them in 64 bits
        needed += files * (6 + 5 * self.world)
        free = shutil.disk_usage(self.folder).free
        return f"{needed / 2**30:.1f} GiB of {free / 2**30:.1f} in {self.folder.parent}" if needed > free / 2 else ""

    def timed(self, outcome: dict[str, Any]) -> dict[str, Any]:
        """Return the outcome with the number of ranks, the seconds of the runs, and the files that the script read."""
        read = [*outcome.get("reads", ()), *reads.of_runs(self.folder, self.command)]
        return {**outcome, "workers": self.world, "seconds": round(time.monotonic() - self._began, 2), "reads": read}

    def end(self) -> None:
        """End the processes that are still running."""
        forks.end(self.forks)

    def plan(self) -> Run:
        """Run the script as a single process, and return the run, whose facts are the plan for ranks."""
        run = self.start("plan", 1)
        self.wait(run)
        return run


def _size(paths: Iterable[Path]) -> int:
    """Return the bytes of files."""
    return sum(path.stat().st_size for path in paths if path.is_file() and not path.is_symlink())


@contextmanager
def running(torch: Any, command: Sequence[str], world: int, seconds: float) -> Iterator[Runs]:
    """Yield runs in a temporary folder; at the end remove the folder and end all processes."""
    with folders.temporary() as folder:
        runs = Runs(torch, command, world, Path(folder), seconds)
        try:
            yield runs
        finally:
            runs.end()


def prove(torch: Any, command: Sequence[str], world: int, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the outcome and its evidence for a script of PyTorch, with the plan for ranks if they can be measured."""
    with running(torch, command, world, seconds) as runs:
        outcome = Judge(runs).outcome()
        plan = runs.folder / "plan" / "facts-rank0.json"
        if outcome["outcome"] in ("equal", "named"):
            outcome["plan"] = json.loads(plan.read_text(encoding="utf-8"))
        return runs.timed(outcome)


def prove_keras(command: Sequence[str], world: int, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the outcome and its evidence for a script of Keras, with the variables with which it runs as ranks."""
    plans: list[Run] = []
    with running(None, command, world, seconds) as runs:

        def run(framework: str, variables: dict[str, str]) -> dict[str, Any]:
            runs.framework = framework
            with keras_judge.around(variables):
                plans.append(runs.start(f"plan-{len(plans)}", 1))
                runs.wait(plans[-1])
            return {} if plans[-1].error else plans[-1].facts[0]

        facts = keras_judge.planned(run)
        named = facts.get("environment")
        with keras_judge.around({**facts.get("variables", {}), **(named or {})}):
            if "torch" in (facts.get("framework"), facts.get("kerasThree")):
                outcome = prove(load(), command, world, runs.left())
                outcome["plan"] = {**outcome.get("plan", {}), "framework": "torch"}
            else:
                with suppress(ImportError):  # of a script that failed, which is said
                    import tensorflow  # noqa: F401 (once for all forks)
                runs.framework = "tensorflow"
                outcome = keras_judge.Judge(runs, plans[-1 if named else 0]).outcome()
        if named:
            outcome = {**outcome, "environment": named, "plan": {**outcome.get("plan", {}), "environment": named}}
        return runs.timed(outcome)


def prove_trees(library: str, command: Sequence[str], world: int, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the outcome and its evidence for a script of XGBoost or LightGBM."""
    with running(None, command, world, seconds) as runs:
        runs.framework = library
        return runs.timed(trees_judge.Judge(runs).outcome())


OTHERS: dict[str, Callable[..., dict[str, Any]]] = {
    "tensorflow": prove_keras,
    "xgboost": partial(prove_trees, "xgboost"),
    "lightgbm": partial(prove_trees, "lightgbm"),
}
"""Functions that prove scripts of frameworks other than PyTorch, by framework."""


def load() -> Any:
    """Return PyTorch, imported with all that optimizers import; no thread may compute before a fork."""
    import torch
    import torch._dynamo
    import torch.distributed
    import torch.utils.data

    from . import (  # noqa: F401 (once for all)
        batches,
        chance,
        exchange,
        fits,
        keras_torch,
        library_files,
        operations,
        origins,
        record,
        watch,
        weights,
    )

    return torch


def main(of: Callable[..., dict[str, Any]] = prove, text: str = __doc__ or "") -> int:
    """Print the outcome as JSON, or write it into a file; return 0 if it is `equal` or a port, 1 otherwise."""
    others = OTHERS if of is prove else {}
    parser = argparse.ArgumentParser(prog=of.__name__, description=text.partition("\n")[0])
    parser.add_argument("--framework", choices=["torch", *others], default="torch")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--write", default="", help="a file that gets the outcome")
    parser.add_argument("command", nargs="+", help="the script and its own arguments, after --")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if options.framework == "torch":
        outcome = of(load(), options.command, options.workers, options.seconds)
    else:
        outcome = others[options.framework](options.command, options.workers, options.seconds)
    if options.write:
        Path(options.write).write_text(json.dumps(outcome), encoding="utf-8")
    else:
        print(json.dumps(outcome, indent=2))
    return int(outcome["outcome"] not in ("equal", "port"))


if __name__ == "__main__":
    sys.exit(main())
