"""What a run of a user's program prints, passed on without secrets. Standard library only."""

import sys
from collections.abc import Mapping
from typing import IO

from training.launch.foreign_command import MOST_PRINTED


class Printed:
    """Passes on what a script prints, without the values of secret variables, until it is too much."""

    def __init__(self, secret: Mapping[str, str]) -> None:
        self.count = 0
        parts = {part for value in secret.values() for part in value.splitlines() if part}
        self._secret = sorted((part.encode() for part in parts), key=len, reverse=True)

    def pass_on(self, out: IO[bytes]) -> bool:
        """Copy output to this process's own, line by line; return False when it is too much."""
        for line in out:
            self.count += len(line)
            if self.count > MOST_PRINTED:
                return False
            for value in self._secret:
                line = line.replace(value, b"[secret]")  # noqa: PLW2901 (one after another)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        return True
