"""cli.setup.pulumi_cli: the order in which a CLI is looked for, what is said of it, and what counts as there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from cli.pulumi_from_source import build
from cli.setup import pulumi_cli
from cli.setup.project import ROOT, ToolError
from tests.golden import Wording

Program = Callable[..., Path]


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty .tools, an empty PATH, no download and no Go."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setattr(pulumi_cli, "TOOLS", folder)
    monkeypatch.setattr(pulumi_cli, "_OURS", folder / "pulumi")
    monkeypatch.setattr(pulumi_cli, "_PARTIAL", folder / "pulumi.partial")
    monkeypatch.setattr(pulumi_cli, "_IN_USE", folder / "cli-in-use.json")
    monkeypatch.setattr(pulumi_cli, "_download", _refuse("no such host"))
    monkeypatch.setattr(build, "build", _refuse("no `go` on PATH"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return folder


def _refuse(message: str) -> Callable[[Path], None]:
    def get(_: Path) -> None:
        raise ToolError(message)

    return get


def _put_cli(folder: Path, version: str, *, language_host: bool = True) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pulumi").write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
    (folder / "pulumi").chmod(0o755)
    if language_host:
        (folder / "pulumi-language-python").write_text("", encoding="utf-8")


@pytest.mark.parametrize("version", ["v3.220.0", "v3.221.0-dev.1", "4.0.0"])
def test_a_cli_on_path_that_is_new_enough_is_used(tmp_path: Path, version: str) -> None:
    """The user's own comes first."""
    _put_cli(tmp_path / "path", version)

    assert pulumi_cli.ensure() == pulumi_cli.Cli(str(tmp_path / "path"), version, "on PATH")


def test_one_that_is_too_old_gives_way_to_ours_and_is_named(
    tmp_path: Path, tools: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """The line says why the user's own is not taken."""
    _put_cli(tmp_path / "path", "v3.219.9")
    _put_cli(tools / "pulumi/bin", "v3.220.0")
    origin = {"version": "v3.220.0", "origin": "built from Go modules"}
    (tools / "pulumi/origin.json").write_text(json.dumps(origin), encoding="utf-8")

    cli = pulumi_cli.ensure()

    assert cli.folder == str(tools / "pulumi/bin")
    said = capsys.readouterr().err
    assert all(part in said for part in (f"{tmp_path}/path/pulumi", "v3.219.9", " 3.220.0"))
    wording("setup", said)


def test_one_without_its_language_host_is_not_used(tmp_path: Path) -> None:
    """It could not run a Python program."""
    _put_cli(tmp_path / "path", "v3.250.0", language_host=False)

    with pytest.raises(ToolError, match="has no pulumi-language-python"):
        pulumi_cli.ensure()


def test_what_is_used_is_said_when_it_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """Once, not at every call."""
    _put_cli(tmp_path / "path", "v3.220.0")
    pulumi_cli.ensure()
    first = capsys.readouterr().err
    pulumi_cli.ensure()
    second = capsys.readouterr().err
    _put_cli(tmp_path / "path", "v3.230.0")
    pulumi_cli.ensure()
    third = capsys.readouterr().err

    assert second == ""
    assert all(f"{tmp_path}/path\n" in said for said in (first, third))
    assert ("v3.220.0" in first, "v3.230.0" in third) == (True, True)
    wording("setup", first)
    assert pulumi_cli.folder_in_use() == f"{tmp_path}/path"


def test_when_no_way_works_one_message_names_them_all(wording: Wording) -> None:
    """Each with why it did not work here."""
    with pytest.raises(ToolError) as raised:
        pulumi_cli.ensure()

    _, *ways = str(raised.value).splitlines()
    assert all(part in way for part, way in zip(("3.220.0", "no such host", "`go`"), ways, strict=True))
    wording("setup", str(raised.value))


def test_the_build_follows_a_failed_download(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its programs get their name when they are whole and run."""
    monkeypatch.setattr(build, "build", lambda folder: _put_cli(folder / "bin", "v3.220.0"))

    cli = pulumi_cli.ensure()

    assert (cli.folder, cli.version) == (str(tools / "pulumi/bin"), "v3.220.0")
    assert "Go" in cli.origin
    assert pulumi_cli.ensure() == cli
    assert not (tools / "pulumi.partial").exists()


def test_an_interrupted_build_does_not_count(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it left is thrown away by the next call, which builds anew."""

    def interrupted(folder: Path) -> None:
        _put_cli(folder / "bin", "v3.220.0")
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "build", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pulumi_cli.ensure()

    assert (tools / "pulumi.partial/bin/pulumi").exists()
    assert not (tools / "pulumi").exists()
    assert pulumi_cli.folder_in_use() is None

    monkeypatch.setattr(build, "build", lambda folder: _put_cli(folder / "bin", "v3.221.0"))

    assert pulumi_cli.ensure().version == "v3.221.0"


def test_a_download_that_gives_an_old_cli_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be looked for again at every call."""
    monkeypatch.setattr(pulumi_cli, "_download", lambda folder: _put_cli(folder / "bin", "v3.100.0"))

    with pytest.raises(ToolError, match=r"v3\.100\.0.* 3\.220\.0"):
        pulumi_cli.ensure()


def test_what_make_env_put_on_path_is_not_the_users_own(tools: Path) -> None:
    """After `eval "$(./rwi project env)"` the CLI under .tools is still that under .tools."""
    assert pulumi_cli.path_without_ours(f"{tools}/pulumi/bin:/usr/bin") == "/usr/bin"


@pytest.mark.parametrize(
    ("text", "version"),
    [("v3.220.0", (3, 220, 0)), ("3.9.12-alpha.1\n", (3, 9, 12)), ("", (0, 0, 0)), ("dev", (0, 0, 0))],
)
def test_a_version_is_compared_by_its_numbers(text: str, version: tuple[int, int, int]) -> None:
    """3.100 is newer than 3.20; what prints no version is older than any."""
    assert pulumi_cli.parse_version(text) == version


def test_what_builds_pulumi_is_loaded_only_where_it_is_needed() -> None:
    """Set-up with a CLI on PATH, or with the vendor's download, has nothing of that folder."""
    code = "import sys, cli.setup.bootstrap, cli.setup.pulumi_cli; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "cli.setup.vendor_download" in loaded.split()
    assert [name for name in loaded.split() if name.startswith("cli.pulumi_from_source")] == []


def test_the_version_built_is_at_least_the_minimum() -> None:
    """go.mod and the pinned minimum agree."""
    module = (build._CLI_MODULE / "go.mod").read_text(encoding="utf-8")
    built = next(line.split()[1] for line in module.splitlines() if "pulumi/pulumi/pkg/v3 v" in line)

    assert pulumi_cli.parse_version(built) >= pulumi_cli.MINIMUM


def test_pulumi_yaml_asks_for_what_make_asks_for() -> None:
    """The same minimum without make, which can be built here; and uv, whose lock says what the program needs."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))

    assert f">={pulumi_cli._text(pulumi_cli.MINIMUM)}" == project["requiredPulumiVersion"]
    assert {"toolchain": "uv", "virtualenv": ".venv"} == project["runtime"]["options"]


def test_what_the_language_host_asks_of_pip_is_answered(tmp_path: Path) -> None:
    """As it asks: every package installed with its version, and the folder in which it looks for a plugin's name."""
    build.install_pip_list(tmp_path)
    command = [sys.executable, "-m", "pip", "list", "-v", "--format", "json"]

    asked = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip

    found = {package["name"]: package for package in json.loads(asked.stdout)}
    assert version("pulumi") == found["pulumi"]["version"]
    assert (Path(found["pulumi"]["location"]) / "pulumi").is_dir()
    assert len(found) > 20


def test_it_passes_for_no_pip(tmp_path: Path) -> None:
    """Who asks it to install something is told what does."""
    build.install_pip_list(tmp_path)

    asked = subprocess.run(
        [sys.executable, "-m", "pip", "install", "x"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert 2 == asked.returncode
    assert "`uv` installs them" in asked.stderr
