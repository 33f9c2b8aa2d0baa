"""cli.stack.config: SET as keys and values, and the copy that keeps pulumi's writing out of the file in git."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.setup.project import ToolError
from cli.stack import config as stack_config

SALT = "encryptionsalt: v1:abc=:v1:def\n"


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("", {}),
        ("workers=3 epochs=5", {"workers": "3", "epochs": "5"}),
        ("  workers=3\tepochs=5 ", {"workers": "3", "epochs": "5"}),
        ("datasetPath='/data/my images'", {"datasetPath": "/data/my images"}),
        ("""scriptArguments='--to "a b"'""", {"scriptArguments": '--to "a b"'}),
        ("image=", {"image": ""}),
        ("image=a=b", {"image": "a=b"}),
        ("ray-worth-it:workers=3", {"ray-worth-it:workers": "3"}),
    ],
)
def test_set_is_read_as_a_shell_reads_words(text: str, overrides: dict[str, str]) -> None:
    """Blanks part the settings, quotes hold a value together, the first = ends the key."""
    assert stack_config.parse_overrides(text) == overrides


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("workers", "'workers' is not key=value"),
        ("workers 3", "'workers' is not key=value"),
        ("=3", "'=3' is not key=value"),
        ("--json=1", "'--json=1' is not key=value"),
        ("workers=3 workers=4", "workers is set twice"),
        ("image='a", "No closing quotation"),
    ],
)
def test_a_set_that_can_not_be_meant_is_refused(text: str, problem: str) -> None:
    """The message has the part that is wrong."""
    with pytest.raises(ToolError, match=problem):
        stack_config.parse_overrides(text)


def test_a_value_is_one_argument_of_pulumi() -> None:
    """Nothing in it can be taken for a flag or for two settings."""
    command = stack_config.overrides_command({"workers": "3", "image": "a --secret b=c"})

    assert command == ["config", "set-all", "--plaintext", "workers=3", "--plaintext", "image=a --secret b=c"]


def test_the_salt_of_the_earlier_copy_is_kept() -> None:
    """Another salt at each call would make secrets of earlier calls unreadable."""
    assert stack_config.with_secrets_of("config: {}\n", f"{SALT}config:\n  a: b\n") == f"{SALT}config: {{}}\n"


def test_a_salt_in_the_stack_file_wins() -> None:
    """A plain `pulumi up` wrote it there, and the values beside it are encrypted with it."""
    own = "encryptionsalt: v1:own\nconfig: {}\n"

    assert stack_config.with_secrets_of(own, SALT) == own


def test_nothing_else_of_the_earlier_copy_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SET of the last call is gone."""
    monkeypatch.setattr(stack_config, "FOLDER", tmp_path)
    stack_config.copy_path("local").write_text(f"{SALT}config:\n  workers: '3'\n", encoding="utf-8")

    path = stack_config.write_copy("config: {}\n", "local")

    assert path.read_text(encoding="utf-8") == f"{SALT}config: {{}}\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["Pulumi.local.yaml"]


def test_the_project_file_for_init_has_no_folder_for_stack_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the salt of a new stack is written beside it, and not into stacks/."""
    monkeypatch.setattr(stack_config, "FOLDER", tmp_path)

    text = (stack_config.write_init_project() / "Pulumi.yaml").read_text(encoding="utf-8")

    assert "stackConfigDir" not in text
    assert text.startswith("name: ")
