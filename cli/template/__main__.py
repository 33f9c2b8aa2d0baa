"""Cuts the template: `make template TO=../ray-worth-it-template`, then `pulumi new ../ray-worth-it-template`."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from cli.setup.project import ToolError, run_main, say
from cli.template import cut


def main() -> int:
    """Into the folder of TO."""
    parser = argparse.ArgumentParser(prog="python -m cli.template", description=__doc__)
    parser.add_argument("--to", default=os.environ.get("TO", ""), metavar="FOLDER")
    target = parser.parse_args().to
    if not target:
        raise ToolError("where to? `make template TO=../ray-worth-it-template`")
    folder = Path(target).expanduser()
    cut.make(folder)
    say(f"a template is in {folder}. In an empty folder:  pulumi new {shlex.quote(str(folder.resolve()))}")
    return 0


if __name__ == "__main__":
    run_main(main)
