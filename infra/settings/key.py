"""What is known about one config key, and the targets it may be for. The keys themselves: `infra.settings.table`."""

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
"""Where the environment of a run is what this project makes it."""
RAY: tuple[Target, ...] = ("ray",)
LOCAL: tuple[Target, ...] = ("local",)


@dataclass(frozen=True, kw_only=True)
class Key:
    """One config key."""

    name: str
    rule: Rule
    help: str
    default: str = ""
    """What holds when the key is not set; empty: `unset`, or something derived that `derived` describes."""
    defaults: Mapping[Target, str] = field(default_factory=dict)
    """Defaults of targets that differ from `default`."""
    example: str = ""
    """A value that works; empty: the default is one."""
    derived: str = ""
    unset: Any = None
    """The value when there is neither a setting nor a default."""
    targets: tuple[Target, ...] = TARGETS
    """The targets for which the key means something."""
    secret: bool = False
    """Its value is encrypted: it is typed at a prompt, never on a line."""

    def default_for(self, target: Target) -> str:
        """The default as text; empty when it is derived or there is none."""
        return self.defaults.get(target, self.default)

    def declared_default(self) -> str:
        """The default as Pulumi.yaml can say it, which knows no targets."""
        return "" if self.defaults else self.default

    def value_that_works(self, target: Target) -> str:
        """A value to show in a message."""
        return self.example or self.default_for(target)
