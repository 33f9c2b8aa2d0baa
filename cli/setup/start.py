"""How every command begins: the project's environment is brought up to date, and the command goes on in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cli.setup import bootstrap
from cli.setup.project import ROOT, VENV, ToolError, run_main
from training.machine import command_line

MEASURING = (
    "up", "preview", "sweep", "destroy", "outputs", "report", "status", "doctor", "jobs", "bench", "check",
    "test", "project",
)  # fmt: skip
"""Commands that need TensorFlow, Ray or Pulumi in this environment. `try`, `why` and `compare-commits` do not, because
a script has its own; nor do `set` and mistyped commands, which are answered at once."""
CHECK = "import sys; from cli import door, setup; setup.project.run_main(lambda: door.check(sys.argv[1:]))"


def main() -> None:
    """Install what the command needs, then run the command in the project's environment."""
    os.environ[command_line.CALLED] = os.environ.get(command_line.DOOR) or command_line.called_as(sys.argv[0])
    if Path(sys.prefix) == VENV:
        from cli import door

        door.main(sys.argv[1:])
    run_main(_go_on, bootstrap.INTERRUPTED)


def _is_light(arguments: Sequence[str]) -> bool:
    """Return whether a call needs no TensorFlow, Ray or Pulumi, by its command or because it asks for help."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return not options or options[0] not in MEASURING or not {"-h", "--help"}.isdisjoint(options)


def _go_on() -> int:
    if sys.argv[1:3] == ["project", "clean"] and not VENV.exists():  # it would be installed to be removed
        from cli.stack import clean

        return clean.clean(with_measurements="--all" in sys.argv[3:])
    python, light = str(VENV / "bin" / "python"), _is_light(sys.argv[1:])
    if not light and bootstrap.is_pending():  # what is typed wrong is answered before minutes of installing
        bootstrap.ensure(whole=False)
        check, variables = [python, "-c", CHECK, *sys.argv[1:]], {**os.environ, command_line.FROM: str(Path.cwd())}
        if Path(python).exists() and (status := subprocess.run(check, cwd=ROOT, env=variables, check=False).returncode):
            return status
    bootstrap.ensure(whole=not light)
    if not Path(python).exists():
        raise ToolError(f"{python} is not there, and {bootstrap.SWITCH} is no: without that variable it is installed")
    return os.execv(python, [python, *sys.argv])  # noqa: S606 - the same call in the environment
