"""Reads config values key by key, and explains those that cannot be used. Needs no Pulumi.

Not here: the checks between keys (`infra.settings.checks`).
"""

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.settings.key import Key, Target
from infra.settings.table import keys_of
from training.contract.arms import counted
from training.contract.recipe import WORKLOADS

_LONGEST_SHOWN = 200
_ALSO_OF_PROVIDERS = {"environment", "kubeconfig", "namespace"}
"""Keys that providers also have, as in `kubernetes:namespace`: alone they do not indicate a project of that name."""
_ADDRESS_WITH_PASSWORD = re.compile(r"://[^/\s]*@")


@dataclass(frozen=True)
class Facts:
    """The facts that settings depend on in addition to their values: the stack and this machine."""

    project: str
    stack: str
    folder: Path
    """The project's folder, which relative paths start from."""
    cpus_allowed: int
    physical_cores: int
    memory_bytes: int
    secret_keys: frozenset[str] = frozenset()
    """Keys set with --secret, whose values no message may show."""
    dashboard_installed: bool = True
    """Whether the packages of Ray's dashboard can be imported here."""
    tracking_installed: bool = True
    """Whether MLflow's client can be imported here."""
    cpu_quota: float | None = None
    """The CPUs that a quota of this machine or container allows; None without a quota."""
    cores_by_kind: tuple[int, ...] = ()
    """Physical cores of the allowed CPUs, by kind, the fastest first; empty if the system does not report them."""
    lacks_bfloat16: bool = False
    """Whether the CPU is known to have no instructions for it."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """The keys that Pulumi.yaml declares, with their defaults, which the engine passes as if they had been set."""
    elsewhere: frozenset[str] = frozenset()
    """Keys with other prefixes than the project's name, as `aws:region`, which are not read."""
    set_twice: tuple[str, ...] = ()
    """Keys that the stack's file has twice, bare and with the project's name."""


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


class UnparsedKeyError(KeyError):
    """A key without a value, because its text is wrong: that is reported already, so dependent checks stop."""


@dataclass(frozen=True)
class Draft:
    """Parsed values by key; a key that could not be parsed is absent."""

    facts: Facts
    target: Target
    texts: Mapping[str, str]
    keys: Mapping[str, Key]
    """The keys of the chosen workload."""
    values: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        """Return a key's value. Raises UnparsedKeyError if its text could not be parsed."""
        if key in self.keys and key not in self.values:
            raise UnparsedKeyError(key)
        return self.values[key]

    def get(self, key: str) -> Any:
        """Return a key's value; None also for a key that the workload does not have."""
        return self.values.get(key)

    def shown(self, key: str) -> str:
        """Return `key = value` as set, or the default."""
        default = self.keys[key].default_for(self.target)
        text = self.texts.get(key, "").strip() or default
        if key in self.facts.secret_keys:
            return f"{key} = [secret]"
        if not text:
            return f"{key} not set ({self.keys[key].derived})"
        return f"{key} = {_shown(text)}" + (" (the default)" if text == default else "")

    def changed(self, *, secret: bool = False) -> dict[str, str]:
        """The texts that are not their key's default, by key; without secrets, also those that an address holds.

        `secret`: with them.
        """
        texts = {key: text for key in self.keys if (text := self.texts.get(key, "").strip())}
        return {
            key: text
            for key, text in texts.items()
            if text != self.keys[key].default_for(self.target)
            and (secret or (key not in self.facts.secret_keys and not _ADDRESS_WITH_PASSWORD.search(text)))
        }


def set_line(key: str, value: object) -> str:
    """Return the command line that sets a key; `--` ends the flags before a value that begins with -."""
    text = str(value)
    return f"pulumi config set {key} {'-- ' if text.startswith('-') else ''}{shlex.quote(text)}"


def _line_that_works(name: str, key: Key, target: Target) -> str:
    """Return the line that sets a valid value; if that is the default, it removes the key from the file."""
    value = key.value_that_works(target)
    return f"pulumi config rm {name}" if value == key.default_for(target) else set_line(name, value)


def secret_line(key: str) -> str:
    """Return the line that prompts for a value, which keeps it out of the shell's history and the stack's file."""
    return f"pulumi config set --secret {key}"


def stack_file(stack: str) -> str:
    """Return the path of a stack's settings, relative to the project's folder."""
    return f"stacks/Pulumi.{stack}.yaml"


def _shown(text: str) -> str:
    """Return a value on one line of limited length, with unprintable characters escaped."""
    line = text if text.isprintable() else ascii(text)
    return line if len(line) <= _LONGEST_SHOWN else f"{line[:_LONGEST_SHOWN]}… ({len(text)} characters)"


def read(values: Mapping[str, str], facts: Facts) -> tuple[Draft, list[Problem]]:
    """Parse every key by its own rule. A key with an empty text counts as not set: Pulumi.yaml declares it so."""
    draft = Draft(facts, _target(values), values, keys_of(_workload(values)))
    others = sorted(set(values) - set(draft.keys))
    problems = list(_undeclared([key for key in others if key not in facts.declared], draft))
    problems += [_of_another_workload(key, draft) for key in others if _is_set(key, draft)]
    problems += [*_of_other_projects(draft), *(_twice(key, facts) for key in facts.set_twice)]
    unset = {"workload": _workload(values)}
    for name, key in draft.keys.items():
        text = values.get(name, "").strip() or key.default_for(draft.target)
        try:
            draft.values[name] = key.rule.parse(text) if text else unset.get(name, key.unset)
        except ValueError:
            fix = secret_line(name) if key.secret else _line_that_works(name, key, draft.target)
            problems.append(Problem(draft.shown(name), key.rule.allowed, (fix,)))
    return draft, problems


def _workload(values: Mapping[str, str]) -> str:
    """Return the workload whose keys apply; a wrong one is reported with the other keys."""
    name = values.get("workload", "").strip() or ("script" if values.get("script", "").strip() else "")
    return name if name in WORKLOADS else WORKLOADS[0]


def _target(values: Mapping[str, str]) -> Target:
    """Return the target whose defaults apply; a wrong one is reported with the other keys."""
    key = keys_of(_workload(values))["target"]
    try:
        target: Target = key.rule.parse(values.get("target", "").strip() or key.default)
    except ValueError:
        return "local"
    return target


def _is_set(key: str, draft: Draft) -> bool:
    """Return whether a key that this workload does not have was set to another value than its declared default."""
    declared = draft.facts.declared
    return key in declared and draft.texts[key].strip() not in ("", declared[key])


def _of_another_workload(key: str, draft: Draft) -> Problem:
    return Problem(
        _shown_text(key, draft),
        f"not with workload {_workload(draft.texts)}",
        (f"pulumi config rm {key}",),
        why="it is a setting of another workload, so it would have no effect",
    )


def _of_other_projects(draft: Draft) -> Iterator[Problem]:
    """Refuse our keys under another project's name, as in stack files after the project was renamed.

    Pulumi keeps them and passes them to nobody, so every default would apply, and something else would be measured.
    """
    ours = draft.facts.declared.keys() | draft.keys.keys()
    keys = {name: _keys_of_namespace(name, draft) & ours for name in {_namespace(key) for key in draft.facts.elsewhere}}
    for name in sorted(name for name in keys if keys[name] - _ALSO_OF_PROVIDERS):
        named = [f"{name}:{key}" for key in sorted(keys[name])]
        yield Problem(
            f"{', '.join(named)}: set for a project {name}",
            f"keys of this project, {draft.facts.project}, or keys without a project's name, which are its own",
            (rf"sed -i.bak 's/^\(  *\){name.replace('.', '[.]')}:/\1/' stacks/Pulumi.*.yaml && rm stacks/*.bak",),
            why="Pulumi.yaml has another name than these keys, so they would have no effect",
        )


def _twice(key: str, facts: Facts) -> Problem:
    file = shlex.quote(stack_file(facts.stack))
    return Problem(
        f"{key} and {facts.project}:{key} both stand in {file}",
        "one of them",
        (f"sed -i.bak '/^  *{key}:/d' {file} && rm {file}.bak",),
        why="they are the same key, of which Pulumi takes either value, by chance",
    )


def _namespace(key: str) -> str:
    return key.rpartition(":")[0]


def _keys_of_namespace(name: str, draft: Draft) -> set[str]:
    return {key.rpartition(":")[2] for key in draft.facts.elsewhere if _namespace(key) == name}


def _shown_text(key: str, draft: Draft) -> str:
    """Return `key = value` of a key that has no rule here."""
    return f"{key} = {'[secret]' if key in draft.facts.secret_keys else _shown(draft.texts[key].strip())}"


def _undeclared(keys: list[str], draft: Draft) -> Iterator[Problem]:
    """Refuse unknown keys, and those of earlier versions with what took their place: one problem for one new key."""
    if not keys:
        return
    from infra.settings.removed import REMOVED, REPLACEMENTS, fixing_line  # a stack of this version has none

    yield from (_unknown(key, draft) for key in keys if key not in REMOVED)
    for replacement in REPLACEMENTS:
        texts = {key: draft.texts[key].strip() for key in replacement.keys if key in keys}
        if texts:
            shown = ", ".join(_shown_text(key, draft) for key in texts)
            public = {key: text.strip() for key, text in draft.texts.items() if key not in draft.facts.secret_keys}
            line = fixing_line(replacement, texts, public, draft.facts.stack)
            yield Problem(shown, replacement.instead, (line,), why=replacement.why)


def _unknown(key: str, draft: Draft) -> Problem:
    known = {name.lower(): name for name in (*draft.keys, *draft.facts.declared)}
    close = [known[name] for name in difflib.get_close_matches(key.lower(), known, n=1)]
    allowed = f"a known key; did you mean {close[0]}?" if close else f"a known key: {', '.join(known.values())}"
    instead = [set_line(close[0], draft.texts[key])] if close and key not in draft.facts.secret_keys else []
    remove = f"pulumi config rm {shlex.quote(key)}"
    return Problem(
        _shown_text(key, draft),
        allowed,
        (" && ".join([remove, *instead]),),
        why=f"{key} is not known, so it would have no effect",
    )
