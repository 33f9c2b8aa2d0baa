"""Keys of earlier versions: a stack that still has one is refused with the line that sets what took its place."""

from pathlib import Path

import pytest

from infra.settings.removed import REMOVED, REPLACEMENTS, Replacement
from infra.settings.table import every_key
from tests.unit.settings_machine import applied, machine, only_problem, problems
from tools.setup.project import ToolError
from tools.stack import change

FORMER = {"dashboardNodePort": "30300"}
"""A value of each removed key that a stack of an earlier version may have."""


def test_a_removed_key_is_no_key_any_more() -> None:
    """Each has a value here, so that none is left untested."""
    assert not REMOVED.keys() & every_key().keys()
    assert REMOVED.keys() == FORMER.keys()


@pytest.mark.parametrize("replacement", REPLACEMENTS, ids=lambda replacement: replacement.keys[0])
def test_a_removed_key_is_refused_with_what_to_set_instead(replacement: Replacement) -> None:
    """Keys that one key replaced are one problem, and its line leaves none of them."""
    former = {key: FORMER[key] for key in replacement.keys}
    refusal = only_problem(**former)

    assert all(f"{key} = " in refusal for key in former)
    assert not former.keys() & applied(former, refusal.fixes[0]).keys()


def test_a_removed_secret_is_not_shown() -> None:
    """Neither in the refusal nor in the line that fixes it."""
    (problem,) = problems(machine(secret=frozenset({"dashboardNodePort"})), dashboardNodePort="hunter2")

    assert "hunter2" not in str(problem)


@pytest.mark.parametrize("key", REMOVED)
def test_make_set_refuses_a_removed_key(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what takes its place; one that stands in a stack's file can be removed from it."""
    (tmp_path / "Pulumi.mine.yaml").write_text(f"config:\n  {key}: '1'\n", encoding="utf-8")
    monkeypatch.setattr("tools.setup.project.STACKS", tmp_path)

    with pytest.raises(ToolError) as refused:
        change.checked("mine", {key: FORMER[key]})
    assert REMOVED[key].instead in str(refused.value)
    assert {key: None} == change.checked("mine", {key: ""})
