"""`make bench`: what the arms reach against what this machine allows, side by side in one run.

The *limit* is N baselines at once, each on its own CPU with 1/N of the images and of the batch, and no synchronisation:
no distributed training of this model on this machine can be faster. Arms are interleaved, and ratios taken within a
repeat, because machines drift. Measures; passes no judgement.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from training import provenance, result
from training.config import Recipe
from training.environment import share_of_cpus

BENCHMARKS = provenance.PROJECT / "benchmarks"
ARMS = ("baseline", "limit", "native", "ray")
QUICK_IMAGES, FULL_IMAGES = 1536, 2560
WARMUP_STEPS = 2
REPEATS = 3
TIMEOUT_SECONDS = 900


@dataclass(frozen=True)
class Case:
    """One column of the benchmark."""

    key: str
    recipe: Recipe


@dataclass(frozen=True)
class Repeat:
    """Every arm once, in one go."""

    runs: dict[str, result.TrainingResult]
    fit_images_per_second: float

    def seconds(self, arm: str) -> float:
        """Steady-state seconds of an arm."""
        found = self.runs[arm].train_seconds
        if found is None:
            raise RuntimeError(f"{arm} was not timed: {self.runs[arm].reasons.get('trainSeconds')}")
        return found


def cases(*, quick: bool) -> list[Case]:
    """What is measured: float32 and bfloat16 at the exercise's batch, and both at four times that."""
    images = QUICK_IMAGES if quick else FULL_IMAGES
    base = Recipe(
        dataset="synthetic", model="cnn", epochs=1, warmup_steps=WARMUP_STEPS, global_batch_size=128,
        train_images=_with_validation(images),
    )  # fmt: skip
    if quick:
        return [Case("float32", base)]
    found = []
    for precision in ("float32", "bfloat16"):
        for batch in (128, 512):
            key = precision if batch == base.global_batch_size else f"{precision}/{batch}"
            epochs = 1 if batch == base.global_batch_size else 3  # an epoch has five such steps only
            found.append(Case(key, replace(base, precision=precision, global_batch_size=batch, epochs=epochs)))
    return found


def measure(case: Case, repeats: int, say: Callable[[str], None]) -> list[Repeat]:
    """Every arm in turn, `repeats` times."""
    found = []
    for repeat in range(1, repeats + 1):
        runs = {}
        for arm in ARMS:
            runs[arm] = _limit(case.recipe) if arm == "limit" else _run(arm, case.recipe)
            say(f"{case.key}, repeat {repeat}/{repeats}: {arm} {runs[arm].train_seconds:.2f} s")
        found.append(Repeat(runs, _plain_fit(case.recipe)))
    return found


def summarise(repeats: Sequence[Repeat]) -> dict[str, Any]:
    """Ratios and figures with their median and range over the repeats."""
    ratios: dict[str, Callable[[Repeat], float]] = {
        "speedup": lambda r: r.seconds("baseline") / r.seconds("ray"),
        "nativeSpeedup": lambda r: r.seconds("baseline") / r.seconds("native"),
        "limit": lambda r: r.seconds("baseline") / r.seconds("limit"),
        "ofLimit": lambda r: r.seconds("limit") / r.seconds("ray"),
        "nativeOfLimit": lambda r: r.seconds("limit") / r.seconds("native"),
        "rayOverhead": lambda r: r.seconds("ray") / r.seconds("native"),
        "baselineOverFit": lambda r: (r.runs["baseline"].images_per_second or 0) / r.fit_images_per_second,
        "startupSeconds": lambda r: r.runs["ray"].startup_seconds,
        "nativeStartupSeconds": lambda r: r.runs["native"].startup_seconds,
        "baselineStartupSeconds": lambda r: r.runs["baseline"].startup_seconds,
        "memory": lambda r: _peak(r.runs["ray"]) / _peak(r.runs["baseline"]),
    }
    figures = {name: _spread([ratio(one) for one in repeats]) for name, ratio in ratios.items()}
    last = repeats[-1].runs
    return figures | {
        "allReduceSeconds": last["native"].all_reduce,
        "startupPhases": {arm: last[arm].startup_phases for arm in ("baseline", "native", "ray")},
        "stepSeconds": {
            arm: _spread([one.seconds(arm) / one.runs[arm].timed_steps for one in repeats]) for arm in ARMS
        },
    }


def table(found: dict[str, dict[str, Any]]) -> str:
    """One line a figure, one column a case."""
    names = {
        "limit": "limit of this machine, ×", "speedup": "Ray, speedup ×", "ofLimit": "  of the limit",
        "nativeSpeedup": "native, speedup ×", "nativeOfLimit": "  of the limit", "rayOverhead": "Ray / native",
        "baselineOverFit": "baseline / model.fit, images/s", "memory": "Ray worker / baseline, peak memory",
        "startupSeconds": "Ray, start to first step, s", "nativeStartupSeconds": "native, start to first step, s",
        "baselineStartupSeconds": "baseline, start to first step, s",
    }  # fmt: skip
    lines = [f"{'median (lowest to highest)':<36}" + "".join(f"{key:>24}" for key in found)]
    for name, words in names.items():
        cells = (f"{c[name]['median']:.3f} ({c[name]['low']:.3f}–{c[name]['high']:.3f})" for c in found.values())
        lines.append(f"{words:<36}" + "".join(f"{cell:>24}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    """Measure, write benchmarks/, print the table, or with --json the object alone."""
    parser = argparse.ArgumentParser(prog="python -m report.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="float32 at batch 128 with few steps: 4 minutes")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object, and nothing else")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    if len(provenance.allowed_cpus()) < Recipe().workers:
        sys.exit(f"error: the benchmark needs {Recipe().workers} CPUs, and this process may use one")
    found = {}
    for case in cases(quick=given.quick):
        found[case.key] = summarise(measure(case, given.repeats, lambda line: print(line, file=sys.stderr, flush=True)))
    path = _write(found, given.repeats)
    print(json.dumps(found) if given.json else f"{provenance.host().fingerprint()}\n{table(found)}\n{path}")


def _write(found: dict[str, Any], repeats: int) -> Path:
    host = provenance.host()
    facts = {"cpuModel": host.cpu_model, "cpusAllowed": host.cpus_allowed, "memoryBytes": host.memory_bytes}
    path = BENCHMARKS / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    content = {"host": facts, "repeats": repeats, "dependenciesHash": provenance.dependencies_hash(), "cases": found}
    result.write_whole(path, json.dumps(content, indent=1) + "\n")
    return path.relative_to(provenance.PROJECT)


def _run(arm: str, recipe: Recipe) -> result.TrainingResult:
    with tempfile.TemporaryDirectory() as folder:
        _wait([_start(arm, recipe, Path(folder))])
        return result.read(Path(folder) / result.NAME)


def _limit(recipe: Recipe) -> result.TrainingResult:
    """The slowest of N baselines that run at once, each with its part of every batch."""
    workers = recipe.workers
    part = replace(
        recipe,
        global_batch_size=recipe.global_batch_size // workers,
        train_images=_with_validation((recipe.train_images - _held_out(recipe.train_images)) // workers),
    )
    with tempfile.TemporaryDirectory() as folder:
        folders = [Path(folder, str(rank)) for rank in range(workers)]
        _wait([_start("baseline", part, one, rank) for rank, one in enumerate(folders)])
        return max((result.read(one / result.NAME) for one in folders), key=lambda one: one.train_seconds or 0)


def _start(arm: str, recipe: Recipe, folder: Path, rank: int | None = None) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    cpus = (
        provenance.allowed_cpus()
        if rank is None
        else share_of_cpus(provenance.allowed_cpus(), rank, recipe.compute_threads())
    )
    command = [sys.executable, "-m", f"training.{arm}", "--result", str(folder / result.NAME), *recipe.flags()]
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, cwd=provenance.PROJECT, stdout=log, stderr=log)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(process.pid, cpus)  # before it has started a thread: Python itself takes longer than this
    return process


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    codes = [process.wait(TIMEOUT_SECONDS) for process in processes]
    if any(codes):
        raise RuntimeError(f"{processes[0].args!r} ended with {codes}")


def _plain_fit(recipe: Recipe) -> float:
    command = [sys.executable, "-m", "report.plain_fit", json.dumps(recipe.to_dict())]
    said = subprocess.run(
        command,
        cwd=provenance.PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    return float(json.loads(said.stdout.splitlines()[-1])["imagesPerSecond"])


def _held_out(images: int) -> int:
    return images // 10


def _with_validation(images: int) -> int:
    """How many images a data set needs for so many to be left when a tenth is held out."""
    return next(total for total in range(images, 2 * images) if total - _held_out(total) == images)


def _peak(run: result.TrainingResult) -> float:
    return float(max(worker.peak_memory_bytes or 0 for worker in run.workers))


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values), "n": len(values)}


if __name__ == "__main__":
    main()
