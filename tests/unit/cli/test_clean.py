"""cli.stack.clean: what goes, what stays, and when it is refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from cli.setup.project import STACKS, ToolError
from cli.stack import clean, environment
from tests.golden import Wording


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
    return tmp_path


def _left(project: Path) -> list[str]:
    return sorted(str(entry.relative_to(project)) for entry in project.rglob("*"))


def test_measurements_stay(project: Path, capsys: pytest.CaptureFixture[str], wording: Wording) -> None:
    """They are what the project is for; the line says how to remove them too."""
    assert clean.clean(with_measurements=False) == 0
    assert _left(project) == ["results", "runs", "training", "training/train.py"]
    said = capsys.readouterr().err
    assert "`./rwi project clean --all`" in said
    wording("clean", said)


def test_all_removes_measurements_too(project: Path, capsys: pytest.CaptureFixture[str], wording: Wording) -> None:
    """What is left is what git has. What was removed is said, with how many measurements, and once."""
    for name in ("runs/local/ray-1", "runs/local/ray-2", "runs/mine/ray-1", "results/local/20250301T120400Z-754daf31"):
        (project / name).mkdir(parents=True)
    (project / "results/local/latest").symlink_to("20250301T120400Z-754daf31")
    (project / ".state/ports").mkdir()
    (project / ".state/ports/train-torchrun.py.diff").touch()

    assert clean.clean(with_measurements=True) == 0
    assert _left(project) == ["training", "training/train.py"]
    wording("clean", capsys.readouterr().err)


def test_what_is_in_storage_stays_and_is_said(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wording: Wording
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

    assert clean.clean(with_measurements=True) == 0
    assert checkpoint.exists()
    said = capsys.readouterr().err
    assert "1.0 MiB" in said
    assert f"rm -r {project}/kept/local\n" in said
    assert "aws s3 ls s3://bucket/a/kubernetes/\n" in said
    assert "gcloud storage ls gs://bucket/ci/\n" in said
    wording("clean", said)


def test_the_bucket_of_an_example_is_nobody_s(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack files that come with the project name it; nothing was ever kept there."""
    monkeypatch.setattr(clean, "STACKS", STACKS)
    assert any(clean.EXAMPLE in file.read_text() for file in STACKS.glob("Pulumi.*.yaml"))

    assert [] == clean.left_in_storage()


@pytest.mark.parametrize(
    "written",
    [
        *("kept", "/data/my runs", "/data/my runs  # mine", '"/data/my runs" # mine', "/data/run#1", "'it''s mine'"),
        *('"a \\"b\\" c"', "'s3://bucket/a'", "s3://bucket/a\r", "", "# none", '""', "~/runs", "C:kept", "-a"),
    ],
)
def test_a_value_is_read_as_yaml_has_it(written: str) -> None:
    """What is printed to be pasted deletes no other folder: with blanks, quotes and comments."""
    text = f"config:\n  ray-worth-it:storageRegion: eu\n  ray-worth-it:storage: {written}\n  ray-worth-it:epochs: '2'\n"

    read = yaml.safe_load(text)["config"]["ray-worth-it:storage"]
    assert (read or "") == clean.setting_in(text, "storage")
    assert "" == clean.setting_in(text, "storageEndpoint")


@pytest.mark.parametrize(
    "written", ["/data/my\n    runs", "|\n    a", "&a b", "!!str a", '"a\\x41"', "'a", "~", "\n    secure: a"]
)
def test_what_is_not_read_is_deleted_by_no_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, written: str, wording: Wording
) -> None:
    """It is said that something stays, and where it is named."""
    (project / "data/local").mkdir(parents=True)
    (project / "data/local/theirs").touch()
    (project / "stacks").mkdir()
    (project / "stacks/Pulumi.local.yaml").write_text(f"config:\n  ray-worth-it:storage: {written}\n")

    (line,) = clean.left_in_storage()
    assert f"{project}/stacks/Pulumi.local.yaml" in line
    assert "rm " not in line
    if written == "~":  # of the texts that are not read, which all end in the same words
        wording("clean", line)


def test_the_line_that_deletes_is_quoted_and_asks_the_stack_s_server(project: Path) -> None:
    """With blanks it is one folder; and AWS is not where MinIO's bucket is."""
    (project / "my runs/local").mkdir(parents=True)
    (project / "my runs/local/model.keras").touch()
    (project / "stacks").mkdir()
    (project / "stacks/Pulumi.local.yaml").write_text("config:\n  ray-worth-it:storage: my runs  # here\n")
    (project / "stacks/Pulumi.minio.yaml").write_text(
        "config:\n  ray-worth-it:storage: s3://bucket\n  ray-worth-it:storageEndpoint: http://minio:9000\n"
    )

    bucket, folder = clean.left_in_storage()
    assert bucket.endswith("aws s3 ls s3://bucket/minio/ --endpoint-url http://minio:9000")
    assert ["rm", "-r", f"{project}/my runs/local"] == shlex.split(folder.partition("to delete them: ")[2])


def test_a_link_is_removed_and_not_what_it_leads_to(project: Path) -> None:
    """An environment may be shared."""
    (project / ".venv").rmdir()
    (project / ".venv").symlink_to(project / "training")
    clean.clean(with_measurements=False)

    assert (project / "training/train.py").exists()
    assert not (project / ".venv").exists()


def test_nothing_goes_while_a_stack_holds_resources(
    project: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """Each such stack is named with the command that empties it; a backend of the user's own counts too."""
    monkeypatch.setattr(clean, "_held_elsewhere", lambda: {"local": 9})
    before = _left(project)
    with pytest.raises(ToolError, match=r"\b9\b.*`./rwi destroy`") as refused:
        clean.clean(with_measurements=False)
    wording("clean", str(refused.value))

    assert _left(project) == before


def test_nothing_goes_while_the_state_in_it_holds_resources(project: Path) -> None:
    """It is in the folder that would go, and nothing else knows what the stack has."""
    run = {"urn": "urn:pulumi:mine::p::training:Run::ray-1", "type": "training:Run"}
    stack = environment.BACKEND / ".pulumi/stacks/p/mine.json"
    stack.parent.mkdir(parents=True)
    stack.write_text(json.dumps({"checkpoint": {"latest": {"resources": [run]}}}))

    with pytest.raises(ToolError, match=r"p/mine\b.*\b1\b.*`./rwi destroy --stack mine`"):
        clean.clean(with_measurements=False)

    assert stack.exists()
