"""`rwi outputs`: the comparison again, without starting Pulumi where the state has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.setup.project import ToolError, project_name
from cli.stack import outputs
from compare.comparison import compare
from report.table import render
from tests.unit.results import make_context, make_recipe, make_runs

RECIPE = make_recipe()
COMPARISON = compare(make_runs(RECIPE), make_context(RECIPE))


def measured(folder: Path, monkeypatch: pytest.MonkeyPatch, comparison: str) -> None:
    """Have a state with a comparison in a file backend, and no Pulumi that could be asked."""
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{folder}")
    monkeypatch.setattr("cli.stack.stack.of", lambda *_: pytest.fail("Pulumi would be asked"))
    stack = {"type": "pulumi:pulumi:Stack", "urn": "u", "outputs": {"comparison": comparison}}
    file = folder / ".pulumi/stacks" / project_name() / "local.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"version": 3, "checkpoint": {"latest": {"resources": [stack]}}}))


@pytest.mark.parametrize("as_json", [True, False])
def test_the_comparison_comes_from_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    """As JSON byte for byte, or as the table."""
    text = COMPARISON.to_json()
    measured(tmp_path, monkeypatch, text)

    assert 0 == outputs.show("local", as_json=as_json)
    assert f"{text if as_json else render(COMPARISON)}\n" == capsys.readouterr().out


def test_what_this_version_can_not_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that an older version of the project wrote, perhaps."""
    measured(tmp_path, monkeypatch, "{}")

    with pytest.raises(ToolError):
        outputs.show("local", as_json=False)
