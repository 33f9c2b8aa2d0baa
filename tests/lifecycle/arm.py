"""An arm that trains nothing, and notes in a file which settings and which code it ran. Copied over real arms.

The file is no part of the project: a disk that is full, or a folder that is deleted, loses none of it.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.program import stub_entry
from training.contract import result

CODE = 0
"""Counted up where the code changes between two updates."""
SECONDS = 0.4
"""So long a run can be met by what happens to it."""
STAYS = "import os, time; os.setpgid(0, 0); time.sleep(100_000)"
"""A child that nobody but the run's guard ends, as a script may leave one."""


def note(event: str, **values: object) -> None:
    """Append what happened; the clock is the one that does not jump."""
    line = json.dumps({"event": event, "at": time.monotonic(), **values})
    with Path(os.environ["TRAINING_TEST_LEDGER"]).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")


def main(arm: str) -> None:
    """One run of `arm`, noted where it begins and where its result is whole."""
    folder, _, recipe = stub_entry.parse()
    started = datetime.now(UTC).isoformat()
    about = {"folder": folder.name, "stack": folder.parent.name, "arm": arm, "code": CODE, "recipe": recipe.to_dict()}
    note("began", **about)
    subprocess.Popen([sys.executable, "-c", STAYS])
    time.sleep(SECONDS)
    stub_entry.main(arm)
    replace(result.read(folder / result.NAME), started_at=started).write(folder / result.NAME)
    note("ended", **about)


if __name__ == "__main__":
    main(Path(sys.argv[0]).stem)
