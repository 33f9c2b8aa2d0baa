"""`rwi outputs`: the comparison again, without starting Pulumi where the state, or what was read of it, has it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from cli.setup.project import ToolError, project_name
from cli.stack import outputs
from compare.comparison import compare
from report.table import render
from tests.typed import typed
from tests.unit.results import make_context, make_recipe, make_runs

RECIPE = make_recipe()
COMPARISON = compare(make_runs(RECIPE), make_context(RECIPE))
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:a:b"}


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file backend, and no Pulumi that could be asked."""
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    monkeypatch.setattr(outputs, "_KEPT", tmp_path / "kept")
    monkeypatch.setattr("cli.stack.stack.of", lambda *_: pytest.fail("Pulumi would be asked"))
    return tmp_path


def stored(folder: Path, comparison: object) -> None:
    """Have a state with this comparison."""
    stack = {"type": "pulumi:pulumi:Stack", "urn": "u", "outputs": {"comparison": comparison}}
    file = folder / ".pulumi/stacks" / project_name() / "local.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"version": 3, "checkpoint": {"latest": {"resources": [stack]}}}))


@pytest.mark.parametrize("option", ["--json", ""])
def test_the_comparison_comes_from_the_state(backend: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    """As JSON byte for byte, or as the table."""
    text = COMPARISON.to_json()
    stored(backend, text)

    assert 0 == typed("outputs", *option.split())
    assert f"{text if option else render(COMPARISON)}\n" == capsys.readouterr().out


def test_a_secret_is_asked_for_once(
    backend: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As long as the state has the same: after the next update, of which nothing was read yet, Pulumi is asked."""
    text, asked = COMPARISON.to_json(), list[str]()
    stored(backend, SECRET)

    def measured() -> str:
        asked.append("")
        outputs.keep("local", SECRET, text)
        return text

    monkeypatch.setattr("cli.stack.stack.of", lambda *_: SimpleNamespace(measured=measured))
    for _ in range(3):
        assert 0 == typed("outputs", "--json")
    assert 3 * f"{text}\n" == capsys.readouterr().out
    assert 1 == len(asked)

    stored(backend, {**SECRET, "ciphertext": "v1:c:d"})
    assert outputs.known("local") is None


def test_what_changed_while_it_was_read_is_not_kept(backend: Path) -> None:
    """It may be the comparison before the update, or the one after."""
    stored(backend, {**SECRET, "ciphertext": "v1:c:d"})
    outputs.keep("local", SECRET, "{}")
    outputs.keep("local", None, "{}")

    assert outputs.known("local") is None


@pytest.mark.parametrize("kept", ["", "[]", "{}"])
def test_a_kept_file_that_is_not_whole_is_asked_for_again(backend: Path, kept: str) -> None:
    """A full disk, or another version."""
    stored(backend, SECRET)
    (backend / "kept").mkdir()
    (backend / "kept/local.json").write_text(kept)

    assert outputs.known("local") is None


def test_what_this_version_can_not_read_is_an_error(backend: Path) -> None:
    """One that an older version of the project wrote, perhaps."""
    stored(backend, "{}")

    with pytest.raises(ToolError):
        typed("outputs")
