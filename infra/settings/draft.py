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
"""A check yields the problems that it finds in a draft. It stops when it reads a field whose text was wrong."""


@dataclass(frozen=True, kw_only=True)
class NoSettings:
    """The settings of a workload that has no settings except its recipe."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Settings that are not checked yet. Reading a field whose text was wrong raises UnparsedKeyError.

    Each workload has a subclass with the types of its `recipe` and `own`.
    """

    facts: Facts
    usable_target: Target
    """The target whose defaults apply; `local` if the text of `target` is wrong."""
    workload: str
    """The workload whose keys apply; the first workload if the text of `workload` is wrong."""
    problems: tuple[Problem, ...]
    """The problems of single keys."""
    texts: Mapping[str, str]
    keys: Mapping[str, Key]
    """The keys that a stack with this workload can have."""
    values: Mapping[str, Any]
    """The parsed values by key, for code that has the key's name as data. A key that could not be parsed is absent."""
    choice: ChoiceSettings
    recipe: Recipe
    """The recipe as set, without derived values, which `recipe_of` adds."""
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
        """Return the stack's target. Raise UnparsedKeyError if its text is wrong."""
        return self.choice.target

    def applies(self, key: str) -> bool:
        """Return whether a key has an effect on the target."""
        return self.target in self.keys[key].targets

    def is_set(self, key: str) -> bool:
        """Return whether a key has a value other than its default. True for a secret key, because only the engine can
        decrypt its value."""
        if key in self.facts.secret_keys:
            return True
        return self.texts.get(key, "").strip() not in ("", self.keys[key].default_for(self.usable_target))

    def shown(self, key: str) -> str:
        """Return `key = value` for a message: the value as set, or the default. Secret values are hidden."""
        default = self.keys[key].default_for(self.usable_target)
        text = self.texts.get(key, "").strip() or default
        if key in self.facts.secret_keys or (self.keys[key].secret and text != default):
            return f"{key} = [secret]"
        if not text:
            return f"{key} not set ({self.keys[key].derived})"
        return f"{key} = {short(text)}" + (" (the default)" if text == default else "")

    def changed(self, *, secret: bool = False) -> dict[str, str]:
        """Return the texts that differ from their key's default, by key. Secrets, and addresses that contain a
        password, are left out unless `secret` is true."""
        texts = {key: text for key in self.keys if (text := self.texts.get(key, "").strip())}
        return {
            key: text
            for key, text in texts.items()
            if text != self.keys[key].default_for(self.usable_target)
            and (secret or (key not in self.facts.secret_keys and not _ADDRESS_WITH_PASSWORD.search(text)))
        }

    def path(self, text: str | None) -> Path | None:
        """Return the path on this machine that a setting's text means; a relative one starts at the project's folder.
        None if the text means no path on this machine."""
        if not text or self.in_storage(text):
            return None
        return self.facts.folder / os.path.expanduser(text)  # noqa: PTH111 (Path's raises for an unknown ~user)

    def in_storage(self, text: str | None) -> str | None:
        """Return the address in storage, in a bucket or the pods' claim, that a setting's text means; None if none."""
        address = (text or "").rstrip("/")
        if "://" in address:
            return address
        is_in_claim = address.startswith(f"{MOUNTED}/") and self.target in CLUSTER and self.storage.address == CLAIM
        return address if is_in_claim else None

    def lines_for_storage(self) -> tuple[str, ...]:
        """Return the command lines that give the stack a storage; empty on a target without storage."""
        if self.target in LOCAL:
            return (set_line("storage", "kept"),)
        lines = [set_line(name, self.keys[name].example) for name in ("storage", "storageRole")]
        return (" && ".join(lines),) if self.applies("storage") else ()


def run_checks(draft: Draft, checks: Iterable[Check]) -> list[Problem]:
    """Return the problems that the checks find. A check that reads a key which could not be parsed stops there."""
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
    """Return whether the path is a folder whose files can be listed; False for a broken link or a link to itself."""
    try:
        return path.is_dir() and os.access(path, os.R_OK | os.X_OK)
    except (OSError, ValueError):  # no permission on the way there, a name too long, a NUL
        return False
