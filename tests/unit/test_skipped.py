"""What was skipped is said in ten lines, by what brings it."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.skipped import KINDS, LATE, LEFT_OUT, OF_THE_MACHINE, kind_of, lines
from tests.unit.test_imports import parsed

TESTS = Path(__file__).resolve().parents[1]
OF_MACHINES = (
    "CPU", "Linux", "root", "mounts", "system", "GiB", "cgroup", "Python is no program",
    "takes root", "a container's", "is no library", "physical cores", "IPv6",
)  # fmt: skip
"""In reasons that no program and no variable takes away."""
NAME = re.compile(r"[A-Z]+(?:_[A-Z]+)+|pulumi-resource-\w+")
"""Of a variable or a plugin."""


def test_a_kind_has_one_line() -> None:
    """With the tests of each folder; the most first."""
    said = lines(
        [
            ("tests/unit/cli/test_a.py::test_1[x]", "Skipped: root may write everywhere"),
            ("tests/program/test_b.py::test_1", f"Skipped: {LEFT_OUT}"),
            ("tests/search/test_c.py::test_1", f"Skipped: {LEFT_OUT}"),
            ("tests/search/test_c.py::test_2", f"Skipped: {LEFT_OUT}"),
        ]
    )

    assert [next(iter(KINDS)), OF_THE_MACHINE] == [line.partition(": ")[2] for line in said]
    assert [["3", "1", "2"], ["1", "1"]] == [re.findall(r"\d+", line.partition(":")[0]) for line in said]


def test_there_are_ten_lines_at_the_most() -> None:
    """And each kind has its reasons."""
    assert len(KINDS) < 10
    assert 2 == len({kind_of(LEFT_OUT), kind_of(LATE)})


def test_every_reason_is_of_a_kind() -> None:
    """Of those that stand in the tests: one of no kind would be said to be of the machine."""
    of_none = [each for path in TESTS.rglob("*.py") for each in reasons(path) if kind_of(each) == OF_THE_MACHINE]

    assert [] == [each for each in of_none if not any(word in each for word in OF_MACHINES)]
    assert of_none


def test_a_kind_names_what_its_reasons_name() -> None:
    """Who puts there what a line says has the tests run: no other variable or plugin is what they lack."""
    named = [(each, set(NAME.findall(each))) for path in TESTS.rglob("*.py") for each in reasons(path)]

    assert [] == [each for each, names in named if not names <= set(NAME.findall(kind_of(each)))]
    assert {"CLUSTER_ENV", "TRY_PYTHON", "pulumi-resource-kubernetes"} <= {name for _, names in named for name in names}


@cache
def reasons(path: Path) -> list[str]:
    """The texts given to pytest's skip, skipif and importorskip."""
    found = []
    for node in ast.walk(parsed(path)) if "skip" in path.read_text(encoding="utf-8") else ():
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("skip", "skipif", "importorskip"):
            found += [each.value for each in node.keywords if each.arg == "reason"]
            found += node.args[:1] if node.func.attr == "skip" else []  # type: ignore[attr-defined]
    return [text for each in found if (text := _text(each))]


def _text(node: ast.expr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))
