"""Parquet files in a bucket, read by a script in both ways: runs as an update makes them, with its credentials."""

from pathlib import Path

import pytest

from tests.script.tryout import EXAMPLES, NO_TORCH, measure_one
from tests.stacks import TORCH
from tests.storage.cloud import PREFIX, Cloud, put
from training.contract.result import TrainingResult

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not TORCH, reason=NO_TORCH)]
WAYS = {"baseline": "--input loader --loader-processes 0", "raydata": "--input ray-data"}
EPOCHS, ROWS = 2, 512


def measured(arm: str, folder: Path, address: str, *flags: str) -> TrainingResult:
    """A run of an arm over the pictures there."""
    (folder / arm).mkdir()
    arguments = (
        f"--epochs {EPOCHS} --rows {ROWS} --decode 1 --num-workers {{workers}} --path {address} --storage {{storage}}"
    )
    return measure_one(
        EXAMPLES / "torch_data.py", arm, folder / arm, "--workers=1", *flags,
        f"--script-arguments={WAYS['baseline']} {arguments}", f"--data-arguments={WAYS['raydata']} {arguments}",
        python=TORCH,
    )  # fmt: skip


def test_both_ways_read_every_row_of_a_bucket(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are those that the script writes into a folder which has none."""
    from_folder = measured("baseline", tmp_path, str(tmp_path / "pictures"))
    put(cloud, {f"inside/pictures/{path.name}": path.read_bytes() for path in (tmp_path / "pictures").iterdir()})
    for name, value in cloud.variables(cloud.owner).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "bucket").mkdir()
    asked = cloud.asked()

    results = [measured(arm, tmp_path / "bucket", f"{PREFIX}/pictures", f"--storage={PREFIX}/of-{arm}") for arm in WAYS]

    assert [str(EPOCHS * ROWS)] * 3 == [each.did["rows"] for each in (from_folder, *results)]
    assert all((each.data_wait_seconds or 0) > 0 for each in results)
    assert all((each.first_batch_seconds or 0) > 0 for each in results)
    assert cloud.asked() > asked
