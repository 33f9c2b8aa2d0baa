"""Follows an update's runs through the events that pulumi logs, and writes its last lines.

The engine's log of events is what its own Automation API reads: one JSON object a line, each phase from the beginning.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compare.comparison import REPEATS
from training.contract.recipe import from_texts

Event = Mapping[str, Any]

SWITCH = {"PULUMI_DEBUG_COMMANDS": "true"}
"""With it pulumi has the flag `--event-log`."""
_RUN_TYPES = ("/training:Run", "/ray:Run", "/cluster:JobResult")
"""Ends of the types whose resources are runs, or of a cluster the results of runs."""
_JOB = "kubernetes:batch/v1:Job"
_STACK = "pulumi:pulumi:Stack"
_SIDE = re.compile(r"(.+)-(\d+)")
_INPUTS = ("datasetPath", "rayDashboard")
"""Settings of a run that its inputs hold as they are, beside the recipe."""
_LEAVES_IT = ("create", "create-replacement", "same", "update", "import")
"""Operations after which a resource is what it is to be. `replace` alone is none: it may stand before the creation."""
_OF_RESULT = "-result"
_COLOURS = re.compile(r"<\{%.*?%\}>")
_CLASS = re.compile(r"^(?:[\w]+\.)+[A-Z]\w*: ")
_STOPPED = ("received; cancelling", "received; terminating")
_SIGNALLED = 128
"""Added by shells to the number of the signal that ended a program; pulumi's own statuses are 1 and 255."""
_SIGNALS_TO_END = tuple(_SIGNALLED + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
_LOG = re.compile(r"its log, (\S+?):")
_GENERAL = ("update failed", "update canceled", "resource operation failed", "preview failed")
"""Errors that say that there was one."""


class EventLog:
    """Reads what is new in the file; a file that became shorter is another phase's."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> Iterator[Event]:
        """Yield the events since the last call, those for debugging left out."""
        try:
            if self._path.stat().st_size < self._offset:
                self._offset = 0
            with self._path.open("rb") as log:
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
    """The runs of an update as far as its events tell, and what went wrong."""

    planned: dict[str, bool] = field(default_factory=dict)
    """By run, in their order: whether it is to be made; the others are there already."""
    replaced: set[str] = field(default_factory=set)
    """Those of them that are there, but as something else than they are to be now."""
    differences: dict[str, tuple[object, object]] = field(default_factory=dict)
    """By key of the recipe, what those have and what they are to have."""
    existing: set[str] = field(default_factory=set)
    """Runs that were there before, whatever happens to them."""
    left_out: set[str] = field(default_factory=set)
    """Those of them that are no longer part of the measurement; their files stay."""
    compared_repeats: int = 0
    """Repeats of the stack's last complete measurement; 0 if there is none."""
    others: int = 0
    """Resources beside the runs that are to be made or changed."""
    kept: set[str] = field(default_factory=set)
    """Runs that are in the state with what they are to be now."""
    current: str = ""
    """The run that goes on."""
    failed: str = ""
    """The run that failed first."""
    errors: list[str] = field(default_factory=list)
    """Messages, in their order, the general ones left out."""
    is_stopped: bool = False
    """Whether somebody ended it."""
    presses: int = 0
    """How often Ctrl-C reached it."""
    is_previewed: bool = False
    """Whether its preview has ended."""
    changes: dict[str, int] = field(default_factory=dict)
    """By operation, how many resources; of the last phase that ended."""

    def take(self, event: Event) -> None:
        """Bring it up to date."""
        if "resourcePreEvent" in event:
            self._begin(event["resourcePreEvent"])
        elif "resOutputsEvent" in event:
            self._end(event["resOutputsEvent"])
        elif "resOpFailedEvent" in event:
            self._fail(_run(event["resOpFailedEvent"]["metadata"]))
        elif "diagnosticEvent" in event and event["diagnosticEvent"].get("severity") == "error":
            text = plain(event["diagnosticEvent"]["message"])
            if text not in (*_GENERAL, *self.errors):
                self.errors.append(text)
        elif "stdoutEvent" in event:
            self.is_stopped |= is_stop(event["stdoutEvent"]["message"])
        elif "summaryEvent" in event:
            self.changes = dict(event["summaryEvent"].get("resourceChanges") or {})
            self.is_previewed = True

    def stop(self, presses: int, how: str = "Ctrl-C") -> str:
        """Note that somebody ends it, and return what happens now; `how`: by what it is told to end."""
        self.presses, self.is_stopped = presses, True
        if presses > 1:
            return f"Ending {self.current} now: it is lost, all before it are kept." if self.current else "Ending now."
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
            self.current = name if name in self.planned or not self.planned else self.current

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
        """Return the number of runs that the next update does not repeat: an update may not have reached all of its
        steps."""
        existing_runs = {run for run, is_made in self.planned.items() if not is_made}
        return len(self.kept | existing_runs)

    @property
    def to_make(self) -> list[str]:
        """Return runs that this update makes, in their order."""
        return [run for run, is_made in self.planned.items() if is_made]


def _run(metadata: Mapping[str, Any]) -> str:
    """Return the run that a step is of; "" for any other resource."""
    return _name(metadata).removesuffix(_OF_RESULT) if str(metadata["type"]).endswith(_RUN_TYPES) else ""


def _name(metadata: Mapping[str, Any]) -> str:
    return str(metadata["urn"]).rpartition("::")[2]


def side_of(run: str) -> str:
    """Return the arm of a run, of a workers' curve with its workers: `ray-w1` of `ray-w1-2`."""
    parts = _SIDE.fullmatch(run)
    return parts[1] if parts else run


def repeat_of(run: str) -> int:
    """Return the repeat of a run, from 1; 0 of a name that has none."""
    parts = _SIDE.fullmatch(run)
    return int(parts[2]) if parts else 0


def _differences(metadata: Mapping[str, Any], repeat: int) -> dict[str, tuple[object, object]]:
    """Return the differing settings of a run, before and after: of its recipe, and those that are inputs by
    themselves."""
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
    """Return the settings of a run by key; the seed is the first repeat's, from which the others count."""
    recipe: dict[str, object] = from_texts(inputs["recipe"])
    if isinstance(seed := recipe.get("seed"), int) and repeat:
        recipe["seed"] = seed - repeat + 1
    return recipe | {key: inputs[key] for key in _INPUTS if key in inputs}


def _compared_repeats(metadata: Mapping[str, Any]) -> int:
    """Return how many repeats a stack's outputs are of; 0 if there are none."""
    outputs = (metadata.get("old") or {}).get("outputs") or {}
    return int(outputs.get(REPEATS) or 0)


def is_stop(message: str) -> bool:
    """Return whether the engine says with it that somebody ends the update."""
    return any(words in message for words in _STOPPED)


def plain(message: str) -> str:
    """Return a message of the engine without its marks for colours and blank ends."""
    return _COLOURS.sub("", message).strip()


def ending(update: Update, status: int, again: str, outputs: str, repeats: int = 0) -> list[str]:
    """Return the last lines of an update that failed: what happened, what is kept, what to type.

    Args:
        update: As far as it came.
        status: pulumi's exit status.
        again: The line that goes on.
        outputs: The line that shows the last complete measurement; "" where there is none.
        repeats: Those that this command completed in updates before, with `repeats auto`.
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
        lost = f" {update.current} was ended, and is lost." if update.current else ""
        return f"Stopped.{lost}"
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
