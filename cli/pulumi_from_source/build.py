"""Compiles the Pulumi CLI, its Python language host and the Python shims from Go modules with committed checksums.

The language host left the module `sdk/v3` after v3.78, and no later one is a module of its own: hence two small
modules beside this, each with its own go.sum. The shims are plain files of the newer `sdk/v3`. That old host asks
`python -m pip` for the packages installed: `pip_list` beside it answers, faster than pip.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from cli.pulumi_from_source import pip_list
from cli.setup.project import ROOT, TOOLS, ToolError, capture, last_line, retry, say

_CLI_MODULE = ROOT / "cli/pulumi_from_source/cli"
_CLI_PACKAGE = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
_HOST_MODULE = ROOT / "cli/pulumi_from_source/language-host"
_HOST_PACKAGE = "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"
_SDK = "github.com/pulumi/pulumi/sdk/v3"
_SHIMS = (
    "python/cmd/pulumi-language-python-exec",
    "python/dist/pulumi-resource-pulumi-python",
    "python/dist/pulumi-analyzer-policy-python",
)
_LOG = TOOLS / "pulumi-build.log"

_ENVIRONMENT: Mapping[str, str] = {
    "CGO_ENABLED": "0",
    "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
}


def build(folder: Path) -> None:
    """Build the programs into `folder`/bin. Raise ToolError if Go is missing, or with the log's last line."""
    if shutil.which("go") is None:
        raise ToolError("no `go` on PATH; install Go as new as cli/pulumi_from_source/cli/go.mod asks")
    _LOG.unlink(missing_ok=True)
    programs = folder / "bin"
    programs.mkdir(parents=True)
    say(f"Pulumi CLI: building it from Go modules, about 3 minutes on 2 cores, once (log: {_LOG.relative_to(ROOT)})")
    _compile(_CLI_MODULE, _CLI_PACKAGE, programs / "pulumi")
    _compile(_HOST_MODULE, _HOST_PACKAGE, programs / "pulumi-language-python-host")
    _install(_HOST_MODULE / "pulumi-language-python", programs)
    install_pip_list(folder / "pip")
    sdk = Path(_go(_CLI_MODULE, "list", "-m", "-f", "{{.Dir}}", _SDK))
    for shim in _SHIMS:
        _install(sdk / shim, programs)


def _compile(module: Path, package: str, program: Path) -> None:
    """Download the modules that the package needs, and build the program with the version that it should print."""
    retry("Go modules", lambda: _go(module, "list", "-deps", package), is_final=_is_no_network_matter)
    version = _go(module, "list", "-m", "-f", "{{.Version}}", _SDK)
    stamp = f"-s -w -X {_SDK}/go/common/version.Version={version}"
    _go(module, "build", "-ldflags", stamp, "-o", str(program), package)


def install_pip_list(folder: Path) -> None:
    """Install pip_list as the package pip, in a folder that the host's shim puts on the language host's module path."""
    (folder / "pip").mkdir(parents=True)
    shutil.copyfile(pip_list.__file__, folder / "pip" / "__main__.py")
    (folder / "pip" / "__init__.py").touch()  # without it a pip that is installed would go before


def _install(source: Path, programs: Path) -> None:
    """Copy a program, and make it executable and writable, because files in Go's module cache are read-only."""
    target = programs / source.name
    shutil.copyfile(source, target)
    target.chmod(0o755)


def _go(module: Path, *arguments: str) -> str:
    """Run `go` and return its stdout; write its stderr to the log. Raise ToolError if it fails."""
    result = capture(["go", *arguments], module, {**os.environ, **_ENVIRONMENT})
    with _LOG.open("a", encoding="utf-8") as log:
        log.write(f"$ go {' '.join(arguments)}\n{result.stderr}\n")
    if result.returncode != 0:
        raise ToolError(f"go {arguments[0]}: {last_line(result.stderr)}")
    return result.stdout.strip()


def _is_no_network_matter(error: ToolError) -> bool:
    """Return whether a retry can't help: Go is too old, or checksums differ."""
    return any(sign in str(error) for sign in ("requires go", "checksum mismatch", "missing go.sum"))
