"""`rwi up` with `repeats auto` goes on by itself, on the real engine: until it ends, or its budget does."""

import json

import pytest

from compare.comparison import compare
from tests.program.rwi_project import Project, project
from tests.unit.results import make_context, make_runs

__all__ = ["project"]

PROGRAM = """
import json
import os
import pathlib

import pulumi

from training.machine.retries import retry

name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
last = retry(
    lambda: pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": name}).value["outputs"],
    (Exception,),
    lambda attempt, _: 0.2 * attempt if attempt < 6 else None,
)
before = len(json.loads(last["comparison"])["arms"]["ray"]["runs"]) if last else 3
repeats = before + int(os.environ["RAY_WORTH_IT_REPEATS_AT_A_TIME"])
pulumi.export("comparison", (pathlib.Path(__file__).parent / f"{repeats}.json").read_text())
"""
"""A repeat more at each update, of which the comparison lies in a file."""


def comparison(number: int, auto: str, budget: str = "") -> str:
    """What the stack says after so many repeats, of which each took about a minute."""
    settings = {"repeats": "auto"} | ({"budgetMinutes": budget} if budget else {})
    made = compare(make_runs(repeats=number), make_context(repeats=number, settings=settings))
    return json.dumps(json.loads(made.to_json()) | {"auto": auto})


@pytest.mark.parametrize(
    ("endings", "budget", "last"),
    [
        ({4: "goes on", 5: "goes on", 6: "decided"}, "", 6),
        ({4: "decided"}, "", 4),
        ({4: "goes on", 5: "decided"}, "1", 4),
    ],
    ids=["two more", "decided at once", "no time for another"],
)
def test_make_up_goes_on(project: Project, endings: dict[int, str], budget: str, last: int) -> None:
    """And shows the answer once, of the last comparison."""
    (project.folder / "__main__.py").write_text(PROGRAM)
    for repeats, ending in endings.items():
        (project.folder / f"{repeats}.json").write_text(comparison(repeats, ending, budget))

    done = project.rwi("up")

    assert 0 == done.returncode, done.stdout + done.stderr
    shown = [line for line in done.stdout.splitlines() if line.startswith("report table")]
    (table,) = (json.loads(line.removeprefix("report table")) for line in shown)
    assert last == len(table["arms"]["ray"]["runs"])
    assert bool(budget) == ("budgetMinutes 1" in done.stdout + done.stderr)
