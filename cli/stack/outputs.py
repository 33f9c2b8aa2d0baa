"""Prints a stack's comparison: from its state, where that can be read without Pulumi, which takes longer to start."""

from __future__ import annotations

from cli.setup import bootstrap
from cli.setup.project import ToolError, project_name
from cli.stack import environment, state
from compare.measurement import CompareError
from compare.schema import Comparison
from report import table, terminal


def show(stack: str, *, as_json: bool) -> int:
    """Print it as a table, or as JSON alone."""
    backend = environment.file_backend()
    comparison = state.output(backend, project_name(), stack, "comparison") if backend else None
    if comparison is None:
        bootstrap.ensure_for(stack)
        from cli.stack import stack as stacks

        comparison = stacks.of(stack, {}).measured()
    if as_json:
        print(comparison)
        return 0
    try:
        terminal.write(table.render(Comparison.from_json(comparison)))
    except CompareError as error:
        raise ToolError(str(error)) from None
    return 0
