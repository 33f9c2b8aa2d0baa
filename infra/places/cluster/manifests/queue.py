"""A queue of Kueue's, in which the RayCluster and the Jobs of runs wait for quota. Pure: dicts, no Pulumi.

Kueue is the platform's. Its webhook suspends an object with the queue's label until there is quota for all its pods. It
reads the object's own labels: nothing of a queue is in a pod's template.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
QUEUE_PATH = f'metadata.labels["{QUEUE_LABEL}"]'
"""Where Pulumi finds it. Kueue refuses another one of what is not suspended, so the RayCluster and every Job are
replaced. To ignore the change would give a Job that replaces another one the old queue, too; and another queue may mean
other nodes, on which one measurement would go on."""
REPLACE_ON = ("spec", QUEUE_PATH)
"""Changes of a RayCluster in a queue that replace it. Kueue owns its `workerGroupSpecs`, and takes one of another size
for another workload: it would be suspended after it was ready."""


@dataclass(frozen=True)
class Queue:
    """A LocalQueue, and how long one may wait in it."""

    name: str
    minutes: int

    @property
    def labels(self) -> dict[str, str]:
        """Return the label of what waits in it."""
        return {QUEUE_LABEL: self.name}

    @property
    def seconds(self) -> int:
        """Return the seconds that one may wait."""
        return 60 * self.minutes


def canonical(part: Any) -> Any:
    """Return a part of a manifest with each quantity as Kubernetes' own programs write it: 1000m as 1.

    Kueue writes a RayCluster whole when it admits it, and each update would find another one than it had declared.
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
    """Source: https://pkg.go.dev/k8s.io/apimachinery/pkg/api/resource#Quantity, its canonical form."""
    from kubernetes.utils import parse_quantity

    amount: Decimal = parse_quantity(text)
    if amount != int(amount):
        return f"{int(amount * 1000)}m"
    whole, units = int(amount), _BINARY if text.endswith("i") else _DECIMAL
    return next((f"{whole // size}{unit}" for unit, size in units.items() if whole and not whole % size), str(whole))
