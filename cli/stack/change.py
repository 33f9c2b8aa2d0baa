"""`rwi set workers=3`: changes a setting in the stack's file, for good; `rwi set workers=` removes it.

As `pulumi config set` and `rm`, but without pulumi on PATH and without its salt in a file that git tracks.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from cli.setup.project import ToolError, project_name, say, shown_file
from cli.stack import config as stack_config
from cli.stack import edit
from cli.stack.lines import for_rwi
from infra.settings.table import every_key
from training.machine.command_line import rwi

EXAMPLE = "set workers=3 epochs=8    (nothing after = removes it)"


def change(stack: str, typed: Mapping[str, str]) -> int:
    """Write these settings into the stack's file, print each change, and return the exit status 0."""
    values = checked(stack, typed)
    path = edit.put(stack, values)
    for key, value in values.items():
        say(f"{shown_file(path)}: {key} = {value}" if value else f"{shown_file(path)}: {key} is not set any more")
    return 0


def checked(stack: str, typed_values: Mapping[str, str]) -> dict[str, str | None]:
    """Return the values by key, None for a key to remove. Raise ToolError for an unknown or secret key, and for a value
    that the rule of the key refuses."""
    known = every_key()
    present = {key.removeprefix(f"{project_name()}:") for key in stack_config.config_of(stack)}
    for key, text in typed_values.items():
        if text or key not in present:
            refuse_unknown(key, EXAMPLE)
        if text and known[key].secret:
            raise ToolError(for_rwi(f"{key} is a secret:\n  pulumi config set --secret {key}", stack, {}))
        if text:
            refuse_wrong(key, text)
    return {key: text or None for key, text in typed_values.items()}


def refuse_unknown(key: str, example: str) -> None:
    """Raise ToolError if `key` is not a setting; the message suggests the most similar key, else `example`."""
    if key not in every_key():
        close = difflib.get_close_matches(key, every_key(), n=1)
        raise ToolError(f"{key} is no setting" + (f"; did you mean {close[0]}?" if close else f": {rwi(example)}"))


def refuse_wrong(key: str, text: str, hint: str = "") -> None:
    """Raise ToolError if the rule of the setting `key` refuses the value `text`."""
    known = every_key()[key]
    try:
        known.rule.parse(text)
    except ValueError:
        shown = "[secret]" if known.secret else text
        raise ToolError(f"{key} = {shown}: allowed is {known.rule.allowed}{hint}") from None
