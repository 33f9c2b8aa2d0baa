"""The arm with Ray Data: compared with `ray` alone, if both trained on as many rows, and in no part of the verdict."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from compare.comparison import compare, scalars
from compare.measurement import Context
from compare.schema import Comparison
from report import html, table
from tests.golden import Wording
from tests.unit.script.measurements import EPOCHS, run_of
from tests.unit.script.test_facts import rank
from training.workloads.script.observations import Observation
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import Script
from training.workloads.script.step_clock import SeenPass

ARMS = ("baseline", "native", "ray", "raydata")
WALL = {"baseline": 20.0, "native": 21.0, "ray": 40.0, "raydata": 60.0}
STEPS, BATCH = 12, 64
Measured = Callable[..., Comparison]
Seen = Callable[[str, int], Sequence[Observation]]


def waited(arm: str, repeat: int, workers: int = 1, lost: int = 0, **more: Any) -> list[Observation]:
    """Three epochs of 256 rows: Ray Data waits longer, and numbers no rows. `lost`: rows of the last step."""
    world, data = (1 if arm == "baseline" else workers), arm == "raydata"
    rows = [BATCH // world * (step + 1) for step in range(STEPS)]
    rows[-1] -= lost if data else 0
    ends = [105.0 + 0.4 * step + 0.001 * repeat for step in range(STEPS)]
    of_data: dict[str, Any] = {"markedPasses": None, "datasetRows": None, "datasetIdentity": None, "epochRows": None}
    values: dict[str, Any] = {
        "stepEnds": ends, "rowsAtStep": rows, "endedEarly": False, "passes": EPOCHS,
        "threadCpus": [[list(range(2 * workers)), 1.0]], "dataWaitSeconds": 9.0 if data else 2.0,
        "firstBatchAt": 104.0 if data else 103.0, **(of_data if data else {}),
    }  # fmt: skip
    return [rank(number, world, batch=BATCH // world, steps=STEPS, **values | more) for number in range(world)]


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    """The comparison of four repeats of which this was seen."""
    path = tmp_path / "train.py"
    path.write_text("import ray.data, ray.train.torch\n")
    script = Script(
        path=path, kind="ray-torch", modules=frozenset({"ray.data"}), arguments=(), data_arguments=("--ray-data",),
        files=frozenset({path}),
    )  # fmt: skip

    def measure(seen: Seen = waited, *, arms: Sequence[str] = ARMS, workers: int = 1, **keys: Any) -> Comparison:
        own = ScriptRecipe(script=str(path), workers=workers, data_arguments="--ray-data", **keys)
        runs = [
            run_of(script, own, arm, repeat, seen=seen(arm, repeat), wall=WALL[arm] + 0.1 * repeat, cpus=8)
            for repeat in range(1, 5)
            for arm in arms
        ]
        return compare(runs, Context(recipe=own, target="local", repeats=4, arms=tuple(arms)))

    return measure


def test_what_ray_data_gains_stands_beside_the_verdict(measured: Measured) -> None:
    """With its interval and the waits of both; answer, verdict, claim and checks are those without that arm, of which
    nothing is said then: neither as an absent arm nor as a number that is missing."""
    found, without = measured(), measured(arms=ARMS[:3])
    gain = found.ratios["dataGain"]

    assert gain is not None
    assert pytest.approx(2 / 3, abs=0.01) == gain.median
    assert "slower" == gain.decision
    assert gain.lower is not None
    assert scalars(found)["dataGain"] == gain.median
    assert (without.answer, without.verdict, without.claim) == (found.answer, found.verdict, found.claim)
    assert {**without.checks, "dataRowsEqual": True} == found.checks
    assert {name: each for name, each in found.ratios.items() if name != "dataGain"} == {
        name: each for name, each in without.ratios.items() if name != "dataGain"
    }
    shown = table.render(without).splitlines()
    assert "raydata" not in without.absent
    assert not [line for line in shown if "ataGain" in line or "raydata" in line]
    assert [(2.0, 3.0), (9.0, 4.0)] == [
        (found.arms[arm].median("dataWaitSeconds"), found.arms[arm].median("firstBatchSeconds"))
        for arm in ("ray", "raydata")
    ]


def test_every_arm_has_the_cpus_for_what_reads_the_data(measured: Measured) -> None:
    """One for the worker and one for the loader's processes, or for Ray Data: what is reserved counts both."""
    found = measured()

    assert [2.0] * 4 == [found.arms[arm].reserved_cpus for arm in ARMS]
    assert found.checks["cpusAsAsked"]
    assert found.checks["threadsAsAsked"]


@pytest.mark.parametrize("lost", [1, 32])
def test_an_arm_that_saw_other_rows_is_not_comparable(measured: Measured, wording: Wording, lost: int) -> None:
    """A row is enough. The outputs say so, and the verdict is about the others as before."""
    found = measured(lambda arm, repeat: waited(arm, repeat, lost=lost))

    assert found.checks["dataRowsEqual"] is False
    assert found.ratios["dataGain"] is None
    assert found.answer == measured().answer
    assert found.ratios["speedup"] is not None
    wording("comparison", found.reasons["checks.dataRowsEqual"])
    wording("comparison", found.reasons["dataGain"])
    assert "dataRowsEqual" in table.render(found)


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        # Keras tells how many rows a step has, and they are not counted.
        pytest.param({"rowsAtStep": None}, None, id="nobody counted"),
        # As many rows by another model: the two arms are held to the rules of all others.
        pytest.param({"did": {"parameters": "200 float32"}}, True, id="other work"),
    ],
)
def test_no_gain_is_said_of_arms_that_may_differ(
    measured: Measured, wording: Wording, other: dict[str, Any], equal: bool | None
) -> None:
    """With the reason."""
    found = measured(lambda arm, repeat: waited(arm, repeat, **(other if arm == "raydata" else {})))

    assert found.checks["dataRowsEqual"] is equal
    assert found.checks["sameWork"]
    assert found.ratios["dataGain"] is None
    wording("comparison", found.reasons["dataGain"])


@pytest.mark.parametrize(("lost", "equal"), [(1, True), (2, False)])
def test_rows_that_make_the_shares_even_are_allowed(measured: Measured, lost: int, equal: bool) -> None:
    """Of two ranks: a sampler repeats a row of an epoch, Ray Data leaves one out. Each of the two ranks loses `lost` of
    the run here, and it has three epochs."""
    found = measured(lambda arm, repeat: waited(arm, repeat, workers=2, lost=3 * lost), workers=2)

    assert equal == found.checks["dataRowsEqual"]


def test_waits_of_another_thread_are_not_known(measured: Measured, wording: Wording) -> None:
    """It reads ahead, so the training hardly waits for it."""
    found = measured(lambda arm, repeat: waited(arm, repeat, rowsAhead=True))

    assert found.arms["ray"].measures["dataWaitSeconds"] is None
    wording("comparison", found.reasons["ray.dataWaitSeconds"])


def test_the_table_and_the_page_show_it(measured: Measured, wording: Wording, tmp_path: Path) -> None:
    """A row of the arm, its ratio, and the check; the deciding ratios are others."""
    found = measured()
    text, page = table.render(found), html.render(found, "local", tmp_path)

    assert any(line.startswith("raydata ") for line in text.splitlines())
    assert any(line.startswith("dataGain ") for line in text.splitlines())
    assert html.CHECKS["dataRowsEqual"] in page
    assert "dataGain" not in html.deciding(found)
    wording("table", text.rpartition(f"\n{found.answer}: ")[0] or text)


def test_passes_of_ray_data_are_epochs() -> None:
    """As a loader's are."""
    (seen,) = waited("raydata", 1)

    assert (SeenPass(start=0, finished=True), 4) == (seen.passes[0], seen.steps_per_epoch)
    assert seen.has_whole_epochs
