"""One process of the script: python process.py script.py …, with what it is to be in the variable TRAINING_SPREAD.

The script runs as `python script.py` runs it, and sees nothing of the distribution around it.
"""

from __future__ import annotations

import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

from . import chance, files
from .batches import Loaders
from .exchange import Exchange, Optimizers
from .fits import Fits, Kept
from .operations import Operations
from .origins import Origins
from .plan import Plan
from .record import Record
from .settings import Settings
from .watch import Watch

TIMEOUT_SECONDS = 600


def join(torch: Any, settings: Settings) -> Any:
    """Join the other ranks, by a store that no variable names; return the store."""
    distributed = torch.distributed
    timeout = timedelta(seconds=TIMEOUT_SECONDS)
    if os.sep in settings.store:
        store = distributed.FileStore(settings.store, settings.world)
    else:
        host, _, port = settings.store.rpartition(":")
        store = distributed.TCPStore(host, int(port), settings.world, settings.rank == 0, timeout=timeout)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and distributed.is_nccl_available() else "gloo"
    distributed.init_process_group(backend, store=store, rank=settings.rank, world_size=settings.world, timeout=timeout)
    return store


def install(torch: Any, settings: Settings) -> tuple[Optional[Record], Optional[Watch]]:
    """Distribute what the script will do, or look at it."""
    store = join(torch, settings) if settings.world > 1 else None
    chance.seed(torch)
    if settings.private:
        files.redirect(torch, settings.private)
    plan = Plan(settings.plan) if settings.plan else None
    loaders = Loaders(torch, settings.rank, settings.world, plan, reverse=settings.reverse)
    optimizers = Optimizers(torch)
    kept = None
    if settings.out:
        kept = Record(torch, optimizers, settings.out, settings.rank, settings.steps)
    exchange = watch = None
    if store is not None:
        watch = Watch(store, settings.rank, settings.world, settings.out)
        if settings.given and kept is not None:
            fits = Fits(torch, loaders, optimizers, kept, settings.given)
            kept.to_know.append(fits.facts)
        else:
            exchange = Exchange(torch, loaders, optimizers)
            exchange.around.append(lambda site, batch: watch.enter(site))
            exchange.after.append(watch.leave)
            if kept is not None:
                kept.to_know.append(exchange.facts)
        loaders.at_start.append(lambda site: watch.during(site, lambda: chance.take_over(torch)))
    elif kept is not None:
        Kept(torch, optimizers, kept, settings.out)
    if settings.watches and kept is not None:
        operations = Operations(torch, loaders, settings)
        origins = Origins(torch, loaders, optimizers, operations, exchange)
        kept.to_know += [origins.facts, operations.facts]
        operations.__enter__()
    return kept, watch


def run(command: list[str]) -> None:
    """Run the script as the program of this process."""
    path = Path(command[0])
    sys.argv = list(command)
    sys.path[0] = str(path.resolve().parent)
    module = ModuleType("__main__")
    module.__file__ = command[0]
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    code = compile(path.read_bytes(), command[0], "exec")
    exec(code, module.__dict__)  # noqa: S102 (the user's own script)


def main(torch: Any, settings: Settings, command: list[str]) -> int:
    """Run the script with what the settings say around it; return its exit code."""
    if settings.rank:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    kept = watch = None
    error, code = "", 0
    try:
        kept, watch = install(torch, settings)
        run(command)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        error = "" if code == 0 else f"exit code {code}"
    except BaseException:  # noqa: BLE001 (as Python shows it)
        error, code = traceback.format_exc(), 1
        sys.stderr.write(error)
    if kept is not None:
        with kept.quiet():
            kept.write(error)
    if watch is not None:
        watch.end(waits=not error)
    return code
