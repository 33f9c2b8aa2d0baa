"""`make set workers=3`: changes a setting in the stack's file, for good; `make set workers=` removes it.

As `pulumi config set` and `rm`, but without pulumi on PATH and without its salt in a file that git tracks.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping

from cli.setup.project import DEFAULT_STACK, ToolError, checked_stack_name, project_name, run_main, say
from cli.setup.usage import OF_EVERY_TARGET, typed
from cli.stack import config as stack_config
from cli.stack import edit
from cli.stack.lines import for_make
from infra.settings.removed import REMOVED
from infra.settings.table import every_key

EXAMPLE = "make set workers=3 epochs=8    (nothing after = removes it)"


def main() -> int:
    """Change what make's command line names, in the stack of STACK."""
    stack = checked_stack_name(os.environ.get("STACK") or DEFAULT_STACK)
    typed_values = typed(os.environ.get("MAKEFLAGS", ""))
    values = checked(stack, {key: text for key, text in typed_values.items() if key not in (*OF_EVERY_TARGET, "STACK")})
    path = edit.put(stack, values)
    for key, value in values.items():
        say(f"stacks/{path.name}: {key} = {value}" if value else f"stacks/{path.name}: {key} is not set any more")
    return 0


def checked(stack: str, typed_values: Mapping[str, str]) -> dict[str, str | None]:
    """The values, None for a key to remove; ToolError for an unknown key, and for a value that its rule refuses."""
    known = every_key()
    present = {key.removeprefix(f"{project_name()}:") for key in stack_config.config_of(stack)}
    if not typed_values:
        raise ToolError(f"nothing to set: {EXAMPLE}")
    for key, text in typed_values.items():
        if key in REMOVED and (text or key not in present):
            raise ToolError(REMOVED[key].refusal(key))
        if key not in known and (text or key not in present):
            close = difflib.get_close_matches(key, known, n=1)
            raise ToolError(f"{key} is no setting" + (f"; did you mean {close[0]}?" if close else f": {EXAMPLE}"))
        if text and known[key].secret:
            raise ToolError(for_make(f"{key} is a secret:\n  pulumi config set --secret {key}", stack, {}))
        try:
            known[key].rule.parse(text) if text else None
        except ValueError:
            raise ToolError(f"{key} = {text}: allowed is {known[key].rule.allowed}") from None
    return {key: text or None for key, text in typed_values.items()}


if __name__ == "__main__":
    run_main(main)
