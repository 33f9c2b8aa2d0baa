"""Previews of the real program and engine, compared: what `preview.yml` does, without GitHub."""

import os
import re
from pathlib import Path

import pytest

from cli.pull_request import __main__ as pull_request
from tests.program.engine import Project


def previewed(project: Project, out: Path) -> Path:
    """Previews of the stack `local`, and of one whose environment is not there."""
    for file in (project.folder / "stacks").iterdir():
        if file.name not in ("Pulumi.local.yaml", "Pulumi.torch.yaml"):
            file.unlink()
    pull_request.preview(out, project.folder)
    return out


@pytest.mark.slow
def test_the_comment_shows_what_a_changed_stack_file_changes(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No difference, one in a property, and settings that the head refuses; the checkout stays as it was."""
    for name in ("PATH", "PULUMI_HOME", "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"):
        monkeypatch.setenv(name, project.environment[name])
    stack_file = project.folder / "stacks/Pulumi.local.yaml"
    settings = stack_file.read_text()
    base = previewed(project, tmp_path / "base")
    same = previewed(project, tmp_path / "same")
    untouched = stack_file.read_text()
    stack_file.write_text(settings + '  epochs: "5"\n')
    other = previewed(project, tmp_path / "other")
    stack_file.write_text(settings + '  workers: "0"\n')
    refused = previewed(project, tmp_path / "refused")

    shown = []
    for head in (same, other, refused):
        pull_request.main(["diff", str(base), str(head)])
        shown.append(capsys.readouterr().out)

    assert settings == untouched
    left = {path.name for path in (project.folder / "stacks").iterdir()}
    assert {"Pulumi.local.yaml", "Pulumi.torch.yaml"} == left
    assert re.search(r"^- \*\*local\*\*: .*\b18\b", shown[0], re.MULTILINE)
    assert 3 == sum("examples/.venv/bin/python" in text.partition("\n- **torch**: ")[2] for text in shown)
    assert "<b>local</b>: 16 changed," in shown[1]
    assert 16 == shown[1].count('\n+   recipe.epochs: "5"\n')
    assert "<summary><b>local</b>: " in shown[2]
    assert "\n! " in shown[2]
    assert "pulumi config rm workers" in shown[2]
    assert [] == [text for text in shown if os.fspath(project.folder) in text]
