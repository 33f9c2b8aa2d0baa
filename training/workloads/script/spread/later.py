"""Says where a script trains by what the steps of the proof did not have: other lines, operations, or loaders.

What ranks do there is not proved. It is said once for each, while the script runs; the first of it is in a file next to
what is observed, because the script decides where its output goes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from . import places
from .originals import OPEN

if TYPE_CHECKING:
    from .batches import Loaders

COMPILED = "Compiled"
"""Prefix of the names of operations that a compiler made; the proof runs what they are compiled from."""
FOLDER = "TRAINING_OBSERVE"
"""Environment variable: the folder of the observation."""
FILE = "not-proved.txt"


class Later:
    """Looks in rank 0 for backward passes that the proof did not see."""

    def __init__(self, loaders: Loaders) -> None:
        """Start with the backward passes that the plan lists."""
        self._loaders, self._plan = loaders, loaders.plan
        self._unproved = Unproved()
        self.backwards = 0

    def look(self, names: set[str]) -> None:
        """Compare the backward pass that begins with the plan, and tell the user if the plan has no such pass. `names`:
        the operations that led to its loss."""
        plan = self._plan
        self.backwards += 1
        if plan is None or not plan.operations:
            return
        line = places.innermost()
        latest = self._loaders.latest_of_all
        if latest is not None and latest.unknown:
            self._say(f"{line}, with batches of a loader that is iterated at {latest.site.split(' ')[0]}")
        elif line not in plan.operations:
            self._say(line)
        else:
            other = {each for each in names - plan.operations[line] if not each.startswith(COMPILED)}
            if other:
                self._say(f"{line} by {', '.join(sorted(other))}")

    def _say(self, what: str) -> None:
        self._unproved.say(what, f"backward pass {self.backwards} the script trains at {what}")


class Unproved:
    """Tells the user what a script trains that its proof did not see."""

    def __init__(self) -> None:
        """Start with nothing told."""
        self._written: set[str] = set()
        self._folder = os.environ.get(FOLDER, "")

    def say(self, what: str, when: str) -> None:
        """Tell the user once that `what` is not proved. `when`: words for where the script trains it."""
        if what in self._written:
            return
        text = f"not proved: at {when}, as the steps of the proof did not\n"
        if not self._written:
            self._keep(text)
        self._written.add(what)
        with contextlib.suppress(Exception):  # the script may have closed it
            (sys.__stderr__ or sys.stderr).write(text)

    def _keep(self, text: str) -> None:
        """Write the text into a file; in a worker with a pod of its own, send it to the driver like an observation."""
        observer = sys.modules.get(f"{places.OBSERVER}.in_pod")
        if self._folder and not (observer is not None and observer.put(FILE, text)):
            with OPEN(os.path.join(self._folder, FILE), "w", encoding="utf-8") as file:
                file.write(text)
