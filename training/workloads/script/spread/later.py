"""Says where a script trains by what the steps of the proof did not have: other lines, operations, or loaders.

What ranks do there is not proved. It is said once for each, while the script runs.
"""

from __future__ import annotations

import sys

from . import places
from .batches import Loaders

COMPILED = "Compiled"
"""What the names of a compiler's operations begin with: the proof runs what they are compiled from."""


class Later:
    """Looks at the backward passes of a rank."""

    def __init__(self, loaders: Loaders) -> None:
        """Know what the plan knows."""
        self._loaders, self._plan = loaders, loaders.plan
        self._written: set[str] = set()
        self.backwards = 0

    def look(self, names: set[str]) -> None:
        """Look at the backward pass that begins, of a loss with operations of these names."""
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
        if what not in self._written:
            self._written.add(what)
            sys.stderr.write(
                f"not proved: at backward pass {self.backwards} the script trains at {what}, "
                "as the steps of the proof did not\n"
            )
