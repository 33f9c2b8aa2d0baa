"""The example that reads its rows in two ways, for real: as many rows by a loader with and without processes and by Ray
Data; one that leaves rows out is not comparable."""

from dataclasses import replace
from pathlib import Path

import pytest

from compare.comparison import compare
from compare.measurement import Context, Run
from tests.script.tryout import EXAMPLES, NO_TORCH, measure_one
from tests.stacks import TORCH
from training.contract.provenance import allowed_cpus
from training.contract.result import TrainingResult
from training.workloads.script.recipe import ScriptRecipe

pytestmark = [
    pytest.mark.skipif(not TORCH, reason=NO_TORCH),
    pytest.mark.skipif(len(allowed_cpus()) < 2, reason="a worker has one CPU, and one for its data"),
]
ROWS, EPOCHS = 1000, 2
"""Of batches of 64 the last has 40 rows."""


def measured(arm: str, folder: Path, name: str, loader: str = "", ray_data: str = "") -> TrainingResult:
    """A run of an arm, with more arguments of either way."""
    (folder / name).mkdir()
    common = f"--epochs {EPOCHS} --rows {ROWS} --decode 2 --num-workers {{workers}} --path {folder}/data"
    return measure_one(
        EXAMPLES / "torch_data.py", arm, folder / name, "--workers=1", f"--epochs={EPOCHS}",
        f"--script-arguments=--input loader {loader} {common} --storage {{storage}}",
        f"--data-arguments=--input ray-data {ray_data} {common} --storage {{storage}}",
        python=TORCH,
    )  # fmt: skip


def rows_equal(loader: TrainingResult, ray_data: TrainingResult) -> bool | None:
    """What the comparison says of the rows; the run by the loader stands for that of the arm `ray`."""
    arms = {"baseline": loader, "ray": replace(loader, arm="ray"), "raydata": replace(ray_data, recipe=loader.recipe)}
    runs = [Run(f"{arm}-1", 1, result) for arm, result in arms.items()]
    recipe = ScriptRecipe.from_dict(loader.recipe)
    return compare(runs, Context(recipe=recipe, target="local", repeats=1, arms=tuple(arms))).checks["dataRowsEqual"]


@pytest.mark.slow
def test_every_way_reads_as_many_rows_and_one_that_drops_some_is_seen(tmp_path: Path) -> None:
    """Counted where they are delivered: by processes of a loader, by none, and by tasks of Ray Data."""
    ways = {name: measured("baseline", tmp_path, name, f"--loader-processes {name}") for name in ("0", "1")}
    ray_data = measured("raydata", tmp_path, "raydata")
    dropped = measured("raydata", tmp_path, "dropped", ray_data="--drop-last")

    assert [str(EPOCHS * ROWS)] * 3 == [each.did["rows"] for each in (*ways.values(), ray_data)]
    assert [True, True] == [rows_equal(each, ray_data) for each in ways.values()]
    assert str(EPOCHS * (ROWS - 40)) == dropped.did["rows"]
    assert rows_equal(ways["0"], dropped) is False
    assert all((each.data_wait_seconds or 0) > 0 for each in (*ways.values(), ray_data))
    assert ray_data.steps.whole_epochs
    assert ray_data.workers[0].affinity == ways["0"].workers[0].affinity
    assert (1, 2) == (ray_data.workers[0].compute_threads, len(ray_data.workers[0].affinity or ()))
