"""The ray arm: the same workers, started and joined by Ray Train's TensorflowTrainer.

Without an address it starts Ray in this process's session and shuts it down at the end; with one it joins that cluster.
"""

import os
import shutil
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import ray
import ray.train
from ray.train.tensorflow import TensorflowTrainer

from training import entry, environment, provenance
from training.clock import Phases, Stamp
from training.config import Recipe
from training.result import RayCluster, TrainingResult
from training.session import Launch

LONGEST_TEMPORARY = 40
"""Characters. Ray adds some 60 of its own, and the path of a socket ends at 107."""


def run(request: entry.Request) -> TrainingResult:
    """Start or join Ray, train, shut down, and give rank 0's result with this process's own end-to-end time."""
    entered = Stamp.now()
    temporary = start_ray(request)
    try:
        found = _fit(request, entered)
    finally:
        ray.shutdown()
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)
    result = TrainingResult.from_dict(found)
    return replace(result, wall_seconds=request.started.seconds_until(Stamp.now()))


def start_ray(request: entry.Request) -> Path | None:
    """Connect to the address, or start Ray here; gives the folder of its temporary files, if it is ours to remove."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if request.address:
        ray.init(address=request.address, log_to_driver=True)
        return None
    temporary = Path(tempfile.mkdtemp(prefix="ray-", dir=_short_folder()))
    os.environ.update(environment.variables(request.recipe.compute_threads()))
    ray.init(
        num_cpus=request.recipe.workers * request.recipe.compute_threads(),
        include_dashboard=request.dashboard,
        object_store_memory=100 * 2**20,  # results are small: training data does not pass through it
        _node_ip_address="127.0.0.1",
        _temp_dir=str(temporary),
        log_to_driver=True,
    )
    return temporary


def cluster() -> RayCluster:
    """What Ray says of its cluster."""
    resources = ray.cluster_resources()
    return RayCluster(
        nodes=sum(1 for node in ray.nodes() if node["Alive"]),
        cpus=resources.get("CPU", 0.0),
        memory_bytes=resources.get("memory", 0.0),
        object_store_bytes=resources.get("object_store_memory", 0.0),
    )


def _fit(request: entry.Request, entered: Stamp) -> dict[str, Any]:
    recipe = request.recipe
    trainer = TensorflowTrainer(
        _train_worker,
        train_loop_config={
            "recipe": recipe.to_dict(),
            "dataset_path": request.dataset_path,
            "folder": str(request.result.parent),
            "bind_cpus": request.bind_cpus,
            "started": asdict(request.started),
            "entered": asdict(entered),
            "phases": request.phases.seconds,
            "cluster": asdict(cluster()),
        },
        scaling_config=ray.train.ScalingConfig(
            num_workers=recipe.workers, resources_per_worker={"CPU": recipe.compute_threads()}
        ),
        run_config=ray.train.RunConfig(storage_path=str(request.result.parent / "ray"), name="train"),
    )
    value = trainer.fit().return_value
    if not isinstance(value, dict):
        raise RuntimeError("Ray Train ended without the result of rank 0")
    return value


def _train_worker(config: dict[str, Any]) -> dict[str, Any] | None:
    """One of the workers, in a process that Ray started."""
    recipe, entered = Recipe.from_dict(config["recipe"]), Stamp(**config["entered"])
    rank = ray.train.get_context().get_world_rank()
    phases = Phases(dict(config["phases"]))
    phases.add("ray", entered.seconds_until(Stamp.now()))
    host, cpus = provenance.host(), provenance.allowed_cpus() if config["bind_cpus"] else None
    environment.prepare(recipe, rank, cpus)
    with phases.measure("tensorflow"):
        from training.train import train
    launch = Launch(
        arm="ray",
        rank=rank,
        world=ray.train.get_context().get_world_size(),
        host=host,
        started=Stamp(**config["started"]),
        phases=phases,
        dataset_path=config["dataset_path"],
        folder=Path(config["folder"]),
        report=ray.train.report,
        ray=RayCluster(**config["cluster"]),
    )
    result = train(recipe, launch)
    return result.to_dict() if result else None


def _short_folder() -> str | None:
    """The system's temporary folder, or /tmp where its name is too long for Ray's sockets."""
    return None if len(tempfile.gettempdir()) <= LONGEST_TEMPORARY else "/tmp"  # noqa: S108


if __name__ == "__main__":
    asked = entry.parse("ray", __doc__)
    entry.run(lambda: run(asked), asked.result)
