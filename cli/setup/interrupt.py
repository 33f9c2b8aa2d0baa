"""Answers Ctrl-C with one line, not a traceback, while a command still imports its modules. `rwi` asks for it first,
and `project.run_main` takes over."""

from __future__ import annotations

import os
import signal

TEXT = "Stopped before it started; nothing was changed.\n"


def answer_until_main() -> None:
    """Make Ctrl-C end this process with one line of text, unless the parent process had Ctrl-C ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def back_to_default() -> None:
    """Make Ctrl-C raise KeyboardInterrupt again, unless another handler was set meanwhile."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os.write(2, TEXT.encode())
    os._exit(130)  # an exception would be shown with the modules that are being imported
