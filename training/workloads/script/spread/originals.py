"""Files and ends of this package itself, whatever becomes of the script's own: by functions as they were before."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any

OPEN, RENAME, EXIT = open, os.replace, os._exit
_SCAN, _UNLINK, RMDIR = os.scandir, os.unlink, os.rmdir


def write_json(path: Path, content: Any) -> None:
    """Write JSON to a file under another name and rename it, so that nobody reads half of it."""
    part = path.with_suffix(".part")
    with OPEN(part, "w", encoding="utf-8") as file:
        json.dump(content, file)
    RENAME(part, path)


def remove_folder(path: str) -> None:
    """Remove a folder as far as that is possible."""
    with suppress(OSError):
        with _SCAN(path) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    remove_folder(entry.path)
                else:
                    _UNLINK(entry.path)
        RMDIR(path)


class Enough(SystemExit):
    """Ends a script that has made as many steps as the proof needs."""


class Ending(ABC):
    """Base class for the record of a process; it ends the script when enough is known."""

    _raised = False

    @abstractmethod
    def write(self, error: str) -> None:
        """Write the facts that are known."""

    def end(self) -> None:
        """End the script by raising Enough; if the script caught that before, write the facts and exit at once."""
        if self._raised:
            self.write("")
            EXIT(0)
        self._raised = True
        raise Enough(0)
