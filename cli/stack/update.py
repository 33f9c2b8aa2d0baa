"""Follows an update's runs through the events that pulumi logs, and writes its last lines.

The engine's log of events is what its own Automation API reads: one JSON object a line, each phase from the beginning.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compare.comparison import REPEATS
from training.contract.recipe import from_texts
from training.machine.machine_lock import WAITS

Event = Mapping[str, Any]

SWITCH = {"PULUMI_DEBUG_COMMANDS": "true"}
"""The environment that makes pulumi accept the flag `--event-log`."""
_RUN_TYPES = ("/training:Run", "/ray:Run", "/cluster:JobResult")
"""Ends of the types of resources that are runs or, on a cluster, results of runs."""
_JOB = "kubernetes:batch/v1:Job"
_STACK = "pulumi:pulumi:Stack"
_SIDE = re.compile(r"(.+)-(\d+)")
_INPUTS = ("datasetPath", "rayDashboard")
"""Settings of a run that its inputs hold directly, beside the recipe."""
_LEAVES_IT = ("create", "create-replacement", "same", "update", "import")
"""Operations after which a resource is in its wanted state. `replace` alone is not enough, because it may come before
the creation."""
_OF_RESULT = "-result"
_COLOURS = re.compile(r"<\{%.*?%\}>")
_CLASS = re.compile(r"^(?:[\w]+\.)+[A-Z]\w*: ")
_ENDED = "received; terminating"
_STOPPED = ("received; cancelling", _ENDED)
_SIGNALLED = 128
"""Shells add this number to that of the signal that ended a program. pulumi's own exit statuses are 1 and 255."""
_SIGNALS_TO_END = tuple(_SIGNALLED + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
_LOG = re.compile(r"its log, (\S+?):")
_GENERAL = ("update failed", "update canceled", "resource operation failed", "preview failed")
"""Error messages that only say that some error occurred."""


class EventLog:
    """Reads the new events of a log file. A file that became shorter, or begins otherwise, belongs to another phase,
    and is read from its start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._first = b""

    def read(self) -> Iterator[Event]:
        """Yield the events since the last call, without those for debugging."""
        try:
            with self._path.open("rb") as log:
                first = log.readline()
                if os.fstat(log.fileno()).st_size < self._offset or not first.startswith(self._first):
                    self._offset = 0
                self._first = first
                log.seek(self._offset)
                whole = log.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return
        self._offset += len(whole) + 1 if whole else 0
        for line in whole.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # a phase that began while this was read
            if isinstance(event, dict) and (event.get("diagnosticEvent") or {}).get("severity") != "debug":
                yield event


@dataclass
class Update:
    """The runs and errors of an update, as far as its events tell."""

    planned: dict[str, bool] = field(default_factory=dict)
    """By run, in the planned order: whether the update will make the run (True), or the run exists already (False)."""
    replaced: set[str] = field(default_factory=set)
    """Planned runs that exist, but with other settings than they are to have now."""
    differences: dict[str, tuple[object, object]] = field(default_factory=dict)
    """By key of the recipe, the present and the wanted value in the replaced runs."""
    existing: set[str] = field(default_factory=set)
    """Runs that existed before the update, whatever happens to them."""
    left_out: set[str] = field(default_factory=set)
    """Existing runs that are no longer part of the measurement; their files stay."""
    compared_repeats: int = 0
    """Repeats of the stack's last complete measurement; 0 if there is none."""
    others: int = 0
    """Number of resources, without the runs, that will be created or changed."""
    kept: set[str] = field(default_factory=set)
    """Runs that the state holds with their wanted settings."""
    current: str = ""
    """Name of the run that is in progress; "" if there is none."""
    is_waiting: bool = False
    """Whether the run in progress has not begun, because it waits for the machine's lock."""
    failed: str = ""
    """Name of the run that failed first; "" if none failed."""
    errors: list[str] = field(default_factory=list)
    """Error messages in the order of their arrival, without those that only say that some error occurred."""
    is_stopped: bool = False
    """Whether somebody stopped the update."""
    presses: int = 0
    """How often Ctrl-C reached the update."""
    is_previewed: bool = False
    """Whether the preview of the update has ended."""

    def take(self, event: Event) -> None:
        """Update these fields from an event."""
        if "resourcePreEvent" in event:
            self._begin(event["resourcePreEvent"])
        elif "resOutputsEvent" in event:
            self._end(event["resOutputsEvent"])
        elif "resOpFailedEvent" in event:
            self._fail(_run(event["resOpFailedEvent"]["metadata"]))
        elif "diagnosticEvent" in event:
            self._hear(plain(event["diagnosticEvent"]["message"]), event["diagnosticEvent"].get("severity"))
        elif "stdoutEvent" in event:
            self.is_stopped |= is_stop(event["stdoutEvent"]["message"])
            if _ENDED in event["stdoutEvent"]["message"]:  # also by somebody who sent the signals to pulumi itself
                self.presses = max(self.presses, 2)
        elif "summaryEvent" in event:
            self.is_previewed = True

    def stop(self, presses: int, how: str = "Ctrl-C") -> str:
        """Record that somebody stops the update, and return a text that says what happens now. `how` is what the user
        types to stop it, such as Ctrl-C."""
        self.presses, self.is_stopped = presses, True
        if presses > 1:
            is_lost = self.current and not self.is_waiting
            return f"Ending {self.current} now: it is lost, all before it are kept." if is_lost else "Ending now."
        if self.is_waiting:
            return f"Stopping: {self.current} only waits, and ends before it begins; all before it are kept."
        again = f"{how} once more ends it now"
        if self.current:
            return f"Stopping: {self.current} will end and be kept, as are all before it. {again}, and loses it."
        if not self.is_previewed:
            return f"Stopping: no run was started, all earlier results are kept. {again}."
        return f"Stopping: no further run is started, all that have ended are kept. {again}."

    def _begin(self, step: Mapping[str, Any]) -> None:
        metadata = step["metadata"]
        run, is_made = _run(metadata), metadata["op"] not in ("same", "delete", "delete-replaced", "read", "refresh")
        if step.get("planning"):
            self._plan(run, metadata, is_made=is_made)
        elif is_made and (run or metadata["type"] == _JOB):
            name = run or _name(metadata)
            if name in self.planned or not self.planned:
                self.current, self.is_waiting = name, False

    def _hear(self, text: str, severity: str | None) -> None:
        """Take a message: an error, or a line about the run in progress."""
        if severity == "error" and text not in (*_GENERAL, *self.errors):
            self.errors.append(text)
        run, _, line = text.partition(": ")
        if run and run == self.current:
            self.is_waiting = line.startswith(WAITS)

    def _plan(self, run: str, metadata: Mapping[str, Any], *, is_made: bool) -> None:
        if metadata["type"] == _STACK:
            self.compared_repeats = _compared_repeats(metadata)
        if not run:
            is_real = (metadata.get("new") or {}).get("custom") and not metadata["type"].startswith("pulumi:providers:")
            self.others += bool(is_real and is_made and metadata["op"] != "replace" and metadata["type"] != _JOB)
            return
        if metadata.get("old"):
            self.existing.add(run)
        if metadata["op"] == "delete":
            self.left_out.add(run)
            return
        self.planned[run] = self.planned.get(run, False) or is_made
        if "replace" in metadata["op"]:
            self.replaced.add(run)
            self.differences = _differences(metadata, repeat_of(run)) | self.differences

    def _end(self, step: Mapping[str, Any]) -> None:
        metadata = step["metadata"]
        run = _run(metadata)
        if run and not step.get("planning") and metadata["op"] in _LEAVES_IT:
            self.kept.add(run)
            self.current = "" if run == self.current else self.current

    def _fail(self, run: str) -> None:
        self.failed = self.failed or run

    @property
    def kept_runs(self) -> int:
        """Return the number of runs that the next update does not repeat. That includes existing runs whose steps this
        update did not reach."""
        existing_runs = {run for run, is_made in self.planned.items() if not is_made}
        return len(self.kept | existing_runs)

    @property
    def to_make(self) -> list[str]:
        """Return the runs that this update makes, in the planned order."""
        return [run for run, is_made in self.planned.items() if is_made]


def _run(metadata: Mapping[str, Any]) -> str:
    """Return the name of the run that a step belongs to; "" for a resource that is not a run."""
    return _name(metadata).removesuffix(_OF_RESULT) if str(metadata["type"]).endswith(_RUN_TYPES) else ""


def _name(metadata: Mapping[str, Any]) -> str:
    return str(metadata["urn"]).rpartition("::")[2]


def side_of(run: str) -> str:
    """Return the arm of a run; in a workers' curve with the number of workers, such as `ray-w1` for `ray-w1-2`."""
    parts = _SIDE.fullmatch(run)
    return parts[1] if parts else run


def repeat_of(run: str) -> int:
    """Return the number of a run's repeat, from 1 on; 0 if the name contains no number."""
    parts = _SIDE.fullmatch(run)
    return int(parts[2]) if parts else 0


def _differences(metadata: Mapping[str, Any], repeat: int) -> dict[str, tuple[object, object]]:
    """Return the settings of a run that differ before and after a step, from its recipe and its other inputs."""
    inputs = [(metadata.get(when) or {}).get("inputs") or {} for when in ("old", "new")]
    if not all(each.get("recipe") for each in inputs):  # as of what a replacement deletes
        return {}
    before, after = (_settings_of(each, repeat) for each in inputs)
    if before.get("workload") != after.get("workload"):  # the keys of one mean nothing to the other
        return {key: (before.get(key), after.get(key)) for key in ("workload", *(before.keys() & after.keys()))
                if before.get(key) != after.get(key)}  # fmt: skip
    keys = sorted({*before, *after})
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def _settings_of(inputs: Mapping[str, Any], repeat: int) -> dict[str, object]:
    """Return the settings of a run by key, with the seed of the first repeat, from which later ones count up."""
    recipe: dict[str, object] = from_texts(inputs["recipe"])
    if isinstance(seed := recipe.get("seed"), int) and repeat:
        recipe["seed"] = seed - repeat + 1
    return recipe | {key: inputs[key] for key in _INPUTS if key in inputs}


def _compared_repeats(metadata: Mapping[str, Any]) -> int:
    """Return the number of repeats in a stack's last outputs; 0 if there are no outputs."""
    outputs = (metadata.get("old") or {}).get("outputs") or {}
    return int(outputs.get(REPEATS) or 0)


def is_stop(message: str) -> bool:
    """Return whether a message of the engine says that somebody stops the update."""
    return any(words in message for words in _STOPPED)


def plain(message: str) -> str:
    """Return a message of the engine without its colour marks, and without blanks at both ends."""
    return _COLOURS.sub("", message).strip()


def ending(update: Update, status: int, again: str, outputs: str, repeats: int = 0) -> list[str]:
    """Return the last lines of an update that failed: what happened, what is kept, what to type.

    `again`: the line that continues it. `outputs`: the line that shows the last complete measurement; "" if there is
    none. `repeats`: how many this command completed in earlier updates, with `repeats auto`.
    """
    lines = [_what_happened(update, status)]
    if update.planned:
        kept = f"Kept: {update.kept_runs} of {len(update.planned)} runs."
        lines.append(f"{kept} `{again}` continues there.")
    else:
        lines.append(f"No {'further ' if repeats else ''}run was started. `{again}` tries again.")
    if outputs and repeats:
        lines.append(f"Complete are {repeats} repeats: `{outputs}` shows them.")
    elif outputs:
        lines.append(f"The last complete measurement is older: `{outputs}` shows it.")
    return lines


def _what_happened(update: Update, status: int) -> str:
    if update.is_stopped or status in _SIGNALS_TO_END:
        end = "had not begun" if update.is_waiting else "was ended, and is lost"
        return f"Stopped. {update.current} {end}." if update.current else "Stopped."
    if _SIGNALLED < status <= _SIGNALLED + signal.NSIG:
        lost = f" {update.current} is lost." if update.current else ""
        return f"pulumi was killed by signal {status - _SIGNALLED}.{lost}"
    about = [text for text in update.errors if update.failed and f"{update.failed} failed" in text]
    if not (about or update.errors):
        return f"{update.failed} failed." if update.failed else "The update failed: see the message above."
    message = (about or update.errors)[0]
    cause = message.splitlines()[-1 if message.startswith("Traceback") else 0]
    first = _CLASS.sub("", cause)
    if update.failed and update.failed not in first:
        first = f"{update.failed}: {first}"
    log = _LOG.search(message)
    return f"The update failed: {first}" + (f"\nIts log: {log[1]}" if log else "")
