"""How often somebody who follows an update from its first line to its last output goes back to a file."""

import json
import subprocess
import sys
from functools import cache

import pytest

from tests.unit.walk import ROOT, listed, returns


@pytest.mark.parametrize(
    ("stack", "part", "most"), [("local", "program", 34), ("local", "compare", 30), ("minikube", "program", 102)]
)
def test_an_update_is_read_without_going_back(stack: str, part: str, most: int) -> None:
    """The numbers are to fall: what a reader needs of a file is asked of it at once, and handed on as a value."""
    steps = [(file, function) for file, function in walk_of(stack)[part]]

    assert returns(steps) <= most, f"{returns(steps)} returns:\n{listed(steps)}"


@cache
def walk_of(stack: str) -> dict[str, list[list[str]]]:
    """The parts of a stack's way, in a process that has called nothing before."""
    command = [sys.executable, "-m", "tests.unit.program_recorder", stack, "--walk"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    walk: dict[str, list[list[str]]] = json.loads(done.stdout)["walk"]
    return walk
