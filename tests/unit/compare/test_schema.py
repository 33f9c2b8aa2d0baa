"""The comparison's schema: what is made conforms to it, and the docs are made from it."""

import dataclasses
import json
import types
import typing
from typing import Any

import pytest

from cli.docs import outputs_table
from compare.comparison import compare
from compare.schema import Comparison
from tests.unit.results import COMPARED, RUN, make_context, make_runs
from training.contract.recipe import camel


def problems(value: Any, kind: Any, where: str) -> list[str]:
    """Where JSON data departs from a type; keys must be those of a dataclass, no more and no fewer."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return []
    if origin in (types.UnionType, typing.Union):
        found = [problems(value, argument, where) for argument in arguments]
        return [] if [] in found else found[0]
    if origin is list and isinstance(value, list):
        return [text for item in value for text in problems(item, arguments[0], f"{where}[]")]
    if origin is dict and isinstance(value, dict):
        return [text for key, item in value.items() for text in problems(item, arguments[1], f"{where}.{key}")]
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = {camel(name): hint for name, hint in typing.get_type_hints(kind).items()}
        wrong = [f"{where}.{key}" for key in set(hints) ^ set(value)]
        return wrong + [
            text for key in set(hints) & set(value) for text in problems(value[key], hints[key], f"{where}.{key}")
        ]
    expected = {int: (int,), float: (float, int), str: (str,), bool: (bool,), type(None): (type(None),)}.get(kind, ())
    is_bool_by_mistake = isinstance(value, bool) and kind is not bool
    return [] if isinstance(value, expected) and not is_bool_by_mistake else [f"{where} is {value!r}, not {kind}"]


@pytest.mark.parametrize("arms", [RUN, ("baseline", "ray"), COMPARED])
def test_comparisons_conform(arms: tuple[str, ...]) -> None:
    """Every key at every depth is in the schema with its type, and the other way round."""
    comparison = compare(make_runs(arms=arms), make_context(arms=arms))

    assert problems(json.loads(comparison.to_json()), Comparison, "comparison") == []


def test_an_empty_comparison_conforms() -> None:
    """Also when nothing was measured."""
    assert problems(json.loads(compare([], make_context()).to_json()), Comparison, "comparison") == []


def test_conformance_is_really_tested() -> None:
    """The walk finds a missing key, an unknown one and a wrong type."""
    data = json.loads(compare(make_runs(), make_context()).to_json())
    del data["arms"]["ray"]["runs"][0]["seed"]
    data["ratios"]["speedup"]["mean"] = 1.0
    data["arms"]["baseline"]["measures"]["testAccuracy"]["median"] = "0.9"

    assert sorted(problem.split(" ")[0] for problem in problems(data, Comparison, "c")) == [
        "c.arms.baseline.measures.testAccuracy.median",
        "c.arms.ray.runs[].seed",
        "c.ratios.speedup.mean",
    ]


def test_docs_are_made_from_the_schema() -> None:
    """docs/outputs.md is what the tool writes today: `python -m cli.docs.outputs_table` fixes it, too."""
    assert outputs_table.PATH.read_text(encoding="utf-8") == outputs_table.text()
