"""What a check of settings reads: the typed sections, the texts as they were set, facts of the stack and the machine.

Not here: how the texts are parsed (`infra.settings.table`), and the checks (`infra.settings.settings`).
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.settings.cluster import ClusterSettings
from infra.settings.facts import Facts
from infra.settings.key import CLUSTER, LOCAL, Key, Target, UnparsedKeyError
from infra.settings.problem import Problem, set_line
from infra.settings.rules import CLAIM, MOUNTED
from infra.settings.sections import (
    ChoiceSettings,
    ComparisonSettings,
    LocalSettings,
    RaySettings,
    RunSettings,
    StorageSettings,
)
from training.contract.recipe import Recipe

_LONGEST_SHOWN = 200
_ADDRESS_WITH_PASSWORD = re.compile(r"://[^/\s]*@")
Check = Callable[[Any], Iterator[Problem]]
"""Yields what is wrong with a draft; it ends at a field whose text was wrong."""


@dataclass(frozen=True, kw_only=True)
class NoSettings:
    """The settings of a workload that has none but its recipe."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Settings that are not checked yet. To read a field whose text was wrong raises UnparsedKeyError.

    A workload's own subclass has the types of its `recipe` and `own`.
    """

    facts: Facts
    usable_target: Target
    """The target, or `local` where its text is wrong: its defaults apply."""
    workload: str
    """The workload, or the first one where its text is wrong: its keys apply."""
    problems: tuple[Problem, ...]
    """What is wrong with single keys."""
    texts: Mapping[str, str]
    keys: Mapping[str, Key]
    """The keys of the workload."""
    values: Mapping[str, Any]
    """The parsed values by key, for keys that are named by data; a key that could not be parsed is absent."""
    choice: ChoiceSettings
    recipe: Recipe
    """The recipe as set; `recipe_of` adds the derived values."""
    own: Any
    """The workload's settings in addition to its recipe."""
    run: RunSettings
    storage: StorageSettings
    local: LocalSettings
    comparison: ComparisonSettings
    cluster: ClusterSettings
    ray: RaySettings

    @property
    def target(self) -> Target:
        """Return the target. Raises UnparsedKeyError if its text is wrong."""
        return self.choice.target

    def applies(self, key: str) -> bool:
        """Return whether a key has an effect on the target."""
        return self.target in self.keys[key].targets

    def is_set(self, key: str) -> bool:
        """Return whether a key has a value other than its default; true for a secret, which only an engine decrypts."""
        if key in self.facts.secret_keys:
            return True
        return self.texts.get(key, "").strip() not in ("", self.keys[key].default_for(self.usable_target))

    def shown(self, key: str) -> str:
        """Return `key = value` as set, or the default."""
        default = self.keys[key].default_for(self.usable_target)
        text = self.texts.get(key, "").strip() or default
        if key in self.facts.secret_keys or (self.keys[key].secret and text != default):
            return f"{key} = [secret]"
        if not text:
            return f"{key} not set ({self.keys[key].derived})"
        return f"{key} = {short(text)}" + (" (the default)" if text == default else "")

    def changed(self, *, secret: bool = False) -> dict[str, str]:
        """Return the texts that are not their key's default, by key; without secrets, also those that an address holds.

        `secret`: with them.
        """
        texts = {key: text for key in self.keys if (text := self.texts.get(key, "").strip())}
        return {
            key: text
            for key, text in texts.items()
            if text != self.keys[key].default_for(self.usable_target)
            and (secret or (key not in self.facts.secret_keys and not _ADDRESS_WITH_PASSWORD.search(text)))
        }

    def path(self, text: str | None) -> Path | None:
        """Return the path on this machine that a setting names, relative to the project's folder; None if it names
        none."""
        if not text or self.in_storage(text):
            return None
        return self.facts.folder / os.path.expanduser(text)  # noqa: PTH111 (Path's raises for an unknown ~user)

    def in_storage(self, text: str | None) -> str | None:
        """Return the address in storage that a setting names: a bucket's, or a path in the pods' claim; None for
        neither."""
        address = (text or "").rstrip("/")
        if "://" in address:
            return address
        is_in_claim = address.startswith(f"{MOUNTED}/") and self.target in CLUSTER and self.storage.address == CLAIM
        return address if is_in_claim else None

    def lines_for_storage(self) -> tuple[str, ...]:
        """Return the lines that give a stack storage; empty on a target that has none."""
        if self.target in LOCAL:
            return (set_line("storage", "kept"),)
        lines = [set_line(name, self.keys[name].example) for name in ("storage", "storageRole")]
        return (" && ".join(lines),) if self.applies("storage") else ()


def run_checks(draft: Draft, checks: Iterable[Check]) -> list[Problem]:
    """Return the problems that the checks find; a check stops at a key that could not be parsed."""
    problems: list[Problem] = []
    for check in checks:
        with suppress(UnparsedKeyError):
            problems.extend(check(draft))
    return problems


def short(text: str) -> str:
    """Return a value on one line of limited length, with unprintable characters escaped."""
    line = text if text.isprintable() else ascii(text)
    return line if len(line) <= _LONGEST_SHOWN else f"{line[:_LONGEST_SHOWN]}… ({len(text)} characters)"


def is_readable(path: Path | None) -> bool:
    """Return whether the path is a file or folder that can be read."""
    try:
        return path is not None and path.exists() and os.access(path, os.R_OK)
    except (OSError, ValueError):  # no permission on the way there, a name too long
        return False


def is_readable_folder(path: Path) -> bool:
    """Return whether the path is a folder whose files can be listed; false for a broken link, or one in a circle."""
    try:
        return path.is_dir() and os.access(path, os.R_OK | os.X_OK)
    except (OSError, ValueError):  # no permission on the way there, a name too long, a NUL
        return False
