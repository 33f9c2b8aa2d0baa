"""Shows a comparison, read as JSON on stdin as the output `comparison` has it: `python -m report COMMAND`.

Nothing here measures or compares runs.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cli.setup.project import DEFAULT_STACK, ToolError, checked_stack_name
from compare.measurement import CompareError
from compare.schema import Comparison
from report import terminal
from report.errors import PageError, ReportError
from report.stored import PAGE
from training.contract.provenance import PROJECT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        if "stack" in options:
            checked_stack_name(options.stack)
        return run(options)
    except (CompareError, ReportError, ToolError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _table(_: argparse.Namespace) -> int:
    from report.table import render

    terminal.write(render(Comparison.from_json(sys.stdin.read())))
    return 0


def _closing(options: argparse.Namespace) -> int:
    from report.closing import render

    comparison = Comparison.from_json(sys.stdin.read())
    page = options.folder / PAGE if options.folder else None
    settings = dict(text.partition("=")[::2] for text in options.setting)
    terminal.write(render(comparison, options.stack, page if page and page.is_file() else None, settings))
    return 0


def _smoke(_: argparse.Namespace) -> int:
    from report.closing import smoke

    terminal.write(smoke(Comparison.from_json(sys.stdin.read())))
    return 0


def _publish(options: argparse.Namespace) -> int:
    comparison = Comparison.from_json(sys.stdin.read())
    from report.publish import publish  # matplotlib takes a second to import, and no other command needs it
    from report.tracking import track

    page_error = None
    try:
        folder = publish(comparison, options.stack, options.project)
    except PageError as error:  # the result is there, and goes where results go
        folder, page_error = error.folder, error
    terminal.write(str(folder))
    track(comparison, folder, options.stack, options.project)
    if page_error:
        raise page_error
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m report", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table", help="print it as a table").set_defaults(run=_table)
    _add(
        commands,
        "publish",
        _publish,
        "write it into results/<stack>/, print the folder's path; with trackingUri to MLflow, too",
    )
    closing = _add(commands, "closing", _closing, "print the answer, the report and the next step: how `rwi up` ends")
    closing.add_argument("--folder", type=Path, help="where it was published")
    closing.add_argument("--setting", action="append", default=[], metavar="KEY=VALUE", help="a setting of this call")
    commands.add_parser("smoke", help="print what a smoke test has shown").set_defaults(run=_smoke)
    return parser


def _add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace], int],
    help_text: str,
) -> argparse.ArgumentParser:
    """Add a command about a stack to the parser, and return the parser of this command."""
    command = commands.add_parser(name, help=help_text)
    command.add_argument("--stack", default=DEFAULT_STACK, help="name of the stack")
    command.add_argument("--project", type=Path, default=PROJECT, help="folder that holds runs/ and results/")
    command.set_defaults(run=run)
    return command


if __name__ == "__main__":
    sys.exit(main())
