"""What is said of the training images when a stack is destroyed."""

import re

import pytest

from infra.image import command
from infra.programs import ProgramError
from tests.golden import Wording

LISTED = "0123456789ab 1.47GB\nba9876543210 1.52GB\n<none> 1.40GB\n"


@pytest.mark.parametrize("repository", ["ray-worth-it/training", "registry.example.com/mine"])
def test_images_that_stay_are_named_with_the_line_that_removes_them(
    repository: str, wording: Wording, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By their names, and not ids: Docker refuses one that has two names. None is removed."""
    commands: list[tuple[str, ...]] = []

    def run(*words: str, **_: object) -> str:
        commands.append(words)
        return LISTED

    monkeypatch.setenv("IMAGE", f"{repository}:0123456789ab")
    monkeypatch.setattr(command, "run", run)

    command.remains()

    said = capsys.readouterr().err
    assert [("docker", "image", "ls", repository)] == [(*words[:3], words[-1]) for words in commands]
    assert ["1.47GB", "1.52GB"] == re.findall(r"[\d.]+GB", said)
    assert f"docker image rm {repository}:0123456789ab {repository}:ba9876543210\n" in said
    wording("image", said)


@pytest.mark.parametrize("listed", ["", ProgramError("docker is not installed")])
def test_nothing_is_said_of_no_images(
    listed: str | ProgramError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor where there is no engine: it keeps no stack from being destroyed."""

    def run(*_: str, **__: object) -> str:
        if isinstance(listed, ProgramError):
            raise listed
        return listed

    monkeypatch.setenv("IMAGE", "ray-worth-it/training:0123456789ab")
    monkeypatch.setattr(command, "run", run)

    command.remains()

    assert "" == capsys.readouterr().err
