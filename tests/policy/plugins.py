"""What a preview of a cluster's stack needs beside the program: a chart, and plugins or stand-ins for them."""

import shutil
import sys
from pathlib import Path

from tests.offline import with_chart
from tests.program.engine import ROOT, Project

PLUGINS = ("kubernetes", "command")
OFFLINE = "offline"


def add_what_clusters_need(project: Project, folder: Path) -> None:
    """Put a chart into the project, and the plugins that this machine lacks into a folder of its own, on PATH."""
    with_chart(project.folder / OFFLINE)
    folder.mkdir()
    for name in PLUGINS:
        if shutil.which(f"pulumi-resource-{name}") is None:
            _write_stand_in(folder / f"pulumi-resource-{name}")
    project.environment["PATH"] += f":{folder}"


def _write_stand_in(program: Path) -> None:
    run = f'exec env PYTHONPATH="{ROOT}" "{sys.executable}" -m tests.policy.stand_in_plugin'
    program.write_text(f"#!/bin/sh\n{run}\n", encoding="utf-8")
    program.chmod(0o755)
