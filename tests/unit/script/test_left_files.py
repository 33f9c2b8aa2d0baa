"""What a run leaves in the script's folder is told, as every later run finds it; what its patterns name outlives it."""

import hashlib
from itertools import product
from pathlib import Path

import pytest

from training.launch.storage.run_storage import Storage
from training.workloads.script import left_files
from training.workloads.script.recipe import patterns


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What `{storage}` stood for, as Ray Train leaves it."""
    for name in ("train/checkpoint_1/model.pt", "train/checkpoint_2/model.pt", "train/snapshot.json"):
        path = tmp_path / "storage" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "storage"


def test_what_matches_is_kept_with_its_digest(folder: Path, tmp_path: Path) -> None:
    """Once, though two patterns name it."""
    kept = left_files.keep(folder, ["train/checkpoint_*/*.pt", "**/model.pt"], str(tmp_path / "kept"))

    assert ["artifacts/train/checkpoint_1/model.pt", "artifacts/train/checkpoint_2/model.pt"] == [
        one.path for one in kept
    ]
    for one in kept:
        content = (tmp_path / "kept" / one.path).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (one.bytes, one.sha256)
    assert [one.path for one in kept] == list(Storage.at(str(tmp_path / "kept")).names())


def test_a_file_comes_back_whatever_its_name_ends_in(folder: Path, tmp_path: Path) -> None:
    """A download's and an archive's parts, too: what the result names is in storage."""
    (folder / "archive.part").write_text("half")

    kept = left_files.keep(folder, ["*.part"], str(tmp_path / "kept"))

    assert [one.path for one in kept] == list(Storage.at(str(tmp_path / "kept")).names()) == ["artifacts/archive.part"]


def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    """A pattern reaches no file of this machine; a link to a file of the folder is that file."""
    (tmp_path / "secret.pt").write_text("secret")
    (folder / "away.pt").symlink_to(tmp_path / "secret.pt")
    (folder / "best.pt").symlink_to(folder / "train/checkpoint_2/model.pt")

    kept = left_files.keep(folder, ["*.pt"], str(tmp_path / "kept"))

    assert ["artifacts/best.pt"] == [one.path for one in kept]
    assert "train/checkpoint_2/model.pt" == (tmp_path / "kept/artifacts/best.pt").read_text()


def test_a_pattern_that_no_search_takes_is_refused_before_a_script_trains(folder: Path) -> None:
    """Any made of these parts: what is accepted is searched for when a training is done, and must not end it."""
    parts = ("", ".", "..", "*", "**", "***", "a**", "**.pt", "[", "model.pt")
    accepted = []
    for word in {"/".join(chosen) for count in (1, 2, 3) for chosen in product(parts, repeat=count)}:
        try:
            accepted += patterns(f"'{word}'")
        except ValueError:
            continue

    assert {"*", "**", "**/model.pt", "./*", "*/**/model.pt"} <= set(accepted)
    for word in accepted:
        assert all(path.is_relative_to(folder) for path in folder.glob(word))


def test_files_that_were_made_or_changed_are_named(tmp_path: Path) -> None:
    """The first few of them; what was there and stayed as it was is not."""
    for name in ("train.py", "data/rows.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one", encoding="utf-8")
    before = left_files.look(tmp_path)

    assert [] == left_files.since(before, tmp_path)
    (tmp_path / "data/rows.csv").write_text("other", encoding="utf-8")
    for number in range(5):
        (tmp_path / f"model-{number}.pt").write_text("x", encoding="utf-8")
    assert ["data/rows.csv", "model-0.pt", "model-1.pt"] == left_files.since(before, tmp_path)


def test_folders_of_tools_are_passed_over(tmp_path: Path) -> None:
    """Python's own caches change nothing that a run computes."""
    before = left_files.look(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/helpers.pyc").write_text("x", encoding="utf-8")

    assert [] == left_files.since(before, tmp_path)


def test_a_folder_with_too_much_in_it_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every file was looked at, so that one which seems new may have been there."""
    monkeypatch.setattr(left_files, "MOST_LOOKED_AT", 3)
    for number in range(5):
        (tmp_path / f"{number}").write_text("x", encoding="utf-8")
    before = left_files.look(tmp_path)
    (tmp_path / "0a").write_text("x", encoding="utf-8")

    assert [] == left_files.since(before, tmp_path)
