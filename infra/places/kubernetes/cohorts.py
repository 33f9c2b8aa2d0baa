"""How much of a resource a ClusterQueue may ever use, with what its cohort lends. Pure: objects as Kueue keeps them.

Counted as Kueue counts it while nobody uses anything. ClusterQueues and Cohorts are a tree: each keeps for itself what
is above its lendingLimit, lends the rest to its parent, and takes from there what its borrowingLimit permits. Source:
potentialAvailable in https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/cache/scheduler/resource_node.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

UNLIMITED = float("inf")
QUEUE, COHORT = "ClusterQueue", "Cohort"

Object = Mapping[str, Any]
FlavorResource = tuple[str, str]
"""The names of a flavor and of one of its resources."""
Node = tuple[str, str]
"""Kind and name of a ClusterQueue, or of a Cohort: also of one without an object, which others name."""


class CohortCycleError(ValueError):
    """Cohorts that are each other's parents: Kueue admits nothing in them. The message has their names."""


@dataclass(frozen=True)
class Quota:
    """The quota of one resource: CPUs, bytes or a number."""

    nominal: float = 0.0
    lending: float = UNLIMITED
    borrowing: float = UNLIMITED


class Cohorts:
    """The ClusterQueues and Cohorts of a cluster."""

    def __init__(self, queues: Iterable[Object], cohorts: Iterable[Object]) -> None:
        of_queues = {(QUEUE, str(each["metadata"]["name"])): each for each in queues}
        items: dict[Node, Object] = of_queues | {(COHORT, str(each["metadata"]["name"])): each for each in cohorts}
        self._quotas = {node: quotas(item) for node, item in items.items()}
        self._parents = {node: (COHORT, name) for node, item in items.items() if (name := parent_of(item))}
        self._children: dict[Node, list[Node]] = {}
        for child, parent in self._parents.items():
            self._children.setdefault(parent, []).append(child)

    def most(self, queue: str, of: FlavorResource) -> float:
        """Return how much of a flavor's resource a ClusterQueue may ever use. Raises CohortCycleError."""
        above: list[str] = []
        node: Node | None = self._parents.get((QUEUE, queue))
        while node:
            if node[1] in above:
                raise CohortCycleError(", ".join(above))
            above.append(node[1])
            node = self._parents.get(node)
        return self._most((QUEUE, queue), of)

    def _most(self, node: Node, of: FlavorResource) -> float:
        if node not in self._parents:
            return self._own(node, of)
        reachable = self._kept(node, of) + self._most(self._parents[node], of)
        return min(reachable, self._own(node, of) + self._quota(node, of).borrowing)

    def _own(self, node: Node, of: FlavorResource) -> float:
        """Return its quota, and what its children lend."""
        lent = sum(self._own(child, of) - self._kept(child, of) for child in self._children.get(node, ()))
        return self._quota(node, of).nominal + lent

    def _kept(self, node: Node, of: FlavorResource) -> float:
        """Return what it lends to nobody."""
        return max(0.0, self._own(node, of) - self._quota(node, of).lending)

    def _quota(self, node: Node, of: FlavorResource) -> Quota:
        return self._quotas.get(node, {}).get(of, Quota())


def parent_of(item: Object) -> str:
    """Return the name of the cohort that a ClusterQueue or a Cohort is in; "" for none. Kueue's older API names it
    otherwise."""
    spec = item.get("spec", {})
    return str(next(filter(None, (spec.get(key) for key in ("cohortName", "cohort", "parentName"))), ""))


def quotas(item: Object) -> dict[FlavorResource, Quota]:
    """Return the quotas of a ClusterQueue, or of a Cohort itself."""
    return {
        (str(flavor["name"]), str(each["name"])): Quota(
            _amount(each.get("nominalQuota"), 0.0),
            _amount(each.get("lendingLimit")),
            _amount(each.get("borrowingLimit")),
        )
        for group in item.get("spec", {}).get("resourceGroups", ())
        for flavor in group["flavors"]
        for each in flavor["resources"]
    }


def _amount(text: str | None, otherwise: float = UNLIMITED) -> float:
    from kubernetes.utils import parse_quantity

    return otherwise if text is None else float(parse_quantity(text))
