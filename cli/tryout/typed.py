"""A script, and how it is to run, as it was typed or as a stack's keys say it. Nothing is checked here."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from training.machine.command_line import from_there, quoted, rwi
from training.workloads.script import recipe

KEYS = ("script", "scriptArguments", "scriptKind", "python", "environment", "workers")
"""Of a stack, that say what is typed."""


@dataclass(frozen=True, kw_only=True)
class Typed:
    """A script, and how it is to run, as it was typed; what is empty was not."""

    script: str = ""
    """Paths are relative to the project's folder."""
    arguments: tuple[str, ...] = ()
    python: str = ""
    kind: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the script needs beside what every run may have."""
    workers: int | None = None

    @classmethod
    def of_keys(cls, texts: Mapping[str, str]) -> "Typed":
        """Return what a stack's keys say of a script. Raises ValueError."""
        return cls(
            script=texts.get("script", ""),
            arguments=tuple(shlex.split(texts.get("scriptArguments", ""))),
            python=texts.get("python", ""),
            kind=texts.get("scriptKind", ""),
            variables=recipe.variables(texts.get("environment", "")),
            workers=int(texts.get("workers") or 0) or None,
        )

    def line(self, command: str, options: Sequence[str] = ()) -> str:
        """Return the same again, as one types it."""
        words = [command, *([quoted(from_there(self.script))] if self.script else [])]
        words += ["--python", quoted(from_there(self.python))] if self.python else []
        words += ["--workers", str(self.workers)] if self.workers else []
        words += ["--kind", self.kind] if self.kind else []
        for name, value in self.variables.items():
            words += ["--env", quoted(f"{name}={value}")]
        arguments = ["--", *map(quoted, self.arguments)] if self.arguments else []
        return rwi(" ".join([*words, *options, *arguments]))
