"""Gets what a command needs and this machine lacks: uv, the locked Python environment, the Pulumi CLI.

Runs with the system's Python (3.9 or newer) before anything is installed, and again for what a command needs besides. A
warm call reads a few files and is done.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Optional

from cli.setup import pulumi_cli, uv
from cli.setup.project import SWEEP_PREFIX, TOOLS, lock_or_wait, sets, stack_text

SWITCH = "RWI_SETUP"
"""The environment variable that prevents installations if its value is `no`. What then needs a missing part says so."""
INTERRUPTED = "Stopped while setting up; nothing was measured. The same command goes on from there."


def is_pending() -> bool:
    """Return whether a command that measures would first have to install its environment."""
    return os.environ.get(SWITCH) != "no" and not uv.is_whole()


def ensure(*parts: str, cli: bool = False, whole: bool = True) -> None:
    """Install the missing parts of the environment, and these optional ones: `dev`, `tracking`, `tensorboard`.

    `cli`: also the Pulumi CLI, and uv, which Pulumi's language host starts. Without `whole`: only what `rwi try` needs.
    """
    if os.environ.get(SWITCH) == "no":
        return
    TOOLS.mkdir(exist_ok=True)
    with _alone():
        uv.sync(parts, whole=whole)
        if cli:
            uv.find_uv()
            pulumi_cli.ensure()


def ensure_for(stack: str, settings: Optional[Mapping[str, str]] = None, *, cli: bool = True) -> None:  # noqa: UP045
    """Install what a stack (of a sweep: its origin) needs, by its file and the settings of this call."""
    text = stack_text(stack[len(SWEEP_PREFIX) :] if stack.startswith(SWEEP_PREFIX) else stack)
    is_tracked = sets(text, "trackingUri") or "trackingUri" in (settings or {})
    ensure(*["tracking"] if is_tracked else [], cli=cli)


@contextmanager
def _alone() -> Iterator[None]:
    """Hold a lock while the `with` block runs, because two calls at once would overwrite each other's installation. A
    second call waits, and prints that it waits."""
    lock = os.open(TOOLS / "lock", os.O_RDONLY | os.O_CREAT, 0o644)  # whoever may only read here waits, too
    try:
        lock_or_wait(lock, "another command is installing tools here: waiting for it")
        yield
    finally:
        os.close(lock)
