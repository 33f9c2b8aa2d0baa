"""The catalogue: a measure or a ratio is one entry, and everything that shows numbers is made from it."""

import re
from pathlib import Path

import pytest

from cli.docs import outputs_table
from compare import measures
from compare.comparison import compare, scalar_names, scalars
from compare.entries import Measure, Ratio
from compare.schema import Comparison
from report import html, table
from report.change import changes
from tests.unit.results import make_context, make_runs
from training.contract.arms import ARMS
from training.contract.recipe import WORKLOADS

LOSS = Measure(
    name="lossOverSteps",
    title="Loss over steps",
    meaning="a measure that nobody needs",
    unit="/step",
    digits=5,
    column="loss/step",
    in_changes=True,
    of=lambda run, _: (run.result.scores["testLoss"] or 0) / run.result.steps.timed,
)
GAIN = Ratio(
    name="startupRatio",
    title="Start-up ratio",
    above="ray",
    below="baseline",
    of=lambda run, _: run.result.seconds.startup,
    words=("quicker", "later"),
    in_changes=True,
    meaning="ray / baseline start-up",
)


@pytest.fixture
def extended(monkeypatch: pytest.MonkeyPatch) -> Comparison:
    """A comparison with one measure and one ratio more."""
    monkeypatch.setattr(measures, "MORE", (*measures.MORE, LOSS))
    monkeypatch.setattr(measures, "RATIOS", (*measures.RATIOS, GAIN))
    return compare(make_runs(), make_context())


@pytest.mark.usefixtures("undrawn")
def test_a_measure_is_one_entry(extended: Comparison, tmp_path: Path) -> None:
    """It is in the comparison, the table, the page, in what changed, and in the docs."""
    assert extended.arms["ray"].median("lossOverSteps") == pytest.approx(0.08 / 57)
    assert "loss/step" in table.render(extended)
    assert "Loss over steps" in html.render(extended, "local", tmp_path)
    assert {"loss over steps"} <= {change.title for change in changes(extended, extended)}
    assert f"| `lossOverSteps` | *{LOSS.title}*: {LOSS.meaning} |" in outputs_table.text()  # not prose: Markdown


@pytest.mark.usefixtures("undrawn")
def test_a_ratio_is_one_entry(extended: Comparison, tmp_path: Path) -> None:
    """Likewise, and it is an output of the stack and a row of docs/outputs.md."""
    value = extended.ratios["startupRatio"]

    assert value is not None
    assert (value.median, value.decision) == (3.0, "later")
    assert scalars(extended)["startupRatio"] == 3.0
    assert "startupRatio" in scalar_names()
    (row,) = [line for line in table.render(extended).splitlines() if line.startswith("startupRatio ")]
    assert ["startupRatio", "3.00×", "3.00", "to", "3.00", "later", *GAIN.meaning.split()] == row.split()
    assert "Start-up ratio" in html.render(extended, "local", tmp_path)
    assert "start-up ratio" in {change.title for change in changes(extended, extended)}
    assert f"| `startupRatio` | *{GAIN.title}*: {GAIN.meaning} |" in outputs_table.text()  # not prose: Markdown


def test_the_docs_have_every_measure_of_a_workload_once() -> None:
    """In the table that names the workload; none stands there that the workload lacks."""
    sections = outputs_table.text().split("## Measures of an arm: ")[1:]
    found = [
        (workload, name)
        for section in sections
        for workload in re.findall(r"`(\w+)`", section.splitlines()[0])
        for name in re.findall(r"^\| `(\w+)`", section.partition("\n## ")[0], re.MULTILINE)
    ]

    assert sorted(found) == sorted((name, each.name) for name in WORKLOADS for each in measures.measures_of(name))


def test_names_are_unique_and_arms_exist() -> None:
    """Two entries of one name would hide each other in the comparison."""
    entries = [*(each.name for each in measures.measures_of("cnn")), *(each.name for each in measures.RATIOS)]

    assert len(set(entries)) == len(entries)
    assert {name for each in measures.RATIOS for name in (each.above, each.below)} <= set(ARMS)


def test_roles_of_the_arms() -> None:
    """One reference and one subject, always measured; every other arm names the setting that leaves it out, or the
    workload that alone has it."""
    roles = [arm.usual_role for arm in ARMS.values()]

    assert (roles.count("reference"), roles.count("subject")) == (1, 1)
    others = [arm for arm in ARMS.values() if arm.usual_role in ("control", "variant", "alternative")]
    assert all(arm.switch or arm.only for arm in others)
