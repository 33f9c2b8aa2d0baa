"""The properties in which clusters differ. Loads nothing, as settings are judged before any provider is loaded."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Traits:
    """The properties in which clusters differ, as far as their resources depend on them."""

    owned: bool
    """Whether the stack creates the cluster: everything in it is deleted with it, and what an interrupted update left
    is adopted."""
    pod_range: str | None
    """The range of pod addresses, which may not use the dashboard's node port. None if it has no node port."""
