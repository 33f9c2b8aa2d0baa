"""How every command begins: the project's environment is brought up to date, and the command goes on in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cli.setup import bootstrap
from cli.setup.project import VENV, run_main
from training.machine import command_line


def main() -> None:
    """Set up, then run what was typed in the project's environment."""
    os.environ[command_line.CALLED] = command_line.called_as(sys.argv[0])
    if Path(sys.prefix) == VENV:
        from cli import door

        door.main(sys.argv[1:])
    run_main(_go_on, bootstrap.INTERRUPTED)


def _go_on() -> int:
    bootstrap.ensure()
    python = str(VENV / "bin" / "python")
    os.execv(python, [python, *sys.argv])  # noqa: S606 - the same call in the environment
