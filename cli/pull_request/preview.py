"""The difference between two previews, resource by resource and property by property. Pure: `pulumi preview --json` in.

A preview against an empty state shows only creates; what a pull request changes is the difference between that of its
base and that of its head.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cli.setup.project import ToolError

SECRET = "4dabf18193072939515e22adb298388d"  # noqa: S105 - the key by which Pulumi's JSON marks a value of its own kind
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
LONGEST = 160
"""Most characters of a value that are shown."""

_ABSENT = object()
_CONTEXT_LINES = 1
_HASH = re.compile(r"[0-9a-f]{40,64}")
_NOT_MADE = ("delete", "delete-replaced", "discard")


class PreviewError(ToolError):
    """A file does not contain a valid preview."""


@dataclass(frozen=True)
class Preview:
    """The resources that a commit creates from an empty state."""

    resources: dict[str, dict[str, Any]]
    """By resource (`type name`), in the engine's order: properties by dotted path."""
    error: str = ""
    """Why there is no preview, in the words of Pulumi's engine; "" if there is one."""


@dataclass(frozen=True)
class Difference:
    """The differences between the previews of base and head, as diff lines by resource."""

    added: dict[str, list[str]]
    removed: dict[str, list[str]]
    changed: dict[str, list[str]]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def read_preview(text: str) -> Preview:
    """Return the preview that `pulumi preview --json` printed. Raise PreviewError for any other text."""
    try:
        data = json.loads(text)
        steps = data.get("steps") or []
        resources = {_name(step["urn"]): _properties(step) for step in steps if step["op"] not in _NOT_MADE}
        problems = [
            item["message"].strip().removeprefix("error: ")
            for item in data.get("diagnostics") or []
            if item["severity"] == "error"
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PreviewError(f"no preview, but {text.strip()[:60]!r}: {error}") from None
    return Preview(resources, "\n".join(dict.fromkeys(problems)))


def _name(urn: str) -> str:
    """Return the type and the name in a URN, without the types of parents, such as `training:Run ray-1`."""
    types, _, name = urn.split("::", 2)[-1].partition("::")
    return f"{types.rpartition('$')[2]} {name}"


def _properties(step: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_flat("", (step.get("newState") or {}).get("inputs") or {}))


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a value, each with its dotted path. A text that is a JSON object is parsed first."""
    value = _parsed(value)
    if isinstance(value, dict) and value and SECRET not in value:
        for key, item in value.items():
            yield from _flat(f"{path}.{key}" if path else key, item)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _flat(f"{path}[{index}]", item)
    else:
        yield path, _plain(value)


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _plain(value: Any) -> Any:
    """Return the value, or a placeholder for a secret, which each preview encrypts anew, or an unknown value."""
    if isinstance(value, dict) and SECRET in value:
        return "[secret]"
    return "[computed]" if value == UNKNOWN else value


def difference(base: Preview, head: Preview) -> Difference:
    """Return the resources that the head adds, removes and changes."""
    both = [name for name in head.resources if name in base.resources]
    changed = {name: list(_changes(base.resources[name], head.resources[name])) for name in both}
    return Difference(
        added={name: list(_changes({}, of)) for name, of in head.resources.items() if name not in base.resources},
        removed={name: list(_changes(of, {})) for name, of in base.resources.items() if name not in head.resources},
        changed={name: lines for name, lines in changed.items() if lines},
    )


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for path in [*old, *(path for path in new if path not in old)]:
        before, after = old.get(path, _ABSENT), new.get(path, _ABSENT)
        if before == after and type(before) is type(after):
            continue
        if isinstance(before, str) and isinstance(after, str) and "\n" in before + after:
            yield from _changed_lines(path, before, after)
            continue
        if before is not _ABSENT:
            yield f"- {path}: {_shown(before)}"
        if after is not _ABSENT:
            yield f"+ {path}: {_shown(after)}"


def _changed_lines(path: str, before: str, after: str) -> Iterator[str]:
    """Yield only the differing lines of a text of several lines, for example a script."""
    yield f"  {path}:"
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=_CONTEXT_LINES, lineterm="")
    for line in list(lines)[2:]:
        yield f"{line[0]}   {_cut(line[1:])}" if line[0] in "+- " else "  …"


def _shown(value: Any) -> str:
    """Return a value as JSON in one line, with hashes shortened."""
    if isinstance(value, str) and _HASH.fullmatch(value):
        return f'"{value[:12]}…"'
    return _cut(json.dumps(value, ensure_ascii=False))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
