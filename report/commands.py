"""The line that publishes a result again. Pure."""

import sys
from pathlib import Path

from cli.setup.project import SWEEP_PREFIX
from report.stored import COMPARISON
from training.machine.command_line import rwi


def publish_again(folder: Path, stack: str) -> str:
    """Return the command that publishes the result in `folder` again: a sweep's stack, with its comparison, is gone."""
    if stack.startswith(SWEEP_PREFIX):
        return f"{sys.executable} -m report publish --stack {stack} < {folder / COMPARISON}"
    return rwi("report open", stack)
