"""`python -m cli.follow COMMAND`: `watch` follows a running update, `tensorboard` shows the curves of a result."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from cli.setup.project import DEFAULT_STACK, ToolError, checked_stack_name, is_on, stack_text, target_of
from cli.stack.config import parse_overrides
from report import terminal
from report.errors import ReportError
from report.stored import LATEST, SWEEP_PREFIX
from training.contract.provenance import PROJECT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    try:
        options = _parser().parse_args(arguments)
    except ToolError as error:  # a switch that is neither on nor off
        print(f"error: {error}", file=sys.stderr)
        return 1
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        checked_stack_name(options.stack)
        return run(options)
    except (ReportError, ToolError) as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _watch(options: argparse.Namespace) -> int:
    from cli.follow.watch import is_updating, source_of, watch

    source = source_of(options.target or _target_of(options.stack), options.project, options.stack)
    return watch(source, options.stack, is_updating=lambda: is_updating(options.stack))


def _tensorboard(options: argparse.Namespace) -> int:
    from cli.follow.tensorboard import start_tensorboard, tensorboard_folder

    if options.live:
        return _live(options)
    folder = tensorboard_folder(options.project, options.stack, options.result)
    if options.print:
        terminal.write(str(folder))
        return 0
    return start_tensorboard(folder, options.arguments)


def _live(options: argparse.Namespace) -> int:
    from cli.follow.curves import live
    from cli.follow.tensorboard import start_tensorboard

    with tempfile.TemporaryDirectory(prefix="curves-") as folder:
        live(options.stack, parse_overrides(os.environ.get("SET", "")), Path(folder))
        return start_tensorboard(Path(folder), options.arguments)


def _target_of(stack: str) -> str:
    """The target in the stack's settings; that of the stack it was made from, for a sweep's."""
    return target_of(stack_text(stack.removeprefix(SWEEP_PREFIX)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cli.follow", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    watching = commands.add_parser(
        "watch",
        help="follow a running update until it is over; exit status 3: there is none to follow",
    )
    watching.add_argument("--target", help="where its runs are; default: as the stack's settings say")
    watching.set_defaults(run=_watch)
    boards = commands.add_parser("tensorboard", help="write event files of a result's runs, and start TensorBoard")
    boards.add_argument("arguments", nargs="*", help="for TensorBoard itself, after --, for example: -- --port 6007")
    boards.add_argument("--result", default=os.environ.get("RESULT") or LATEST, help="as in history; default: latest")
    boards.add_argument("--print", action="store_true", default=is_on("PRINT"), help="its path only")
    boards.add_argument("--live", action="store_true", default=is_on("LIVE"), help="of runs that go on, from storage")
    boards.set_defaults(run=_tensorboard)
    for command in (watching, boards):
        command.add_argument("--stack", default=os.environ.get("STACK") or DEFAULT_STACK, help="name of the stack")
        command.add_argument("--project", type=Path, default=PROJECT, help="folder that holds runs/ and results/")
    return parser


if __name__ == "__main__":
    sys.exit(main())
