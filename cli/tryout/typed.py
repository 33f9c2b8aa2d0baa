"""A script, and how it is to run, as it was typed or as a stack's keys say it. Nothing is checked here."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from training.machine.command_line import from_there, quoted, rwi
from training.workloads.script import recipe

KEYS = ("script", "scriptArguments", "scriptKind", "python", "environment", "workers")
"""Keys of a stack that describe a script and how to run it."""


@dataclass(frozen=True, kw_only=True)
class Typed:
    """A script and how to run it, as it was typed. An empty field was not typed."""

    script: str = ""
    """The path of the script; as all paths here, relative to the project's folder."""
    arguments: tuple[str, ...] = ()
    python: str = ""
    kind: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The variables that the script needs in addition to those of every run."""
    workers: int | None = None

    @classmethod
    def of_keys(cls, texts: Mapping[str, str]) -> "Typed":
        """Return the script that a stack's keys describe. Raise ValueError for keys that are wrong."""
        return cls(
            script=texts.get("script", ""),
            arguments=tuple(shlex.split(texts.get("scriptArguments", ""))),
            python=texts.get("python", ""),
            kind=texts.get("scriptKind", ""),
            variables=recipe.variables(texts.get("environment", "")),
            workers=int(texts.get("workers") or 0) or None,
        )

    def line(self, command: str, options: Sequence[str] = ()) -> str:
        """Return the command line that runs `command` with these fields."""
        words = [command, *([quoted(from_there(self.script))] if self.script else [])]
        words += ["--python", quoted(from_there(self.python))] if self.python else []
        words += ["--workers", str(self.workers)] if self.workers else []
        words += ["--kind", self.kind] if self.kind else []
        for name, value in self.variables.items():
            words += ["--env", quoted(f"{name}={value}")]
        arguments = ["--", *map(quoted, self.arguments)] if self.arguments else []
        return rwi(" ".join([*words, *options, *arguments]))
