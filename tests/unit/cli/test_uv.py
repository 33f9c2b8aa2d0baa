"""uv: when the environment is brought to the lock, with which extra, and what an interrupted install leaves."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from cli.setup import uv
from cli.setup.project import ROOT, ToolError

Commands = list[list[str]]
SYNC = ["sync", "--frozen", "--compile-bytecode"]


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """The uv commands run in an empty project with a lock; each one makes the environment it is asked for."""
    run: Commands = []

    def sync(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        run.append(command[1:])
        (tmp_path / ".venv").mkdir(exist_ok=True)
        for extra in {"dev", "tracking"} & set(command):
            _packages(tmp_path, extra).mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(command, 0)

    for name in uv._LOCKED:
        (tmp_path / name).write_text("as locked", encoding="utf-8")
    monkeypatch.setattr(uv, "ROOT", tmp_path)
    monkeypatch.setattr(uv, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(uv, "_STAMP", tmp_path / ".venv/.synced")
    monkeypatch.setattr(uv, "find_uv", lambda: Path("uv"))
    monkeypatch.setattr(subprocess, "run", sync)
    return run


def _packages(root: Path, extra: str) -> Path:
    return root / ".venv/lib/python3.11/site-packages" / {"dev": "pytest", "tracking": "mlflow"}[extra]


LEAST = [*SYNC, "--only-group", "script", "--inexact"]
BOTH = [*SYNC, "--group", "dev", "--extra", "tracking"]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param([{}, {}], [SYNC], id="an environment in sync is left alone: a warm `make` starts no uv"),
        pytest.param(
            [{"whole": False}, {"whole": False}, {}, {"whole": False}], [LEAST, SYNC],
            id="a try installs the least and takes nothing away, and what measures is installed once something does",
        ),
        pytest.param(
            [{}, {"lock": "changed", "whole": False}, {}], [SYNC, LEAST, SYNC],
            id="a try leaves what is there when the lock changes, and what measures next brings it to the lock",
        ),
        pytest.param(
            [{}, {"extras": ["dev"]}, {"extras": ["dev"]}, {}], [SYNC, [*SYNC, "--group", "dev", "--inexact"]],
            id="what checks need is added to what is there, and stays for calls that do not ask for it",
        ),
        pytest.param(
            [{"extras": ["dev"]}, {"lock": "changed"}], [[*SYNC, "--group", "dev"]] * 2,
            id="what left the lock leaves the environment, and the extra stays",
        ),
        pytest.param(
            [{"extras": ["tracking"]}, {"extras": ["dev"]}, {"lock": "changed"}],
            [[*SYNC, "--extra", "tracking"], [*BOTH, "--inexact"], BOTH],
            id="who tests and who tracks have one environment, also after the lock has changed",
        ),
    ],
)  # fmt: skip
def test_an_environment_is_brought_to_the_lock(
    calls: list[dict[str, Any]], expected: Commands, commands: Commands, tmp_path: Path
) -> None:
    """By as few uv commands as are needed. `lock`: what has become of the lock before a call."""
    for call in calls:
        if "lock" in call:
            (tmp_path / "uv.lock").write_text(call["lock"], encoding="utf-8")
        uv.sync(call.get("extras", []), whole=call.get("whole", True))

    assert expected == commands


def test_packages_that_somebody_took_away_are_added_again(commands: Commands, tmp_path: Path) -> None:
    """`pulumi install` removes what is in no default group; no stamp hides that."""
    uv.sync(["dev"])
    _packages(tmp_path, "dev").rmdir()
    uv.sync(["dev"])

    assert len(commands) == 2


def test_an_environment_whose_install_failed_does_not_count(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call tries again."""
    uv.sync([])
    (tmp_path / "uv.lock").write_text("changed", encoding="utf-8")
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 2))
    with pytest.raises(ToolError, match="uv sync --frozen"):
        uv.sync([])
    (tmp_path / "uv.lock").write_text("as locked", encoding="utf-8")

    assert not (tmp_path / ".venv/.synced").exists()


@pytest.mark.parametrize(("version", "is_used"), [("0.9.1 (abc)", True), ("0.8.30", False)])
def test_a_uv_on_path_is_used_unless_it_is_too_old(
    version: str, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is installed beside one that is new enough; pyproject.toml refuses one that is too old, too."""
    program, ours = tmp_path / "uv", tmp_path / "tools/uv" / uv.UV_VERSION / "uv"
    program.write_text(f"#!/bin/sh\necho 'uv {version}'\n", encoding="utf-8")
    program.chmod(0o755)
    ours.parent.mkdir(parents=True)
    ours.touch()
    monkeypatch.setattr(uv, "TOOLS", tmp_path / "tools")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert (program if is_used else ours) == uv.find_uv()
    assert (None if is_used else str(ours.parent)) == uv.folder_for_path()


def test_pulumi_finds_ours_by_its_name_where_path_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its language host starts `uv` from PATH, also where the CLI is the user's own; before it is there, nothing is."""
    monkeypatch.setattr(uv, "TOOLS", tmp_path / "tools")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    before = uv.folder_for_path()
    monkeypatch.setattr(uv, "_install", lambda target: (target.parent.mkdir(parents=True), target.touch(0o755)))
    found = uv.find_uv()

    assert before is None
    assert "uv" == found.name
    assert str(found.parent) == uv.folder_for_path()


def test_another_file_under_uv_s_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real pip compares its hash with the committed one, wherever it comes from, and nothing is kept."""
    program = f"uv-{uv.UV_VERSION}.data/scripts/uv"
    information = f"uv-{uv.UV_VERSION}.dist-info"
    with zipfile.ZipFile(tmp_path / f"uv-{uv.UV_VERSION}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(program, "#!/bin/sh\necho somebody else's\n")
        wheel.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: uv\nVersion: {uv.UV_VERSION}\n")
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{information}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setattr(uv, "TOOLS", tmp_path)
    monkeypatch.setattr(sys, "executable", sys.__dict__["_base_executable"])  # has pip

    with pytest.raises(ToolError, match=str(uv.REQUIREMENT.relative_to(ROOT))):
        uv._install(tmp_path / "uv" / "uv-test")
    assert [] == list((tmp_path / "uv").iterdir())


def test_what_is_installed_before_the_lock_can_be_read_has_hashes() -> None:
    """One version, and nothing but it."""
    text = (ROOT / "training/image/uv.txt").read_text(encoding="utf-8")
    requirement, *hashes = text.replace("\\\n", "").split()

    assert re.fullmatch(r"uv==[\d.]+", requirement)
    assert hashes
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes)


def test_pulumi_install_brings_what_every_stack_needs() -> None:
    """It is `uv sync`: default groups, and no extra. What checks and tests need is not among them.

    uv would look at each of 15,000 modules in every sync, if pyproject.toml had it compile them.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups, settings = project["dependency-groups"], project["tool"]["uv"]
    names = {re.split("[=><]", line)[0] for group in settings["default-groups"] for line in groups[group]}

    assert {"pulumi", "pulumi-kubernetes", "pulumi-command", "kubernetes", "pulumi-policy", "pip", "jinja2"} <= names
    assert set() == names & {"pytest", "mypy", "ruff", "moto"}
    assert "compile-bytecode" not in settings


def test_no_index_is_asked_once_and_what_helps_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pip itself has tried for a while by then."""
    monkeypatch.setattr(uv, "TOOLS", tmp_path)
    monkeypatch.setattr(uv, "_on_path", lambda: None)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(sys, "executable", sys.__dict__["_base_executable"])  # has pip

    with pytest.raises(ToolError, match="PIP_INDEX_URL"):
        uv.find_uv()
    assert "attempt" not in capsys.readouterr().err
