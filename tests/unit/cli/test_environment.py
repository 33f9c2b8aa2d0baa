"""Environment: whose backend is used, what keeps the engine offline, and exports that a shell reads as meant."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from cli.setup import pulumi_cli, uv
from cli.setup.project import VENV, ToolError
from cli.stack import environment

CLI = "/opt/the cli/bin"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "BACKEND", tmp_path / "backend")
    monkeypatch.setattr(environment, "PASSPHRASE", tmp_path / "passphrase")
    monkeypatch.setattr(pulumi_cli, "folder_in_use", lambda: CLI)
    monkeypatch.setattr(uv, "folder_for_path", lambda: None)


@pytest.fixture
def base(tmp_path: Path) -> dict[str, str]:
    """The environment of a user without any Pulumi settings."""
    return {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}


def _log_in(folder: Path, current: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "credentials.json").write_text(json.dumps({"current": current}), encoding="utf-8")


def test_without_a_backend_the_projects_own_is_used(base: dict[str, str], tmp_path: Path) -> None:
    """A file backend and a generated passphrase that its owner alone can read."""
    variables = environment.state_variables(base)

    assert variables == {
        "PULUMI_BACKEND_URL": f"file://{tmp_path}/backend",
        "PULUMI_CONFIG_PASSPHRASE_FILE": f"{tmp_path}/passphrase",
    }
    assert (tmp_path / "backend").is_dir()
    assert (tmp_path / "passphrase").stat().st_mode & 0o777 == 0o600
    assert len((tmp_path / "passphrase").read_text(encoding="utf-8")) >= 32


def test_the_state_is_this_user_s_alone(base: dict[str, str], tmp_path: Path) -> None:
    """Its providers are code, which every command runs."""
    tmp_path.chmod(0o775)

    environment.state_variables(base)

    assert 0o700 == tmp_path.stat().st_mode & 0o777


def test_the_passphrase_is_generated_once(base: dict[str, str], tmp_path: Path) -> None:
    """Another one could not read the state."""
    environment.state_variables(base)
    first = (tmp_path / "passphrase").read_bytes()
    environment.state_variables(base)

    assert (tmp_path / "passphrase").read_bytes() == first
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["backend", "passphrase"]


@pytest.mark.parametrize("name", ["PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"])
@pytest.mark.parametrize("value", ["mine", ""])
def test_a_passphrase_of_the_users_own_is_respected(base: dict[str, str], name: str, value: str) -> None:
    """The empty one too: it is a passphrase to pulumi."""
    assert set(environment.state_variables({**base, name: value})) == {"PULUMI_BACKEND_URL"}


@pytest.mark.parametrize(
    "own", [{"PULUMI_BACKEND_URL": "s3://bucket"}, {"PULUMI_BACKEND_URL": "file://~"}, {"PULUMI_ACCESS_TOKEN": "t"}]
)
def test_a_backend_that_the_environment_names_is_the_users(base: dict[str, str], own: dict[str, str]) -> None:
    """Nothing is added, and nothing is made in the project."""
    assert environment.state_variables({**base, **own}) == {}
    assert not environment.BACKEND.exists()


def test_a_login_is_respected_wherever_pulumi_keeps_it(base: dict[str, str], tmp_path: Path) -> None:
    """In the home folder, in PULUMI_HOME or in PULUMI_CREDENTIALS_PATH."""
    for place, own in (
        (tmp_path / ".pulumi", {}),
        (tmp_path / "p", {"PULUMI_HOME": str(tmp_path / "p")}),
        (tmp_path / "c", {"PULUMI_CREDENTIALS_PATH": str(tmp_path / "c")}),
    ):
        assert environment.is_ours({**base, **own})
        _log_in(place, "https://api.example.com")
        assert not environment.is_ours({**base, **own})
        _log_in(place, "")
        assert environment.is_ours({**base, **own})


def test_a_damaged_login_is_said(base: dict[str, str], tmp_path: Path) -> None:
    """Taking another backend than the user's would hide their state."""
    _log_in(tmp_path / ".pulumi", "")
    (tmp_path / ".pulumi/credentials.json").write_text("{", encoding="utf-8")

    with pytest.raises(ToolError, match="`pulumi login`"):
        environment.is_ours(base)


def test_the_exports_may_be_in_the_environment_already(base: dict[str, str]) -> None:
    """`make` in a shell after `rwi project env` uses the same state."""
    assert environment.state_variables({**base, "PULUMI_BACKEND_URL": environment.backend_url()}).keys() == {
        "PULUMI_BACKEND_URL",
        "PULUMI_CONFIG_PASSPHRASE_FILE",
    }


@pytest.mark.parametrize(("target", "offline"), [("local", True), ("minikube", False), ("kubernetes", False)])
def test_only_a_target_without_plugins_keeps_the_engine_from_fetching_them(target: str, offline: bool) -> None:
    """A cluster's stack needs pulumi-kubernetes' plugin."""
    assert ("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION" in environment.switches(target)) is offline


def test_path_has_the_environment_then_the_cli_then_the_users(base: dict[str, str]) -> None:
    """The language host that can be built takes the first Python."""
    path = environment.for_pulumi(base, "local")["PATH"].split(os.pathsep)

    assert path == [str(VENV / "bin"), CLI, "/usr/bin", "/bin"]


def test_path_has_uv_where_the_user_has_none(base: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """For the language host of newer CLIs, in `make` and in the shell of `rwi project env`."""
    monkeypatch.setattr(uv, "folder_for_path", lambda: "/opt/uv")
    path = environment.for_pulumi(base, "local")["PATH"].split(os.pathsep)

    assert path == [str(VENV / "bin"), CLI, "/opt/uv", "/usr/bin", "/bin"]
    assert ":/opt/uv'" in environment.exports(base, "local")


def test_tests_get_no_backend(base: dict[str, str]) -> None:
    """A test that brings none must fail, not write into the user's state."""
    assert "PULUMI_BACKEND_URL" not in environment.for_pulumi(base, "local", backend=False)


def test_a_shell_reads_the_exports_as_they_were_meant(
    base: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blanks, quotes and dollars in a path are no words of the shell."""
    folder = tmp_path / """it's a "$HOME" folder"""
    folder.mkdir()
    monkeypatch.setattr(environment, "BACKEND", folder / "backend")
    lines = environment.exports(base, "local")
    script = f'{lines}\nprintf "%s\\n" "$PULUMI_BACKEND_URL" "$PATH"'
    shown = subprocess.run(["/bin/sh", "-c", script], env=base, capture_output=True, text=True, check=True).stdout

    assert shown.splitlines() == [
        f"file://{folder}/backend",
        f"{VENV / 'bin'}:{CLI}:/usr/bin:/bin",
    ]


def test_a_second_eval_does_not_lengthen_path(base: dict[str, str]) -> None:
    """`eval "$(./rwi project env)"` may stand in a profile."""
    path = f"{VENV / 'bin'}:{CLI}:/usr/bin"

    assert "export PATH" not in environment.exports({**base, "PATH": path}, "local")


def test_without_a_cli_the_way_to_get_one_is_said(base: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules can be called without `rwi`."""
    monkeypatch.setattr(pulumi_cli, "folder_in_use", lambda: None)

    with pytest.raises(ToolError, match=r"\./rwi up"):
        environment.for_pulumi(base, "local")
