"""Files and ends of this package itself, whatever becomes of the script's own: by functions as they were before."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

OPEN, RENAME, EXIT = open, os.replace, os._exit


def write_json(path: Path, content: Any) -> None:
    """Write a file whole."""
    part = path.with_suffix(".part")
    with OPEN(part, "w", encoding="utf-8") as file:
        json.dump(content, file)
    RENAME(part, path)
