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
    """The place where a stack's runs execute. It checks settings, and offers these methods."""

    @property
    def target(self) -> Target:
        """Return the place's name."""

    @property
    def trains_here(self) -> bool:
        """Return whether runs are processes of this machine."""

    @property
    def holds_machine(self) -> bool:
        """Return whether an update needs this machine for itself: its runs are here, and cannot wait for others."""

    def site(self, settings: Settings) -> S:
        """Return what is known about the place from the settings alone."""

    def survey(self, settings: Settings) -> S:
        """Inspect the place, clean up and restore what an update needs, before its first resource is created. Return
        the site with what was found. Raise RunError if the update cannot start.

        A preview changes nothing, and continues if the place does not answer.
        """

    def declare(self, settings: Settings, site: S, runs: Sequence[RunPlan]) -> Ground:
        """Declare the place's components and the runs in them, and return them."""

    def doctor(self, settings: Settings) -> Iterator[Finding]:
        """Yield the findings about what a stack needs from this machine and from the place."""


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
"""The places by name, each imported only when chosen: a target does not need what others depend on."""


def choose(target: str) -> Place[Any]:
    """Return the place of that name."""
    return PLACES[target]()


def settings_of(values: Mapping[str, str], facts: Facts) -> Settings:
    """Return the settings made from config texts by key, checked together with their place. Raise InvalidSettingsError,
    which lists all problems, if they cannot be used."""
    draft = read(values, facts)
    return checked(draft, choose(draft.usable_target))


def cluster_of(target: str) -> "ClusterPlace":
    """Return the place with this name, for programs that inspect its cluster. Raise ValueError without a cluster."""
    from infra.places.cluster.place import ClusterPlace

    place = choose(target)
    if not isinstance(place, ClusterPlace):
        raise ValueError(f"target {target} has no cluster")
    return place
