"""The environment in which `pulumi` is run: its CLI, the backend and its passphrase. Handles no stack."""

from __future__ import annotations

import json
import os
import secrets
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from cli.setup import pulumi_cli, uv
from cli.setup.project import (
    CLUSTER_TARGETS,
    DEFAULT_STACK,
    STATE,
    VENV,
    ToolError,
    stack_text,
    target_of,
)
from cli.stack import state
from training.machine.command_line import rwi

BACKEND = STATE / "backend"
PASSPHRASE = STATE / "passphrase"


def for_pulumi(base: Mapping[str, str], target: str, *, backend: bool = True) -> dict[str, str]:
    """Return `base` with all variables that pulumi needs for a stack of this target. Create the backend's folder and
    the passphrase if needed."""
    path = os.pathsep.join([*path_additions(), base.get("PATH", "")])
    return {**base, **switches(target), **(state_variables(base) if backend else {}), "PATH": path}


def switches(target: str) -> dict[str, str]:
    """Return variables that keep the engine from network requests that this target does not need."""
    variables = {"PULUMI_SKIP_UPDATE_CHECK": "true"}
    if target not in CLUSTER_TARGETS:
        # The engine would try to download the plugin of each installed package at every command.
        variables["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
    return variables


def state_variables(base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that name the state's backend and its passphrase; empty if the user has another."""
    if not is_ours(base):
        return {}
    BACKEND.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):  # somebody else's, who shares it on purpose
        BACKEND.parent.chmod(0o700)  # its providers are code that every command runs: nobody else may put any there
    variables = {"PULUMI_BACKEND_URL": backend_url()}
    if not {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"} & base.keys():
        variables["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(_passphrase_file())
    return variables


def path_additions() -> list[str]:
    """Return the folders to put before PATH: .venv first (the language host that can be built takes Python from PATH),
    then those of the Pulumi CLI and uv."""
    folder = pulumi_cli.folder_in_use()
    if folder is None:
        raise ToolError(f"no Pulumi CLI is set up here: `{rwi('up')}` installs it")
    uv_folder = uv.folder_for_path()
    return [str(VENV / "bin"), folder, *([uv_folder] if uv_folder else [])]


def backend_url() -> str:
    """Return the URL of the project's own file backend."""
    return f"file://{BACKEND}"


def file_backend() -> Path | None:
    """Return the folder of the file backend in use; None for any other backend."""
    return state.file_backend({**os.environ, **state_variables(os.environ)}.get("PULUMI_BACKEND_URL", ""))


def is_ours(base: Mapping[str, str]) -> bool:
    """Return whether the state is in the project's own backend: the user named no other, and is logged in to none."""
    if base.get("PULUMI_BACKEND_URL"):
        return base["PULUMI_BACKEND_URL"] == backend_url()
    if base.get("PULUMI_ACCESS_TOKEN"):
        return False
    return not _logged_in_to(base)


def _logged_in_to(base: Mapping[str, str]) -> str:
    """Return the backend of the last `pulumi login`; "" if there is none. Raise ToolError if it cannot be read."""
    home = Path(base.get("PULUMI_HOME") or Path(base.get("HOME", "~")).expanduser() / ".pulumi")
    credentials = Path(base.get("PULUMI_CREDENTIALS_PATH") or home) / "credentials.json"
    try:
        return str(json.loads(credentials.read_text(encoding="utf-8")).get("current") or "")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, AttributeError) as error:
        raise ToolError(f"{credentials} can't be read ({error}): `pulumi login` rewrites it") from error


def _passphrase_file() -> Path:
    """Return the path of the file with the passphrase, which is made once, and which its owner alone can read."""
    if not PASSPHRASE.exists():
        partial = PASSPHRASE.with_suffix(f".{os.getpid()}")
        partial.touch(mode=0o600, exist_ok=False)
        partial.write_text(secrets.token_urlsafe(32), encoding="utf-8")
        # A link is made only where there is none: when another call was first, its passphrase is the one in use.
        with suppress(FileExistsError):
            os.link(partial, PASSPHRASE)
        partial.unlink()
    return PASSPHRASE


def exports(base: Mapping[str, str], target: str) -> str:
    """Return quoted shell lines for `eval` that export the variables and put the needed folders before PATH."""
    variables = {**switches(target), **state_variables(base)}
    folders = [folder for folder in path_additions() if folder not in base.get("PATH", "").split(os.pathsep)]
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(variables.items())]
    if folders:
        lines.append(f'export PATH={shlex.quote(os.pathsep.join(folders))}:"$PATH"')
    return "\n".join(lines)


def show(stack: str) -> int:
    """Print the shell lines that export the variables for a stack."""
    print(exports(os.environ, target_of(stack_text(stack))))
    return 0


def execute(command: Sequence[str]) -> NoReturn:
    """Replace this process by a command of tests, with PATH and switches set, but no backend."""
    environment = for_pulumi(os.environ, target_of(stack_text(DEFAULT_STACK)), backend=False)
    os.execvpe(command[0], list(command), environment)  # noqa: S606 - the caller's own command
