"""The protocol of a place: where a stack's runs execute, and all that depends on it. The config key `target` names one.

To add one: a class in a folder of its own, an entry here, its name among the targets of `infra.settings.key` with its
keys, and a file in `stacks`. No other code depends on which place it is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from infra.doctor import Finding
from infra.outputs import Ground
from infra.plan import RunPlan, Site
from infra.settings.facts import Facts
from infra.settings.key import Target
from infra.settings.settings import Judge, Settings, checked
from infra.settings.table import read

if TYPE_CHECKING:
    from infra.places.cluster.place import ClusterPlace

S = TypeVar("S", bound=Site)


class Place(Judge, Protocol[S]):
    """Where a stack's runs execute. In addition to its checks of the settings it offers:"""

    @property
    def target(self) -> Target:
        """Return the place's name."""

    @property
    def trains_here(self) -> bool:
        """Return whether runs are processes of this machine."""

    @property
    def holds_machine(self) -> bool:
        """Return whether an update needs this machine to itself, because its runs are here and cannot wait for
        others."""

    def site(self, settings: Settings) -> S:
        """Return what the settings alone say of the place."""

    def survey(self, settings: Settings) -> S:
        """Inspect, clean up and restore what an update needs, before its first resource. Raises RunError if it cannot
        start.

        A preview changes nothing, and continues without an answer. Returns the site with what was determined.
        """

    def declare(self, settings: Settings, site: S, runs: Sequence[RunPlan]) -> Ground:
        """Declare the components, and the runs in them."""

    def doctor(self, settings: Settings) -> Iterator[Finding]:
        """Yield the findings about what a stack needs of this machine and the place."""


def _local() -> Place[Any]:
    from infra.places.local.place import Local

    return Local()


def _minikube() -> Place[Any]:
    from infra.places.minikube.place import MinikubePlace

    return MinikubePlace()


def _kubernetes() -> Place[Any]:
    from infra.places.kubernetes.place import ExistingCluster

    return ExistingCluster()


def _ray() -> Place[Any]:
    from infra.places.ray.place import ExistingRay

    return ExistingRay()


PLACES: dict[str, Callable[[], Place[Any]]] = {
    "local": _local,
    "minikube": _minikube,
    "kubernetes": _kubernetes,
    "ray": _ray,
}
"""Imported lazily, so that one target's dependencies are not needed by the others."""


def choose(target: str) -> Place[Any]:
    """Return the place of that name."""
    return PLACES[target]()


def settings_of(values: Mapping[str, str], facts: Facts) -> Settings:
    """Return settings from config texts by key, checked by their place. Raises InvalidSettingsError that lists all
    problems."""
    draft = read(values, facts)
    return checked(draft, choose(draft.usable_target))


def cluster_of(target: str) -> "ClusterPlace":
    """Return the place of that name, for programs that inspect its cluster. Raises ValueError if it has none."""
    from infra.places.cluster.place import ClusterPlace

    place = choose(target)
    if not isinstance(place, ClusterPlace):
        raise ValueError(f"target {target} has no cluster")
    return place
