"""The processes of a plain script on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import folders, keras_judge, process, watch
from .originals import write_json
from .settings import VARIABLE, Settings, addresses, taken

CLUSTER = "TRAINING_CLUSTER"
"""Environment variable with all ranks' addresses and the rank of this process, where each is in a pod of its own."""
GRACE_SECONDS = 5.0
PLANNED_STEPS = 8


def rank() -> int:
    """Run the script as the rank that the environment variable TRAINING_SPREAD describes; return the exit code."""
    return process.main(taken(), sys.argv[1:])


def plan() -> int:
    """Run some steps of the script as one process, throw its files away, write the plan; return the exit code."""
    framework = "torch"
    if sys.argv[1] == "--framework":
        framework = sys.argv[2]
        del sys.argv[1:3]
    file, command = sys.argv[1], sys.argv[2:]
    codes: list[int] = []

    def run(framework: str, variables: dict[str, str]) -> dict[str, Any]:
        facts, code = _planned(framework, variables, command)
        codes[:] = [code, *codes] if facts else [*codes, code]
        return facts

    facts = keras_judge.planned(run) if framework == "tensorflow" else run(framework, {})
    if facts.get("kerasThree") == "torch":
        facts = run("torch", {})
    if facts:
        write_json(Path(file), facts)
    return codes[0]


def _planned(framework: str, variables: dict[str, str], command: list[str]) -> tuple[dict[str, Any], int]:
    """Return the facts and the exit code of a run of the script as a single process."""
    with folders.temporary() as folder:
        settings = Settings(
            framework, out=folder, private=os.path.join(folder, "files"), steps=PLANNED_STEPS, watches=True
        )
        code = _start(settings, command, variables).wait()
        written = Path(folder, "facts-rank0.json")
        facts: dict[str, Any] = json.loads(written.read_text()) if written.exists() and not code else {}
    return facts, code


def ranks() -> int:
    """Run the script as several ranks on this machine; end all when one fails, and return that one's exit code."""
    count, plan_file, command = int(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    planned = json.loads(Path(plan_file).read_text())
    framework = planned.get("framework", "torch")
    store = addresses(framework, 1 if framework == "torch" else count)
    started = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with folders.temporary() as folder:
        try:
            for number in range(count):
                settings = Settings(framework, number, count, store, plan_file, trace=folder)
                started.append(_start(_apart(settings), command, planned.get("environment", {})))
            while None in (states := [each.poll() for each in started]) and not any(states):
                time.sleep(0.05)
        finally:
            _end(started)
            if any(each.returncode for each in started) and (why := watch.apart(folder, count)):
                sys.stderr.write(f"ranks of the script branched apart: {why}\n")
    codes = [each.returncode for each in started if each.returncode]
    return codes[0] if codes and codes[0] > 0 else int(bool(codes))


def member() -> int:
    """Run the script as one of several ranks, the only one on this machine; return its exit code."""
    plan_file, command = os.path.abspath(sys.argv[1]), sys.argv[2:]
    cluster = json.loads(os.environ.pop(CLUSTER))
    rank, everywhere = cluster["rank"], cluster["addresses"]
    planned = json.loads(Path(plan_file).read_text())
    framework = planned.get("framework", "torch")
    store = everywhere[0] if framework == "torch" else ",".join(everywhere)
    started = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with folders.temporary() as folder:
        settings = Settings(framework, rank, len(everywhere), store, plan_file, trace=folder)
        try:
            started.append(_start(_apart(settings), command, planned.get("environment", {})))
            code = started[0].wait()
        finally:
            _end(started)
    return code if code >= 0 else 128 - code


def _apart(settings: Settings) -> Settings:
    """Return the settings of a rank; its files are thrown away, except those of rank 0."""
    private = os.path.join(settings.trace, str(settings.rank)) if settings.rank else ""
    return replace(settings, private=private)


def _start(settings: Settings, command: list[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **variables, VARIABLE: settings.text()}
    return subprocess.Popen(
        [sys.executable, os.path.dirname(os.path.abspath(__file__)), "rank", *command], env=environment
    )


def _end(started: list[subprocess.Popen[bytes]]) -> None:
    for each in started:
        if each.poll() is None:
            each.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for each in started:
        try:
            each.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.kill()
            each.wait()
