"""A clock that a test holds: it passes with each sleep and by nothing else."""

from collections.abc import Callable


class Clock:
    """What the time is, and what happens at which time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._planned: list[tuple[float, Callable[[], object]]] = []

    def at(self, seconds: float, happens: Callable[[], object]) -> None:
        """Let this happen once, in the first sleep that ends then or later."""
        self._planned.append((seconds, happens))

    def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self.now += seconds
        due = [each for each in self._planned if each[0] <= self.now]
        self._planned = [each for each in self._planned if each not in due]
        for _, happens in due:
            happens()
