"""`rwi report fetch` from a bucket into which others write, too: whatever its objects are called, one folder is
filled."""

from pathlib import Path

import pytest

from cli.fetch import fetch as tool
from tests.golden import Wording
from tests.storage.cloud import BUCKET, Cloud, put
from tests.typed import typed
from training.launch.storage.run_storage import Storage

RUN = "local/0a/ray-1-20260101T000000Z-aaaaaa"
OUTSIDE = ("sub/../../../../up.txt", "../../../up.txt", "..", "a/..", "/etc/passwd", "x//y", "./z", "a/./b", "sub/.")
SQUASHED = ("up.txt", "ray/up.txt")
"""Objects that a client which shortens a path asks for instead."""


@pytest.fixture
def project(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose stack keeps its runs in a bucket."""
    for name, value in cloud.variables(cloud.owner).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tool, "ROOT", tmp_path / "above" / "project")
    return tmp_path / "above" / "project"


def test_no_object_s_name_leads_out_of_the_folder(
    cloud: Cloud, project: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """It stays in storage and is named; what else the run kept is brought."""
    put(cloud, {f"fetch/{RUN}/{name}": "evil" for name in OUTSIDE} | {f"fetch/{RUN}/model/weights": "good"})
    put(cloud, {f"fetch/{name}": "evil" for name in SQUASHED} | {f"fetch/local/{name}": "evil" for name in SQUASHED})

    assert 0 == typed("report", "fetch", "ray-1", "--set", "storage=s3://runs/fetch")

    to = project / "runs/local/ray-1-20260101T000000Z-aaaaaa/kept"
    files = [path for path in project.parent.rglob("*") if path.is_file()]
    assert {to / tool.MARK, to / "model/weights"} == set(files)
    said = capsys.readouterr().out
    assert f"{len(OUTSIDE)} objects" in said
    wording("fetch", said)
    assert "'../../../up.txt'" in said


def test_storage_knows_no_such_name(cloud: Cloud, project: Path) -> None:
    """So neither checkpoints nor images nor curves are read from it."""
    put(cloud, {f"plain/{name}": "evil" for name in OUTSIDE} | {"plain/a/b": "good"})

    storage = Storage.at(f"s3://{BUCKET}/plain")
    assert ["a/b"] == list(storage.names())
    assert set(OUTSIDE) == set(storage.names_of_no_path())


def test_one_run_can_be_fetched_twice_whatever_it_kept(cloud: Cloud, project: Path) -> None:
    """An object called as the folder's mark does not replace it, and one that is a folder, too, is left there."""
    put(cloud, {f"fetch/{RUN}/{name}": "theirs" for name in (tool.MARK, f"{tool.MARK}/x", "both", "both/file", "one")})

    assert 0 == typed("report", "fetch", "ray-1", "--set", "storage=s3://runs/fetch")
    assert 0 == typed("report", "fetch", "ray-1", "--set", "storage=s3://runs/fetch")

    to = project / "runs/local/ray-1-20260101T000000Z-aaaaaa/kept"
    assert "0a/ray-1-20260101T000000Z-aaaaaa" == (to / tool.MARK).read_text()
    assert "theirs" == (to / "both/file").read_text() == (to / "one").read_text()
