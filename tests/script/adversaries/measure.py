"""A case as an update would measure it: its arms run for real, and four repeats made of that, in which Ray is fast.

Times of these repeats are made up: were the arms comparable, Ray would win. What else is in them was observed.
"""

import functools
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from compare.comparison import compare
from compare.measurement import Context, Run
from compare.schema import Comparison
from tests.script.adversaries.case import ITEMS, Case, Outcome
from tests.stacks import TORCH, TREES
from training.contract import result
from training.contract.provenance import PROJECT
from training.contract.result import TrainingResult
from training.workloads.script.recipe import ScriptRecipe

ARMS = ("baseline", "native", "ray")
REPEATS = 4
RAYS_SHARE = 0.3
"""Of the baseline's whole clock."""
SECONDS = 600
"""That an arm may take, with its wait for this machine's lock, which others may hold several times before it."""
GLOO_ABORTS = "terminate called without an active exception"
"""A rank that PyTorch 2.15 ends so when it has trained and leaves its group: one of some 20, on a busy machine."""
OF_WORK = "work."
"""How reasons of what the claim rests on begin."""
_FIRST = datetime(2025, 3, 1, 12, tzinfo=UTC)


class ArmFailedError(Exception):
    """An arm did not end well; the message has its last lines."""


@dataclass(frozen=True, kw_only=True)
class Got:
    """What came of a case."""

    outcome: Outcome
    answer: str
    named: tuple[str, ...]
    """Items that a reason names."""
    comparison: Comparison


def got(case: Case, folder: Path, kept: Path | None = None) -> Got:
    """Run its arms in `folder`, or take them from `kept`, and compare. Raises ArmFailedError."""
    comparison = compared(results_of(case, folder, kept))
    named = tuple(item for item in ITEMS if f"{OF_WORK}{item}" in comparison.reasons)
    outcome: Outcome = "not comparable" if comparison.answer == "Not comparable" else comparison.claim  # type: ignore[assignment]
    return Got(outcome=outcome, answer=comparison.answer, named=named, comparison=comparison)


def problems(case: Case, came: Got) -> list[str]:
    """What is not as the case has it, in words."""
    found = []
    if came.outcome not in case.outcomes:
        found.append(f"is {came.outcome}, not {' or '.join(sorted(case.outcomes))}")
    if came.outcome == "same work":
        return found
    wanted = "Not comparable" if came.outcome == "not comparable" else "Not decided"
    if came.answer != wanted:
        found.append(f"begins with {came.answer!r}, not {wanted!r}")
    said = [name for name in ("speedup", "efficiency") if came.comparison.ratios.get(name)]
    if said:
        found.append(f"says {' and '.join(said)}")
    if case.items and not case.items.intersection(came.named):
        found.append(f"names {', '.join(came.named) or 'nothing'}, not {' or '.join(sorted(case.items))}")
    return found


def results_of(case: Case, folder: Path, kept: Path | None = None) -> dict[str, TrainingResult]:
    """By arm; of one after another, in one folder, because an arm may leave something there for the next."""
    if kept and (files := _kept_files(case, kept)):
        return {arm: result.read(path) for arm, path in files.items()}
    script = case.write(folder / "script")
    arms = [arm for arm in ARMS if arm != "ray" or case.with_ray]
    results = {arm: _run(case, script, arm, folder / arm) for arm in arms}
    if kept:
        for arm, one in results.items():
            path = kept / _key(case) / f"{arm}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            one.write(path)
    return results


def python_of(case: Case) -> str:
    """The interpreter whose environment it needs; "" where none is at hand. Keras is in the project's own."""
    if "keras" in case.needs:
        return sys.executable
    return TREES if {"xgboost", "lightgbm"}.intersection(case.needs) else TORCH


def missing(case: Case) -> str:
    """What it needs and is not at hand, in words."""
    python = python_of(case)
    if not python:
        return "no environment: TRY_PYTHON and TRY_TREES_PYTHON name none"
    modules = {"keras": "tf_keras"}
    lacks: list[str] = [one for one in case.needs if one != "compiler" and not _has(python, modules.get(one, one))]
    if "compiler" in case.needs and not shutil.which("g++"):
        lacks.append("a C++ compiler")
    return f"there is no {', '.join(lacks)} for {python}" if lacks else ""


@functools.lru_cache
def _has(python: str, module: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return not subprocess.run([python, "-c", code], check=False).returncode


def _run(case: Case, script: Path, arm: str, folder: Path) -> TrainingResult:
    """As an update starts it."""
    folder.mkdir()
    file = folder / "result.json"
    # Two Rays on a machine find each other, whatever their networks: that arm waits for the machine's lock
    apart = [] if arm == "ray" else ["tests.script.adversaries.apart"]
    command = [sys.executable, "-m", *apart, f"training.{arm}", "--workload=script"]
    flags = [f"--result={file}", f"--script={script}", f"--script-arguments={case.arguments}"]
    python = python_of(case)
    if python != sys.executable:
        flags.append(f"--python={python}")
    how, printed = _outcome([*command, *flags])
    if GLOO_ABORTS in printed:
        how, printed = _outcome([*command, *flags])
    if how:
        raise ArmFailedError(f"{case.name}, {arm}: {how}: {printed[-2000:]}")
    return result.read(file)


def _outcome(command: Sequence[str]) -> tuple[str, str]:
    """How it failed, or ""; and what it printed. SIGTERM has it end what it started."""
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        try:
            printed = running.communicate(timeout=SECONDS)[0]
        except subprocess.TimeoutExpired:
            running.terminate()
            return f"did not end within {SECONDS} s", running.communicate()[0]
    return f"ended with {running.returncode}" if running.returncode else "", printed


def _key(case: Case) -> str:
    """Of all that decides what is observed: the script, what observes it, and with what."""
    files = [*case.beside.rglob("*.py"), *(PROJECT / "training").rglob("*.py")]
    known = hashlib.sha256(json.dumps([case.text, case.arguments, python_of(case), case.with_ray]).encode())
    for path in sorted(files):
        known.update(path.read_bytes())
    return f"{case.beside.name}-{known.hexdigest()[:16]}"


def _kept_files(case: Case, kept: Path) -> dict[str, Path]:
    files = {arm: kept / _key(case) / f"{arm}.json" for arm in ARMS if arm != "ray" or case.with_ray}
    return files if all(path.is_file() for path in files.values()) else {}


def compared(results: Mapping[str, TrainingResult]) -> Comparison:
    """Four repeats of these results, with clocks by which Ray wins."""
    baseline, native = results["baseline"], results["native"]
    ray = results.get("ray") or replace(native, arm="ray", ray_ran=True)
    ray = _paced(ray, RAYS_SHARE * baseline.seconds.wall / ray.seconds.wall)
    recipe = ScriptRecipe.from_dict(baseline.recipe)
    runs = [
        _run_of(_paced(one, 1 + 0.01 * (-1) ** (repeat + place)), repeat, place)
        for repeat in range(1, REPEATS + 1)
        for place, one in enumerate((baseline, native, ray))
    ]
    absent = {"wide": "it is not asked for here"}
    return compare(runs, Context(recipe=recipe, target="local", repeats=REPEATS, arms=ARMS, absent=absent))


def _run_of(one: TrainingResult, repeat: int, place: int) -> Run:
    """As it stands in a stack's state, with the seed of its repeat."""
    started = _FIRST + timedelta(seconds=60 * (len(ARMS) * repeat + place))
    own = replace(one, recipe=one.recipe | {"seed": one.recipe["seed"] + repeat - 1}, started_at=started.isoformat())
    name = f"{one.arm}-{repeat}"
    return Run.from_summary(name, repeat, own.summary(f"runs/test/{name}/result.json", "0" * 64))


def _paced(one: TrainingResult, factor: float) -> TrainingResult:
    """With all of its seconds so many times as long."""
    seconds = replace(one.seconds, **_scaled(one.seconds, factor))
    steps = one.steps
    if steps.seconds:
        steps = replace(steps, seconds=replace(steps.seconds, **_scaled(steps.seconds, factor)))
    pace = one.amount.per_second
    return replace(one, seconds=seconds, steps=steps, amount=replace(one.amount, per_second=pace and pace / factor))


def _scaled(part: object, factor: float) -> dict[str, Any]:
    values = {field.name: getattr(part, field.name) for field in fields(part)}  # type: ignore[arg-type]
    return {name: value * factor for name, value in values.items() if isinstance(value, float)}


def row(case: Case, came: Got | None, said: Sequence[str]) -> str:
    """A line of the table."""
    expected = " or ".join(sorted(case.outcomes)) if len(case.outcomes) < 4 else "(beyond the list)"
    outcome = f"{came.outcome}: {came.answer}" if came else "failed"
    named = ",".join(came.named) if came else ""
    return f"{case.name:<38} {expected:<32} {outcome:<44} {named:<34} {'ok' if not said else '; '.join(said)}"
