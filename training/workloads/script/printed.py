"""What a run of a user's program prints, passed on without secrets. Standard library only."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import IO

from training.launch.foreign_command import MOST_PRINTED
from training.machine import output

_MISSING = re.compile(rb"ModuleNotFoundError: No module named '([\w.]+)'")
LEAST_SECRET = 6
"""Fewest characters of a secret, or of its longest line, for the text to be hidden. A shorter text stands in a log by
chance, and hiding it would tell what it is."""


class Secrets:
    """The secret texts that may stand in no log."""

    def __init__(self, texts: Iterable[str]) -> None:
        parts = {part for text in texts for part in hidden_parts(text)}
        self._parts = sorted((part.encode() for part in parts), key=len, reverse=True)

    def hidden_in(self, line: bytes) -> bytes:
        """Return the line without secrets and, if it was cut, without what may be the beginning of one."""
        is_cut = line.endswith(output.CUT)
        line = line.removesuffix(output.CUT) if is_cut else line
        for part in self._parts:
            line = line.replace(part, b"[secret]")
        if not is_cut:
            return line
        beginnings = (size for part in self._parts for size in range(1, len(part)) if line.endswith(part[:size]))
        return line[: len(line) - max(beginnings, default=0)] + output.CUT


def hidden_parts(secret: str) -> list[str]:
    """Return the lines of a secret that are hidden; an empty list if all of them are shorter than LEAST_SECRET. Of a
    key in several lines, the `{` that other texts have, too, is not hidden."""
    return [line for line in secret.splitlines() if len(line) >= LEAST_SECRET]


def missing_module(text: bytes) -> str:
    """Return the module that an import did not find, from the last line of a traceback; "" if no line names one."""
    modules: list[bytes] = _MISSING.findall(text)
    return modules[-1].decode(errors="replace") if modules else ""


class Printed:
    """Passes on what a script prints, without the values of secret variables, until the script has printed too much."""

    def __init__(self, secret: Mapping[str, str]) -> None:
        self.count = 0
        self.missing_module = ""
        """The module that an import did not find, from the last printed line that names one."""
        self._secrets = Secrets(secret.values())

    def pass_on(self, out: IO[bytes]) -> bool:
        """Copy the script's output to this process's own, line by line; return False if it was too much."""
        with suppress(output.FloodError):
            for line in output.lines(self._counted(output.chunks(out))):
                self.missing_module = missing_module(line) or self.missing_module
                sys.stdout.buffer.write(self._secrets.hidden_in(line))
                sys.stdout.buffer.flush()
        return self.count <= MOST_PRINTED

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks. Raise FloodError when they are too much. The line in which that happens is not passed on,
        because a secret may continue in the part that is no longer read."""
        for chunk in chunks:
            room = max(0, MOST_PRINTED - self.count)
            self.count += len(chunk)
            yield chunk[:room]
            if self.count > MOST_PRINTED:
                raise output.FloodError
