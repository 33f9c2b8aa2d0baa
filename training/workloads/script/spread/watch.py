"""Notices ranks that branched apart: each waits where the others never come.

A thread of each rank tells the others where it waits, and looks where they do. Two that wait at different exchanges, or
one that waits while another has ended, wait for ever.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import sys
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .originals import EXIT, OPEN, write_json

PERIOD_SECONDS, PATIENCE_SECONDS = 0.5, 2.0
EXIT_CODE = 86
"""Exit code of ranks that took different ways through the script."""
KEPT = 512
MOST_SECONDS = 60


class Watch:
    """Tells the other ranks where this rank is in the script, and looks whether they wait for each other forever."""

    def __init__(self, store: Any, rank: int, world: int, out: str) -> None:
        """Start the thread that tells where this rank is, and looks where the others are."""
        self._store, self._rank, self._world, self._out = store, rank, world, out
        self._number, self._site, self._waits, self._ended, self._digest = 0, "", False, False, 0
        self._kept: deque[tuple[int, int, str]] = deque(maxlen=KEPT)
        self._seen: tuple[Any, float] = (None, 0.0)
        self._beat = 0
        self._stays: dict[int, tuple[tuple[int, int], int]] = {}
        """By rank: how many exchanges that rank and this rank had made when the other rank was first seen to wait
        there, and the number of its report then."""
        self._stop = threading.Event()
        self._trace = _Trace(out, rank) if out else None
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def enter(self, site: str, batch: str = "") -> None:
        """Record that an exchange begins at a line of the script. `batch`: words for the batch before it, which are not
        compared between ranks, because a thread may read batches ahead."""
        self._number += 1
        self._digest = zlib.crc32(site.encode(), self._digest)
        site += batch
        self._site, self._waits = site, True
        self._kept.append((self._number, self._digest, site))
        if self._trace is not None:
            self._trace.keep(self._number, self._digest, site)

    def leave(self) -> None:
        """Record that the exchange is done."""
        self._waits = False

    def during(self, site: str, exchange: Callable[[], None]) -> None:
        """Call `exchange` as an exchange at `site`."""
        self.enter(site)
        exchange()
        self.leave()

    def end(self, *, waits: bool) -> None:
        """Record that the script has ended in this rank; with `waits`, wait until the other ranks have ended, too."""
        self._ended = True
        self._tell()
        deadline = time.monotonic() + MOST_SECONDS
        while waits and time.monotonic() < deadline and not all(each and each["ended"] for each in self._others()):
            time.sleep(0.02)
        self._stop.set()

    def _tell(self) -> None:
        self._beat += 1
        now = {
            "number": self._number, "site": self._site, "waits": self._waits, "ended": self._ended, "beat": self._beat,
            "kept": list(self._kept)[-64:],
        }  # fmt: skip
        with contextlib.suppress(Exception):
            self._store.set(f"watch-{self._rank}", json.dumps(now))

    def _others(self) -> list[Any]:
        others = []
        for rank in range(self._world):
            key = f"watch-{rank}"
            if rank == self._rank:
                continue
            try:
                others.append(json.loads(self._store.get(key)) if self._store.check([key]) else None)
            except Exception:  # noqa: BLE001 (the store's rank has gone)
                others.append({"number": -1, "site": "", "waits": False, "ended": True, "kept": [], "beat": 0})
            if others[-1]:
                others[-1]["rank"] = rank
        return others

    def _look(self) -> None:
        while not self._stop.wait(PERIOD_SECONDS):
            self._tell()
            why = self._apart([each for each in self._others() if each])
            if not why:
                self._seen = (None, 0.0)
            elif self._seen[0] != self._number:
                self._seen = (self._number, time.monotonic())
            elif time.monotonic() - self._seen[1] > PATIENCE_SECONDS:
                self._say(why)

    def _apart(self, others: list[Any]) -> str:
        """Return in words how this rank and another one have taken different ways; "" if they may still meet."""
        sites = {number: (digest, site) for number, digest, site in list(self._kept)}
        for other in others:
            for number, digest, site in other["kept"]:
                if number in sites and sites[number][0] != digest:
                    return f"one rank exchanges at {sites[number][1]}, another at {site}"
            if not self._waits:
                continue
            if other["ended"]:
                return f"one rank waits at {self._site}, where another has ended"
            if other["waits"] and other["number"] != self._number and self._stays_there(other):
                return f"one rank waits at {self._site}, another at {other['site']}"
        return ""

    def _stays_there(self, other: Any) -> bool:
        """Return whether another rank has reported at least twice since it was first seen to wait at its present
        exchange, so that it is not merely late. A stopped process reports nothing new."""
        where = (other["number"], self._number)
        known, since = self._stays.get(other["rank"], (None, 0))
        if known != where:
            self._stays[other["rank"]] = (where, other["beat"])
            return False
        return bool(other["beat"] >= since + 2)

    def _say(self, why: str) -> None:
        with contextlib.suppress(Exception):
            if self._out:
                write_json(Path(self._out, f"apart-rank{self._rank}.json"), {"apart": why})
            sys.stderr.write(f"ranks of the script branched apart: {why}\n")
            sys.stderr.flush()
            time.sleep(PERIOD_SECONDS)  # the others may say it, too
        EXIT(EXIT_CODE)


RECORD, RECORDS = 256, 64
"""Bytes of an exchange in a trace file, and number of the last exchanges that are kept."""


class _Trace:
    """The last exchanges of this rank, in a file that remains however the rank ends."""

    def __init__(self, folder: str, rank: int) -> None:
        with OPEN(_trace(folder, rank), "wb+") as file:
            file.truncate(RECORD * RECORDS)
            self._bytes = mmap.mmap(file.fileno(), RECORD * RECORDS)

    def keep(self, number: int, digest: int, site: str) -> None:
        content = json.dumps([number, digest, site.encode("ascii", "replace").decode()[-RECORD // 2 :]]).encode()
        start = number % RECORDS * RECORD
        self._bytes[start : start + RECORD] = content.ljust(RECORD, b"\0")


def _trace(folder: str, rank: int) -> Path:
    return Path(folder, f"trace-rank{rank}")


def apart(folder: str, world: int) -> str:
    """Return where ranks went apart in the script, from trace files of ended ranks; "" if not known."""
    traces: list[dict[int, tuple[int, str]]] = []
    for rank in range(world):
        path = _trace(folder, rank)
        content = path.read_bytes() if path.exists() else b""
        records = [content[start : start + RECORD].rstrip(b"\0") for start in range(0, len(content), RECORD)]
        traces.append({number: (digest, site) for number, digest, site in map(json.loads, filter(None, records))})
    for number in sorted(set.intersection(*map(set, traces)) if traces else ()):
        if len({trace[number][0] for trace in traces}) > 1:
            sites = list(dict.fromkeys(trace[number][1] for trace in traces))
            return f"one rank exchanges at {sites[0]}, another at {sites[-1]}"
    return ""
