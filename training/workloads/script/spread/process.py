"""One process of the script, which runs as `python script.py` runs it and sees nothing of what is around it."""

from __future__ import annotations

import builtins
import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from . import places
from .imports import when_imported
from .keras_process import KerasProcess
from .originals import EXIT
from .settings import Settings
from .trees_process import TreesProcess

TIMEOUT_SECONDS = 600


class Process:
    """Changes PyTorch in one process of a script, so that the process trains as a rank or is recorded for the proof."""

    def __init__(self, settings: Settings) -> None:
        """Have PyTorch changed when the script imports it, and the files of the process redirected from the start."""
        from . import chance, library_files

        self._settings = settings
        self._record: Any = None
        self._known: Any = None
        """Loaders, optimizers and operations; None until PyTorch is imported."""
        self._watch: Any = None
        chance.seed(settings.seed)
        if settings.private:
            library_files.redirect(settings.private)
        when_imported("torch", self.install)
        when_imported("keras", self._tell_of_keras)

    def install(self, torch: Any) -> None:
        """Distribute what the script will do with PyTorch over the ranks, or record it."""
        from .batches import Loaders
        from .exchange import Optimizers
        from .plan import Plan
        from .record import Record

        when_imported("torch._dynamo", _leave_alone)
        settings = self._settings
        store = join(torch, settings) if settings.world > 1 else None
        plan = Plan(settings.plan) if settings.plan else None
        loaders = Loaders(torch, settings.rank, settings.world, plan, reverse=settings.reverse)
        loaders.even = settings.even
        optimizers = Optimizers(torch)
        if settings.out:
            self._record = Record(torch, optimizers, settings.out, settings.rank, settings.steps)
            self._record.to_know.append(lambda: {"uneven": loaders.uneven})
        exchange = None if store is None else self._distribute(torch, store, loaders, optimizers)
        operations = self._look(torch, loaders, optimizers, exchange) if settings.watches else None
        self._known = loaders, optimizers, operations

    def _tell_of_keras(self, keras: Any) -> None:
        if keras.backend.backend() != "torch":
            return
        from . import keras_torch

        loaders, optimizers, operations = self._known
        keras_torch.tell(keras, loaders, optimizers)
        if operations is not None:
            keras_torch.look(keras, operations, statistics=self._settings.statistics)

    def _distribute(self, torch: Any, store: Any, loaders: Any, optimizers: Any) -> Any:
        from . import chance
        from .exchange import Exchange
        from .fits import Fits
        from .watch import Watch
        from .weights import Weights

        settings = self._settings
        watch = self._watch = Watch(store, settings.rank, settings.world, settings.out or settings.trace)
        loaders.at_start.append(lambda site: watch.during(site, lambda: chance.take_over(torch)))
        weights = Weights(torch, loaders)
        if settings.fitted_to:
            fits = Fits(torch, optimizers, self._record, weights, settings.fitted_to)
            self._record.to_know.append(fits.facts)
            return None
        exchange = Exchange(torch, loaders, optimizers, weights)
        if observer := sys.modules.get(f"{places.OBSERVER}.torch_ranks"):
            exchange.begins = observer.exchange
        exchange.around.append(lambda site, batch: watch.enter(site, _of(batch)))
        exchange.after.append(watch.leave)
        if self._record is not None:
            self._record.to_know.append(exchange.facts)
        return exchange

    def _look(self, torch: Any, loaders: Any, optimizers: Any, exchange: Any) -> Any:
        from .fits import Kept
        from .operations import Operations
        from .origins import Origins

        settings = self._settings
        if settings.world == 1:
            Kept(torch, optimizers, self._record, settings.out)
        operations = Operations(torch, loaders, settings)
        origins = Origins(torch, loaders, optimizers, operations, exchange)
        self._record.to_know += [origins.facts, operations.facts]
        operations.__enter__()
        return operations

    def end(self, error: str) -> None:
        """Write the facts that are known, and tell the other ranks that this one has ended."""
        if self._record is not None:
            with self._record.quiet():
                self._record.write(error)
        if self._watch is not None:
            self._watch.end(waits=not error)


def _leave_alone(compiler: Any) -> None:
    """Have torch.compile leave the functions of this package uncompiled."""
    rules: Any = getattr(compiler, "trace_rules", None)
    if hasattr(rules, "add"):  # not before PyTorch 2.2
        rules.add(__package__)


AROUND: dict[str, Any] = {
    "torch": Process,
    "tensorflow": KerasProcess,
    "xgboost": TreesProcess,
    "lightgbm": TreesProcess,
}
"""The class that changes a script's framework in its process, by framework."""


def _of(batch: Any) -> str:
    return "" if batch is None else f", batch {batch.number + 1} of pass {batch.iteration.number + 1}"


def join(torch: Any, settings: Settings) -> Any:
    """Join the other ranks, by a store that no variable names, or as Ray has joined them; return the store."""
    from torch import distributed

    is_initialized = distributed.is_initialized
    distributed.is_initialized = lambda: False  # so that libraries of the script are alone
    if is_initialized():
        return distributed.distributed_c10d._get_default_store()
    timeout = timedelta(seconds=TIMEOUT_SECONDS)
    if os.sep in settings.store:
        store = distributed.FileStore(settings.store, settings.world)
    else:
        host, _, port = settings.store.rpartition(":")
        store = distributed.TCPStore(host, int(port), settings.world, settings.rank == 0, timeout=timeout)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and distributed.is_nccl_available() else "gloo"
    distributed.init_process_group(backend, store=store, rank=settings.rank, world_size=settings.world, timeout=timeout)
    return store


def run(command: list[str], text: str = "") -> None:
    """Run the script as the program of this process. `text`: path of a file with other code to run in its place; "" for
    the script's own."""
    path = Path(command[0])
    sys.argv = list(command)
    sys.path.insert(0, str(path.resolve().parent))
    module = ModuleType("__main__")
    module.__file__ = command[0]
    module.__dict__.update(__builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = module
    code = compile(Path(text or path).read_bytes(), command[0], "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 (the user's own script)


def main(settings: Settings, command: list[str]) -> int:
    """Run the script in the kind of process that the settings describe; return the script's exit code."""
    sys.modules[__package__ or ""].ranks = settings.rank, settings.world  # type: ignore[attr-defined]
    if settings.rank:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    process = AROUND[settings.framework](settings)
    error, code = "", 0
    _end_before_exit(process)
    try:
        run(command, settings.code)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        error = f"exit code {code}" if code else ""
    except BaseException as raised:  # noqa: BLE001 (as Python shows it)
        error, code = "".join(_lines(raised)), 1
        sys.stderr.write(error)
    process.end(error)
    return code


def _end_before_exit(process: Any) -> None:
    """Have the facts written also if the script ends by `os._exit`, but not when a fork of the script does."""
    own = os.getpid()

    def leave(code: int) -> None:
        if os.getpid() == own:
            process.end(f"exit code {code}" if code else "")
        EXIT(code)

    os._exit = leave  # type: ignore[assignment]


def _lines(error: BaseException) -> list[str]:
    """Return the traceback of the error without the lines of this file."""
    frames: Any | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return traceback.format_exception(type(error), error, frames or error.__traceback__)
