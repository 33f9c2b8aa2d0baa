"""What Ray does while its metrics are read: tasks, an actor, objects, and a run of Ray Train that sleeps.

    python work.py SECONDS

It computes nothing: a machine that is busy with other tests is enough for it.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
from ray.train import Checkpoint, ScalingConfig, report
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def task(number: int) -> bytes:
    """Give an object of the store."""
    time.sleep(0.5)
    return bytes(200_000 + number)


class Holder:
    """An actor with an object."""

    def hold(self, value: bytes) -> int:
        """Keep it."""
        self.value = value
        return len(value)


def train(config: dict[str, Any]) -> None:
    """Report every second, with a checkpoint."""
    end = time.monotonic() + config["seconds"]
    while time.monotonic() < end:
        time.sleep(1)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "step").write_text("1")
            report({"step": 1}, checkpoint=Checkpoint.from_directory(folder))


def main() -> None:
    """All of it, once."""
    ray.init()
    remote_task: Any = ray.remote(num_cpus=0.5)(task)
    remote_holder: Any = ray.remote(num_cpus=0.5)(Holder)
    refs = [remote_task.remote(number) for number in range(8)]
    holder = remote_holder.remote()
    ray.get([holder.hold.remote(ref) for ref in refs])
    scaling = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5})
    DataParallelTrainer(train, train_loop_config={"seconds": float(sys.argv[1])}, scaling_config=scaling).fit()


if __name__ == "__main__":
    main()
