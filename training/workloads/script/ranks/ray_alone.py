"""Ray's start without a training: N workers import a script's framework, and do nothing else.

python ray_alone.py N CPUS TRAINER --frameworks MODULE… --imports MODULE…

Where Ray has a TRAINER for the framework the workers are Ray Train's, else, with `tasks`, they are Ray's tasks. Ray's
own trainers import their framework in this process, too, and connect the workers; a run can do without, so they are not
used. First another Python imports what the script does, and ends: what that takes is no part of the start. The file
start.json in the folder TRAINING_OBSERVE has that time. Runs in the user's Python with the user's Ray (2.51 and newer).
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception:
        pass
"""


def load(config: dict[str, Any]) -> None:
    """Import the frameworks in a worker, as a training does first in its workers."""
    for name in config["frameworks"]:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 (of a module that is not ours)
            print(f"{name} was not imported: {error!r}")


def import_seconds(names: list[str]) -> float:
    """Return the seconds that a new Python process takes to import the modules `names` and end."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", IMPORT, *names], check=True)
    return time.monotonic() - began


def start_train(workers: int, cpus: int, frameworks: list[str]) -> None:
    """Start Ray Train with `workers` workers that only import the frameworks."""
    import ray.train
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    storage = tempfile.mkdtemp(prefix="ray-train-")
    try:
        DataParallelTrainer(
            load,
            train_loop_config={"frameworks": frameworks},
            scaling_config=ray.train.ScalingConfig(num_workers=workers, resources_per_worker={"CPU": cpus}),
            run_config=ray.train.RunConfig(storage_path=storage),
        ).fit()
    finally:
        shutil.rmtree(storage, ignore_errors=True)


def start_tasks(workers: int, cpus: int, frameworks: list[str]) -> None:
    """Start `workers` tasks of Ray at the same time, which only import the frameworks."""
    import ray

    ray.init()
    task = ray.remote(num_cpus=cpus)(load)
    ray.get([task.remote({"frameworks": frameworks}) for _ in range(workers)])


def main() -> None:
    """Start Ray as the options say, and write the import time and the kind of start to start.json."""
    sys.path[0] = ""  # this file's folder is none of the script's
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workers", type=int)
    parser.add_argument("cpus", type=int)
    parser.add_argument("trainer")
    parser.add_argument("--frameworks", nargs="*", default=[])
    parser.add_argument("--imports", nargs="*", default=[])
    options = parser.parse_args()
    start = {"importSeconds": import_seconds(options.imports), "trainer": options.trainer}
    way = start_tasks if options.trainer == "tasks" else start_train
    way(options.workers, options.cpus, options.frameworks)
    Path(os.environ["TRAINING_OBSERVE"], "start.json").write_text(json.dumps(start), encoding="utf-8")


if __name__ == "__main__":
    main()
