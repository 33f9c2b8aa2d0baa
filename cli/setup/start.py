"""How every command begins: the project's environment is brought up to date, and the command goes on in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cli.setup import bootstrap
from cli.setup.project import VENV, ToolError, run_main
from training.machine import command_line


def main() -> None:
    """Set up, then run what was typed in the project's environment."""
    os.environ[command_line.CALLED] = command_line.called_as(sys.argv[0])
    if Path(sys.prefix) == VENV:
        from cli import door

        door.main(sys.argv[1:])
    run_main(_go_on, bootstrap.INTERRUPTED)


def _go_on() -> int:
    if sys.argv[1:3] == ["project", "clean"] and not VENV.exists():  # it would be installed to be removed
        from cli.stack import clean

        return clean.clean(with_measurements="--all" in sys.argv[3:])
    bootstrap.ensure()
    python = str(VENV / "bin" / "python")
    if not Path(python).exists():
        raise ToolError(f"{python} is not there, and {bootstrap.SWITCH} is no: without that variable it is installed")
    return os.execv(python, [python, *sys.argv])  # noqa: S606 - the same call in the environment
