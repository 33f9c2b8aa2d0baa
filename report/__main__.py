"""`python -m report table` and `python -m report publish --stack S`: a comparison as JSON on stdin, a report out.

It measures and compares nothing: the comparison comes from the stack's output `comparison`.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from report import terminal
from report.errors import PublishError
from report.table import render
from training.comparison import CompareError, Comparison
from training.provenance import PROJECT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    options = _parser().parse_args(arguments)
    try:
        comparison = Comparison.from_json(sys.stdin.read())
        if options.command == "table":
            terminal.write(render(comparison.data))
        else:
            from report.publish import publish  # matplotlib takes a second to import, and a table needs none

            terminal.write(str(publish(comparison, options.stack, options.project)))
    except (CompareError, PublishError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m report", description="Shows a comparison, read as JSON on stdin.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table", help="print it as a table")
    publishing = commands.add_parser("publish", help="write it into results/<stack>/ and print the folder's path")
    publishing.add_argument("--stack", required=True, help="name of the stack that it was measured with")
    publishing.add_argument("--project", type=Path, default=PROJECT, help="folder that holds runs/ and results/")
    return parser


if __name__ == "__main__":
    sys.exit(main())
