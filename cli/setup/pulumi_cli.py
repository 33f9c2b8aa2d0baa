"""Finds a Pulumi CLI that is new enough, or gets one into .tools/pulumi; `cli.pulumi_from_source` builds it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cli.setup import vendor_download
from cli.setup.project import TOOLS, ToolError, capture, retry, say

MINIMUM = (3, 220, 0)

_OURS = TOOLS / "pulumi"
_PARTIAL = TOOLS / "pulumi.partial"
_ORIGIN = "origin.json"
_IN_USE = TOOLS / "cli-in-use.json"


@dataclass(frozen=True)
class Cli:
    """A usable Pulumi CLI: the folder of its programs, its version, and a text that says where it comes from."""

    folder: str
    version: str
    origin: str


def ensure() -> Cli:
    """Return the first usable CLI of PATH, .tools, the vendor's download, Go modules; print a line if it is another."""
    on_path, why_not = _on_path()
    cli = on_path or _under_tools() or _get(why_not)
    _announce(cli, why_not)
    return cli


def folder_in_use() -> str | None:
    """Return the folder of the CLI that `ensure` chose last; None before its first call."""
    if not _IN_USE.is_file():
        return None
    return str(json.loads(_IN_USE.read_text(encoding="utf-8"))["folder"])


def path_without_ours(path: str) -> str:
    """Return PATH without the folders under .tools, which `rwi project env` adds: the user's own folders."""
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if not folder.startswith(f"{TOOLS}{os.sep}"))


def parse_version(text: str) -> tuple[int, int, int]:
    """Return the three numbers of a version such as `v3.220.0` or `3.220.0-dev.1`; zeros for any other text."""
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text.strip())
    if match is None:
        return (0, 0, 0)
    return (int(match.group(1)), int(match.group(2)), int(match.group(3)))


def _on_path() -> tuple[Cli | None, str]:
    """Return the user's own CLI and "" if it can be used here, else None and the reason."""
    path = path_without_ours(os.environ.get("PATH", ""))
    program = shutil.which("pulumi", path=path)
    if program is None:
        return None, "no pulumi on PATH"
    version = _version_of(program)
    if parse_version(version) < MINIMUM:
        return None, f"{program} is {version or 'not to be run'}, older than {_text(MINIMUM)}"
    if not _has_language_host(program, path):
        return None, f"{program} has no pulumi-language-python beside it or on PATH"
    return Cli(str(Path(program).parent), version, "on PATH"), ""


def _has_language_host(program: str, path: str) -> bool:
    beside = Path(program).resolve().parent / "pulumi-language-python"
    return beside.is_file() or shutil.which("pulumi-language-python", path=path) is not None


def _version_of(program: str) -> str:
    environment = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    return capture([program, "version"], environment=environment).stdout.strip()


def _under_tools() -> Cli | None:
    """Return the CLI that an earlier call installed completely, else None. A complete CLI has a file with its origin,
    written before its folder is renamed."""
    origin = _OURS / _ORIGIN
    if not origin.is_file():
        return None
    cli = Cli(folder=str(_OURS / "bin"), **json.loads(origin.read_text(encoding="utf-8")))
    return cli if parse_version(cli.version) >= MINIMUM else None


def _get(why_not_on_path: str) -> Cli:
    """Download or build the CLI, and return it. Raise ToolError that names every way and the reason why it failed."""
    ways: list[tuple[str, Callable[[Path], None]]] = [
        ("the vendor's download", _download),
        ("built from Go modules", _build),
    ]
    reasons = [f"- {why_not_on_path}: install Pulumi {_text(MINIMUM)} or newer as its documentation says"]
    for origin, get in ways:
        shutil.rmtree(_PARTIAL, ignore_errors=True)
        try:
            get(_PARTIAL)
            return _keep(origin)
        except ToolError as error:
            reasons.append(f"- {origin}: {error}")
            say(f"Pulumi CLI: {origin}: {error}")
    raise ToolError("no Pulumi CLI could be had; any one of these is enough:\n" + "\n".join(reasons))


def _keep(origin: str) -> Cli:
    """Rename the finished folder, so that later calls use it. Return the CLI, or raise ToolError if it is too old."""
    version = _version_of(str(_PARTIAL / "bin" / "pulumi"))
    if parse_version(version) < MINIMUM:
        raise ToolError(f"gave version {version or 'none'}, {_text(MINIMUM)} or newer is needed")
    (_PARTIAL / _ORIGIN).write_text(json.dumps({"version": version, "origin": origin}), encoding="utf-8")
    shutil.rmtree(_OURS, ignore_errors=True)
    _PARTIAL.rename(_OURS)
    return Cli(str(_OURS / "bin"), version, origin)


def _download(folder: Path) -> None:
    def attempt() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        vendor_download.download(folder)

    say(f"Pulumi CLI: trying the vendor's archive of {vendor_download.VERSION}")
    retry("Pulumi CLI", attempt, is_final=_is_final)


def _build(folder: Path) -> None:
    from cli.pulumi_from_source import build  # only where nothing else is to be had

    build.build(folder)


def _is_final(error: ToolError) -> bool:
    """Return whether a retry cannot help: the host is unknown or refuses, or the archive is wrong."""
    return any(sign in str(error) for sign in ("urlopen error", "timed out", "HTTP Error 4", "checksum", "no archive"))


def _announce(cli: Cli, why_not_on_path: str) -> None:
    used = json.dumps(cli.__dict__, sort_keys=True)
    if _IN_USE.is_file() and _IN_USE.read_text(encoding="utf-8") == used:
        return
    note = f" ({why_not_on_path})" if why_not_on_path else ""
    say(f"Pulumi CLI: {cli.version}, {cli.origin}, in {cli.folder}{note}")
    partial = _IN_USE.with_suffix(".partial")
    partial.write_text(used, encoding="utf-8")
    partial.replace(_IN_USE)


def _text(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))
