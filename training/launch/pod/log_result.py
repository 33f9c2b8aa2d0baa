"""Passes a result out of a pod: it is the last thing in the log, after a marker. Standard library only.

Container runtimes cut long lines, so the text after the last marker is joined before it is read. The kubelet starts a
new log for a container when one is longer than 10 MiB, checks that every 10 seconds, and shows only the newest part: a
result of that length would be lost if it checks between the result and the container's end.
"""

import json
from pathlib import Path
from typing import Any

from training.contract.codec import ResultError
from training.contract.recipe import canonical
from training.contract.result import TrainingResult, read

MARKER = "=== result.json ==="
MOST_BYTES = 4 * 2**20
"""Largest size of a printed result: under half of a log's limit."""
SERIES = {"trace": "steps.trace", "samples": "workers.samples"}
"""Series of a result that grow with the length of a run, by one entry for each step or second, and their place in the
result. No ratio needs them."""


def print_result(path: Path) -> None:
    """Print the marker and then the result at `path` in one line. If the result is too long, print only every second,
    fourth, … entry of its series. Raises ResultError."""
    every, data = 1, read(path).to_dict()
    while len(canonical(data)) > MOST_BYTES and _longest(data) > 1:
        every, data = 2 * every, _halved(data)
    if every > 1:
        series = " and ".join(SERIES.values())
        why = f"of {series} one entry in {every} is kept: all would be too long for a container's log"
        data["reasons"] |= dict.fromkeys(SERIES.values(), why)
        print(f"note: {why}", flush=True)
    print(f"{MARKER}\n{canonical(data)}", flush=True)


def _halved(value: Any) -> Any:
    """Return `value` with every second entry of each series, at any depth."""
    if isinstance(value, dict):
        return {key: part[::2] if key in SERIES else _halved(part) for key, part in value.items()}
    return [_halved(part) for part in value] if isinstance(value, list) else value


def _longest(value: Any) -> int:
    """Return the number of entries of the longest list under a key of `SERIES`."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return max((len(part) if key in SERIES else _longest(part) for key, part in parts), default=0)


def find_result(log: str) -> TrainingResult:
    """Return the result after the last marker of a log. Raises ResultError if there is none, or only a part of it."""
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
    """Return the log up to its last marker, which is the part that people read."""
    before, marker, _ = log.rpartition(MARKER)
    return before if marker else log
