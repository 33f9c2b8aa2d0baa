"""`rwi bench arms`: what the arms reach against what this machine allows, side by side in one run.

The *limit* is N baselines at once, each on its own CPU with 1/N of the images and of the batch, and no synchronisation:
no distributed training of this model on this machine can be faster. Arms are interleaved, and ratios taken within a
repeat, because machines drift. Measures; passes no judgement.

Beside the arms, a column may have a native run of its own, with gradients exchanged in another type.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.figures import OTHER_GRADIENTS, PLAIN_FIT, Repeat, summarise, table
from training.contract import provenance, result
from training.contract.codec import write_whole
from training.launch.environment import share_of_cpus
from training.machine import cpu, machine_lock, topology
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.workload import WORKLOAD

BENCHMARKS = provenance.PROJECT / "benchmarks"
ARMS = ("baseline", "limit", "wide", "native", "ray")
"""The arms that every column of the benchmark has."""
QUICK_IMAGES, FULL_IMAGES = 1280, 1536
WARMUP_STEPS = 2
TIMEOUT_SECONDS = 900
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


@dataclass(frozen=True)
class Case:
    """One column of the benchmark: its arms' recipe, and in `more` the recipes of further native runs, by name."""

    key: str
    recipe: CnnRecipe
    more: dict[str, CnnRecipe] = field(default_factory=dict)
    plain_fit: bool = True


def cases(*, quick: bool) -> list[Case]:
    """Return the columns to measure: float32 and bfloat16 at the exercise's batch size of 128, and both at 512.

    With `quick`, return float32 at 128 alone.
    """
    images = QUICK_IMAGES if quick else FULL_IMAGES
    base = CnnRecipe(
        dataset="synthetic", model="cnn", epochs=1, warmup_steps=WARMUP_STEPS, global_batch_size=128,
        train_images=_with_validation(images),
    )  # fmt: skip
    if quick:
        return [Case("float32", base, plain_fit=False)]
    all_cases = []
    for precision, other in (("float32", "bfloat16"), ("bfloat16", "float32")):
        recipe = replace(base, precision=precision, gradient_precision=precision)
        more = {OTHER_GRADIENTS: replace(recipe, gradient_precision=other)}
        all_cases.append(Case(precision, recipe, more))
        # An epoch has three such steps only
        large = replace(recipe, global_batch_size=512, epochs=2)
        all_cases.append(Case(f"{precision}/512", large, plain_fit=False))
    return all_cases


def measure(case: Case, repeats: int, say: Callable[[str], None]) -> list[Repeat]:
    """Run every arm of a case `repeats` times, and return the repeats. Each repeat begins with another arm.

    Machines drift: an arm that always ran last would seem slower, or faster, than the arm that ran first.
    """
    measured = []
    for repeat in range(1, repeats + 1):
        runs: dict[str, result.TrainingResult] = {}
        fit = None
        for name in _rotated((*ARMS, *case.more, *((PLAIN_FIT,) if case.plain_fit else ())), repeat - 1):
            if name == PLAIN_FIT:
                fit = _plain_fit(case.recipe)
                figure = f"{fit:.1f} images/s"
            else:
                runs[name] = _run_of(case, name)
                figure = f"{runs[name].seconds.train:.2f} s"
            say(f"{case.key}, repeat {repeat}/{repeats}: {name} {figure}")
        measured.append(Repeat(runs, fit))
    return measured


def _rotated(names: Sequence[str], by: int) -> Sequence[str]:
    by %= len(names)
    return [*names[by:], *names[:by]]


def _run_of(case: Case, name: str) -> result.TrainingResult:
    if name == "limit":
        return _limit(case.recipe)
    return _run("native", case.more[name]) if name in case.more else _run(name, case.recipe)


def compare(*, quick: bool, only: str, repeats: int, as_json: bool) -> int:
    """Measure the chosen columns, print their table, or JSON alone, and return the exit code.

    After every column a file in benchmarks/ is written. After Ctrl-C the columns that are complete are kept and
    printed.
    """
    try:
        chosen = _chosen(cases(quick=quick), only.split())
    except ValueError as error:
        sys.exit(f"error: {error}")
    if len(provenance.allowed_cpus()) < CnnRecipe().workers:
        sys.exit(f"error: the benchmark needs {CnnRecipe().workers} CPUs, and this process may use one")
    try:
        machine_lock.hold(_say)
    except machine_lock.LockError as error:
        sys.exit(f"error: {error}")
    path = BENCHMARKS / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    columns: dict[str, Any] = {}
    try:
        for case in chosen:
            columns[case.key] = summarise(measure(case, repeats, _say))
            _write(path, columns, repeats)
    except KeyboardInterrupt:
        if not columns:
            sys.exit(INTERRUPTED)
    shown = path.relative_to(provenance.PROJECT)
    print(json.dumps(columns) if as_json else f"{provenance.host().fingerprint()}\n{table(columns)}\n{shown}")
    return 0 if len(columns) == len(chosen) else INTERRUPTED


def _chosen(of: Sequence[Case], columns: Sequence[str]) -> list[Case]:
    """Return the cases of these names, or all that this CPU can compute. Raises ValueError for an unknown name."""
    known = [case.key for case in of]
    if unknown := sorted(set(columns) - set(known)):
        raise ValueError(f"no column is called {', '.join(unknown)}; there are: {' '.join(known)}")
    if columns or not cpu.lacks_bfloat16():
        return [case for case in of if case.key in columns or not columns]
    left_out = [case.key for case in of if case.recipe.precision == "bfloat16"]
    if left_out:
        _say(
            f"left out: {' '.join(left_out)}; this CPU has no instructions for bfloat16, and a run of a baseline takes"
            f" minutes. To measure them all the same: --only '{' '.join(left_out)}'"
        )
    return [case for case in of if case.key not in left_out]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _write(path: Path, columns: dict[str, Any], repeats: int) -> None:
    host = provenance.host()
    facts = {"cpuModel": host.cpu_model, "cpusAllowed": host.cpus_allowed, "memoryBytes": host.memory_bytes}
    content = {
        "host": facts,
        "repeats": repeats,
        "dependenciesHash": provenance.dependencies_hash(WORKLOAD.packages),
        "cases": columns,
    }
    write_whole(path, json.dumps(content, indent=1) + "\n")


def _run(arm: str, recipe: CnnRecipe) -> result.TrainingResult:
    with tempfile.TemporaryDirectory() as folder:
        _wait([_start(arm, recipe, Path(folder))])
        return result.read(Path(folder) / result.NAME)


def _limit(recipe: CnnRecipe) -> result.TrainingResult:
    """Run N baselines at the same time, each with 1/N of every batch, and return the result of the slowest."""
    workers = recipe.workers
    part = replace(
        recipe,
        global_batch_size=recipe.global_batch_size // workers,
        train_images=_with_validation((recipe.train_images - _held_out(recipe.train_images)) // workers),
    )
    with tempfile.TemporaryDirectory() as folder:
        folders = [Path(folder, str(rank)) for rank in range(workers)]
        _wait([_start("baseline", part, run_folder, rank) for rank, run_folder in enumerate(folders)])
        return max(
            (result.read(run_folder / result.NAME) for run_folder in folders),
            key=lambda run_folder: run_folder.seconds.train or 0,
        )


def _start(arm: str, recipe: CnnRecipe, folder: Path, rank: int | None = None) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    cpus = (
        provenance.allowed_cpus()
        if rank is None
        else share_of_cpus(topology.order(provenance.allowed_cpus()), rank, recipe.compute_threads())
    )
    command = [sys.executable, "-m", f"training.{arm}", "--result", str(folder / result.NAME), *recipe.flags()]
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, cwd=provenance.PROJECT, stdout=log, stderr=log)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(process.pid, cpus)  # before it has started a thread: Python itself takes longer than this
    return process


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    try:
        codes = [process.wait(TIMEOUT_SECONDS) for process in processes]
    finally:
        for process in processes:  # still there after Ctrl-C, `kill`, or the end of its patience
            process.terminate()
            process.wait()
    if any(codes):
        raise RuntimeError(f"{processes[0].args!r} ended with {codes}")


def _plain_fit(recipe: CnnRecipe) -> float:
    command = [sys.executable, "-m", "bench.plain_fit", json.dumps(recipe.to_dict())]
    process = subprocess.run(
        command,
        cwd=provenance.PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    return float(json.loads(process.stdout.splitlines()[-1])["imagesPerSecond"])


def _held_out(images: int) -> int:
    return images // 10


def _with_validation(images: int) -> int:
    """Return how many images a data set needs so that `images` remain for training after a tenth is held out."""
    return next(total for total in range(images, 2 * images) if total - _held_out(total) == images)
