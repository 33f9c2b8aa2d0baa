"""A place: where the runs of a stack are made, and all that depends on it. The config key `target` names one.

To add one: a class in a folder of its own, an entry here, its name among the targets of `infra.settings.key` with the
keys that it has, and a file in `stacks`. Nothing else asks which place it is.
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
    """What a place has made."""

    @property
    def results(self) -> Mapping[str, pulumi.Output[str]]:
        """The summary of each run's result, canonical JSON, by the run's name."""

    @property
    def outputs(self) -> Mapping[str, pulumi.Input[Any]]:
        """The stack's outputs beside the comparison, by name."""


class Place(Judge, Surroundings, RayReserve, Protocol):
    """What it judges of settings, tells of its machines, and holds idle is asked where that is needed; and this."""

    @property
    def target(self) -> Target:
        """Its name."""

    @property
    def holds_machine(self) -> bool:
        """An update needs this machine to itself, because its runs are here and cannot wait for others."""

    def prepare(self, settings: Settings) -> Settings:
        """Look, clear and bring back what an update needs, before its first resource: RunError where it can't be made.

        A preview changes nothing, and goes on where nothing answers. Gives the settings with what was found out.
        """

    def build(self, settings: Settings, runs: Sequence[RunPlan]) -> Ground:
        """Declare the components, and the runs in them."""

    def doctor(self, settings: Settings) -> "Iterator[Finding]":
        """What a stack needs of this machine and the place, for people."""


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
"""Each is loaded when it is chosen: what one needs, the others do without."""


def choose(target: str) -> Place:
    """The place of that name."""
    return PLACES[target]()


def cluster_of(target: str) -> "ClusterPlace":
    """The place of that name, for what looks into its cluster; ValueError for one that has none."""
    from infra.places.cluster.place import ClusterPlace

    place = choose(target)
    if not isinstance(place, ClusterPlace):
        raise ValueError(f"target {target} has no cluster")
    return place
