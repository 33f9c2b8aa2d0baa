"""What is kept in storage is whole or not there."""

from pathlib import Path

import pytest
from pyarrow import fs

from training.launch.storage.run_storage import PART, Storage


@pytest.fixture
def kept(tmp_path: Path) -> Storage:
    """A folder that is not there yet."""
    return Storage.at(str(tmp_path / "kept"))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A file."""
    path = tmp_path / "made" / "below" / "weights"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\0\1")
    return path


def test_a_file_comes_back_as_it_was(kept: Storage, weights: Path, tmp_path: Path) -> None:
    """Names and contents."""
    kept.put(weights, "checkpoint-1/below/weights")
    assert list(kept.names()) == ["checkpoint-1/below/weights"]
    kept.within("checkpoint-1").fetch("below/weights", tmp_path / "back" / "weights")
    assert (tmp_path / "back" / "weights").read_bytes() == weights.read_bytes()


def test_a_file_that_is_half_written_is_none(kept: Storage, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, or a killed process."""

    def breaks(source: str, target: str, **_: object) -> None:
        Path(target).write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(fs, "copy_files", breaks)
    with pytest.raises(OSError, match="no space"):
        kept.put(weights, "weights")
    assert list(kept.names()) == []
    assert [PART] == [path.name[-len(PART) :] for path in Path(kept.folder).iterdir()]


def test_a_file_may_have_the_longest_name(kept: Storage, weights: Path, tmp_path: Path) -> None:
    """While it is half written, too."""
    name = 255 * "n"
    kept.put(weights, name)
    kept.fetch(name, tmp_path / "back" / name)

    assert [name] == list(kept.names())
    assert weights.read_bytes() == (tmp_path / "back" / name).read_bytes()


def test_a_file_that_comes_back_half_is_none(
    kept: Storage, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there before stays as it was."""
    kept.put(weights, "weights")
    copy, back = fs.copy_files, tmp_path / "back/weights"
    back.parent.mkdir()
    back.write_bytes(b"before")

    def breaks(source: str, target: str, **more: object) -> None:
        copy(source, target, **more)
        Path(target).write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(fs, "copy_files", breaks)
    with pytest.raises(OSError, match="no space"):
        kept.fetch("weights", back)
    assert {back: b"before"} == {path: path.read_bytes() for path in back.parent.iterdir()}


def test_what_is_removed_is_gone_and_nothing_else(kept: Storage, weights: Path) -> None:
    """One file of two."""
    kept.put(weights, "a")
    kept.put(weights, "b")
    kept.remove("a")
    assert list(kept.names()) == ["b"]


def test_a_folder_that_is_not_there_holds_nothing(kept: Storage) -> None:
    """Before the first checkpoint of a run."""
    assert list(kept.names()) == []
