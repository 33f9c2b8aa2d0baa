"""A Ray Train run that reports a checkpoint into storage, as Ray's guide has it, in the environment of such a run.

python -m tests.storage.ray_driver ADDRESS
"""

import sys
import tempfile
from pathlib import Path

from training.launch import environment
from training.launch.ray import driver

WORKERS = 2


def train() -> None:
    """Each worker reports a file of its own, and reads rank 0's back."""
    import ray.train

    rank = ray.train.get_context().get_world_rank()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"of-{rank}").write_text("weights")
        ray.train.report({"rank": rank}, checkpoint=ray.train.Checkpoint.from_directory(folder))


def main(address: str) -> None:
    """Train."""
    environment.keep_allowed(address)
    import ray
    import ray.train
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    ray.init(address="local", num_cpus=WORKERS, include_dashboard=False, _node_ip_address=driver.LOOPBACK)
    result = DataParallelTrainer(
        train,
        scaling_config=ray.train.ScalingConfig(num_workers=WORKERS),
        run_config=ray.train.RunConfig(storage_path=address, name="train"),
    ).fit()
    with result.checkpoint.as_directory() as folder:
        print(sorted(path.name for path in Path(folder).iterdir()))


if __name__ == "__main__":
    main(sys.argv[1])
