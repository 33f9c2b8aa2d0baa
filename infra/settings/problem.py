"""What is wrong with a stack's settings or with its place, and the command lines that fix it."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from training.contract.arms import counted


@dataclass(frozen=True)
class Problem:
    """Why a setting is refused, and how to fix it. Any one of `fixes` is enough."""

    what: str
    allowed: str
    fixes: tuple[str, ...] = ()
    why: str = ""

    def __str__(self) -> str:
        lines = [f"  {self.what}", f"    allowed: {self.allowed}"]
        lines += [f"    why:     {self.why}"] if self.why else []
        lines += [f"    {'fix' if n == 0 else 'or'}:".ljust(13) + fix for n, fix in enumerate(self.fixes)]
        return "\n".join(lines)


@dataclass(frozen=True)
class Unfit:
    """A requirement that the place does not meet, with command lines that each fix it.

    It concerns a machine and not the settings: a warning at preview, which may run elsewhere, and refused at `up`.
    """

    what: str
    ways: tuple[str, ...]
    liftable: bool = False
    """Whether `allowOversubscription` makes it a warning."""

    def __str__(self) -> str:
        helps = "any of these helps" if len(self.ways) > 1 else "this helps"
        return "\n  ".join([f"{self.what}; {helps}:", *self.ways])


class InvalidSettingsError(ValueError):
    """Settings that cannot be used; the message lists all problems."""

    def __init__(self, stack: str, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = counted(len(self.problems), "problem")
        text = "\n\n".join(str(problem) for problem in self.problems)
        super().__init__(f"{count} in the settings of stack {stack}; nothing was changed.\n\n{text}\n")


def set_line(key: str, value: object) -> str:
    """Return the command line that sets a key; `--` ends the flags before a value that begins with -."""
    text = str(value)
    return f"pulumi config set {key} {'-- ' if text.startswith('-') else ''}{shlex.quote(text)}"


def secret_line(key: str) -> str:
    """Return the line that prompts for a value, which keeps it out of the shell's history and the stack's file."""
    return f"pulumi config set --secret {key}"


def stack_file(stack: str) -> str:
    """Return the path of a stack's settings, relative to the project's folder."""
    return f"stacks/Pulumi.{stack}.yaml"
