"""Collects the observation of one process, and writes it: one JSON file, at the end of the training."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import files, guard, in_pod, own_rank
from .device_clock import DeviceClock
from .live import EPOCHS, Live
from .loaders import InputWait, Loader, Pass, pairs
from .reports import Reports
from .step_parts import StepParts
from .usage import Usage, peak_memory_bytes, thread_cpus
from .work import Model, Optimizer, Work, is_looked_at

FOLDER = "TRAINING_OBSERVE"
"""Environment variable: the folder that observations are written into."""
STEPS = "TRAINING_OBSERVE_STEPS"
"""Environment variable: the number of steps after which every rank ends; if 0 or absent, ranks end with the script."""
MOST_LOOKING = 0.02
"""Largest share of the time so far that looking at the weights may take beyond the first looks."""
FIRST_LOOKS = 64
FIRST_KEPT = 16
FIRST_OF_OPTIMIZER = 2
"""Number of an optimizer's first steps after which the weights are looked at, even if that takes long."""
MOST_LOADERS = 64
"""Most data sets that are remembered: more tell nothing new, and each takes memory, and time in each pass."""
NOWHERE: Mapping[int, Callable[[], bool]] = {}
NO_PART = contextlib.nullcontext()
_lock = threading.Lock()


Place = tuple[Loader, Callable[[], bool]]
"""The loader of a batch in memory, and a function that tells whether the batch has been freed since."""


class Enough(SystemExit):
    """Ends a rank after the wanted steps, or when its search stops the trial, with `finally` blocks and exit code 0."""


class State:
    """The observation of this process."""

    ended_early = written = False
    executed_together = 1
    """The largest number of steps that the framework executed as one, as with Keras' `steps_per_execution`."""
    only_looks = False
    """Whether a framework is reading data now that the model does not learn from, for example in Keras' `evaluate`."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.pod = in_pod.Pod()
        self.step_ends: list[float] = []
        """Time at the end of each step, in seconds of the monotonic clock without the time that the observer took."""
        self.work = Work()
        self.usage = Usage()
        self.live = Live()
        self.loaders: dict[int, Loader] = {}
        self.read, self.read_before = list[Loader](), list[Loader]()  # for the next step, and for the last
        self.read_for_next = True  # no batch was delivered since the last
        self._where: tuple[dict[int, Place], dict[int, Place]] = ({}, {})
        """The loaders of the batches at each memory address: batches delivered since the last step, and batches
        delivered before."""
        self.clock_of: Any = None
        self.thread: int | None = None
        """Identifier of the thread that makes the steps; None before the first step."""
        self.rank, self.world = own_rank.of_environment()
        self.threads: int | None = None
        self.framework: str | None = None
        self.rows_per_step: int | None = None
        self.epoch_steps: int | None = None
        self.epochs = int(os.environ.get(EPOCHS) or 0) or None
        self.all_steps = int(os.environ.get(STEPS) or 0) or None
        self.model = Model()
        self.ray = False
        """Whether this process had started Ray, or joined a Ray cluster, by its first step."""
        self.reports = Reports()
        self.own_hooks = 0
        """Calls in progress of a framework whose hooks run after the script's, and ask whether the run is to end."""
        self.hook_seconds = 0.0
        self.own_seconds = 0.0
        """Seconds that the observer took between two steps or after the last step, without the time in hooks."""
        self.parts = StepParts(self.script_seconds)
        self.device = DeviceClock(self.script_seconds, self)
        self.input_wait = InputWait()
        self._looking_seconds = 0.0
        self.own_passes: list[Pass] = []
        """The passes of a framework that itself reports when an epoch begins and ends."""
        self.other_validations = 0
        """Validation passes over data sets that are no longer remembered, or that a framework itself reports."""
        self.peak_memory_bytes: int | None = None
        self.notes: list[str] = []
        self.unknown: dict[str, str] = {}
        """The items of the observation that are not known because a hook failed, each with the reason."""

    @contextlib.contextmanager
    def hook(self) -> Iterator[None]:
        """Count the time of the body as the observer's time, and leave it out of the script's clocks."""
        began, own = time.perf_counter(), self.own_seconds
        try:
            yield
        finally:
            if self.is_in_step_thread():
                self.hook_seconds += time.perf_counter() - began - (self.own_seconds - own)

    def script_seconds(self) -> float:
        """Return the seconds of the monotonic clock, without the time that the observer took."""
        return time.monotonic() - self.own_seconds - self.hook_seconds

    def parts_here(self) -> StepParts | None:
        """Return the record of each step's parts, in the thread that is known to make the steps; None in others."""
        return self.parts if self.parts.here() else None

    def part(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that adds the time of its body to a part of the step; in a thread that does not make
        the steps, the context manager does nothing."""
        return self.parts.part(name) if self.parts.here() else NO_PART

    def is_in_step_thread(self) -> bool:
        """Return whether this thread makes the steps, so that the steps wait for what this thread does."""
        return self.thread in (None, threading.get_ident())

    def take_time(self, look: Callable[[], Any]) -> Any:
        """Return what `look` returns, which may take long between two steps; its time is the observer's."""
        began = time.perf_counter()
        try:
            return look()
        finally:
            if self.is_in_step_thread():
                self.own_seconds += time.perf_counter() - began

    def deliver(self, loader: Loader, where: Mapping[int, Callable[[], bool]] = NOWHERE) -> None:
        """Record that `loader` has delivered a batch for the next step. `where`: the addresses of the batch's tensors,
        each with a function that tells whether the tensor has been freed."""
        loader.is_ahead = loader.is_ahead or not self.is_in_step_thread()
        if self.read_for_next:
            self.read_before, self.read, self.read_for_next = self.read, [], False
        if loader not in self.read:
            self.read.append(loader)
        for address, freed in where.items():
            self._where[0][address] = (loader, freed)

    def add(self, number: int, loader: Loader) -> None:
        """Add the loader of a data set that is read for the first time. First mark the waiting rows of other loaders,
        so that these data sets do not stay in memory. Beyond MOST_LOADERS, forget the oldest loader with the fewest
        steps, which is not the training's."""
        for other in self.loaders.values():
            if other.waiting:
                self.take_time(other.mark)
        if len(self.loaders) >= MOST_LOADERS:
            fewest = min(self.loaders, key=lambda each: len(self.loaders[each].rows_at_step))
            self.other_validations += self.loaders.pop(fewest).validations
        self.loaders[number] = loader

    def enters(self, where: int, *, training: bool) -> None:
        """Record that a tensor at the address `where` enters the model; count it if it is a delivered batch."""
        loader, freed = self._where[0].get(where) or self._where[1].get(where) or (None, bool)
        if loader is None or freed():  # something else is there now
            return
        if training:
            loader.in_training += 1
        else:
            loader.in_evaluation += 1

    def begins_pass(self) -> bool:
        """Return whether the pass of the last step is over, so that the batches of this step belong to a new pass."""
        return not self.read_for_next and (
            not self.read_before or any(loader.is_over(len(self.step_ends)) for loader in self.read_before)
        )

    def take_clock(self, clock: Any) -> None:
        """Count the steps of `clock` (optimizer, model or algorithm) from now on, unless others' are counted."""
        if self.clock_of is None:
            self.clock_of = clock
            _write_at_end()

    def step(self, clock: Any, *, look: bool = False, ends: Sequence[float] = ()) -> bool:
        """Count a step of `clock` if its steps are those that count, or if it is the first step of all; return whether
        the step was counted. `look`: look at the weights after the step. `ends`: the ends of several steps that are not
        reported one by one, in seconds of the script's clock; without it one step ends now."""
        self.take_clock(clock)
        if clock != self.clock_of:
            return False
        if not self.step_ends:
            self.ray, self.thread = own_rank.has_ray(), self.thread or threading.get_ident()
        now, new_steps = time.monotonic(), len(ends) or 1
        self.step_ends += ends or [now - self.own_seconds - self.hook_seconds]
        self.parts.end_step(self.step_ends[-1])
        for loader in self.read:  # several: a validation comes between steps, or there are two sets to learn from
            loader.rows_at_step.append(loader.rows)
        self.read_for_next = True
        self._where = ({}, self._where[0])
        self._see_usage(now, new_steps)
        steps = self._since_join()
        if look or steps.bit_length() > (steps - new_steps).bit_length():  # one of 1, 2, 4, … is among them
            self.look_at_weights()
        return True

    @guard.guarded("CPU time or progress could not be observed", "meanCpus")
    def _see_usage(self, now: float, new_steps: int) -> None:
        self.usage.step(now, new_steps)
        if self.rank == 0 and self.live.is_due(now, len(self.step_ends)):
            self._tell(now)

    def _tell(self, now: float) -> None:
        self.live.write(now, len(self.step_ends), self._steps_per_epoch(), self.epochs, self.all_steps)

    @guard.guarded("the weights could not be observed", "weights", "parameters", "trained")
    def look_at_weights(self) -> None:
        """Record a digest of the weights after this step: at some steps in any case, otherwise only while such looks
        take little of the time."""
        self.take_time(self.model.note_parameters)
        steps, at, own = len(self.step_ends), self._place(), self.own_seconds
        if self.world == 1 or not steps or at in self.work.digests:
            return
        if not self._must_look(steps) and not self.may_look():
            return
        digest = self.take_time(self.model.gradient_digest if self._is_after_join() else self.model.quick_digest)
        if digest is not None:
            self.work.digests[at] = digest
        self._looking_seconds += self.own_seconds - own
        if self._is_after_join():
            self.look_in_join()

    def _must_look(self, steps: int) -> bool:
        """Return whether to look at the weights even if that takes long: at the first looks, at steps 1, 2, 4, 8, …,
        and when an optimizer begins."""
        begins = isinstance(self.clock_of, Optimizer) and self.clock_of.steps <= FIRST_OF_OPTIMIZER
        is_first = len(self.work.digests) < FIRST_LOOKS or (begins and self.work.has_few_optimizers)
        return is_first or is_looked_at(steps)

    @guard.guarded("the weights could not be observed", "weights", "parameters", "trained")
    def end_model(self) -> None:
        """Record the last digest of a model's weights when another model is trained from now on; None if these weights
        are gone and nobody has looked at them after their last step."""
        self.take_time(self.model.note_parameters)
        if self.world > 1 and self.step_ends:
            at, digest = self._place(), self._last_digest()
            self.work.ends[at] = digest or self.work.kept.get(at) or self.work.digests.get(at)

    def keep_weights(self) -> None:
        """Record a digest of weights that may be gone before the end of the run: the first few times always, later only
        while such looks take little of the time."""
        self.work.times_kept += 1
        if self.world > 1:
            self.work.kept = {self._place(): self._last_digest()}
        if self.work.times_kept <= FIRST_KEPT or self.may_look():
            own = self.own_seconds
            self.work.last = self.take_time(self.model.digest), self.model.gradient_bytes()
            self._looking_seconds += self.own_seconds - own

    def may_look(self) -> bool:
        """Return whether looks at the weights have taken little of the time so far."""
        return self._looking_seconds <= MOST_LOOKING * (self.step_ends[-1] - self.step_ends[0])

    def _last_digest(self) -> str | None:
        """Return a digest of the present weights, which may be the model's last; None if ranks' weights may differ
        after a Join, or if looks at many models take too long."""
        if self._is_after_join() or not (self.work.has_few_optimizers or self.may_look()):
            return None
        own = self.own_seconds
        digest: str | None = self.take_time(self.model.quick_digest)
        self._looking_seconds += self.own_seconds - own
        return digest

    def _place(self) -> str:
        """Return the number of the present step, as text, in the way in which all ranks count: after PyTorch's Joins,
        by steps since the last Join."""
        return f"{len(self.work.joins)}:{self._since_join()}" if self.work.joins else f"{len(self.step_ends)}"

    def _is_after_join(self) -> bool:
        """Return whether ranks' weights may differ, as one that waited in a Join made fewer steps of momentum."""
        return bool(self.work.joins and self._since_join())

    def _since_join(self) -> int:
        """Return the steps since the last of PyTorch's Joins, within which ranks' numbers of steps may differ."""
        return len(self.step_ends) - (self.work.joins[-1] if self.work.joins else 0)

    @guard.guarded("the weights could not be observed", "weights")
    def look_in_join(self) -> None:
        """Record a digest of the weights within a Join: at the Join's end all ranks get the weights of one rank."""
        joins, own = len(self.work.joins), self.own_seconds
        if self.world == 1 or not self.step_ends or (joins > FIRST_LOOKS and not self.may_look()):
            return
        digest = self.take_time(self.model.quick_digest)
        if digest is not None:
            self.work.in_joins[f"{joins}:{self._since_join()}"] = digest
        self._looking_seconds += self.own_seconds - own

    def end_join(self) -> None:
        """Record the end of a Join: all ranks have ended it, and have the weights of the rank that ended last."""
        self.work.joins.append(len(self.step_ends))
        self.look_at_weights()

    def training(self) -> Loader | None:
        """Return the loader of the data set that is trained on: of the data sets that are not only for validation, the
        one with the most steps; None if there is no such data set."""
        in_training = bool(self.work.training.types)  # else the model is in evaluation all the time
        read = [
            loader for loader in self.loaders.values() if loader.rows_at_step and not (in_training and loader.validates)
        ]
        return max(read, key=lambda loader: (loader.in_training > 0, len(loader.rows_at_step)), default=None)

    def _learns_from_others(self, loader: Loader | None) -> bool:
        """Return whether steps were made within passes over a data set other than that of `loader`. A validation set is
        not meant: it is read between two steps."""
        return any(
            len(other.rows_at_step) > len(other.passes) + other.validations
            for other in self.loaders.values()
            if other is not loader and not other.validates
        )

    def _steps_per_epoch(self) -> int | None:
        """Return the number of steps of an epoch, as known so far, where a step may take several batches; None if not
        known, or if a step is an epoch, as with boosters."""
        loader, steps = self.training(), self.epoch_steps
        counted = loader.rows_at_step if loader else []
        if loader and loader.epoch_rows and len(counted) > 1 and counted[-1] > counted[0]:
            steps = math.ceil(loader.epoch_rows * (len(counted) - 1) / (counted[-1] - counted[0]))
        return steps if steps and steps > 1 else None

    def end_training(self) -> None:
        """Do the observer's work after the last step, and count its time as the observer's time."""
        began = time.monotonic()
        self._see_end(began)
        self.own_seconds += time.monotonic() - began

    @guard.guarded("the end of the training could not be observed", "peakMemoryBytes")
    def _see_end(self, began: float) -> None:
        self.peak_memory_bytes = peak_memory_bytes()
        if self.rank == 0 and self.live.path:
            self._tell(began)

    def is_enough(self) -> bool:
        """Return whether this process is to end, because it has made the wanted number of steps or its search stops the
        trial. If so, write the observation."""
        search = self.reports.search
        if search.is_due:
            self.take_time(self._ask)
        wanted = int(os.environ.get(STEPS) or 0)
        self.ended_early = search.is_stopped or (bool(wanted) and len(self.step_ends) >= wanted)
        if self.ended_early and (self.is_in_step_thread() or not search.is_stopped):
            write()  # in another thread the weights may be those of half a step
        return self.ended_early

    @guard.guarded("the search gives no answer")
    def _ask(self) -> None:
        self.reports.search.ask(self.rank)

    @contextlib.contextmanager
    def with_own_hooks(self) -> Iterator[None]:
        """Mark the body as a call of a framework that has hooks of its own; see the field `own_hooks`."""
        self.own_hooks += 1
        try:
            yield
        finally:
            self.own_hooks -= 1

    @guard.guarded("no digest of the weights", "weights")
    def _digest(self) -> str | None:
        return self.model.digest()

    def to_dict(self) -> dict[str, Any]:
        """Return the observation as plain data, in camelCase with units; what is not known is null."""
        loader = self.training()
        alone = loader is not None and len(loader.rows_at_step) == len(self.step_ends)
        weights = self.take_time(self._digest)
        return {
            "pid": self.pid,
            "pod": self.pod.to_dict(),
            "rank": self.rank,
            "world": self.world,
            "framework": self.framework,
            "threads": self.threads,
            "ray": self.ray,
            "stepEnds": self.step_ends,
            "clockOffset": time.time() - time.monotonic(),
            "rowsAtStep": loader.rows_at_step if loader and not loader.is_ahead else None,
            "rowsOfAllSteps": alone and not self._learns_from_others(loader),
            "rowsPerStepReported": self.rows_per_step,
            "epochRows": loader.epoch_rows if loader else None,
            "epochBatches": loader.epoch_batches if loader else self.epoch_steps,
            "markedPasses": loader.packed(len(self.step_ends)) if loader else None,
            "passSums": loader.sums(len(self.step_ends)) if loader else None,
            "rowsAhead": bool(loader and loader.is_ahead),
            "datasetRows": loader.own_rows if loader else None,
            "datasetIdentity": loader.identity if loader else None,
            "datasetContent": loader.content if loader else None,
            "passes": (loader.pass_pairs() if alone else None) if loader else pairs(self.own_passes),
            "validations": self.other_validations + sum(other.validations for other in self.loaders.values()),
            "work": self.work.to_dict(),
            "weights": weights,
            **self.reports.to_dict(),
            "parts": self.parts.to_dict(),
            "device": self.device.to_dict(),
            **self.input_wait.to_dict(),
            "hookSeconds": self.hook_seconds,
            "ownSeconds": self.own_seconds,
            "cpuAtStep": self.usage.cpu_at_step,
            "samples": self.usage.samples,
            "cpuWaits": self.usage.waits(),
            "threadCpus": thread_cpus(),
            "peakMemoryBytes": self.peak_memory_bytes,
            "gradientBytes": self.model.gradient_bytes(),
            "endedEarly": self.ended_early,
            "executedTogether": self.executed_together,
            "notes": self.notes,
            "unknown": self.unknown,
        }


_states: list[State] = [State()]


def current() -> State:
    """Return the observation of this process; a forked child starts with a new observation."""
    if _states[0].pid != os.getpid():
        _states[0] = State()
    return _states[0]


def note(text: str) -> None:
    """Add a note of something that could not be observed, with the reason."""
    if text not in current().notes:
        current().notes.append(text)


def _lose(what: str, why: str, items: Sequence[str]) -> None:
    """Record that something could not be observed, with the first reason, and that these items are unknown."""
    now = current()
    text = next((text for text in now.notes if text.partition(": ")[0] == what), f"{what}: {why}" if why else what)
    note(text)
    if "steps" in items and "steps" not in now.unknown:
        _write_at_end()
    for item in items:
        now.unknown.setdefault(item, text)


guard.record_by(_lose)


def write() -> None:
    """Write the observation of this process, once; write nothing if no step was seen."""
    if _write() is not True:
        _say()


@guard.guarded("what was observed could not be written")
def _write() -> bool:
    state = current()
    with _lock:
        if state.written or not (state.step_ends or "steps" in state.unknown) or FOLDER not in os.environ:
            return True
        state.written = True
    if not state.step_ends:  # what failed is why
        return False
    state.end_training()
    path = Path(os.environ[FOLDER], f"rank-{state.rank}-{state.pid}.json")
    text = json.dumps(state.to_dict())
    if not in_pod.put(path.name, text):
        files.write(path, text)
    return True


@guard.guarded("nothing could be said of it")
def _say() -> None:
    """Print to the log why there is no observation, or none with a step: this cannot be told elsewhere."""
    print(f"observer: {'; '.join(current().notes)}", file=sys.stderr)


def _write_at_end() -> None:
    """Register `write` for this process's end, also in children of `multiprocessing`, which end without atexit."""
    from multiprocessing import util

    util.Finalize(None, write, exitpriority=100)
