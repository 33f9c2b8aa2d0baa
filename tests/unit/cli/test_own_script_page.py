"""docs/own-script.md has the items of the same work, and the keys of why.json."""

import re
from dataclasses import fields

from cli.docs import same_work_table
from compare.why import ArmWhy, Cause, Distribution, Effect, Why
from tests.script.adversaries.table import BEYOND, CASES
from training.contract.recipe import camel
from training.workloads.script.work_items import ITEMS

OF_WHY = {"the file": Why, "an arm": ArmWhy, "an effect": Effect, "a cause": Cause, "a distribution": Distribution}


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


def test_the_docs_have_every_key_of_why_json() -> None:
    """And no other."""
    page = same_work_table.PATH.read_text(encoding="utf-8")
    rows = re.findall(rf"^\| ({'|'.join(OF_WHY)}) \| ([^|]*) \|", page, re.MULTILINE)
    documented = {
        of: [key for other, keys in rows if other == of for key in re.findall(r"`(\w+)`", keys)] for of in OF_WHY
    }

    assert {of: sorted(camel(each.name) for each in fields(kind)) for of, kind in OF_WHY.items()} == {
        of: sorted(keys) for of, keys in documented.items()
    }
