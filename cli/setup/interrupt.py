"""Answers Ctrl-C while a command of make still imports its modules: without it, by a traceback of whichever it was at.

The packages whose modules make starts (`python -m cli.stack`) ask for it; `project.run_main` takes over.
"""

from __future__ import annotations

import os
import signal
import sys

_STARTED_AS_MODULE = "-m"
"""What Python has in the place of the command's name while it imports the package of a module that it was told to
start."""
TEXT = "Stopped before it had begun; nothing was changed.\n"


def answer_until_main() -> None:
    """End with a line at Ctrl-C, where this process has just been started for a module of the calling package."""
    if sys.argv[:1] == [_STARTED_AS_MODULE] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def back_to_default() -> None:
    """Have Ctrl-C raise KeyboardInterrupt again, unless somebody else has it by now."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os.write(2, TEXT.encode())
    os._exit(130)  # an exception would be shown with the modules that are being imported
