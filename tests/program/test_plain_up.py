"""`pulumi up` of a script that trains in one process, for real: it is measured as it is, beside a start of Ray."""

import pytest

from tests.program.conftest import NewProject
from tests.program.engine import Project

SCRIPT = """
import numpy as np

rows = np.random.default_rng(0).normal(size=(4000, 20))
labels = rows @ np.arange(20) > 0
weights = np.zeros(20)
for _ in range(200):
    weights -= 0.1 * rows.T @ (1 / (1 + np.exp(-rows @ weights)) - labels) / len(rows)
"""


@pytest.fixture
def project(new_project: NewProject) -> Project:
    """With a script of NumPy alone, which takes no number of workers."""
    made = new_project(stub=False)
    script = made.folder.parent / "mine" / "train.py"
    script.parent.mkdir()
    script.write_text(SCRIPT, encoding="utf-8")
    made.create_stack(workload="script", script="../mine/train.py", repeats="3", wideArm="true")
    return made


def test_a_plain_script_has_a_bound_and_no_claim(project: Project) -> None:
    """Ray's start alone takes longer than the whole run, so no way of writing it is worth it; a second `up` changes
    nothing."""
    shown = project.pulumi("preview")
    up = project.up()
    found = project.comparison()
    bound = found["bound"]

    assert "ray_alone.py 2 1 tasks --imports numpy" in shown  # not prose: a command
    assert "Not worth it here" == found["answer"] == project.outputs()["answer"], up  # not prose: the answer
    assert ["baseline", "raystart", "wide"] == sorted(found["arms"])
    assert {"native", "ray"} == set(found["absent"])
    assert found["claim"] is None
    assert {None} == {*found["ratios"].values(), found["breakEvenEpochs"], found["longer"], found["projection"]}
    assert {} == found["breakEven"]
    assert {"baseline", "wide"} == set(bound["atMost"])
    assert bound["leastSeconds"] == pytest.approx(
        0.8 * bound["startSeconds"]["low"] + bound["sharedSeconds"]["low"] / 2
    )
    for ratio, shared in zip(bound["atMost"]["baseline"]["values"], bound["sharedSeconds"]["values"], strict=True):
        assert ratio * bound["leastSeconds"] >= shared
    assert {} == project.preview()
