"""The protocol of a place: where a stack's runs execute, and all that depends on it. The config key `target` names one.

To add one: a class in a folder of its own, an entry here, its name among the targets of `infra.settings.key` with its
keys, and a file in `stacks`. No other code depends on which place it is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pulumi

from infra.outputs import RayReserve
from infra.plan import RunPlan, Surroundings
from infra.settings.key import Target
from infra.settings.settings import Judge, Settings

if TYPE_CHECKING:
    from infra.doctor import Finding
    from infra.places.cluster.place import ClusterPlace


class Ground(Protocol):
    """The resources that a place has declared."""

    @property
    def results(self) -> Mapping[str, pulumi.Output[str]]:
        """The summary of each run's result, canonical JSON, by the run's name."""

    @property
    def outputs(self) -> Mapping[str, pulumi.Input[Any]]:
        """The stack's outputs in addition to the comparison, by name."""


class Place(Judge, Surroundings, RayReserve, Protocol):
    """Where a stack's runs execute. In addition to the three protocols above it offers:"""

    @property
    def target(self) -> Target:
        """The place's name."""

    @property
    def holds_machine(self) -> bool:
        """Whether an update needs this machine to itself, because its runs are here and cannot wait for others."""

    def prepare(self, settings: Settings) -> Settings:
        """Inspect, clean up and restore what an update needs, before its first resource. Raises RunError if it cannot
        start.

        A preview changes nothing, and continues without an answer. Returns the settings with what was determined.
        """

    def build(self, settings: Settings, runs: Sequence[RunPlan]) -> Ground:
        """Declare the components, and the runs in them."""

    def doctor(self, settings: Settings) -> "Iterator[Finding]":
        """Yield the findings about what a stack needs of this machine and the place."""


def _local() -> Place:
    from infra.places.local.place import Local

    return Local()


def _minikube() -> Place:
    from infra.places.minikube.place import MinikubePlace

    return MinikubePlace()


def _kubernetes() -> Place:
    from infra.places.kubernetes.place import ExistingCluster

    return ExistingCluster()


def _ray() -> Place:
    from infra.places.ray.place import ExistingRay

    return ExistingRay()


PLACES: dict[str, Callable[[], Place]] = {
    "local": _local,
    "minikube": _minikube,
    "kubernetes": _kubernetes,
    "ray": _ray,
}
"""Imported lazily, so that one target's dependencies are not needed by the others."""


def choose(target: str) -> Place:
    """Return the place of that name."""
    return PLACES[target]()


def cluster_of(target: str) -> "ClusterPlace":
    """Return the place of that name, for programs that inspect its cluster. Raises ValueError if it has none."""
    from infra.places.cluster.place import ClusterPlace

    place = choose(target)
    if not isinstance(place, ClusterPlace):
        raise ValueError(f"target {target} has no cluster")
    return place
