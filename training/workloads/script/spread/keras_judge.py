"""The rule of the proof for tf-keras: what the runs of a script say of the work that ranks do."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .originals import OPEN
from .records import INFINITE, Run
from .settings import LOOKED_AT

MOST_EXACT, TIMES, MOST_ROUNDING, MOST_LEFT = 1e-9, 30.0, 1e-8, 1e-7
"""The limits of `judge`, under the same names."""
MOST_OWN = 1e-4
"""Largest difference that reversed rows may make in the script's own types, where it cannot compute in 64 bits."""
LEGACY, OTHER = {"TF_USE_LEGACY_KERAS": "1"}, {"KERAS_BACKEND": "torch"}
"""Environment variables that may make a script for Keras 3 on TensorFlow one that can be divided among ranks."""


def planned(run: Callable[[str, dict[str, str]], dict[str, Any]]) -> dict[str, Any]:
    """Return the facts of a run of the script as a single process. A script for Keras 3 on TensorFlow runs with
    tf-keras, or else on PyTorch, if that works. `run`: returns the facts of a run with a framework and environment
    variables, an empty dict if the run fails."""
    first = run("tensorflow", {})
    if first.get("kerasThree") != "tensorflow":
        return first
    for framework, variables in (("tensorflow", LEGACY), ("torch", OTHER)):
        facts = run(framework, variables)
        if facts.get("steps") and not facts.get("error"):
            return {**facts, "framework": framework, "environment": variables}
    return first


@contextmanager
def around(variables: dict[str, str]) -> Iterator[None]:
    """Set these environment variables during the body, and restore the environment afterwards."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def unsplit(facts: dict[str, Any]) -> str:
    """Return the reason why the script cannot be divided among ranks; "" if it can."""
    if facts["kerasThree"]:
        return "Keras 3 on TensorFlow"
    if facts["byHand"]:
        return "own loop"
    return "" if facts["steps"] else "no fit"


class Judge:
    """Decides from runs of a tf-keras script whether its ranks do the same work as its single process."""

    def __init__(self, runs: Any, plan: Run) -> None:
        """Keep `runs` and `plan`, and start no run yet."""
        self._start, self._wait, self._plan = runs.start, runs.wait, plan
        self._world = runs.world
        self._off: tuple[Run, Run, Run] | None = None
        self.evidence: dict[str, Any] = {}

    def outcome(self) -> dict[str, Any]:
        """Return `equal`, `named` (the work of ranks differs, with a name for how) or `bound` (ranks are not possible,
        or the proof came to no end), with the evidence; `failed` if the script fails as a single process."""
        facts = self._plan.facts[0]
        if not self._plan.ended:
            return {"outcome": "bound", "reason": "not in time", "error": self._plan.error}
        if self._plan.error or not facts:
            return {"outcome": "failed", "reason": self._plan.error}
        self.evidence["plan"] = {key: facts[key] for key in ("steps", "rows", "byHand", "chance", "statistics")}
        if reason := unsplit(facts):
            return self._say("bound", reason=reason)
        return self._compare(facts)

    def _compare(self, facts: dict[str, Any]) -> dict[str, Any]:
        own, own_turned = self._ranks("own"), self._start("own-turned", 1, reverse=True)
        runs = self._three("", double=True)
        self._wait(own, own_turned, *runs)
        yard = self._apart("ownReversed", self._plan, own_turned)
        self._number = self._apart("ownRanks", self._plan, own)
        if own.error:
            return self._say("bound", reason="ranks fail" if own.ended else "not in time", error=own.error)
        rows = [sum(each["rows"] for each in run.facts) for run in (self._plan, own)]
        self.evidence["rows"] = rows
        if rows[0] != rows[1] or not rows[0]:
            return self._say("bound", reason="not split", number=rows)
        if error := next((run.error for run in runs if run.error), ""):
            return self._without_chance(facts) or self._by_own_types(yard, error)
        if self._agree("", *runs):
            return self._say("equal", number=self._number)
        return self._name(facts, runs)

    def _ranks(self, name: str, **settings: Any) -> Run:
        run: Run = self._start(name, self._world, plan=str(self._plan.folder / "facts-rank0.json"), **settings)
        return run

    def _three(self, name: str, **settings: Any) -> tuple[Run, Run, Run]:
        alone, turned = (
            self._start(f"alone{name}", 1, **settings),
            self._start(f"turned{name}", 1, reverse=True, **settings),
        )
        return alone, turned, self._ranks(f"ranks{name}", **settings)

    def _by_own_types(self, yard: float, error: str) -> dict[str, Any]:
        number = self._number
        agrees = yard < MOST_OWN and number <= max(MOST_LEFT, TIMES * yard)
        return self._say("named", kind="own types alone", number=number, elseAgrees=agrees, error=error)

    def _agree(self, name: str, alone: Run, turned: Run, ranks: Run) -> bool:
        """Return whether ranks differ from the single process by no more than reversed rows do."""
        yard = self._yard = self._apart(f"reversed{name}", alone, turned)
        self._number = self._apart(f"ranks{name}", alone, ranks)
        return yard < MOST_ROUNDING and self._number <= max(MOST_EXACT, TIMES * yard)

    def _name(self, facts: dict[str, Any], runs: tuple[Run, Run, Run]) -> dict[str, Any]:
        """Return an outcome that names what makes the work of ranks different."""
        number = self._number
        if named := self._without_chance(facts):
            return named
        if self._yard >= MOST_ROUNDING:  # one process does another work each time
            return self._say("named", kind="chance", number=number, elseAgrees=False)
        off = {} if self._off is None else {"statistics": False}
        alone, turned, ranks = self._off or runs
        mean = self._ranks("mean", double=True, mean=True, **off)
        self._wait(mean)
        if self._agree("Mean", alone, turned, mean):
            return self._say("named", kind="summed", number=number, elseAgrees=True)
        kind = _by_layers(facts) or self._fit(alone, ranks)
        return self._say("named", kind=kind, number=number, elseAgrees=False)

    def _without_chance(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the outcome if ranks agree in evaluation mode, without chance and without statistics of the batch; an
        empty dict if they do not."""
        number = self._number
        if not _by_layers(facts):
            return {}
        runs = self._three("-off", double=True, statistics=False)
        self._wait(*runs)
        if any(run.error for run in runs):
            return {}
        self._off = runs
        if not self._agree("Off", *runs):
            return {}
        return self._say("named", kind=_by_layers(facts), number=number, elseAgrees=True, chance=facts["chance"])

    def _fit(self, alone: Run, ranks: Run) -> str:
        """Return how the ranks' first gradients relate to the gradient of the whole batch."""
        import numpy

        whole = _array(alone, "gradients-1")
        parts = [_array(ranks, "gradients-1", rank) for rank in range(self._world)]
        if whole is None or any(part is None or part.shape != whole.shape for part in parts):
            return "unknown"
        numbers, *_ = numpy.linalg.lstsq(numpy.stack(parts, 1), whole, rcond=None)
        left = numpy.abs(numpy.stack(parts, 1) @ numbers - whole).max() / (numpy.abs(whole).max() or 1.0)
        self.evidence["fit"] = {"numbers": numbers.tolist(), "residual": float(left)}
        if left >= MOST_LEFT:
            return "part"
        return "later" if numpy.abs(numbers - 1).max() < MOST_LEFT else "weights"

    def _apart(self, name: str, first: Run, other: Run) -> float:
        """Return how far the weights of two runs are apart: the largest difference as a share of the largest change."""
        import numpy

        distances = {}
        start = _array(first, "start")
        for step in LOOKED_AT:
            weights = _array(first, f"weights-{step}")
            others = [_array(other, f"weights-{step}", rank) for rank in range(len(other.forks))]
            if weights is None and all(each is None for each in others):
                continue
            distances[step] = INFINITE
            if weights is None or start is None or any(each is None or each.shape != weights.shape for each in others):
                continue
            trained = _array(first, f"trained-{step}")[: len(start)]  # models that came later started elsewhere
            change = float(numpy.abs(trained - start[: len(trained)]).max())
            most = float(numpy.max([numpy.abs(weights - each).max() for each in others]))
            distances[step] = 0.0 if most == 0.0 else most / change if change and not math.isnan(most) else INFINITE
        self.evidence[name] = distances
        return max(distances.values(), default=INFINITE)

    def _say(self, outcome: str, **more: Any) -> dict[str, Any]:
        return {"outcome": outcome, **more, "plan": self._plan.facts[0], "evidence": self.evidence}


def _by_layers(facts: dict[str, Any]) -> str:
    return "statistics" if facts["statistics"] else "chance" if facts["chance"] else ""


def _array(run: Run, name: str, rank: int = 0) -> Any:
    """Return the array that a rank has kept under a name; None if there is no such array."""
    import numpy

    path = run.folder / f"{name}-rank{rank}.npy"
    if not os.path.exists(path):
        return None
    with OPEN(path, "rb") as file:
        return numpy.load(file)
