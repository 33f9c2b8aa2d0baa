"""Command lines that a reader is told: to measure with the same settings, to publish a result again. Pure."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from report.stored import COMPARISON, SWEEP_PREFIX


def settings_text(settings: Mapping[str, str]) -> str:
    """The value of `SET`, quoted for the shell: `"workers=3 epochs=5"`."""
    return in_shell(" ".join(f"{key}={shlex.quote(text)}" for key, text in settings.items()))


def in_shell(words: str) -> str:
    """Between the plainest quotes that keep it as it is."""
    return shlex.quote(words) if set(words) & set('"$`\\!') else f'"{words}"'


def publish_again(folder: Path, stack: str) -> str:
    """Return the command that publishes the result in `folder` again: a sweep's stack, with its comparison, is gone."""
    if stack.startswith(SWEEP_PREFIX):
        return f"{sys.executable} -m report publish --stack {stack} < {folder / COMPARISON}"
    return f"STACK={stack} make report"
