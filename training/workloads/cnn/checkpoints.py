"""Checkpoints of the CNN's training: written into a folder after an epoch, and read back. Where they are kept is not in
here.

Weights, the optimizer's slots, the state of the random generators, and what was measured so far; the learning rate's
schedule follows from the validation losses in it. Augmentation and each epoch's order are drawn from the recipe's seed.
"""

import json
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from training.contract.codec import decode, encode
from training.contract.process import Checkpoints, Process
from training.contract.progress import EACH_STEP, NAME, Progress, read_new
from training.launch.storage.checkpoint_store import InStorage, seal
from training.launch.storage.run_storage import Storage
from training.workloads.cnn.detail import WEIGHTS, Epoch
from training.workloads.cnn.recipe import SCORE, CnnRecipe
from training.workloads.cnn.session import Record, Session

OPTIMIZER = "optimizer.npz"
RANKS = "ranks.npz"
RECORD = "record.json"
SAY_EVERY_SECONDS = 0.1
OWN = ("own_images", "timed_seconds", "timed_cpu_seconds")
"""Fields of the record that differ between ranks."""


class OfRanks(NamedTuple):
    """What differs between ranks, with one row for each rank."""

    numbers: Any
    """The fields in `OWN`, and the number of epochs trained."""
    random: Any
    """States of the random generators: ranks draw different amounts of numbers where a batch is split unevenly."""


class CheckpointError(OSError):
    """Ranks found different checkpoints, so they can't resume."""


def prepare() -> None:
    """Have dropout draw from generators whose state can be read; called before the model is built. By default that
    state is inside TensorFlow's operations, where nothing can read it."""
    tf.keras.backend.experimental.enable_tf_random_generator()


class Keeper:
    """Writes the checkpoints of a process, and resumes the process from a checkpoint."""

    def __init__(self, session: Session, progress: Progress) -> None:
        self._session = session
        self._progress = progress
        self._kept = _where(session.process, session.recipe)
        if os.environ.get(EACH_STEP) and session.process.rank == 0:
            threading.Thread(target=self._say_steps, name="steps", daemon=True).start()

    def resume(self, record: Record) -> None:
        """Resume from the newest complete checkpoint, if any. Raise CheckpointError if ranks found different ones."""
        with self._kept.newest() as folder:
            if folder:
                self._read(folder, record)
        epochs = self._of_ranks(record).numbers[:, -1]
        if len(set(epochs)) > 1:
            raise CheckpointError(
                f"the ranks found different checkpoints, of epochs {', '.join(f'{epoch:g}' for epoch in epochs)}:"
                " `storage` has to be shared by all of them"
            )
        if record.history:
            self._recall_progress()
            self._progress.write("resume", epoch=len(record.history), step=self._steps(record))

    def is_due(self, epoch: int) -> bool:
        """Return whether a checkpoint follows this epoch."""
        return epoch % self._session.recipe.checkpoint_epochs == 0

    def keep(self, record: Record, metrics: dict[str, Any]) -> None:
        """Write a checkpoint and, where the arm reports, report the metrics with it. Every rank takes part."""
        began = time.monotonic()
        of_ranks = self._of_ranks(record)
        with tempfile.TemporaryDirectory(prefix="checkpoint-") as name:
            folder = Path(name) if self._session.process.rank == 0 else None
            if folder:
                self._write(folder, record, of_ranks)
                seal(folder, metrics["epoch"], metrics[SCORE])
            self._kept.keep(folder, metrics)
        self._share_progress()
        record.checkpoint_seconds += time.monotonic() - began
        self._progress.write("checkpoint", epoch=metrics["epoch"], step=self._steps(record))

    def _write(self, folder: Path, record: Record, of_ranks: OfRanks) -> None:
        for name, variables in self._variables().items():
            np.savez(folder / name, *map(self._own, variables))
        np.savez(folder / RANKS, numbers=of_ranks.numbers, random=of_ranks.random)
        so_far = {field.name: getattr(record, field.name) for field in fields(record) if field.name != "first_step"}
        (folder / RECORD).write_text(json.dumps(encode(so_far)), encoding="utf-8")

    def _read(self, folder: Path, record: Record) -> None:
        for name, variables in self._variables().items():
            with np.load(folder / name) as arrays:
                for variable, key in zip(variables, arrays.files, strict=True):
                    variable.assign(arrays[key])
        written = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        for name, value in written.items():
            setattr(record, name, decode(list[Epoch], value, name) if name == "history" else value)
        self._read_own(folder, record)

    def _read_own(self, folder: Path, record: Record) -> None:
        rank, generators = self._session.process.rank, _generators(self._session.model)
        with np.load(folder / RANKS) as arrays:
            numbers, random = arrays["numbers"][rank], arrays["random"][rank]
        for name, number in zip(OWN, numbers, strict=False):
            setattr(record, name, type(getattr(record, name))(number))
        for generator, state in zip(generators, np.array_split(random, max(1, len(generators))), strict=False):
            generator.assign(state)

    def _variables(self) -> dict[str, Sequence[Any]]:
        """Return the variables by the name of their file, in an order that is the same in every process."""
        return {WEIGHTS: self._session.model.variables, OPTIMIZER: self._session.optimizer.variables()}

    def _of_ranks(self, record: Record) -> OfRanks:
        """Return what differs between ranks, of all ranks, exchanged in one message of 32-bit words."""
        numbers = np.array([*(getattr(record, name) for name in OWN), len(record.history)], np.float64)
        states = [self._own(generator) for generator in _generators(self._session.model)]
        random = np.concatenate([np.zeros(0, np.int64), *states])
        words = np.concatenate([numbers.view(np.int32), random.view(np.int32)])
        all_words = self._session.loop.concatenation(tf.constant(words)).numpy().reshape(-1, len(words))
        of_numbers, of_random = np.split(all_words, [2 * len(numbers)], axis=1)
        return OfRanks(of_numbers.copy().view(np.float64), of_random.copy().view(np.int64))

    def _own(self, variable: Any) -> Any:
        """Return this replica's value of a variable, which is the same in all replicas after an epoch."""
        (value,) = self._session.model.distribute_strategy.experimental_local_results(variable)
        return value.numpy()

    def _steps(self, record: Record) -> int:
        return len(record.history) * self._session.steps_per_epoch

    def _say_steps(self) -> None:
        """Report the number of steps again and again, while another thread trains; never return."""
        steps, written, epochs = self._session.steps_per_epoch, -1, self._session.recipe.epochs
        while True:
            done = int(self._own(self._session.optimizer.iterations))
            if done != written:
                self._progress.write(
                    "steps", step=done, steps=epochs * steps, stepsPerEpoch=steps, epochs=epochs, secondsLeft=None
                )
            written = done
            time.sleep(SAY_EVERY_SECONDS)

    def _recall_progress(self) -> None:
        """Read the earlier progress from storage if this folder has none of an epoch, as in another pod."""
        process = self._session.process
        if process.rank > 0 or not process.folder:
            return
        events, _ = read_new(process.folder / NAME, 0)
        if not any(event["event"] == "epoch" for event in events):
            with suppress(OSError):
                Storage.at(process.storage).fetch(NAME, process.folder / NAME)

    def _share_progress(self) -> None:
        """Copy the progress to storage, so that the curves can be seen during the run, wherever it runs."""
        process = self._session.process
        if process.rank == 0 and process.folder and (process.folder / NAME).exists():
            Storage.at(process.storage).put(process.folder / NAME, NAME)


def _where(process: Process, recipe: CnnRecipe) -> Checkpoints:
    return process.checkpoints or InStorage(Storage.at(process.storage), recipe.checkpoints_kept)


def _generators(model: Any) -> list[Any]:
    """Return the states of the generators from which layers such as dropout draw, which tf-keras keeps private."""
    drawing = [layer._random_generator for layer in model.submodules if hasattr(layer, "_random_generator")]
    return [own._generator.state for own in drawing if own._generator is not None]
