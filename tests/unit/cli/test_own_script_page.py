"""docs/own-script.md has the items of the same work, and says where the keys of why.json are explained."""

import ast
import inspect
import re
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeGuard

import pytest

from cli.docs import same_work_table
from compare.why import ArmWhy, Cause, Distribution, Effect, Why
from tests.script.adversaries.table import BEYOND, CASES
from training.workloads.script.work_items import ITEMS


def test_the_docs_have_the_list() -> None:
    """As it is in the code: `python -m cli.docs.same_work_table` writes it."""
    page = same_work_table.PATH.read_text(encoding="utf-8")

    assert page == same_work_table.in_page(page)


def test_every_error_names_scripts_that_are_tried() -> None:
    """A correct one is accused of nothing, and says so of that item where its claim is lower."""
    outcomes = {case.name: case for case in (*CASES, *BEYOND)}

    for item in ITEMS:
        assert item.right
        assert item.wrong
        for name in re.findall(r"`((?:right|wrong|beyond)/\w+)`", f"{item.right} {item.wrong}"):
            assert name in outcomes
            if name.startswith("right/"):
                assert "not comparable" not in outcomes[name].outcomes
            if name.startswith("right/") and "same work" not in outcomes[name].outcomes:
                assert item.name in outcomes[name].items


@pytest.mark.parametrize("kind", [Why, ArmWhy, Effect, Cause, Distribution])
def test_every_key_of_why_json_is_explained(kind: type) -> None:
    """By a text below it, in the file that the page names."""
    module = ast.parse(Path(inspect.getfile(kind)).read_text(encoding="utf-8"))
    (body,) = [each.body for each in module.body if isinstance(each, ast.ClassDef) and each.name == kind.__name__]
    explained = {key.target.id for key, text in pairwise(body) if _is_field(key) and _is_text(text)}

    assert {each.name for each in fields(kind)} == explained
    assert "`compare/why.py`" in same_work_table.PATH.read_text(encoding="utf-8")


def _is_field(statement: ast.stmt) -> TypeGuard[Any]:
    return isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
