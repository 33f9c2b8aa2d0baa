"""The description of one config key, and the targets it applies to. The keys themselves: `infra.settings.table`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from training.contract.rules import Rule

Target = Literal["local", "minikube", "kubernetes", "ray"]
TARGETS: tuple[Target, ...] = get_args(Target)
CLUSTER: tuple[Target, ...] = ("minikube", "kubernetes")
MINIKUBE: tuple[Target, ...] = ("minikube",)
KUBERNETES: tuple[Target, ...] = ("kubernetes",)
OWN_PROCESSES: tuple[Target, ...] = ("local", "minikube", "kubernetes")
"""Targets on which this project determines the environment of a run."""
RAY: tuple[Target, ...] = ("ray",)
LOCAL: tuple[Target, ...] = ("local",)


@dataclass(frozen=True, kw_only=True)
class Key:
    """One config key."""

    name: str
    rule: Rule
    help: str
    default: str = ""
    """The text used if the key is not set; if empty, `unset`, or a derived value that `derived` describes."""
    defaults: Mapping[Target, str] = field(default_factory=dict)
    """Defaults of targets that differ from `default`."""
    example: str = ""
    """A valid value; empty if the default is one."""
    derived: str = ""
    unset: Any = None
    """The value if there is neither a setting nor a default."""
    targets: tuple[Target, ...] = TARGETS
    """The targets on which the key has an effect."""
    secret: bool = False
    """Whether its value is encrypted: it is typed at a prompt, never on a line."""

    def default_for(self, target: Target) -> str:
        """Return the default as text; empty if it is derived or there is none."""
        return self.defaults.get(target, self.default)

    def declared_default(self) -> str:
        """Return the default for Pulumi.yaml, which knows no targets."""
        return "" if self.defaults else self.default

    def value_that_works(self, target: Target) -> str:
        """Return a valid value to show in a message."""
        return self.example or self.default_for(target)
