"""Reads a stack's comparison without Pulumi, whose start takes longer: from the state, or from what Pulumi returned.

The output is a secret for its length alone (docs/adr/0003). While its ciphertext in the state is the same, so is it.
"""

from __future__ import annotations

import json
from contextlib import suppress

from cli.setup.project import STATE, ToolError, project_name
from cli.stack import environment, state
from compare.measurement import CompareError
from compare.schema import Comparison
from report import table, terminal
from training.contract.codec import write_whole

_KEPT = STATE / "comparisons"
"""The folder with one file for each stack, which holds a comparison and the value that the state has for it."""


def show(comparison: str, *, as_json: bool) -> int:
    """Print the comparison as a table, or only as JSON."""
    if as_json:
        print(comparison)
        return 0
    try:
        terminal.write(table.render(Comparison.from_json(comparison)))
    except CompareError as error:
        raise ToolError(str(error)) from None
    return 0


def known(stack: str) -> str | None:
    """Return the comparison of a stack as JSON text; None if only Pulumi can tell it."""
    stored = in_state(stack)
    if stored is None or isinstance(stored, str):
        return stored
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads((_KEPT / f"{stack}.json").read_text(encoding="utf-8"))
        return str(kept["comparison"]) if kept["stored"] == stored else None
    return None


def in_state(stack: str) -> object:
    """Return the comparison as the state has it: a text, or an encrypted secret; None if that cannot be read."""
    backend = environment.file_backend()
    return state.output(backend, project_name(), stack, "comparison") if backend else None


def keep(stack: str, stored: object, comparison: str | None) -> None:
    """Write the comparison that Pulumi returned to a file, unless the state's value has changed meanwhile."""
    if comparison is None or not isinstance(stored, dict) or stored != in_state(stack):
        return
    with suppress(OSError):  # it is asked again
        _KEPT.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(_KEPT / f"{stack}.json", json.dumps({"stored": stored, "comparison": comparison}))
