"""The properties in which clusters differ. Loads nothing, as settings are judged before any provider is loaded."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Traits:
    """The properties in which clusters differ, if resources of the stack depend on them."""

    owned: bool
    """Whether the stack creates the cluster. If so, everything in it is deleted with it, and objects that an
    interrupted update left are adopted."""
    pod_range: str | None
    """The range of the pods' addresses, which may not use the dashboard's node port. None if there is no such port."""
