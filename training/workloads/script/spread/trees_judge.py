"""The rule of the proof for XGBoost and LightGBM: what the trees of ranks are, against those of one process."""

from __future__ import annotations

from typing import Any

from .records import Run

MOST_LEAVES = 1e-4
"""Largest difference between leaves that sums in another order can make, as a share of the largest leaf."""


CAUSES: dict[str, dict[str, bool]] = {
    "quantile sketch of the parts": {"statistics": False},
    "mean of the parts' means": {"statistics": False, "mean": True},
}
"""Kinds of difference between trees, each with the settings of runs in which that difference is gone; the last applies
only to LightGBM."""


class Judge:
    """Decides from runs of a script whether its ranks grow the same trees as its single process."""

    def __init__(self, runs: Any) -> None:
        """Keep `runs`, and start no run yet."""
        self._start, self._wait, self._world = runs.start, runs.wait, runs.world
        self.evidence: dict[str, Any] = {}

    def outcome(self) -> dict[str, Any]:
        """Return `equal`, `named` (the trees of ranks differ, with a name for how) or `bound` (ranks are not possible,
        or the proof came to no end), with the evidence; `failed` if the script fails as a single process."""
        alone, ranks = self._both("", statistics=True)
        facts = alone.facts[0]
        self._facts: dict[str, Any] = {name: facts[name] for name in ("framework", "unsplit") if name in facts}
        if alone.ended and (alone.error or not facts):
            return {"outcome": "failed", "reason": alone.error}
        if error := alone.error or ranks.error:
            return self._say(
                "bound", reason="ranks fail" if alone.ended and ranks.ended else "not in time", error=error
            )
        if not facts["trained"] or facts.get("unsplit"):
            return self._say("bound", reason=facts.get("unsplit", "no train"))
        rows = [facts["rows"], sum(each["rows"] for each in ranks.facts)]
        self._facts["rounds"] = facts["rounds"]
        self.evidence |= {"rows": rows, "metrics": [facts["metrics"], ranks.facts[0]["metrics"]]}
        if rows[0] != rows[1]:
            return self._say("bound", reason="not split", number=rows[1] / rows[0])
        if self._equal("trees", alone, ranks):
            return self._say("equal", number=self.evidence["trees"]["leaves"])
        return self._named(facts)

    def _named(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return an outcome that names why ranks' trees differ: rows drawn by chance, or bins or means of parts."""
        number = self.evidence["trees"]
        if facts["chance"]:
            return self._say("named", kind="chance", number=number, elseAgrees=False, chance=facts["chance"])
        for kind, settings in CAUSES.items():
            alone, ranks = self._both(f"-{len(settings)}", **settings)
            if error := alone.error or ranks.error:
                self.evidence[kind] = error
            elif self._equal(kind, alone, ranks):
                return self._say("named", kind=kind, number=number, elseAgrees=True)
            if facts["framework"] != "lightgbm":
                break
        return self._say("named", kind="other trees", number=number, elseAgrees=False)

    def _both(self, name: str, **settings: Any) -> tuple[Run, Run]:
        alone, ranks = self._start(f"alone{name}", 1, **settings), self._start(f"ranks{name}", self._world, **settings)
        self._wait(alone, ranks)
        return alone, ranks

    def _equal(self, name: str, alone: Run, ranks: Run) -> bool:
        """Return whether all ranks have the trees of the single process."""
        apart = [_apart(alone.facts[0], each) for each in ranks.facts]
        self.evidence[name] = {key: max(each[key] for each in apart) for key in apart[0]}
        return not self.evidence[name]["splits"] and bool(self.evidence[name]["leaves"] < MOST_LEAVES)

    def _say(self, outcome: str, **more: Any) -> dict[str, Any]:
        return {"outcome": outcome, **more, "plan": self._facts, "evidence": self.evidence}


def _apart(alone: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    """Return how many splits differ, of how many, and the largest difference of leaves as a share of the largest."""
    pairs = list(zip(alone["splits"], other["splits"]))
    unlike = sum(a != b for a, b in pairs) + abs(len(alone["splits"]) - len(other["splits"]))
    largest = max((abs(leaf) for leaf in alone["leaves"]), default=0.0) or 1.0
    leaves = max((abs(a - b) for a, b in zip(alone["leaves"], other["leaves"])), default=0.0) / largest
    return {"splits": unlike, "of": len(alone["splits"]), "leaves": leaves}
