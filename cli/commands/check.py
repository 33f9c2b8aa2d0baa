"""`rwi check`: lint, format and types."""

import subprocess

from cli.command import command
from cli.setup import bootstrap
from cli.setup.project import ROOT, VENV, need_tests

STEPS = (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy", "."))


@command("check", short_help="Lint, format and types.")
def run() -> int:
    """Check lint, format and types of all code, up to the first that fails."""
    need_tests()
    bootstrap.ensure("dev")
    for program, *arguments in STEPS:
        if status := subprocess.run([VENV / "bin" / program, *arguments], cwd=ROOT, check=False).returncode:
            return status
    return 0
