"""`rwi project clean`: removes what was put into the project folder; measurements stay unless it is told otherwise."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from cli.setup import pulumi_cli
from cli.setup.project import ROOT, STACKS, STATE, TOOLS, VENV, ToolError, capture, say, stack_name
from cli.stack import environment, state
from training.machine.command_line import rwi

_CACHES = (".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis")
_MEASUREMENTS = ("runs", "results")
EXAMPLE = "s3://my-bucket/"
"""The address that the files of stacks with a bucket have until the user names a bucket."""
_LISTS = {"s3": "aws s3 ls", "gs": "gcloud storage ls"}
_COMMENT = r"(?:[ \t]+#.*|[ \t]*)"
"""A regular expression for what may follow a value in YAML: blanks and a comment."""
_NULL = ("~", "null", "Null", "NULL")


def clean(*, with_measurements: bool) -> int:
    """Remove what the project created in its folder. Raise ToolError while a stack still holds resources, with the
    commands to type first."""
    stored = left_in_storage() if with_measurements else []
    refuse_while_in_use({**state.stacks_with_resources(environment.BACKEND / ".pulumi"), **_held_elsewhere()})
    folders = [VENV, TOOLS, STATE, *(ROOT / name for name in _CACHES)]
    if with_measurements:
        folders += [ROOT / name for name in _MEASUREMENTS]
    removed = [_named(folder) for folder in [*folders, STATE / "ports"] if folder.exists()]
    for folder in [*folders, *_bytecode()]:
        if folder.is_symlink():
            folder.unlink()
        elif folder.exists():
            shutil.rmtree(folder)
    if removed:
        say(f"removed: {', '.join(removed)}")
    kept = [f"{name}/" for name in _MEASUREMENTS if (ROOT / name).exists()]
    if kept:
        say(f"kept {' and '.join(kept)}: `{rwi('project clean --all')}` removes the measurements too")
    for line in stored:
        say(line)
    return 0


def _named(folder: Path) -> str:
    """Return a folder's name, with how many are in it of what was measured, `runs (12)`, or written by `rwi try`."""
    if folder.name not in (*_MEASUREMENTS, "ports"):
        return folder.name
    own = folder.glob("*" if folder.name == "ports" else "*/*")
    return f"{folder.name} ({sum(not path.is_symlink() for path in own)})"


def left_in_storage() -> list[str]:
    """Return a line for each stack with the key `storage` about the measurements there, which nothing here deletes."""
    files = [file for folder in (STACKS, STATE / "config") for file in sorted(folder.glob("Pulumi.*.yaml"))]
    return sorted({line for file in files if (line := _left_by(file))})


def _left_by(file: Path) -> str:
    """Return what to print about the storage that a settings file names; "" if nothing is known to stay there."""
    text, stack = file.read_text(encoding="utf-8", errors="replace"), stack_name(file)
    address, endpoint = setting_in(text, "storage"), setting_in(text, "storageEndpoint")
    if address is None or endpoint is None:
        return f"stays, and was not looked at: what runs of {stack} left in the storage that {file} names"
    is_kept = address.rstrip("/") and not address.startswith(EXAMPLE)
    return _line(address.rstrip("/"), endpoint, stack) if is_kept else ""


def setting_in(settings: str, key: str) -> str | None:
    """Return the value of a key in the text of a stack's file: "" if the key is not set, None if its YAML form is one
    that this function does not read."""
    line = rf"^([ \t]+)[\"']?(?:[\w.-]+:)?{key}[\"']?:(?:[ \t]+(.*))?$(\n\1[ \t]+[^\s#])?"
    match = re.search(line, settings, re.MULTILINE)
    if match is None:
        return ""
    return None if match.group(3) else _scalar((match.group(2) or "").strip())


def _scalar(text: str) -> str | None:
    """Return a scalar value from the rest of a YAML line, None for other forms. Only the standard library is available
    here, and it has no YAML parser."""
    if re.fullmatch(r"(#.*)?", text):
        return ""
    if double := re.fullmatch(rf'("(?:[^"\\]|\\["\\/])*"){_COMMENT}', text):
        return str(json.loads(double.group(1)))
    if single := re.fullmatch(rf"'((?:[^']|'')*)'{_COMMENT}", text):
        return single.group(1).replace("''", "'")
    plain = re.fullmatch(rf"([^\s\"'|>&*!%@`{{}}\[\],].*?){_COMMENT}", text)
    return plain.group(1) if plain and plain.group(1) not in _NULL else None


def _line(address: str, endpoint: str, stack: str) -> str:
    scheme, is_address, _ = address.partition("://")
    if is_address:
        command = _LISTS.get(scheme, "")
        server = f" --endpoint-url {shlex.quote(endpoint)}" if endpoint else ""
        those = (
            f", and what those of every other checkout's {stack} did, if they use that bucket;"
            f" to see the measurements in it: {command} {shlex.quote(f'{address}/{stack}/')}{server}"
        )
        left = f"stays, and was not looked at: what runs of {stack} left in {address}/{stack}"
        return f"{left}{those if command else ''}"
    folder = ROOT / os.path.expanduser(address) / stack  # noqa: PTH111 (Path's raises for an unknown ~user)
    files = [path for path in folder.rglob("*") if path.is_file()]
    if not files:
        return ""
    size = sum(path.stat().st_size for path in files) / 2**20
    return f"stays: {len(files)} files, {size:.1f} MiB in {folder}; to delete them: rm -r {shlex.quote(str(folder))}"


def refuse_while_in_use(resource_counts: Mapping[str, int]) -> None:
    """Raise ToolError if stacks hold resources, because without .state and .tools nobody could delete these."""
    if resource_counts:
        lines = [
            f"- {stack} holds {count} resource(s): `{rwi('destroy', stack.rpartition('/')[2])}` first"
            for stack, count in resource_counts.items()
        ]
        raise ToolError("what would go is needed by a stack that still holds resources:\n" + "\n".join(lines))


def _held_elsewhere() -> dict[str, int]:
    """Return the number of resources by stack in a backend of the user's own; empty if the project's backend is in use,
    or no CLI is set up. Raise ToolError if pulumi fails."""
    if environment.is_ours(os.environ) or pulumi_cli.folder_in_use() is None:
        return {}
    command = ["pulumi", "stack", "ls", "--json"]
    variables = environment.for_pulumi(os.environ, target="local")
    listing = capture(command, environment=variables)
    if listing.returncode != 0:
        raise ToolError(f"`{' '.join(command)}`: {listing.stderr.strip()}")
    return {entry["name"]: entry["resourceCount"] for entry in json.loads(listing.stdout) if entry.get("resourceCount")}


def _bytecode() -> list[Path]:
    sources = [folder for folder in ROOT.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
    nested = [cache_folder for folder in sources for cache_folder in folder.rglob("__pycache__")]
    return [*nested, *ROOT.glob("__pycache__")]
