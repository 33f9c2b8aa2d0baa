"""Time: phases on the monotonic clock, and stamps that processes of one host can compare. Standard library only."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_LOADED = time.monotonic()


@dataclass(frozen=True)
class Stamp:
    """A moment. Monotonic times can be compared only within one boot of one machine, so `boot` names the boot."""

    monotonic: float
    wall: float
    boot: str

    @classmethod
    def now(cls) -> "Stamp":
        """Return a stamp of the present moment."""
        return cls(time.monotonic(), time.time(), boot_id())

    def later(self, seconds: float) -> "Stamp":
        """Return the stamp `seconds` after this one."""
        return Stamp(self.monotonic + seconds, self.wall + seconds, self.boot)

    def seconds_until(self, later: "Stamp") -> float:
        """Return the seconds from this stamp to `later`: by the monotonic clock on one host; between two hosts by their
        wall clocks, which are as exact as their synchronisation."""
        if self.boot and self.boot == later.boot:
            return later.monotonic - self.monotonic
        return later.wall - self.wall


def boot_id() -> str:
    """Return a name for this boot of this host; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def process_start() -> Stamp:
    """Return the start time of this process: from /proc on Linux (10 ms), elsewhere the import time of this module."""
    age = None
    try:
        after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        ticks_after_boot = int(after_name[19])  # starttime is field 22; the two before the name are cut off
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks_after_boot / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        pass
    now = Stamp.now()  # right after the other clock: what lies between them would make this process younger or older
    started = _LOADED if age is None else now.monotonic - age
    return Stamp(started, now.wall - (now.monotonic - started), now.boot)


@dataclass
class Phases:
    """Seconds of each phase, by name. A phase that is measured several times has the sum."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the seconds that the body of the `with` takes to the phase `name`."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add(name, time.monotonic() - began)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
