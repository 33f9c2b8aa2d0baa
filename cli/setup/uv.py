"""Gets uv and keeps .venv as uv.lock says; knows nothing of Pulumi."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cli.setup.project import ROOT, TOOLS, VENV, ToolError, capture, last_line, retry, say

REQUIREMENT = ROOT / "training/image/uv.txt"
"""The one version that is installed, here and in the image, with the hash of each of its files on PyPI.
To change it: `echo uv==VERSION | uv pip compile --generate-hashes --no-header --no-annotate -o FILE -`."""
UV_VERSION = REQUIREMENT.read_text(encoding="utf-8").split()[0].partition("==")[2]
MINIMUM_UV = (0, 9)

_STAMP = VENV / ".synced"
_LOCKED = ("uv.lock", "pyproject.toml", ".python-version")
_PARTS = {
    "tracking": ("--extra", "mlflow"),
    "dev": ("--group", "pytest"),
    "tensorboard": ("--group", "tensorboard"),
}
"""The environment's optional parts: uv's option for the part, and a package that shows that it is installed."""
LEAST = "script"
"""The dependency group that `rwi try` needs, without TensorFlow, Ray and Pulumi."""
_LEAST_ALONE = f" {LEAST}"
_UNREACHABLE = "no package index can be reached: connect this machine, name an index that it reaches with PIP_INDEX_URL"


def sync(parts: Iterable[str], *, whole: bool = True) -> None:
    """Install the packages of uv.lock, with wanted and already installed parts, into .venv, unless all are there.

    Without `whole`, install only what `rwi try` needs, and remove no other package.

    Modules are compiled at once, because otherwise each process may compile them again where it cannot write bytecode.
    pyproject.toml does not ask for that, because Pulumi's language host runs uv three times in each command.
    """
    digest = _locked_digest()
    stamp = _STAMP.read_text(encoding="utf-8") if _STAMP.is_file() else ""
    installed, wanted = _installed_parts(), set(parts)
    if (stamp == digest and wanted <= installed) or (not whole and stamp == digest + _LEAST_ALONE):
        return
    command = [str(find_uv()), "sync", "--frozen", "--compile-bytecode"]
    if not whole:
        command += ["--only-group", LEAST, "--inexact"]
    for part in sorted(wanted | installed) if whole else ():
        command += [_PARTS[part][0], part]
    if whole and stamp == digest:
        command += ["--inexact"]
    what = "what uv.lock names" if whole else "what the command line itself needs"
    say(f"Python environment: installing {what} into .venv, and compiling it, once")
    _STAMP.unlink(missing_ok=True)
    if subprocess.run(command, cwd=ROOT, env=_environment(), stdout=sys.stderr, check=False).returncode != 0:
        raise ToolError(f"the locked environment could not be installed: see above, then `{' '.join(command)}`")
    _STAMP.write_text(digest if whole else digest + _LEAST_ALONE, encoding="utf-8")


def is_whole() -> bool:
    """Return whether .venv contains every package that measuring needs, in the versions of uv.lock."""
    return _STAMP.is_file() and _STAMP.read_text(encoding="utf-8") == _locked_digest()


def find_uv() -> Path:
    """Return uv from PATH if it is new enough, else the uv under .tools, which is installed first if it is missing."""
    if (on_path := _on_path()) is not None:
        return on_path
    ours = _ours()
    if not ours.is_file():
        say(f"uv: installing {UV_VERSION} from PyPI into .tools/")
        retry("uv", lambda: _install(ours), is_final=lambda error: str(error).startswith(_UNREACHABLE))
    return ours


def folder_for_path() -> str | None:
    """Return the folder of the project's own uv, which Pulumi's language host starts, if PATH has no uv; None if PATH
    has one, or if there is none at all until `find_uv` installs it."""
    return None if _on_path() or not _ours().is_file() else str(_ours().parent)


def _on_path() -> Path | None:
    program = shutil.which("uv")
    return Path(program) if program and _version(program) >= MINIMUM_UV else None


def _ours() -> Path:
    """Return the path of the project's own uv, in a folder of its version."""
    return TOOLS / "uv" / UV_VERSION / "uv"


def _install(target: Path) -> None:
    """Install uv's program, a single file, at `target` in one step: no interruption leaves a part of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS, prefix="uv-install-") as folder:
        pip = _pip(Path(folder))
        command = [*pip, "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", f"{folder}/uv"]
        verified = ["--require-hashes", "--only-binary", ":all:", "--requirement", str(REQUIREMENT)]
        result = capture([*command, *verified])
        if "DO NOT MATCH THE HASHES" in result.stderr:
            raise ToolError(f"the package index has another uv {UV_VERSION} than {REQUIREMENT.relative_to(ROOT)} names")
        if result.returncode != 0 and "connection broken by" in result.stderr:  # pip has tried five times
            raise ToolError(f"{_UNREACHABLE}, or put uv {'.'.join(map(str, MINIMUM_UV))} or newer on PATH")
        if result.returncode != 0:
            raise ToolError(f"pip: {last_line(result.stderr)}")
        (Path(folder) / "uv" / "bin" / "uv").replace(target)


def _pip(folder: Path) -> list[str]:
    """Return the command of this Python's pip, or of a temporary environment's: Debian's Python may lack pip."""
    if capture([sys.executable, "-m", "pip", "--version"]).returncode == 0:
        return [sys.executable, "-m", "pip"]
    environment = folder / "pip"
    venv = capture([sys.executable, "-m", "venv", str(environment)])
    if venv.returncode != 0:
        raise ToolError(
            f"{sys.executable} has neither pip nor venv: install one (Debian and Ubuntu: `apt install python3-venv`), "
            f"or put uv {'.'.join(map(str, MINIMUM_UV))} or newer on PATH"
        )
    return [str(environment / "bin" / "python"), "-m", "pip"]


def _version(program: str) -> tuple[int, ...]:
    output = capture([program, "--version"]).stdout
    match = re.match(r"uv (\d+)\.(\d+)", output)
    return tuple(int(part) for part in match.groups()) if match else ()


def _environment() -> dict[str, str]:
    """Return the caller's environment variables, changed so that uv uses the project's .venv."""
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    return {**environment, "UV_PROJECT_ENVIRONMENT": str(VENV)}


def _locked_digest() -> str:
    content = b"\0".join((ROOT / name).read_bytes() for name in _LOCKED)
    return hashlib.sha256(content).hexdigest()


def _installed_parts() -> set[str]:
    """Return the installed parts. They are looked up each time: `uv sync` or `pulumi install` may remove them."""
    return {part for part, (_, name) in _PARTS.items() if any(VENV.glob(f"lib/python*/site-packages/{name}"))}
