"""The rule of the proof: what the runs of a script say of the work that ranks do."""

from __future__ import annotations

from typing import Any, Protocol

from . import records
from .records import Run

MOST_EXACT, TIMES = 1e-9, 100.0
"""In 64 bits equal work differs by this part of its change at most, or by so many times what reversed rows change."""
MOST_ROUNDING = 1e-7
"""What reversed rows may change in 64 bits by rounding alone; more is another work."""
MOST_OWN = 1e-2
"""The same bound in the script's own types, where reversed rows change less."""


class Proving(Protocol):
    """The runs of one script."""

    torch: Any
    world: int

    def start(self, name: str, world: int, **settings: Any) -> Run:
        """Start a run."""

    def wait(self, *runs: Run) -> None:
        """Wait for runs."""

    def plan(self) -> Run:
        """Run the script alone."""


class Judge:
    """Comes to an outcome."""

    def __init__(self, runs: Proving) -> None:
        """Run nothing yet."""
        self._runs, self._torch, self._world = runs, runs.torch, runs.world
        self.evidence: dict[str, Any] = {}

    def outcome(self) -> dict[str, Any]:
        """Return `equal`, `named` or `bound`, with the evidence; `failed` where the script fails alone."""
        plan = self._runs.plan()
        facts = plan.facts[0]
        if plan.error or not facts:
            return {"outcome": "failed", "reason": plan.error}
        self._line = facts["line"]
        self.evidence["plan"] = {key: facts[key] for key in ("steps", "backwards", "byHand", "grads", "products")}
        if reason := _unsplit(facts):
            return self._say("bound", reason=reason)
        self._path = str(plan.folder / "facts-rank0.json")
        return self._compare(plan)

    def _say(self, outcome: str, **more: Any) -> dict[str, Any]:
        return {"outcome": outcome, **more, "line": self._line, "evidence": self.evidence}

    def _compare(self, plan: Run) -> dict[str, Any]:
        start = self._runs.start
        exact = {"double": True, "keyed": True}
        alone = start("alone", 1, **exact)
        ranks = start("ranks", self._world, plan=self._path, **exact)
        turned = start("turned", 1, reverse=True, **exact)
        own = start("own", self._world, plan=self._path)
        own_turned = start("own-turned", 1, reverse=True)
        self._runs.wait(alone, ranks, turned, own, own_turned)
        for run in (alone, turned, ranks, own):
            if run.apart:
                return self._say("named", kind="apart", number=None, reason=run.apart)
            if run.error:
                return self._say("failed", reason=f"{run.name}: {run.error}")
        exact_yard = self._apart("reversed", alone, turned)
        exact_ranks = self._apart("ranks", alone, ranks)
        own_yard = self._apart("ownReversed", plan, own_turned)
        own_ranks = self._apart("ownRanks", plan, own)
        if exact_yard < MOST_ROUNDING and exact_ranks <= max(MOST_EXACT, TIMES * exact_yard):
            return self._say("equal", number=exact_ranks, own=own_ranks, yard=own_yard)
        return self._say("named", kind="?", number=exact_ranks)

    def _apart(self, name: str, one: Run, other: Run) -> float:
        weights = records.weights(self._torch, one, other)
        gradients = records.gradients(self._torch, one, other)
        self.evidence[name] = {"weights": weights, "gradients": gradients}
        return max(records.largest(weights), records.largest(gradients))


def _unsplit(facts: dict[str, Any]) -> str:
    """Return why the script can't be split; "" where it can."""
    feeding = [each["kind"] for each in facts["passes"] if each["feeds"]]
    if facts["stepsWithout"] and facts["grads"]:
        return "torch.autograd.grad"
    if not facts["backwards"]:
        return "no backward"
    if not facts["steps"]:
        return "own optimizer"
    if not feeding or facts["byHand"] > facts["backwards"] / 2:
        return "by hand"
    for kind in ("iterable", "unbatched"):
        if kind in feeding:
            return kind
    return ""
