"""A run's progress as it happens: one JSON object a line, in a file beside the result. Not a log, and not the result.

Rank 0 writes; whoever wants to show progress reads. A line is one of
  {"event": "start", "arm", "epochs", "stepsPerEpoch", "images", "workers"}
  {"event": "epoch", "epoch", "epochs", "loss", "accuracy", "validationLoss", "validationAccuracy",
   "imagesPerSecond", "secondsLeft"}
  {"event": "steps", "step", "steps", "stepsPerEpoch", "epochs", "secondsLeft"}: what is not known null; of a script,
   and where `EACH_STEP` is set
  {"event": "trial", "trial", "ended", "trials", "state", "metric", "value"}: of a search, whenever a trial has ended;
   "trials" is null where epochs are given out, not trials
  {"event": "checkpoint", "epoch", "step"}: kept after that epoch, so many optimizer steps from the start
  {"event": "resume", "epoch", "step"}: training goes on from that
  {"event": "line", "text"}: the newest of a job's log, where nothing else of the job is seen
  {"event": "note", "text"}: with "isBusy" true if it says what others take of the machine
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training.contract.printable import printable

NAME = "progress.jsonl"
ECHO = "TRAINING_ECHO_PROGRESS"
"""Environment variable; if it is set, progress is printed too, because a pod's files are seen by nobody."""
AS_JSON = "json"
"""Value of ECHO if a program reads the lines, by `in_log`; any other value prints them for people."""
MARK = "progress "

EACH_STEP = "TRAINING_EACH_STEP"
"""Environment variable; if it is set, a run with checkpoints reports the number of its steps several times a second."""


class Progress:
    """Writes progress beside the result, or nowhere when `folder` is None (every rank but 0)."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / NAME if folder else None

    def write(self, event: str, **values: Any) -> None:
        """Append one event with these values to the file, and print it if ECHO is set."""
        if self._path:
            with self._path.open("a", encoding="utf-8") as out:
                out.write(json.dumps({"event": event, **values}) + "\n")
            if os.environ.get(ECHO):
                print(_echoed({"event": event, **values}), flush=True)


def _echoed(event: dict[str, Any]) -> str:
    return MARK + json.dumps(event) if os.environ[ECHO] == AS_JSON else describe(event)


def in_log(text: str) -> Iterator[dict[str, Any]]:
    """Yield the events in the complete lines of a log, in which Ray's prefix may stand before an event."""
    whole = text[: text.rfind("\n") + 1]
    return _events("\n".join(line.partition(MARK)[2] for line in whole.splitlines()).encode())


def read_new(path: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """Return the events in the complete lines written since `offset` (bytes), and the offset for the next call. An
    absent file has no events."""
    try:
        with path.open("rb") as lines:
            lines.seek(offset)
            whole = lines.read().rpartition(b"\n")[0]
    except FileNotFoundError:
        return [], offset
    return list(_events(whole)), offset + (len(whole) + 1 if whole else 0)


def _events(text: bytes) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # a process that was killed while it wrote
        if isinstance(event, dict):
            yield event


def describe(event: dict[str, Any]) -> str:  # noqa: PLR0911 (one return a kind)
    """Return an event as one line of text for people."""
    if event.get("event") == "epoch":
        validation = event.get("validationAccuracy")
        return (
            f"epoch {event['epoch']}/{event['epochs']}  loss {event['loss']:.4f}  accuracy {event['accuracy']:.3f}"
            + (f"  validation {validation:.3f}" if validation is not None else "")
            + (f"  {event['imagesPerSecond']:,.0f} images/s" if event.get("imagesPerSecond") else "  warm-up")
            + f"  {event['secondsLeft']:.0f} s left"
        )
    if event.get("event") == "steps":
        left = event.get("secondsLeft")
        return ", ".join(_how_far(event)) + (f"  {left:.0f} s left" if left is not None else "")
    if event.get("event") == "start":
        return (
            f"{event['workers']} worker(s), {event['images']:,} images, {event['stepsPerEpoch']} steps an epoch, "
            f"{event['epochs']} epoch(s)"
        )
    if event.get("event") == "trial":
        ended, trials = event["ended"], event["trials"]
        so_far = f"{ended} of {trials} trials" if trials else f"trials so far: {ended}"
        return f"{so_far}: {_how_it_ended(event)}"
    if event.get("event") == "checkpoint":
        return f"checkpoint after epoch {event['epoch']}"
    if event.get("event") == "resume":
        return f"goes on from the checkpoint after epoch {event['epoch']}"
    return printable(str(event.get("text", "")))


def _how_it_ended(event: dict[str, Any]) -> str:
    """Return `trial 3 finished with accuracy 0.93`, or `trial 3 failed`."""
    with_metric = "" if event["value"] is None else f" with {event['metric']} {event['value']:.5g}"
    return f"trial {event['trial']} {event['state']}{with_metric}"


def epoch_of(event: dict[str, Any]) -> int | None:
    """Return the epoch, from 1, of the last step of an event `steps`; None if that is not known."""
    per_epoch = event.get("stepsPerEpoch")
    return -(-event["step"] // per_epoch) if per_epoch else None


def _how_far(event: dict[str, Any]) -> Iterator[str]:
    """Yield how far training is, in words: `epoch 2/3` and `step 40/64`; without epochs `step 104/192` alone."""
    epoch, step, steps = epoch_of(event), event["step"], event.get("steps")
    if epoch:
        step, steps = step - (epoch - 1) * event["stepsPerEpoch"], event["stepsPerEpoch"]
        yield f"epoch {epoch}" + (f"/{event['epochs']}" if event.get("epochs") else "")
    yield f"step {step}" + (f"/{steps}" if steps else "")
