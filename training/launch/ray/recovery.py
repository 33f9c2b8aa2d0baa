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
    """Delete Ray Train's list of a run's checkpoints where it is not whole: no later job would begin with it.

    Ray Train writes it in place, so a kill can tear it. Nothing is lost with it: training goes on from what is in
    storage (`OfRay.newest`). Raises OSError.
    """
    try:
        with storage.system.open_input_stream(f"{storage.folder}/{LIST}") as content:
            json.loads(content.read())
    except FileNotFoundError:
        return
    except ValueError:
        storage.remove(LIST)


class Failures:
    """An actor that counts: Ray Train's controller, which sees failures, may be in another pod than the driver."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        """Count one more failure."""
        self._count += 1

    def count(self) -> int:
        """Return the number of failures so far."""
        return self._count


class Counting(ray.train.UserCallback):  # type: ignore[misc]  # Ray has no types
    """Tells that actor of every failure of workers."""

    def __init__(self, failures: Any) -> None:
        self._failures = failures

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:  # noqa: ARG002
        """Called on the controller, after workers died or raised."""
        self._failures.add.remote()


class OfRay:
    """Checkpoints as Ray Train keeps them. For its workers."""

    def __init__(self, address: str) -> None:
        self._address = address

    def keep(self, folder: Path | None, metrics: dict[str, Any]) -> None:
        """Report, with the checkpoint that rank 0 alone has."""
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder) if folder else None)

    def newest(self) -> AbstractContextManager[Path | None]:
        """Return a copy of the newest that is whole, of those in storage; None where there is none.

        `ray.train.get_checkpoint` knows one only when the controller has polled every worker since: a worker that
        dies before that would cost what is kept already.
        """
        return newest_in(Storage.at(self._address))


class Recovers:
    """The driver's configuration of Ray Train."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._recovery = request.recipe.recovery()
        self._failures = ray.remote(num_cpus=0)(Failures).remote() if self._recovery.max_failures else None
        self.checkpoints = OfRay(request.storage) if self._recovery.checkpoints_kept else None

    def arguments(self, name: str) -> dict[str, Any]:
        """Return the arguments of its RunConfig. A run can resume from what an earlier job of that name left in
        storage."""
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
        """Return how often a run that ended well was retried; None for one that would not have been."""
        return int(ray.get(self._failures.count.remote())) if self._failures else None
