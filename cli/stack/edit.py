"""Changes keys in a stack's file, as text: comments and order stay, and nothing else is written there."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import yaml

from cli.setup.project import ToolError, project_name, shown_file, stack_file, stack_text
from cli.stack import config as stack_config

_FIRST_KEY = re.compile(r"^config:.*\n(?:[ ]*(?:#.*)?\n)*( +)[^\s#]", re.MULTILINE)
_COMMENTED = re.compile(r"""\s*(?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[^\s'"#].*?)?(\s+#.*)$""")
"""Matches an optional value, plain or in quotes, and its comment, which begins with `#` after a blank."""


def put(stack: str, values: Mapping[str, str | None]) -> Path:
    """Set these keys in the stack's file, remove the keys whose value is None, and return the file's path. Raise
    ToolError if the file does not exist or cannot be changed."""
    before = stack_config.config_of(stack)
    path = stack_file(stack)
    project = project_name()
    text = with_values(stack_text(stack), values, {key.removeprefix(f"{project}:") for key in before})
    named = {name for key in values for name in (key, f"{project}:{key}")}
    kept = {key: value for key, value in before.items() if key not in named}
    wanted = {**kept, **{key: value for key, value in values.items() if value is not None}}
    if _config(text) != wanted:
        lines = "\n".join(_line(key, value) for key, value in values.items() if value is not None)
        removed = ", ".join(key for key, value in values.items() if value is None)
        what = f"put these into its config:\n{lines}" if lines else f"remove {removed} from it"
        raise ToolError(f"{shown_file(path)} has a form that is not written into; {what}")
    with path.open("rb") as file:
        has_crlf = file.readline().endswith(b"\r\n")
    _write_whole(path, text, "\r\n" if has_crlf else "\n")
    return path


def _write_whole(path: Path, text: str, newline: str) -> None:
    """Replace the file in one step, because with a full disk a plain write would leave only its first lines. Raise
    ToolError if the file cannot be written."""
    file = path.resolve()  # it may be a link
    partial = file.with_suffix(".partial")
    try:
        partial.write_text(text, encoding="utf-8", newline=newline)
        shutil.copymode(file, partial)
        partial.replace(file)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise ToolError(f"{shown_file(path)} can't be written ({error.strerror}); it is as it was") from None


def _config(text: str) -> object:
    """Return the mapping `config` of a YAML text, empty if it has none; None if the text is not valid YAML."""
    try:
        return (yaml.safe_load(text) or {}).get("config") or {}
    except yaml.YAMLError:
        return None


def _line(key: str, value: str, indent: str = "  ") -> str:
    return f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}"


def _comment(value: str) -> str:
    """Return the comment on a value's first line, with the blanks before it; "" if there is none."""
    match = _COMMENTED.match(value.partition("\n")[0])
    return match[1] if match else ""


def with_values(text: str, values: Mapping[str, str | None], present: set[str]) -> str:
    """Return the text of a stack's file with these values set. A line of a key in `present` is replaced, or removed if
    the value is None; any other key is added at the start of `config`."""
    indent = match[1] if (match := _FIRST_KEY.search(text)) else "  "
    new = []
    for key, value in values.items():
        line = "" if value is None else f"{_line(key, value, indent)}\n"
        if key in present:
            name = rf"{indent}(?:{re.escape(project_name())}:)?{re.escape(key)}"
            # With the lines of its value, as `secure: …` of a secret, which are indented by more.
            pattern = re.compile(rf"^{name}:.*(?:\n|\Z)(?:(?: *\n)*{indent} +\S.*(?:\n|\Z))*", re.MULTILINE)
            if line and (before := pattern.search(text)):
                line = f"{line.rstrip()}{_comment(before[0].partition(f'{key}:')[2])}\n"
            text = pattern.sub(lambda _, line=line: line, text, count=1)  # type: ignore[misc]  # bound now
        elif line:
            new.append(line)
    head = re.compile(r"^config:.*(?:\n|\Z)", re.MULTILINE)
    if not head.search(text):
        text = f"{text.rstrip()}\nconfig:\n".lstrip()
    return head.sub(lambda match: "".join(["config:\n" if new else match[0], *new]), text, count=1)
