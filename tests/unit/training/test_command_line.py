"""Lines that messages tell a user to type: as that user calls the program, and as a shell takes them."""

import shlex
from pathlib import Path

import pytest

from cli.door import parse
from training.machine import command_line
from training.machine.command_line import CALLED, FROM, from_there, rwi


def test_a_line_reaches_the_command_as_it_was_meant() -> None:
    """Through a shell: blanks, quotes and dollars of values; the stack is named unless it is the default one."""
    settings = {"environment": "A=$HOME B='c d'", "epochs": "8"}
    line = rwi("up", "mine", settings)

    given = parse(shlex.split(line)[1:]).params
    assert ("mine", settings) == (given["stack"], given["settings"])
    assert "./rwi up" == rwi("up")


def test_paths_are_as_they_are_seen_from_where_the_command_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on in the project's folder; what is no path, or absolute, stays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FROM, str(tmp_path / "mine"))

    assert ["train.py", "python3", "/x/python"] == [
        from_there(path) for path in ("mine/train.py", "python3", "/x/python")
    ]
    monkeypatch.setenv(FROM, str(tmp_path))
    assert "mine/train.py" == from_there("mine/train.py")


@pytest.mark.parametrize(
    ("typed", "begins"),
    [("./rwi", "./rwi"), ("../x/rwi", "../x/rwi"), ("rwi", "./rwi"), ("/a b/rwi", "'/a b/rwi'")],
)
def test_a_line_begins_as_the_user_called(typed: str, begins: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another folder, and on a path with blanks."""
    monkeypatch.setenv(CALLED, command_line.called_as(typed))

    assert f"{begins} up" == rwi("up")
