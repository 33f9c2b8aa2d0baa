"""Lines that messages tell a user to type: as that user calls the program, and as a shell takes them."""

import shlex

import pytest

from tests.typed import parse
from training.machine import command_line
from training.machine.command_line import CALLED, rwi


def test_a_line_reaches_the_command_as_it_was_meant() -> None:
    """Through a shell: blanks, quotes and dollars of values; the stack is named unless it is the default one."""
    settings = {"environment": "A=$HOME B='c d'", "epochs": "8"}
    line = rwi("up", "mine", settings)

    given = parse(shlex.split(line)[1:]).params
    assert ("mine", settings) == (given["stack"], given["settings"])
    assert "./rwi up" == rwi("up")


@pytest.mark.parametrize(
    ("typed", "begins"),
    [("./rwi", "./rwi"), ("../x/rwi", "../x/rwi"), ("rwi", "./rwi"), ("/a b/rwi", "'/a b/rwi'")],
)
def test_a_line_begins_as_the_user_called(typed: str, begins: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another folder, and on a path with blanks."""
    monkeypatch.setenv(CALLED, command_line.called_as(typed))

    assert f"{begins} up" == rwi("up")
