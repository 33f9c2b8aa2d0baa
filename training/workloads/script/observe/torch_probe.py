"""An all-reduce over the ranks of a PyTorch script, timed after its last step: what a projection of more workers needs.

It is made where every rank has come to its end after as many steps with gradients of as many bytes, and has said so by
a file: a rank that never came would be waited for, one that still trains would take the probe for its own exchange, and
buffers of different sizes end the ranks (one may have an optimizer of its own). The first to find that out decides for
all. The probe has a process group of its own, over the same ranks, whose operations have a deadline:
nothing that the script has is touched.
"""

from __future__ import annotations

import datetime
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import files, guard, state

PROBE = "TRAINING_OBSERVE_PROBE"
"""Environment variable: set if the all-reduce between the ranks of this arm is to be timed."""
SMALL_BYTES, LARGE_BYTES = 64 * 1024, 8 * 1024 * 1024
"""Sizes that are timed besides that of the gradients, from which the time of a message and of a byte follow."""
MOST_BYTES = 64 * 1024 * 1024
"""Largest buffer in bytes; the time for a byte does not change with larger buffers."""
REPEATS = 5
WAIT_SECONDS, DEADLINE_SECONDS, POLL_SECONDS = 5.0, 10.0, 0.02
GO = "go"


@guard.guarded("PyTorch's process groups can't be observed")
def observe_groups(module: Any) -> None:
    """Have the training recorded as ended before the script leaves its process group. `module`:
    torch.distributed.distributed_c10d."""
    module.destroy_process_group = _destroy(module.destroy_process_group, module.GroupMember)


@guard.around("the end of the training could not be observed", "allReduce")
def _destroy(members: Any, group: Any = None) -> Iterator[None]:
    if (group is None or group is members.WORLD) and state.current().step_ends:
        state.current().end_training()
    yield


def probe(gradient_bytes: Callable[[], int | None]) -> None:
    """Time an all-reduce of the gradients' size if this arm is to be probed, or record why that is not possible."""
    if not os.environ.get(PROBE):
        return
    now, exchanged = state.current(), gradient_bytes()
    distributed = sys.modules.get("torch.distributed")
    now.no_all_reduce = _refusal(distributed, exchanged)
    if now.no_all_reduce or distributed is None or exchanged is None:
        return
    try:
        ranks = distributed.get_rank(), distributed.get_world_size()
        decision = _agreed(Path(os.environ[state.FOLDER]), *ranks, len(now.step_ends), exchanged)
        if decision == GO:
            now.all_reduce = _measure(distributed, exchanged)
        else:
            now.no_all_reduce = decision
    except Exception as error:  # noqa: BLE001 (a rank failed meanwhile, or the disk is full: the script goes on)
        now.no_all_reduce = f"the probe failed: {error!r}"


def joined(distributed: Any) -> bool:
    """Return whether this process is a member of a process group. It asks the module that holds the group, because a
    script that was written for one process and runs as several ranks is told that it is alone."""
    return bool(
        distributed is not None and distributed.is_available() and distributed.distributed_c10d.is_initialized()
    )


def _refusal(distributed: Any, exchanged: int | None) -> str:
    """Return the reason why there is nothing to time, or no other rank to time it with; "" otherwise."""
    if hasattr(sys, "last_type"):
        return "the script failed"
    if not joined(distributed):
        return "the script has no process group at its end"
    if distributed.get_world_size() == 1:
        return "one rank exchanges nothing"
    backend = str(distributed.get_backend_config())
    if "cpu:gloo" not in backend:
        return f"the process group is of {backend}, and gloo's alone are probed"
    return "" if exchanged else "the size of the gradients is not known: the weights are sharded over the ranks"


def _agreed(folder: Path, rank: int, world: int, steps_made: int, exchanged: int) -> str:
    """Return GO if every rank has ended after as many steps, with as many bytes to exchange; otherwise the reason why
    not. The first decision of a rank holds for all ranks."""
    files.write(folder / f"probe-{rank}", f"{steps_made} steps with gradients of {exchanged:,} bytes")
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        ends = [files.read(folder / f"probe-{other}") for other in range(world)]
        if None not in ends:
            same = len(set(ends)) == 1
            return _decided(folder, rank, GO if same else f"ranks ended after {' and '.join(map(str, ends))}")
        if time.monotonic() > deadline:
            late = f"rank {ends.index(None)} did not end within {WAIT_SECONDS:.0f} s of another"
            return _decided(folder, rank, late)
        if decision := files.read(folder / "probe-decision"):
            return decision
        time.sleep(POLL_SECONDS)


def _decided(folder: Path, rank: int, words: str) -> str:
    """Write `words` as the decision unless another rank has decided already, and return the decision that holds. The
    file is created as a hard link, so that no rank reads half of it."""
    own, decision = folder / f"probe-words-{rank}", folder / "probe-decision"
    files.write(own, words)
    with suppress(FileExistsError):
        os.link(own, decision)
    return files.read(decision) or "the ranks could not agree on it"


def _measure(distributed: Any, exchanged: int) -> dict[str, float]:
    """Return the median seconds of an all-reduce, by the size of its buffer in bytes."""
    torch, seconds_by_size = sys.modules["torch"], {}
    group = distributed.new_group(backend="gloo", timeout=datetime.timedelta(seconds=DEADLINE_SECONDS))
    try:
        for size in sorted({SMALL_BYTES, min(exchanged, MOST_BYTES), LARGE_BYTES}):
            buffer, times = torch.zeros(max(1, size // 4), dtype=torch.float32, device="cpu"), []
            distributed.all_reduce(buffer, group=group)
            for _ in range(REPEATS):
                began = time.monotonic()
                distributed.all_reduce(buffer, group=group)
                times.append(time.monotonic() - began)
            seconds_by_size[str(size)] = statistics.median(times)
    finally:
        distributed.destroy_process_group(group)
    return seconds_by_size
