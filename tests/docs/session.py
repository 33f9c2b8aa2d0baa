"""A copy of the project in which the commands of a document are run one after another, as a reader would paste them.

The real command line, the real engine and the program as it is; only the arms are stand-ins that train nothing, so
that an `up` takes seconds.
"""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.docs.markdown import Command
from tests.program.engine import ROOT, Project

MORE = ("rwi", "README.md", "docs", "policy", "report", "cli")
"""What a reader has beside what the program itself needs."""
STACK = """\
config:
  target: local
  allowOversubscription: 'true'
  repeats: '1'
  nativeArm: 'false'
"""
"""The stack `local` on a machine of as many CPUs as a reader may have, and with as few runs as there can be."""
MARK = "::at "


@dataclass(frozen=True)
class Ended:
    """How a document's commands ended."""

    status: int
    place: str
    """Where the command stands that was last begun."""
    output: str


def prepare(project: Project, cli: Path) -> None:
    """Complete a copy that has the program alone, with the project's own backend instead of the tests'."""
    complete(project, cli)
    (project.folder / "stacks/Pulumi.local.yaml").write_text(STACK)
    for name in ("PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE"):
        del project.environment[name]
    project.environment["PATH"] = os.pathsep.join(["/usr/local/bin", "/usr/bin", "/bin"])


def complete(project: Project, cli: Path) -> None:
    """Give a copy that has the program alone what `rwi` needs."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in MORE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, project.folder / name, ignore=ignored)
        elif source.is_file():
            shutil.copy(source, project.folder)
    (project.folder / ".tools").mkdir()
    (project.folder / ".tools/cli-in-use.json").write_text(json.dumps({"folder": str(cli.parent)}))
    project.environment["RWI_SETUP"] = "no"


def run(project: Project, commands: Iterable[Command]) -> Ended:
    """Run the commands in one shell until the first that ends otherwise than its block says."""
    lines = ["set -eu -o pipefail"]
    for command in commands:
        lines.append(f"echo {shlex.quote(MARK + str(command.place))}")
        fails = f"if {command.text}; then echo 'this was to fail'; exit 1; fi"
        lines.append(fails if command.info == "fails" else command.text)
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=project.folder,
        env=project.environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=project.seconds,
        check=False,
    )
    begun = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
    return Ended(done.returncode, begun[-1] if begun else "the beginning", done.stdout)
