"""Curves of runs that go on, from the progress that they keep in storage with each checkpoint, as event files.

Those of a finished result come from its histories instead: `cli.follow.tensorboard`.
"""

import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboardX import SummaryWriter  # type: ignore[import-untyped]  # it ships no types

from cli.setup.project import ToolError
from cli.stack import settings as stack_settings
from report.errors import ShowError
from training.contract import progress
from training.launch.storage.run_storage import Storage

TAGS = {
    "loss": "loss/training",
    "validationLoss": "loss/validation",
    "accuracy": "accuracy/training",
    "validationAccuracy": "accuracy/validation",
    "imagesPerSecond": "speed/images_per_second",
}
"""As the event files of a result call them, by what an event `epoch` has."""
LOOK_EVERY_SECONDS = 10.0


class Curves:
    """Event files of all runs in storage, one folder each; an epoch that is there already is not written again.

    By its number: of a run that was retried an epoch may be made twice, and its file may begin anew.
    """

    def __init__(self, storage: Storage, folder: Path) -> None:
        self._storage = storage
        self._folder = folder
        self._writers: dict[str, SummaryWriter] = {}
        self._epochs: dict[str, int] = {}

    def update(self) -> int:
        """Write what is new; how many runs there are. Raises OSError where storage does not answer."""
        names = [name for name in self._storage.names() if name.endswith(f"/{progress.NAME}")]
        with tempfile.TemporaryDirectory(prefix="progress-") as copies:
            for name in names:
                self._storage.fetch(name, Path(copies, name))
                self._add(name.rpartition("/")[0], Path(copies, name))
        return len(names)

    def follow(self) -> None:
        """Update for ever; retries storage that does not answer."""
        while True:
            time.sleep(LOOK_EVERY_SECONDS)
            try:
                self.update()
            except OSError:
                continue

    def _add(self, run: str, path: Path) -> None:
        events, _ = progress.read_new(path, 0)
        if run not in self._writers:
            self._writers[run] = SummaryWriter(str(self._folder / run))
        writer = self._writers[run]
        for event in events:
            if event.get("event") == "epoch" and event["epoch"] > self._epochs.get(run, 0):
                self._epochs[run] = event["epoch"]
                for key, tag in TAGS.items():
                    if event.get(key) is not None:
                        writer.add_scalar(tag, event[key], event["epoch"])
        writer.flush()


def live(stack: str, overrides: Mapping[str, str], folder: Path) -> None:
    """Fill a folder for TensorBoard, and go on as long as this process lives. Raises ShowError."""
    try:
        where = stack_settings.kept_at(stack_settings.load(stack, overrides))
    except ToolError as error:
        raise ShowError(str(error)) from None
    try:
        curves = Curves(Storage.at(where), folder)
        runs = curves.update()
    except OSError as error:
        raise ShowError(f"{where} does not answer: {error}") from None
    if not runs:
        raise ShowError(f"nothing is in {where} yet: curves come with the first checkpoint (checkpointEpochs)")
    threading.Thread(target=curves.follow, name="curves", daemon=True).start()
