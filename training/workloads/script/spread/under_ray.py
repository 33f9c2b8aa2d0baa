"""The script as the training function of Ray's trainer: python spread ray N CPUS PLAN [--use-gpu] script.py …

Ray starts the workers and tells them of each other, as its documentation tells; the rest is what every rank has. Runs
with the user's Ray (2.51 and newer). This package goes to the workers with the function: no machine needs it installed.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from . import folders

FOLDER = Path(__file__).resolve().parent
OF_RANKS = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK",
)  # fmt: skip
"""Environment variables that Ray's TorchTrainer sets and the script is not to see."""
TRAINERS = {
    "torch": ("torch", "TorchTrainer"), "tensorflow": ("tensorflow", "TensorflowTrainer"),
    "xgboost": ("xgboost", "XGBoostTrainer"), "lightgbm": ("lightgbm", "LightGBMTrainer"),
}  # fmt: skip
"""Modules of Ray Train with their trainers, by framework."""


def run_script(config: dict[str, Any]) -> None:
    """Run the script as one rank, in a worker of Ray Train. Raises RuntimeError if the script fails."""
    import importlib
    import os
    import sys
    import tempfile
    from contextlib import suppress
    from pathlib import Path

    import ray.train

    for name in config["variables"]:
        os.environ.pop(name, None)
    os.environ.update(config["environment"])
    context = ray.train.get_context()
    Path(config["files"]).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=config["files"]))
    package = folder / config["name"]
    package.mkdir()
    for name, text in config["package"].items():
        (package / name).write_text(text, encoding="utf-8")
    plan = folder / "plan.json"
    plan.write_text(config["plan"], encoding="utf-8")
    sys.path.insert(0, str(folder))
    process = importlib.import_module(f"{config['name']}.process")
    settings = importlib.import_module(f"{config['name']}.settings")
    originals = importlib.import_module(f"{config['name']}.originals")
    sys.path.remove(str(folder))
    os.chdir(config["folder"])
    rank = context.get_world_rank()
    private = folder / "files"
    private.mkdir()
    store = ""
    if config["framework"] == "lightgbm":
        from ray.train.lightgbm import get_network_params

        store = get_network_params()["machines"]
    own = settings.Settings(
        config["framework"],
        rank=rank,
        world=context.get_world_size(),
        store=store,
        plan=str(plan),
        private=str(private) if rank else "",
        trace=str(folder),
    )
    if rank:
        _print_nothing()
    code = process.main(own, config["command"])
    originals.remove_folder(str(folder))
    with suppress(OSError):  # another rank is in it, or the driver, whose folder it is if this is its machine
        originals.RMDIR(config["files"])
    if code:
        raise RuntimeError(f"the script ended with exit code {code} in rank {rank}")


def _print_nothing() -> None:
    """Have `print`, which Ray replaces, print to files alone."""
    import builtins
    import sys

    printed = builtins.print

    def print_(*args: Any, file: Any = None, **more: Any) -> None:
        if file not in (None, sys.stdout):
            printed(*args, file=file, **more)

    builtins.print = print_


def main() -> int:
    """Run the script in as many workers as the command line says."""
    import ray.cloudpickle
    import ray.train

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    workers, cpus, plan, *command = sys.argv[1:]
    use_gpu = command[0] == "--use-gpu"
    planned = json.loads(Path(plan).read_text(encoding="utf-8"))
    framework = planned.get("framework", "torch")
    module, name = TRAINERS[framework]
    trainer = getattr(importlib.import_module(f"ray.train.{module}"), name)
    with folders.temporary() as files:
        config = {
            "framework": framework,
            "environment": planned.get("environment", {}),
            "command": command[use_gpu:],
            "folder": str(Path.cwd()),
            "plan": Path(plan).read_text(encoding="utf-8"),
            "name": __name__.partition(".")[0],
            "package": {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py")},
            "variables": OF_RANKS,
            "files": files,
        }
        trainer(
            run_script,
            train_loop_config=config,
            scaling_config=ray.train.ScalingConfig(
                num_workers=int(workers), use_gpu=use_gpu, resources_per_worker={"CPU": int(cpus)}
            ),
            run_config=ray.train.RunConfig(storage_path=str(Path(files, "train"))),
        ).fit()
    return 0
