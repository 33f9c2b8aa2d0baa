"""How a config key is defined: a field of a section, made with `setting`. Sections are frozen dataclasses.

Parsing, the tables of the docs and the declarations of Pulumi.yaml are made from the sections' fields
(`infra.settings.table`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal, NoReturn, TypeVar, cast, get_args

from training.contract.recipe import camel
from training.contract.rules import Rule

S = TypeVar("S")
Target = Literal["local", "minikube", "kubernetes", "ray"]
TARGETS: tuple[Target, ...] = get_args(Target)
CLUSTER: tuple[Target, ...] = ("minikube", "kubernetes")
MINIKUBE: tuple[Target, ...] = ("minikube",)
KUBERNETES: tuple[Target, ...] = ("kubernetes",)
OWN_PROCESSES: tuple[Target, ...] = ("local", "minikube", "kubernetes")
"""The targets on which this project determines the environment of a run's processes."""
RAY: tuple[Target, ...] = ("ray",)
LOCAL: tuple[Target, ...] = ("local",)
OF_S3, OF_BUCKETS, OF_CLAIMS = "s3://…", "s3://… or gs://…", "pvc"
"""Kinds of storage that a key may belong to."""


@dataclass(frozen=True, kw_only=True)
class Key:
    """One config key."""

    name: str = ""
    """The key's name; empty in the field of a section if it is the field's name in camelCase."""
    rule: Rule
    help: str
    default: str = ""
    """The text that applies if the key is not set; if empty, the value is `unset`, or as `derived` describes."""
    defaults: Mapping[Target, str] = field(default_factory=dict)
    """The defaults on the targets where they differ from `default`."""
    example: str = ""
    """A valid value; empty if the default is valid."""
    derived: str = ""
    unset: Any = None
    """The value if the key is not set and has no default."""
    targets: tuple[Target, ...] = TARGETS
    """The targets on which the key has an effect. On other targets the key is accepted, so that a stack may change its
    target; if it must be refused there, another check does so."""
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The key without which this one has no effect, with the values of it that give this one an effect: no values if
    every value but the default does, and kinds of storage for `storage`. A check of the place or of all settings tells
    users; the docs have both keys in one section."""
    harmless: bool = False
    """Whether the value may be shown to strangers although its rule does not say so, as a name of a cluster's object
    may."""
    secret: bool = False
    """Whether the value is encrypted. If so, users type it at a prompt, and never on a command line."""

    @property
    def may_be_shown(self) -> bool:
        """Return whether the value may be shown to strangers: it is a number, a switch, a name from a list, or
        `harmless`."""
        return not self.secret and (self.harmless or self.rule.harmless)

    def default_for(self, target: Target) -> str:
        """Return the default as text; empty if the value is derived, or if there is no default."""
        return self.defaults.get(target, self.default)

    def declared_default(self) -> str:
        """Return the default for Pulumi.yaml; empty if it depends on the target, which that file cannot express."""
        return "" if self.defaults else self.default

    def value_that_works(self, target: Target) -> str:
        """Return a valid value to show in a message."""
        return self.example or self.default_for(target)


def setting(default: str, rule: Rule, help_text: str, **more: Any) -> Any:
    """Return a dataclass field that defines a key of a section. `more` are further attributes of `Key`."""
    key = Key(default=default, rule=rule, help=help_text, **more)
    return field(repr=not key.secret, metadata={"key": key})


def keys_in(section: type[Any]) -> dict[str, Key]:
    """Return the keys that a section defines, by name, in the order of its fields."""
    keys = [replace(key, name=key.name or camel(name)) for name, key in _key_fields(section).items()]  # type: ignore[arg-type]
    return {key.name: key for key in keys}


@cache
def _key_fields(section: Any) -> dict[str, Key]:
    """Return the keys that a section defines, unchanged and so perhaps without `name`, by field."""
    return {each.name: each.metadata["key"] for each in fields(section) if "key" in each.metadata}


class UnparsedKeyError(KeyError):
    """Raised if a key has no value because its text is wrong, which is reported: checks that read it stop."""


class _Unparsed:
    """Stands in a section for a field whose text was wrong, and raises UnparsedKeyError when it is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise UnparsedKeyError(self._name)


def section_of(kind: type[S], values: Mapping[str, Any]) -> S:
    """Return a section made from values by key. Reading a field of it that has no value raises UnparsedKeyError."""
    names = {name: key.name or camel(name) for name, key in _key_fields(kind).items()}  # type: ignore[arg-type]
    return with_unparsed(kind, {name: values[key] for name, key in names.items() if key in values}, names)


def with_unparsed(kind: type[S], values: Mapping[str, Any], names: Mapping[str, str]) -> S:
    """Return an object of a frozen dataclass with `values`, by field. Each field in `names` without a value raises
    UnparsedKeyError when it is read."""
    unparsed = {name: _Unparsed(key) for name, key in names.items() if name not in values}
    if not unparsed:
        return kind(**values)
    section: Any = object.__new__(type(kind.__name__, (kind,), unparsed))
    section.__dict__.update(values)
    return cast(S, section)
