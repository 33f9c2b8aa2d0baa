"""The rule of the proof: what the runs of a script say of the work that ranks do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from . import records
from .records import Run

MOST_EXACT, TIMES = 1e-9, 30.0
"""In 64 bits, the weights of equal work differ by at most this share of their change, or by at most so many times the
difference that reversed rows make."""
MOST_ROUNDING = 1e-8
"""Largest difference that reversed rows make in 64 bits by rounding alone; a larger one means other work."""
MOST_LEFT = 1e-7
"""Largest share of a gradient that a fit may leave unexplained, and largest error of a fitted number."""
MOST_REPEATED = 0.5
"""The part of the work that all ranks may repeat."""


class Proving(Protocol):
    """The runs of one script in the proof that its ranks do the same work as its single process."""

    torch: Any
    world: int

    def start(self, name: str, world: int, **settings: Any) -> Run:
        """Start a run with that name, as `world` ranks."""

    def wait(self, *runs: Run) -> None:
        """Wait for the runs to end."""

    def plan(self) -> Run:
        """Run the script as a single process, and return the run, whose facts are the plan for ranks."""

    def lacks_room(self, plan: Run) -> str:
        """Return the reason why the tensors of all runs may fill the disk; "" if there is enough room."""


class Judge:
    """Decides from runs of a script whether its ranks do the same work as its single process."""

    def __init__(self, runs: Proving) -> None:
        """Keep `runs`, and start no run yet."""
        self._runs, self._torch, self._world = runs, runs.torch, runs.world
        self.evidence: dict[str, Any] = {}

    def outcome(self) -> dict[str, Any]:
        """Return `equal`, `named` (the work of ranks differs, with a name for how) or `bound` (ranks are not possible,
        or the proof came to no end), with the evidence; `failed` if the script fails as a single process."""
        plan = self._runs.plan()
        facts = plan.facts[0]
        if not plan.ended:
            return {"outcome": "bound", "reason": "not in time", "error": plan.error}
        if plan.error or not facts:
            return {"outcome": "failed", "reason": plan.error}
        self._line = facts["line"]
        self.evidence["plan"] = {key: facts[key] for key in ("steps", "backwards", "byHand", "grads", "products")}
        if reason := _unsplit(facts):
            return self._say("bound", reason=reason)
        if room := self._runs.lacks_room(plan):
            return self._say("bound", reason="no room", error=room)
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
        if failed := self._failed(alone, turned, ranks, own):
            return failed
        self._apart("ownReversed", plan, own_turned)
        self._apart("ownRanks", plan, own)
        return self._decide(alone, turned, ranks)

    def _failed(self, *runs: Run) -> dict[str, Any]:
        """Return the outcome if one of the runs has failed; an empty dict if all succeeded."""
        for run in runs:
            if run.apart:
                return self._named("apart", None, agrees=False, reason=run.apart)
            if run.error and run.ended and run.name in ("ranks", "own"):
                return self._say("bound", reason="ranks fail", error=run.error)
            if run.error:  # alone it ran in its own types
                return self._say("bound", reason="not in 64 bits" if run.ended else "not in time", error=run.error)
        if len({run.steps for run in runs}) > 1:
            return self._say("bound", reason="other steps", number=[run.steps for run in runs])
        return {}

    def _decide(self, alone: Run, turned: Run, ranks: Run) -> dict[str, Any]:
        share = self.evidence["repeated"] = repeated(alone, ranks)
        if share > MOST_REPEATED:
            return self._say("bound", reason="not split", number=share)
        chance = alone.facts[0]["chance"]
        if self._agree("", alone, turned, ranks):
            if chance:
                return self._named("chance", None, agrees=True, at=chance)
            if (kept := records.buffers(self._torch, alone, ranks)) > max(MOST_EXACT, TIMES * self._yard):
                return self._named("statistics", kept, agrees=True)
            return self._say("equal", number=self._number)
        if ranks.facts[0]["hasInputs"] and self._agrees_with_inputs(alone, turned):
            return self._say("equal", number=self._number)
        return self._name(alone, ranks, chance)

    def _agree(self, name: str, alone: Run, turned: Run, ranks: Run) -> bool:
        """Return whether ranks differ from the single process by no more than reversed rows do."""
        yard = self._apart(f"reversed{name}", alone, turned)
        self._number = self._apart(f"ranks{name}", alone, ranks)
        self._yard = yard
        return yard < MOST_ROUNDING and self._number <= max(MOST_EXACT, TIMES * yard)

    def _name(self, alone: Run, ranks: Run, chance: dict[str, str]) -> dict[str, Any]:
        """Return an outcome that names what makes the work of ranks different."""
        difference, yard = self._number, self._yard
        own = [records.largest(records.weights(self._torch, ranks, ranks, rank)) for rank in range(1, self._world)]
        if max(own) > MOST_EXACT:
            return self._named("ranks differ", max(own), agrees=False)
        if alone.facts[0]["batchStatistics"]:
            statistics, agrees = self._without_statistics()
            if agrees:
                return self._named("statistics", difference, agrees=True, chance=chance)
            alone = statistics
        fits = self._fits(alone, statistics=alone.name == "alone")
        if not fits:
            return self._named("unknown", difference, agrees=False)
        kind, agrees = _kind(fits, yard, self._world)
        number = {"statistics": fits[0]["residual"], "chance": difference, "later": difference}
        return self._named(kind, number.get(kind, fits[0]["numbers"]), agrees=agrees)

    def _without_statistics(self) -> tuple[Run, bool]:
        """Return the run of the single process in which batch normalisation does not use the batch's statistics, and
        whether ranks agree with it in that case."""
        settings = {"double": True, "keyed": True, "statistics": False}
        start = self._runs.start
        alone, turned = start("alone-off", 1, **settings), start("turned-off", 1, reverse=True, **settings)
        ranks = start("ranks-off", self._world, plan=self._path, **settings)
        self._runs.wait(alone, turned, ranks)
        if alone.error or turned.error or ranks.error:
            return alone, False
        return alone, self._agree("WithoutStatistics", alone, turned, ranks)

    def _agrees_with_inputs(self, alone: Run, turned: Run) -> bool:
        """Return whether ranks agree if inputs' gradients are those of the whole batch; if so, set that in the plan."""
        path = Path(self._path)
        facts = json.loads(path.read_text()) | {"inputsAsSingle": True}
        path.write_text(json.dumps(facts))
        ranks = self._runs.start("ranks-inputs", self._world, plan=self._path, double=True, keyed=True)
        self._runs.wait(ranks)
        if not ranks.error and self._agree("WithInputs", alone, turned, ranks):
            return True
        path.write_text(json.dumps(facts | {"inputsAsSingle": False}))
        return False

    def _fits(self, alone: Run, *, statistics: bool) -> list[dict[str, Any]]:
        settings = {"double": True, "keyed": True, "statistics": statistics}
        run = self._runs.start("fits", self._world, plan=self._path, fitted_to=str(alone.folder), **settings)
        self._runs.wait(run)
        fits: list[dict[str, Any]] = run.facts[0].get("fits", [])
        for number, fit in enumerate(fits):
            fit["shares"] = [facts["fits"][number]["share"] for facts in run.facts]
        self.evidence["fits"] = fits or run.error
        return fits

    def _named(self, kind: str, number: Any, *, agrees: bool, **more: Any) -> dict[str, Any]:
        return self._say("named", kind=kind, number=number, elseAgrees=agrees, **more)

    def _apart(self, name: str, first: Run, other: Run) -> float:
        ranks = range(len(other.forks))
        weights = [records.weights(self._torch, first, other, rank) for rank in ranks]
        gradients = [records.gradients(self._torch, first, other, rank) for rank in ranks]
        self.evidence[name] = {"weights": weights, "gradients": gradients}
        return max(map(records.largest, [*weights, *gradients]))


def repeated(alone: Run, ranks: Run) -> float:
    """Return the share of the divisible work that every rank repeated: 0 if the ranks divide the work, 1 if each rank
    does all of it; also 0 if no work could be counted."""
    passes = alone.facts[0]["passes"]
    feeding = {str(place) for place, each in enumerate(passes) if each["feeds"] and not each["guessed"]} | {""}
    what = "products" if _sum(alone.facts[0]["products"], feeding) else "results"
    once = _sum(alone.facts[0][what], feeding)
    of_ranks = sum(_sum(facts[what], feeding) for facts in ranks.facts)
    return (of_ranks / once - 1) / (len(ranks.facts) - 1) if once else 0.0


def _unsplit(facts: dict[str, Any]) -> str:
    """Return the reason why the script cannot be divided among ranks; "" if it can."""
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


def _sum(amounts: dict[str, float], keys: set[str]) -> float:
    return sum(amount for key, amount in amounts.items() if key in keys)


def _kind(fits: list[dict[str, Any]], yard: float, world: int) -> tuple[str, bool]:
    """Return how the ranks' gradients relate to the gradient of the whole batch, and whether everything else agrees."""
    numbers = [[each for each, empty in zip(fit["numbers"], fit["empty"]) if not empty] for fit in fits]
    if max(fit["residual"] for fit in fits) >= MOST_LEFT:
        if yard >= MOST_ROUNDING:
            return "chance", False
        return "part" if sum(numbers[0]) > (1 + world) / 2 else "statistics", False
    if all(_near(a, b) for fit in fits for a, b in zip(fit["numbers"], fit["shares"])):
        return "later", False
    if all(_near(each, 1.0) for fit in numbers for each in fit):
        return "sum", True
    weights = all(_near(sum(fit), 1.0) for fit in numbers)
    return "weights" if weights else "function", weights


def _near(first: float, other: float) -> bool:
    return abs(first - other) < MOST_LEFT
