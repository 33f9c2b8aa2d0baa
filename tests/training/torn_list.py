"""Ray Train begins with its list of a run's checkpoints, whole and torn, in storage: what it said, a line each.

python -m tests.training.torn_list ADDRESS
"""

import sys

import ray.train
from ray.train.v2._internal.exceptions import CheckpointManagerInitializationError
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager
from ray.train.v2._internal.execution.storage import StorageContext

from training.launch.ray.recovery import LIST, remove_torn_list
from training.launch.storage.run_storage import Storage

NAME = "train"
TORN = (b"", b'{"ray_version": "2')


def begin(storage: Storage) -> CheckpointManager:
    """As Ray Train's controller does."""
    context = StorageContext(storage_path=storage.folder, experiment_dir_name=NAME, storage_filesystem=storage.system)
    return CheckpointManager(ray.train.CheckpointConfig(), context)


def write(storage: Storage, content: bytes) -> None:
    """In place, as Ray Train does."""
    with storage.system.open_output_stream(f"{storage.folder}/{LIST}") as file:
        file.write(content)


def main(address: str) -> None:
    """Whole, then torn."""
    storage = Storage.at(address)
    listed = storage.within(NAME)
    listed.make()
    remove_torn_list(listed)
    begin(storage)._write_state_to_storage()
    remove_torn_list(listed)
    print("whole:", "stays" if LIST in listed.names() else "gone")
    for torn in TORN:
        write(listed, torn)
        try:
            begin(storage)
        except CheckpointManagerInitializationError:
            print("torn: refused")
        remove_torn_list(listed)
        begin(storage)
        print("then: began", "with it" if LIST in listed.names() else "without")


if __name__ == "__main__":
    main(sys.argv[1])
