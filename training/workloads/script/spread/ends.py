"""How a run of the proof ends its script."""

from __future__ import annotations

from abc import ABC, abstractmethod

from .originals import EXIT


class Enough(SystemExit):
    """The script has made as many steps as the proof needs."""


class Ending(ABC):
    """What is recorded of a process that ends when enough is known."""

    _raised = False

    @abstractmethod
    def write(self, error: str) -> None:
        """Write what is known."""

    def end(self) -> None:
        """End the script: by an exception, or by all means where it stops that."""
        if self._raised:
            self.write("")
            EXIT(0)
        self._raised = True
        raise Enough(0)
