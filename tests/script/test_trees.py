"""Boosted trees, for real: every arm alike, and what is broken recognised. TRY_TREES_PYTHON names an environment."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.golden import Wording
from tests.script.tryout import EXAMPLES, NO_TREES, try_script
from tests.stacks import TREES
from tests.storage import cloud as clouds
from training.workloads.script.recognise import WORDS

pytestmark = pytest.mark.skipif(not TREES, reason=NO_TREES)
ARGUMENTS = "--num-workers {workers} --rounds 50 --data {storage}/data --storage {storage} --booster "


@pytest.mark.parametrize("booster", ["xgboost", "lightgbm"])
def test_every_arm_does_the_same_work(booster: str, wording: Wording) -> None:
    """As many rows in every arm, trees that are equal bit for bit with and without Ray, and the metric of the test."""
    tried = try_script(EXAMPLES / "trees.py", ARGUMENTS + booster, python=TREES, steps="8")

    assert 0 == tried.code, tried.text
    rows = {arm: tried.row(arm) for arm in ("baseline", "wide", "native", "ray")}
    assert {str(kind): words for kind, words in WORDS.items()}[f"ray-{booster}"] == tried.kind
    assert {"200000 (counted)"} == {row["rows a step"] for row in rows.values()}
    assert re.fullmatch("[0-9a-f]{12}", rows["native"]["weights"])
    assert rows["native"]["weights"] == rows["ray"]["weights"]
    assert "metrics: test-" in tried.text
    assert "C" == tried.claim
    assert any(percent > 10 for percent in tried.reporting_percent.values())
    wording("try", tried.conclusions)


ROWS = """
import sys
sys.path.insert(0, sys.argv[1])
import pandas, trees
print(pandas.util.hash_pandas_object(trees.read(sys.argv[2], "test.parquet", seed=1)).sum())
"""


def test_files_may_be_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows, with the credentials of the environment; what is missing there is not written."""
    pytest.importorskip("moto", reason="`uv sync` brings the S3 server of these tests")
    command = [TREES, "-c", ROWS, str(EXAMPLES)]
    here = tmp_path / "data"
    written = subprocess.run([*command, str(here)], capture_output=True, text=True, check=True)
    with clouds.running(tmp_path) as cloud:
        for name, value in cloud.variables(cloud.owner).items():
            monkeypatch.setenv(name, value)
        clouds.put_folder(cloud, here, "trees/data")

        address = f"s3://{clouds.BUCKET}"
        read = subprocess.run([*command, f"{address}/trees/data"], capture_output=True, text=True, check=True)
        missing = subprocess.run([*command, f"{address}/nowhere"], capture_output=True, text=True, check=False)
        there = cloud.names()

    assert written.stdout == read.stdout
    assert "FileNotFoundError" in missing.stderr
    assert ["trees/data/test.parquet"] == there
