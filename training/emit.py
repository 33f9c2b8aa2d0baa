"""A result on its way out of a pod: the last thing in the log, after a marker. Standard library only.

Container runtimes cut long lines, so the text after the last marker is joined before it is read.
"""

import json
from pathlib import Path

from training.config import canonical
from training.result import ResultError, TrainingResult, read

MARKER = "=== result.json ==="


def print_result(path: Path) -> None:
    """Print the marker, and the result at `path` in one line; raises ResultError."""
    line = canonical(read(path).to_dict())
    print(f"{MARKER}\n{line}", flush=True)


def find_result(log: str) -> TrainingResult:
    """The result after the last marker of a log; raises ResultError when there is none, or not all of it."""
    _, marker, after = log.rpartition(MARKER)
    if not marker:
        raise ResultError("the log holds no result: the run did not end, or its log was cut")
    try:
        data, _ = json.JSONDecoder().raw_decode("".join(after.splitlines()))
    except ValueError as error:
        raise ResultError(f"the result at the end of the log is not whole: {error}") from None
    if not isinstance(data, dict):
        raise ResultError(f"after the marker the log holds {type(data).__name__}, and no result")
    return TrainingResult.from_dict(data)


def without_result(log: str) -> str:
    """The log up to its last marker: what people read."""
    before, marker, _ = log.rpartition(MARKER)
    return before if marker else log
