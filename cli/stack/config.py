"""The copy of a stack's settings that `rwi` hands to pulumi, so that pulumi writes nothing into the file in git.

Only this call's values (`--set`) and what pulumi wrote into an earlier copy to decrypt secrets with are added.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from cli.setup.project import ROOT, STATE, ToolError, shown_file, stack_file, stack_text

FOLDER = STATE / "config"
_SECRETS = re.compile(r"^(?:encryptionsalt|encryptedkey|secretsprovider):.*$\n?", re.MULTILINE)
_MERGE = "tag:yaml.org,2002:merge"
_CONFIG_FOLDER = re.compile(r"^stackConfigDir:.*$\n?", re.MULTILINE)


def config_of(stack: str) -> dict[str, object]:
    """Return the mapping `config` of a stack's file, with its keys as they are written there. Raise ToolError if the
    file is not valid."""
    text = stack_text(stack)
    name = shown_file(stack_file(stack))
    example = 'write it as\nconfig:\n  workers: "2"'
    try:
        data = yaml.load(text, _StackLoader)  # noqa: S506 - made from the safe one
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise ToolError(f"{name}{line}: {getattr(error, 'problem', None) or 'no YAML'}; {example}") from None
    config = (data or {}).get("config") if isinstance(data or {}, dict) else data
    if not isinstance(config or {}, dict) or isinstance(data, list | str):
        raise ToolError(f"{name}: `config` is to hold keys and values; {example}")
    return config or {}


class _StackLoader(yaml.SafeLoader):
    """A YAML loader that refuses a key that is written twice, as Pulumi does, because one value would be lost. It reads
    keys such as `1` and `yes` as text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of a node. Raise ConstructorError with the place of a key that is there already."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is to be a name", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} stands there twice", key.start_mark)
            seen.add(key.value)
            if key.tag != _MERGE:
                key.tag = self.DEFAULT_SCALAR_TAG
        return super().construct_mapping(node, deep)


def copy_path(stack: str) -> Path:
    """Return the path of the copy of a stack's settings, which git ignores."""
    return FOLDER / f"Pulumi.{stack}.yaml"


def write_copy(settings: str, stack: str) -> Path:
    """Write the copy of the stack's settings anew, and return its path. The salt of an earlier copy is kept."""
    path = copy_path(stack)
    earlier = path.read_text(encoding="utf-8") if path.is_file() else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(with_secrets_of(settings, earlier), encoding="utf-8")
    partial.replace(path)
    return path


def with_secrets_of(settings: str, earlier: str) -> str:
    """Return the settings, after an earlier copy's lines that decrypt secrets if they have none themselves."""
    if _SECRETS.search(settings):
        return settings
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in _SECRETS.findall(earlier)) + settings


def overrides_command(overrides: Mapping[str, str]) -> list[str]:
    """Return the pulumi arguments that put the values into a settings file."""
    flags = (part for key, value in overrides.items() for part in ("--plaintext", f"{key}={value}"))
    return ["config", "set-all", *flags]


def write_init_project() -> Path:
    """Write a project file into a folder for `pulumi stack init`, and return the folder. That command writes a salt
    beside the project file, and no flag sets another place."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    project = (ROOT / "Pulumi.yaml").read_text(encoding="utf-8")
    (FOLDER / "Pulumi.yaml").write_text(_CONFIG_FOLDER.sub("", project), encoding="utf-8")
    return FOLDER
