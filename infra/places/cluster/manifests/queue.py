"""A queue of Kueue's, in which the RayCluster and the Jobs of runs wait for quota. Pure: dicts, no Pulumi.

Kueue is the platform's. Its webhook suspends an object with the queue's label until there is quota for all its pods. It
reads the object's own labels: nothing of a queue is in a pod's template.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
QUEUE_PATH = f'metadata.labels["{QUEUE_LABEL}"]'
"""The path of the queue's label, by which Pulumi compares it: a changed queue replaces the RayCluster and every Job.
Kueue refuses another queue for an object that is not suspended. If the change were ignored, a Job that replaces another
Job would get the old queue, too. And another queue may mean other nodes, on which the same measurement would
continue."""
REPLACE_ON = ("spec", QUEUE_PATH)
"""Parts of a RayCluster in a queue whose changes replace the RayCluster. Kueue owns its `workerGroupSpecs`, and takes a
RayCluster of another size for another workload, so Kueue would suspend the RayCluster after it was ready."""


@dataclass(frozen=True)
class Queue:
    """A LocalQueue of Kueue, and the most minutes that an object may wait in this queue."""

    name: str
    minutes: int

    @property
    def labels(self) -> dict[str, str]:
        """Return the label that puts an object into the queue."""
        return {QUEUE_LABEL: self.name}

    @property
    def seconds(self) -> int:
        """Return the most seconds that an object may wait in the queue."""
        return 60 * self.minutes


def canonical(part: Any) -> Any:
    """Return a part of a manifest with each quantity as Kubernetes' own programs write it, for example 1 instead of
    1000m.

    Kueue rewrites the whole RayCluster when Kueue admits it. Without canonical quantities, each update would find other
    quantities than it had declared.
    """
    if isinstance(part, list):
        return [canonical(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        key: {name: _quantity(amount) for name, amount in value.items()} if key in _AMOUNTS
        else _quantity(value) if key == "sizeLimit"
        else canonical(value)
        for key, value in part.items()
    }  # fmt: skip


_AMOUNTS = ("limits", "requests")
_BINARY = {"Ei": 2**60, "Pi": 2**50, "Ti": 2**40, "Gi": 2**30, "Mi": 2**20, "Ki": 2**10}
_DECIMAL = {"E": 10**18, "P": 10**15, "T": 10**12, "G": 10**9, "M": 10**6, "k": 10**3}


def _quantity(text: str) -> str:
    """Return a quantity in its canonical form. Source:
    https://pkg.go.dev/k8s.io/apimachinery/pkg/api/resource#Quantity."""
    from kubernetes.utils import parse_quantity

    amount: Decimal = parse_quantity(text)
    if amount != int(amount):
        return f"{int(amount * 1000)}m"
    whole, units = int(amount), _BINARY if text.endswith("i") else _DECIMAL
    return next((f"{whole // size}{unit}" for unit, size in units.items() if whole and not whole % size), str(whole))
