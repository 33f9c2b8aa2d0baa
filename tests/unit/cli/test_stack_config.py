"""cli.stack.config: the copy that keeps pulumi's writing out of the file in git."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.stack import config as stack_config

SALT = "encryptionsalt: v1:abc=:v1:def\n"


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
    """What the last call had is gone."""
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
