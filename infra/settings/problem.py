"""What is wrong with a stack's settings or with its place, and the command lines that fix it."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from training.contract.arms import counted


@dataclass(frozen=True)
class Problem:
    """What prevents a measurement, and how to fix it. Any one of `fixes` is enough.

    A problem of the settings has `allowed`, and is refused at preview. A problem without `allowed` concerns a machine
    or a cluster: it is a warning at preview, which may run on another machine, and refused at `up`.
    """

    what: str
    allowed: str = ""
    fixes: tuple[str, ...] = ()
    why: str = ""
    liftable: bool = False
    """Whether the setting `allowOversubscription` turns the problem into a warning."""

    def __str__(self) -> str:
        # Half of a surrogate pair, which YAML can write, could not be printed.
        return self._text().encode(errors="backslashreplace").decode()

    def _text(self) -> str:
        if not self.allowed:
            return "\n  ".join([f"{self.what}:" if self.fixes else self.what, *self.fixes])
        lines = [f"  {self.what}", f"    allowed: {self.allowed}"]
        lines += [f"    why:     {self.why}"] if self.why else []
        lines += [f"    {'fix' if n == 0 else 'or'}:".ljust(13) + fix for n, fix in enumerate(self.fixes)]
        return "\n".join(lines)

    def advice(self) -> str:
        """Return the problem as a sentence, followed by its fixes, one in each line."""
        helps = "any of these helps" if len(self.fixes) > 1 else "this helps"
        return "\n  ".join([f"{self.what}; {helps}:", *self.fixes])


class InvalidSettingsError(ValueError):
    """Raised if settings cannot be used; the message lists all problems."""

    def __init__(self, stack: str, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = counted(len(self.problems), "problem")
        text = "\n\n".join(str(problem) for problem in self.problems)
        super().__init__(f"{count} in the settings of stack {stack}; nothing was changed.\n\n{text}\n")


def set_line(key: str, value: object) -> str:
    """Return the command line that sets a key. Before a value that begins with -, `--` ends the flags."""
    text = str(value)
    return f"pulumi config set {key} {'-- ' if text.startswith('-') else ''}{shlex.quote(text)}"


def secret_line(key: str) -> str:
    """Return the command line that prompts for a secret value, which keeps it out of the shell's history."""
    return f"pulumi config set --secret {key}"
