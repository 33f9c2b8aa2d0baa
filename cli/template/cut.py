"""Cuts the project down to a template, and removes from its texts what a template lacks. Pure but for `make`."""

from __future__ import annotations

import os.path
import re
import shlex
import shutil
from pathlib import Path

from cli.setup.project import ROOT, ToolError, say

KEPT = (
    "__main__.py", "Pulumi.yaml", "pyproject.toml", "uv.lock", ".python-version", ".gitignore", "rwi", "README.md",
    "compare", "examples", "infra", "policy", "report", "stacks", "training",
    "docs/architecture.md", "docs/diagnose.md", "docs/end-to-end-over-epochs.svg",
    "docs/getting-started.md", "docs/glossary.md", "docs/limits.md",
    "docs/outputs.md", "docs/own-script.md", "docs/plain-pulumi.md", "docs/rights.md", "docs/search.md",
    "docs/settings.md", "docs/storage.md",
    "docs/targets.md", "docs/tracking.md", "docs/troubleshooting.md", "docs/where-the-time-goes.svg",
    "cli/__init__.py", "cli/command.py", "cli/commands", "cli/door.py", "cli/meant.py", "cli/options.py",
    "cli/adopt", "cli/fetch", "cli/follow", "cli/jobs", "cli/look",
    "cli/pulumi_from_source", "cli/recovery", "cli/setup", "cli/stack", "cli/sweep", "cli/tryout",
    "cli/why",
)  # fmt: skip
"""What a user needs: not our tests, benchmarks, checks of documents and pull requests, or the history of decisions."""
OWN = {"AGENTS.md": "cli/template/AGENTS.md"}
"""Files of which a template has its own."""
COMMANDS = ("bench arms", "bench lesson", "test", "check", "project template")
"""What works on that."""

_IGNORED = shutil.ignore_patterns("__pycache__", ".venv")
_MARKED = re.compile(r"<!-- not in a template -->\n.*?<!-- end -->\n", re.DOTALL)
_LINK = re.compile(r"(?P<open> \()?\[(?P<text>(?:[^\]\[]|\[[^\]]*\])*)\]\((?P<to>[^()\s]+)\)(?(open)(?P<close>\)))?")
_NAMES_ONE = re.compile(rf"`[^`]*\./rwi (?:{'|'.join(COMMANDS)})(?![\w-])[^`]*`")


def write(target: str) -> int:
    """Cut a template into a folder."""
    folder = Path(target).expanduser()
    make(folder)
    say(f"a template is in {folder}. In an empty folder:  pulumi new {shlex.quote(str(folder.resolve()))}")
    return 0


def make(folder: Path) -> None:
    """Write the template into a folder that is not there yet; ToolError where it is."""
    if folder.exists():
        raise ToolError(f"{folder} is there already: name another, or `rm -r {folder}`")
    folder.mkdir(parents=True)
    for name in KEPT:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=_IGNORED)
        else:
            shutil.copy2(source, target)
    for name, source_name in OWN.items():
        shutil.copy2(ROOT / source_name, folder / name)
    for path in folder.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        path.write_text(document(text, str(path.relative_to(folder))), encoding="utf-8")


def document(text: str, name: str) -> str:
    """A document without what is marked, links to what is cut, and rows of tables about its commands."""
    text = _MARKED.sub("", text)
    text = _LINK.sub(lambda link: link[0] if _is_kept(link["to"], name) else _unlinked(link), text)
    lines = [line for line in text.split("\n") if not (line.startswith("|") and _NAMES_ONE.search(line))]
    return "\n".join(lines)


def _unlinked(link: re.Match[str]) -> str:
    """Return a link's text; "" for a link alone in parentheses, as `([why](…))`."""
    return "" if link["open"] and link["close"] else f"{link['open'] or ''}{link['text']}"


def _is_kept(to: str, name: str) -> bool:
    """Return whether a document's link leads out of the project, or to a file of the template."""
    path = to.partition("#")[0]
    if "://" in to or not path:
        return True
    target = os.path.normpath(os.path.join(os.path.dirname(name), path))  # noqa: PTH118, PTH120 - of no folder
    return any(target == kept or target.startswith(f"{kept}/") for kept in (*KEPT, *OWN))
