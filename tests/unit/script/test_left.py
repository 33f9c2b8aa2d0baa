"""What a run leaves in the script's folder is told, as every later run finds it."""

from pathlib import Path

import pytest

from training.workloads.script import left_files


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
