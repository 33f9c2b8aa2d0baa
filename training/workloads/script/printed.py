"""What a run of a user's program prints, passed on without secrets. Standard library only."""

import sys
from collections.abc import Iterable, Mapping
from typing import IO

from training.launch.foreign_command import MOST_PRINTED


class Secrets:
    """Texts that stand in no log."""

    def __init__(self, texts: Iterable[str]) -> None:
        parts = {part for text in texts for part in text.splitlines() if part}
        self._parts = sorted((part.encode() for part in parts), key=len, reverse=True)

    def hidden_in(self, line: bytes) -> bytes:
        """Return the line without them."""
        for part in self._parts:
            line = line.replace(part, b"[secret]")
        return line


class Printed:
    """Passes on what a script prints, without the values of secret variables, until it is too much."""

    def __init__(self, secret: Mapping[str, str]) -> None:
        self.count = 0
        self._secrets = Secrets(secret.values())

    def pass_on(self, out: IO[bytes]) -> bool:
        """Copy output to this process's own, line by line; return False when it is too much."""
        for line in out:
            self.count += len(line)
            if self.count > MOST_PRINTED:
                return False
            sys.stdout.buffer.write(self._secrets.hidden_in(line))
            sys.stdout.buffer.flush()
        return True
