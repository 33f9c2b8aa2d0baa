"""Gets what a command needs and this machine lacks: uv, the locked Python environment, the Pulumi CLI.

Runs with the system's Python (3.9 or newer) before anything is installed. A warm call reads a few files and is done.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cli.setup import pulumi_cli, uv
from cli.setup.project import TOOLS, lock_or_wait, run_main, sets, stack_text
from training.machine import orphans


def main() -> int:
    """Install what the flags name; the exit status is 0 when all of it is there."""
    parser = argparse.ArgumentParser(prog="python3 -m cli.setup.bootstrap", description=__doc__)
    parser.add_argument("--stack", default="", help="get what the settings of this stack need")
    parser.add_argument("--dev", action="store_true", help="with the group `dev`: what checks and tests need")
    parser.add_argument("--tracking", action="store_true", help="with the uv extra `tracking`, whatever the stack")
    parser.add_argument("--no-cli", action="store_true", help="the Python environment only")
    arguments = parser.parse_args()
    TOOLS.mkdir(exist_ok=True)
    parts = {part for part in ("dev", "tracking") if getattr(arguments, part)}
    if arguments.stack:
        parts |= _needed(stack_text(arguments.stack), os.environ.get("SET", ""))
    with _alone():
        uv.sync(parts)
        if not arguments.no_cli:
            uv.find_uv()  # Pulumi's language host starts it
            pulumi_cli.ensure()
    return 0


def _needed(settings: str, overrides: str) -> set[str]:
    """Return the groups that a stack needs besides the default ones, by its file and the `SET` of this call."""
    return {"tracking"} if sets(settings, "trackingUri") or "trackingUri=" in overrides else set()


@contextmanager
def _alone() -> Iterator[None]:
    """Two calls at once would install over each other: the second waits, and says so."""
    with (TOOLS / "lock").open("w", encoding="utf-8") as lock:
        lock_or_wait(lock, "another make is installing tools here: waiting for it")
        yield


if __name__ == "__main__":
    if sys.version_info < (3, 9):  # noqa: UP036 - the project's Python is 3.11, the one that starts this is the system's
        sys.exit(f"error: Python 3.9 or newer is needed to start with, this is {sys.version.split()[0]}: set PYTHON=…")
    if "MAKELEVEL" in os.environ:  # make tells a recipe's shell to end, and that tells nobody
        orphans.told_with_parent()
    run_main(main, "Stopped while setting up; nothing was measured. The same command goes on from there.")
