"""Configures Ray Train for a run that makes checkpoints or may be retried, by public names.

Follows its guide: docs.ray.io, Ray Train user guides, "Saving and Loading Checkpoints" and "Handling Failures".
"""

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import ray
import ray.train

from training.launch.entry import Request
from training.launch.storage.checkpoint_store import newest_in
from training.launch.storage.run_storage import Storage

LIST = "checkpoint_manager_snapshot.json"
"""File with the list of checkpoints, in the folder of a run of Ray Train."""


def remove_torn_list(storage: Storage) -> None:
    """Delete Ray Train's list of a run's checkpoints if the file is incomplete, because no later job could start with
    it.

    Ray Train overwrites the list in place, so a kill can leave half of it. Nothing is lost with the list: training
    resumes from the checkpoints in storage (`OfRay.newest`). Raises OSError.
    """
    try:
        with storage.system.open_input_stream(f"{storage.folder}/{LIST}") as content:
            json.loads(content.read())
    except FileNotFoundError:
        return
    except ValueError:
        storage.remove(LIST)


class Failures:
    """An actor that counts failures of workers. Ray Train's controller, which sees the failures, may be in another pod
    than the driver."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        """Count one more failure."""
        self._count += 1

    def count(self) -> int:
        """Return the number of failures so far."""
        return self._count


class Counting(ray.train.UserCallback):  # type: ignore[misc]  # Ray has no types
    """A callback of Ray Train that reports every failure of workers to the actor `Failures`."""

    def __init__(self, failures: Any) -> None:
        self._failures = failures

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:  # noqa: ARG002
        """Count a failure. Ray Train calls this on its controller after workers died or raised."""
        self._failures.add.remote()


class OfRay:
    """The checkpoints of a run, kept by Ray Train; used by its workers."""

    def __init__(self, address: str) -> None:
        self._address = address

    def keep(self, folder: Path | None, metrics: dict[str, Any]) -> None:
        """Report the metrics to Ray Train, on rank 0 together with the folder as a checkpoint."""
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder) if folder else None)

    def newest(self) -> AbstractContextManager[Path | None]:
        """Return a context manager that gives a copy of the newest complete checkpoint in storage; None if there is
        none.

        `ray.train.get_checkpoint` knows a checkpoint only after the controller has polled every worker since: if a
        worker died before that, a checkpoint that is already kept would be lost.
        """
        return newest_in(Storage.at(self._address))


class Recovers:
    """The driver's configuration of Ray Train for a run that makes checkpoints or may be retried."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._recovery = request.recipe.recovery()
        self._failures = ray.remote(num_cpus=0)(Failures).remote() if self._recovery.max_failures else None
        self.checkpoints = OfRay(request.storage) if self._recovery.checkpoints_kept else None

    def arguments(self, name: str) -> dict[str, Any]:
        """Return arguments for Ray Train's RunConfig; under this name a run resumes from what an earlier job left."""
        recovery = self._recovery
        more: dict[str, Any] = {"failure_config": ray.train.FailureConfig(max_failures=recovery.max_failures)}
        if self._failures:
            more["callbacks"] = [Counting(self._failures)]
        if self.checkpoints:
            storage = Storage.at(self._request.storage)
            remove_torn_list(storage.within(name))
            more |= {"storage_path": storage.folder, "storage_filesystem": storage.system}
            more["checkpoint_config"] = ray.train.CheckpointConfig(
                num_to_keep=recovery.checkpoints_kept,
                checkpoint_score_attribute=recovery.score,
                checkpoint_score_order="min",
            )
        return more

    def retries(self) -> int | None:
        """Return how often workers of the run were restarted after a failure; None if the run is never retried."""
        return int(ray.get(self._failures.count.remote())) if self._failures else None
