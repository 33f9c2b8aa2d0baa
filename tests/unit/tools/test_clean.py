"""tools.stack.clean: what goes, what stays, and when it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.setup.project import ToolError
from tools.stack import clean, environment


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with all that make, the tests and Python put there, and a file of the project."""
    for name in (".venv", ".tools", ".state", "runs", "results", ".pytest_cache", "training/__pycache__"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "training/train.py").touch()
    monkeypatch.setattr(clean, "ROOT", tmp_path)
    for name, folder in {"VENV": ".venv", "TOOLS": ".tools", "STATE": ".state", "STACKS": "stacks"}.items():
        monkeypatch.setattr(clean, name, tmp_path / folder)
    monkeypatch.setattr(environment, "BACKEND", tmp_path / ".state/backend")
    monkeypatch.setattr(clean, "_held_elsewhere", dict)
    monkeypatch.delenv("ALL", raising=False)
    return tmp_path


def _left(project: Path) -> list[str]:
    return sorted(str(entry.relative_to(project)) for entry in project.rglob("*"))


def test_measurements_stay(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are what the project is for; the line says how to remove them too."""
    assert clean.main() == 0
    assert _left(project) == ["results", "runs", "training", "training/train.py"]
    assert capsys.readouterr().err == ("kept runs/ and results/: `make clean ALL=1` removes the measurements too\n")


def test_all_removes_measurements_too(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is what git has."""
    monkeypatch.setenv("ALL", "1")

    assert clean.main() == 0
    assert _left(project) == ["training", "training/train.py"]


def test_what_is_in_storage_stays_and_is_said(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the line that deletes it: that of a folder, of a bucket, and of a value that was given for one call."""
    checkpoint = project / "kept/local/0123456789ab/ray-1/checkpoint/weights.npz"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(bytes(2**20))
    (project / "stacks").mkdir()
    (project / "stacks/Pulumi.local.yaml").write_text("config:\n  ray-worth-it:storage: kept\n")
    (project / "stacks/Pulumi.kubernetes.yaml").write_text('config:\n  ray-worth-it:storage: "s3://bucket/a"\n')
    (project / ".state/config").mkdir()
    (project / ".state/config/Pulumi.ci.yaml").write_text("config:\n  ray-worth-it:storage: gs://bucket\n")
    monkeypatch.setenv("ALL", "1")

    assert clean.main() == 0
    assert checkpoint.exists()
    said = capsys.readouterr().err
    assert f"1 files, 1.0 MiB in {project}/kept/local; to delete them: rm -r {project}/kept/local\n" in said
    assert "to delete it: aws s3 rm --recursive s3://bucket/a/kubernetes\n" in said
    assert "to delete it: gcloud storage rm --recursive gs://bucket/ci\n" in said


def test_a_link_is_removed_and_not_what_it_leads_to(project: Path) -> None:
    """An environment may be shared."""
    (project / ".venv").rmdir()
    (project / ".venv").symlink_to(project / "training")
    clean.main()

    assert (project / "training/train.py").exists()
    assert not (project / ".venv").exists()


def test_nothing_goes_while_a_stack_holds_resources(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each such stack is named with the command that empties it; a backend of the user's own counts too."""
    monkeypatch.setattr(clean, "_held_elsewhere", lambda: {"local": 9})
    before = _left(project)
    with pytest.raises(ToolError, match=r"local holds 9 resource\(s\): `STACK=local make destroy` first"):
        clean.main()

    assert _left(project) == before
