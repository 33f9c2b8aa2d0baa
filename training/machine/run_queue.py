"""Counts how long the threads of this process had a CPU, and how long they were ready and waited for one. Only Linux
counts that (`/proc/PID/task/TID/schedstat`; docs.kernel.org/scheduler/sched-stats.html). Standard library only."""

from contextlib import suppress
from pathlib import Path

TASKS = Path("/proc/self/task")


class RunQueue:
    """Reads it; of a thread that ended in between what was read of it last."""

    def __init__(self, tasks: Path = TASKS) -> None:
        self._tasks = tasks
        self._seen: dict[str, tuple[int, int]] = {}
        self._ended = (0, 0)

    def read(self) -> tuple[float, float] | None:
        """Seconds with a CPU, and seconds of waiting for one, of all threads so far; None where it is not counted."""
        try:
            threads = list(self._tasks.iterdir())
        except OSError:
            return None
        for thread in threads:
            with suppress(OSError, ValueError, IndexError):  # it ended meanwhile
                had, waited = (thread / "schedstat").read_text().split()[:2]
                self._keep(thread.name, (int(had), int(waited)))
        if not self._seen:
            return None
        totals = [self._ended, *self._seen.values()]
        return sum(had for had, _ in totals) / 1e9, sum(waited for _, waited in totals) / 1e9

    def _keep(self, thread: str, now: tuple[int, int]) -> None:
        before = self._seen.get(thread, (0, 0))
        if now[0] < before[0]:  # the reused number of a thread that ended
            self._ended = (self._ended[0] + before[0], self._ended[1] + before[1])
        self._seen[thread] = now
