"""Plans of searches over scripts of a test, and the trials of one."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.limits import LONGEST_SECONDS
from training.workloads.script.commands import WITHOUT_GPU, threading
from training.workloads.search.detail import LOG
from training.workloads.search.plan import Plan
from training.workloads.search.recipe import SearchRecipe

PRINTED = r"loss (\S+)"
"""Pattern of what the plain scripts of these tests print."""


def plan_of(
    folder: Path,
    command: Sequence[str],
    *,
    metric: str = "loss",
    pattern: str = "",
    epochs: int = 9,
    variables: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of a run in `folder` whose trials are this command, started there."""
    recipe = SearchRecipe(
        script="train.py", script_arguments="--lr {lr}", search_space='{"lr": {"log": [1e-5, 0.1]}}', metric=metric,
        metric_mode="min", metric_pattern=pattern, epochs=epochs,
    )  # fmt: skip
    return Plan(
        arm="baseline", slots=1, threads=1, folder=str(folder), script_folder=str(folder), command=[*command],
        variables={
            "PYTHONUNBUFFERED": "1", "PATH": "/usr/bin:/bin", **threading(1), **WITHOUT_GPU, **(variables or {}),
        },
        recipe=recipe.to_dict(), configurations=None,
    )  # fmt: skip


def plain(folder: Path, text: str, *arguments: str, **more: Any) -> Plan:
    """The plan of a search over a plain script with this text, whose metric is what it prints after `loss`."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    return plan_of(folder, [sys.executable, "train.py", *arguments], **{"pattern": PRINTED, **more})


def log_of(plan: Plan, number: int = 0) -> str:
    """What a trial printed."""
    return (plan.trial_folder(number) / LOG).read_text(encoding="utf-8")


def processes_of(plan: Plan) -> list[psutil.Process]:
    """The processes that work in the folder of the scripts."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == plan.script_folder and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_until(is_so: Callable[[], bool], seconds: float = LONGEST_SECONDS) -> bool:
    """Wait until it is so, at most so long; return whether it is."""
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_so()
