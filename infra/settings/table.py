"""Every config key by name, made from the fields of the sections and of the workloads' recipes.

The tables of the docs, the declarations in Pulumi.yaml and the parsing are made from this.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass
from functools import cache
from importlib import import_module
from typing import Any

from infra.settings.cluster import ClusterSettings
from infra.settings.draft import Check, Draft, NoSettings
from infra.settings.key import CLUSTER, LOCAL, TARGETS, Key, keys_in
from infra.settings.sections import (
    ChoiceSettings,
    ComparisonSettings,
    LocalSettings,
    RaySettings,
    RunSettings,
    StorageSettings,
)
from training.contract.recipe import WORKLOADS
from training.contract.workload import Installed, named

OF_WORKLOAD = {"cnn": "infra.settings.cnn", "script": "infra.settings.script"}
"""Modules with a workload's settings in addition to its recipe, `OWN`; only the chosen one is loaded."""
SECTIONS: dict[str, type[Any]] = {
    "run": RunSettings,
    "storage": StorageSettings,
    "local": LocalSettings,
    "comparison": ComparisonSettings,
    "cluster": ClusterSettings,
    "ray": RaySettings,
}
"""The sections that do not depend on the workload, by the field of `Draft`, in the order of the docs."""


@dataclass(frozen=True, kw_only=True)
class OfWorkload:
    """A workload's settings in addition to its recipe."""

    section: type[Any] = NoSettings
    """Keys in addition to the recipe's; a key of the same name replaces the recipe's."""
    draft: type[Draft] = Draft
    """The subclass with the types of recipe and section."""
    checks: tuple[Check, ...] = ()
    """The checks between its keys."""
    checks_where: Callable[[Installed], tuple[Check, ...]] = lambda _: ()
    """Returns checks that depend on the packages of the pods' image; None if its runs are on this machine."""
    recipe: Callable[[Any], Mapping[str, Any]] = lambda _: {}
    """Returns recipe keys whose value other keys determine, from a draft."""
    secrets: Callable[[Any], Mapping[str, str]] = lambda _: {}
    """Returns the secret variables of its runs, from a draft."""


def of_workload(name: str) -> OfWorkload:
    """Return a workload's settings in addition to its recipe; empty for one that is not in `OF_WORKLOAD`."""
    own: OfWorkload = import_module(OF_WORKLOAD[name]).OWN if name in OF_WORKLOAD else OfWorkload()
    return own


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _recipe_key(name: str, field: Field[Any]) -> Key:
    """Return a recipe's field as a config key."""
    assert field.default is not MISSING  # noqa: S101 - every field of a recipe has a default
    words, on_cluster = field.metadata["derived"], field.metadata["on_cluster"]
    return Key(
        name=name,
        rule=field.metadata["rule"],
        help=field.metadata["help"],
        default="" if words else _as_text(field.default),
        defaults={} if on_cluster is None else dict.fromkeys(CLUSTER, _as_text(on_cluster)),
        example=field.metadata["example"],
        derived=words,
        unset=field.default if words else None,
        targets=LOCAL if field.metadata["local_only"] else TARGETS,
    )


_CHOICES = keys_in(ChoiceSettings)
_COMMON = {name: key for section in SECTIONS.values() for name, key in keys_in(section).items()}


def _own_keys(workload: str) -> dict[str, Key]:
    """Return the keys of a recipe, and of its workload."""
    recipe = {name: _recipe_key(name, field) for name, field in named(workload).recipe.settings().items()}
    return recipe | {"workload": _CHOICES["workload"]} | keys_in(of_workload(workload).section)


@cache
def keys_of(workload: str) -> Mapping[str, Key]:
    """Return the keys of a stack that trains this workload, by name; no other workload is loaded."""
    return {"target": _CHOICES["target"]} | _own_keys(workload) | _COMMON


@cache
def every_key() -> Mapping[str, Key]:
    """Return every key by name, in the order of the docs."""
    own: dict[str, Key] = {}
    for workload in WORKLOADS:
        own = _own_keys(workload) | own
    in_order = {name: own[name] for workload in WORKLOADS for name in _own_keys(workload)}
    return {"target": _CHOICES["target"]} | in_order | _COMMON
